"""What the core asks its shell to do."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Message
from scaler_protocol.records import dataclass
from scaler_storage.core.values import AnyValue, SharedFile, SpillFile


@dataclass(frozen=True, slots=True)
class Send:
    """To a peer with a session. A payload is part of a stored value: it must not be changed, only sent."""

    peer_id: PeerId
    message: Message


@dataclass(frozen=True, slots=True)
class Enter:
    """Into the directory: all bytes of this object are in that file."""

    object_id: ObjectId
    file: SharedFile


@dataclass(frozen=True, slots=True)
class Strike:
    """From the directory, if it is there: this object is deleted."""

    object_id: ObjectId


@dataclass(frozen=True, slots=True)
class Move:
    """Write these values into one new file, each behind the one before, and answer with Moved."""

    number: int
    values: tuple[AnyValue, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Read from this file, and answer with ReadBack."""

    number: int
    file: SpillFile
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy so many bytes of this file into a new memory file of this name, and answer with Copied."""

    number: int
    file: SpillFile
    offset: int
    size: int
    name: ObjectId


ToDisk = Move | Read | Copy
Action = Send | Enter | Strike | ToDisk
