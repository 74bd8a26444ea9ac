"""What the core asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    """To a peer with a session. A payload is part of a stored value: it must not be changed, only sent."""

    peer_id: PeerId
    message: Message


Action = Send
