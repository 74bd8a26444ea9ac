"""A data directory for a storage's core, in memory: it does what it is told to when the test says so, or fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.ids import ObjectId, PeerId
from scaler_storage.core import FoundObject, Keep, Kept
from scaler_storage.core.values import AnyValue, FileValue
from tests.support.spilling import File


class KeptFile(File):
    def __init__(self, number: int, content: bytes) -> None:
        super().__init__(content)
        self.number = number


@dataclass
class Shelf:
    keeps: list[Keep] = field(default_factory=list)
    files: dict[int, KeptFile] = field(default_factory=dict)
    objects: dict[ObjectId, int] = field(default_factory=dict)
    owners: dict[tuple[ObjectId, PeerId], bytes] = field(default_factory=dict)
    #: what the file system has at present; another program may take it, and give it back
    room_bytes: int = 1_000_000

    def keep(self, failing: frozenset[int] = frozenset()) -> Kept:
        """The oldest. `failing`: of its values, those that cannot be written. So cannot those that find no room."""
        keep = self.keeps.pop(0)
        room_bytes = self.room_bytes
        for number, value in keep.values:
            if value.total_bytes <= room_bytes:
                room_bytes -= value.total_bytes
            else:
                failing |= {number}
        made = {number: KeptFile(number, content_of(value)) for number, value in keep.values if number not in failing}
        assert not made.keys() & self.files.keys(), "a number is used once"
        missing = {number for number, _ in keep.values} - made.keys()
        left_out = {one for one, number in keep.objects if number in missing}
        for one in keep.deleted:
            self.objects.pop(one, None)
            self.owners = {pair: family for pair, family in self.owners.items() if pair[0] != one}
        for pair in keep.released:
            self.owners.pop(pair, None)
        self.files.update(made)
        self.objects.update({one: number for one, number in keep.objects if one not in left_out})
        self.owners.update({(one, owner): family for one, owner, family in keep.owners if one not in left_out})
        for file in keep.dropped:
            assert isinstance(file, KeptFile)
            del self.files[file.number]
        return Kept(keep.number, {**made}, "Input/output error" if missing else "", self.room_bytes)

    def fail(self) -> Kept:
        return Kept(self.keeps.pop(0).number, "database or disk is full", "", self.room_bytes)

    def found(self) -> list[FoundObject]:
        """What a start finds: objects that are not whole are dropped."""
        self.objects = {one: n for one, n in self.objects.items() if n in self.files and self.owners_of(one)}
        self.files = {n: file for n, file in self.files.items() if n in self.objects.values()}
        return [FoundObject(one, self.files[n], self.owners_of(one)) for one, n in sorted(self.objects.items())]

    def owners_of(self, object_id: ObjectId) -> tuple[tuple[PeerId, bytes], ...]:
        return tuple((owner, family) for (one, owner), family in sorted(self.owners.items()) if one == object_id)

    def state_of(self, object_id: ObjectId) -> tuple[bytes, frozenset[PeerId]]:
        """Its bytes and owners."""
        owners = frozenset(owner for owner, _ in self.owners_of(object_id))
        return self.files[self.objects[object_id]].content, owners

    def bytes_taken(self) -> int:
        return sum(file.size for file in self.files.values())


def content_of(value: AnyValue) -> bytes:
    if isinstance(value, FileValue):
        assert value.file is not None
        return value.file.read(0, value.total_bytes)
    return b"".join(value.chunks)
