"""Sessions without sockets: order, exactly-once, liveness and resuming (spec chapters HSK, SES, LIV)."""

from scaler_protocol.session.dialer import SessionDialer
from scaler_protocol.session.events import Complained, Lost, Opened, Received, Rejected, SessionEvent
from scaler_protocol.session.handshake import WelcomeFields
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
