"""What happens to the core: the events of its sessions, and the passing of time."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import PutShared
from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core.values import KeptFile, SharedFile, SpillFile


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing but time has passed. Due at `next_deadline()`; harmless at any other moment."""


@dataclass(frozen=True, slots=True)
class FileOffered:
    """A PutShared, and its file: already opened and checked, or the reason why not."""

    peer_id: PeerId
    put: PutShared
    file: SharedFile | str


@dataclass(frozen=True, slots=True)
class Moved:
    """A Move has ended: all bytes are in the file, or none are on the disk, and this is why. And so many bytes more the
    file system takes."""

    number: int
    file: SpillFile | str
    room_bytes: int


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A Read has ended: with the bytes, or without them, and this is why."""

    number: int
    data: bytes | str


@dataclass(frozen=True, slots=True)
class Copied:
    """A Copy has ended: this is the memory file, or why there is none."""

    number: int
    file: SharedFile | str


@dataclass(frozen=True, slots=True)
class Kept:
    """A Keep has ended: with the files of its values by their numbers, and why some are missing. Or nothing of it is in
    the directory, and this is why."""

    number: int
    files: dict[int, KeptFile] | str
    trouble: str
    room_bytes: int


class FoundObject(NamedTuple):
    """An object that is in the directory at the start."""

    object_id: ObjectId
    #: equal for objects that share a value
    file: KeptFile
    #: each with its family; at least one
    owners: tuple[tuple[PeerId, bytes], ...]


OfPeer = FileOffered | Opened | Received | Lost
OfDisk = Moved | ReadBack | Copied | Kept
Event = OfPeer | OfDisk | Tick
