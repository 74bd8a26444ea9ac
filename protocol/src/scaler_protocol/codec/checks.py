from __future__ import annotations

from scaler_protocol.messages import Limits, Message


def check(message: Message, limits: Limits) -> None:
    """Placeholder until batches are checked (BAT-2)."""
