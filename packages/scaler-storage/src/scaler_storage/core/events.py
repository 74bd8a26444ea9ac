"""What happens to the core: the events of its sessions, and the passing of time."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import PutShared
from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core.values import SharedFile, SpillFile


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


OfPeer = FileOffered | Opened | Received | Lost
OfDisk = Moved | ReadBack | Copied
Event = OfPeer | OfDisk | Tick
