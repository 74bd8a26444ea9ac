"""Sessions without sockets: order, exactly-once, liveness and resuming (spec chapters HSK, SES, LIV)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler_protocol.session.dialer import SessionDialer
from scaler_protocol.session.events import Complained, Lost, Opened, Received, Rejected, SessionEvent
from scaler_protocol.session.handshake import WelcomeFields

if TYPE_CHECKING:
    from scaler_protocol.session.server import SessionServer

__all__ = [
    "Complained",
    "Lost",
    "Opened",
    "Received",
    "Rejected",
    "SessionDialer",
    "SessionEvent",
    "SessionServer",
    "WelcomeFields",
]


def __getattr__(name: str) -> Any:
    if name == "SessionServer":
        # Servers alone need it: programs with a client start without.
        from scaler_protocol.session.server import SessionServer

        return SessionServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
