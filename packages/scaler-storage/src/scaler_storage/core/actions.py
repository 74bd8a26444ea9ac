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


@dataclass(frozen=True, slots=True)
class Keep:
    """Write these values into the data directory and enter these changes, in this order and all together, and answer
    with Kept. What concerns a value that cannot be written is left out."""

    number: int
    #: each under a number that no other value has had
    values: tuple[tuple[int, AnyValue], ...]
    #: objects, and the number of the value that each has from now on
    objects: tuple[tuple[ObjectId, int], ...]
    #: owners of these objects, each with its family
    owners: tuple[tuple[ObjectId, PeerId, bytes], ...]
    #: owners that such objects have no longer
    released: tuple[tuple[ObjectId, PeerId], ...]
    #: objects that are deleted, with all their owners; before anything else
    deleted: tuple[ObjectId, ...]
    #: files that no object has any more
    dropped: tuple[SpillFile, ...]


ToDisk = Move | Read | Copy | Keep
Action = Send | Enter | Strike | ToDisk
