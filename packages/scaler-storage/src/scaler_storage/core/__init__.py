"""The decisions of the object storage, without sockets, clocks or threads."""

from scaler_storage.core.actions import Action, Copy, Enter, Keep, Move, Read, Send, Strike, ToDisk
from scaler_storage.core.core import StorageCore
from scaler_storage.core.events import Copied, Event, FileOffered, FoundObject, Kept, Moved, ReadBack, Tick
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.namings import FEATURE as FEATURE_LIVE_OWNERS
from scaler_storage.core.rights import ALLOWED_MESSAGES, ALLOWED_ROLES, ReadGrant

__all__ = [
    "ALLOWED_MESSAGES",
    "ALLOWED_ROLES",
    "FEATURE_LIVE_OWNERS",
    "Action",
    "Copied",
    "Copy",
    "CoreLimits",
    "Enter",
    "ReadGrant",
    "Event",
    "FoundObject",
    "Keep",
    "Kept",
    "FileOffered",
    "Move",
    "Moved",
    "Read",
    "ReadBack",
    "Send",
    "StorageCore",
    "Strike",
    "Tick",
    "ToDisk",
]
