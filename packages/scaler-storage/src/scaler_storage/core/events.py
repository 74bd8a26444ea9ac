"""What happens to the core: the events of its sessions, and the passing of time."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.session import Lost, Opened, Received


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing but time has passed. Due at `next_deadline()`; harmless at any other moment."""


Event = Opened | Received | Lost | Tick
