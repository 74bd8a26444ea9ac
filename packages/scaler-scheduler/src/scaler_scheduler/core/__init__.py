"""The scheduler's decisions: pure, without sockets, clocks or threads."""

from scaler_scheduler.core.actions import Action, Disconnect, Send, SendStatus, SendToStorage, Stop
from scaler_scheduler.core.core import (
    ALLOWED_MESSAGES,
    Event,
    SchedulerCore,
    Settled,
    StorageOpened,
    StorageReplied,
)
from scaler_scheduler.core.tables import Policy

__all__ = [
    "ALLOWED_MESSAGES",
    "Action",
    "Disconnect",
    "Event",
    "Policy",
    "SchedulerCore",
    "Send",
    "SendStatus",
    "SendToStorage",
    "Settled",
    "Stop",
    "StorageOpened",
    "StorageReplied",
]
