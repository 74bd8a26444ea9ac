"""What is said to the object storage."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages.common import NO_PEER, Buffer
from scaler_protocol.messages.session import MemoryFile
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Put:
    request_id: int
    object_id: ObjectId
    owner: PeerId
    total_bytes: int
    offset: int
    payload: Buffer
    grant: bytes = b""


@dataclass(frozen=True, slots=True)
class Get:
    request_id: int
    object_id: ObjectId
    offset: int = 0
    chunk_bytes: int = 0
    wait_seconds: float = 0.0
    accepts_shared: bool = False
    owner: PeerId = NO_PEER
    grant: bytes = b""


@dataclass(frozen=True, slots=True)
class Value:
    request_id: int
    total_bytes: int
    offset: int
    payload: Buffer


@dataclass(frozen=True, slots=True)
class Release:
    request_id: int
    owner: PeerId
    ids: bytes
    grant: bytes = b""


@dataclass(frozen=True, slots=True)
class ReleaseOwner:
    request_id: int
    owner: PeerId
    grant: bytes = b""


@dataclass(frozen=True, slots=True)
class LiveOwners:
    request_id: int
    ids: bytes
    offset: int
    total_count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    request_id: int
    source: ObjectId
    target: ObjectId
    owner: PeerId
    wait_seconds: float = 0.0
    grant: bytes = b""
    source_owner: PeerId = NO_PEER
    source_grant: bytes = b""


@dataclass(frozen=True, slots=True)
class ObjectReply:
    request_id: int
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class PutShared:
    request_id: int
    object_id: ObjectId
    owner: PeerId
    total_bytes: int
    file: MemoryFile
    grant: bytes = b""


@dataclass(frozen=True, slots=True)
class SharedValue:
    request_id: int
    total_bytes: int
    file: MemoryFile


@dataclass(frozen=True, slots=True)
class StorageStatusRequest:
    request_id: int
    owners: bytes = b""
    largest_count: int = 0


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    object_id: bytes = b""
    owner: bytes = b""
    owner_count: int = 0
    total_bytes: int = 0
    age_seconds: float = 0.0
    is_on_disk: bool = False
    name: str = ""
    kind: int = 0


@dataclass(frozen=True, slots=True)
class HostTraffic:
    host: str = ""
    put_bytes: int = 0
    got_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StorageStatus:
    request_id: int
    object_count: int = 0
    owner_count: int = 0
    memory_bytes: int = 0
    waiter_count: int = 0
    owner_objects: bytes = b""
    owner_bytes: bytes = b""
    disk_bytes: int = 0
    moving_bytes: int = 0
    memory_limit_bytes: int = 0
    disk_limit_bytes: int = 0
    disk_room_bytes: int = 0
    disk_trouble: str = ""
    largest: tuple[ObjectEntry, ...] = ()
    traffic: tuple[HostTraffic, ...] = ()
    user_limit_bytes: int = 0
    owner_user_bytes: bytes = b""
