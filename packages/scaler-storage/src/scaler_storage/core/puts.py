"""Puts: chunks that become objects, objects that exist and are compared, files that hold a whole object."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Put
from scaler_protocol.records import dataclass
from scaler_storage.core import refusals, room
from scaler_storage.core.actions import Action
from scaler_storage.core.disk import Disk, Reading
from scaler_storage.core.events import FileOffered, OfPeer
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.namings import Speakers
from scaler_storage.core.objects import ObjectTable, StoredObject
from scaler_storage.core.owners import GoneOwners
from scaler_storage.core.pacing import Pacing
from scaler_storage.core.replies import Replies
from scaler_storage.core.rights import Rights
from scaler_storage.core.status import Traffic
from scaler_storage.core.uploads import UploadTable
from scaler_storage.core.values import AnyValue, ComparedValue, FileValue, StoredValue
from scaler_storage.core.work import Job, Work


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """Bytes of an object on the disk, with which a chunk is compared, or why they cannot be read."""

    #: of that object (`StoredObject.number`)
    number: int
    data: bytes | str


class Puts(Replies):
    """The part of the core that takes what peers store."""

    limits: CoreLimits
    objects: ObjectTable
    uploads: UploadTable
    gone_owners: GoneOwners
    speakers: Speakers
    rights: Rights
    pacing: Pacing
    disk: Disk
    traffic: Traffic
    work: Work

    @property
    def now(self) -> float:
        raise NotImplementedError

    @property
    def memory_bytes(self) -> int:
        raise NotImplementedError

    def act(self, action: Action) -> None:
        raise NotImplementedError

    def perform(self, event: OfPeer) -> Job | None:
        raise NotImplementedError

    def _complete(self, object_id: ObjectId, value: AnyValue, owner: PeerId, grant: bytes) -> None:
        raise NotImplementedError

    def _add_owner(self, object_id: ObjectId, owner: PeerId, grant: bytes) -> None:
        raise NotImplementedError

    def _put_again(self, object_id: ObjectId, owner: PeerId, grant: bytes) -> None:
        raise NotImplementedError

    def _let_go(self, object_id: ObjectId, owner: PeerId) -> None:
        raise NotImplementedError

    def _put(self, peer_id: PeerId, put: Put, read: ReadBytes | None = None) -> Job | None:
        if put.owner in self.gone_owners:
            self._drop_upload(peer_id, put.object_id)
            self._refuse(peer_id, put.request_id, refusals.owner_gone(put.owner))
        elif (stored := self.objects.get(put.object_id)) is not None and stored.is_again(put):
            # Also for the chunks of an upload that another session of this owner was faster with. (STO-4)
            self._drop_upload(peer_id, put.object_id)
            self._confirm(peer_id, put.request_id)
            self._put_again(put.object_id, put.owner, put.grant)
        elif (refusal := room.check_put(self, self.disk, peer_id, put)) is not None:
            # The chunks behind a refused one are refused as well, until the writer begins again. (STO-5)
            self._drop_upload(peer_id, put.object_id)
            self._refuse(peer_id, put.request_id, refusal)
        elif stored is not None:
            return self._compare_chunk(peer_id, put, stored, read)
        else:
            self._confirm(peer_id, put.request_id)
            self._take_chunk(peer_id, put)
        return None

    def _compare_chunk(self, peer_id: PeerId, put: Put, stored: StoredObject, read: ReadBytes | None) -> Job | None:
        """A Put of an object that exists and has other owners. Knowledge of the id alone must not make a peer an owner,
        because an owner can read the object; and a writer must not take other bytes, which another peer has put there,
        for its own. So the bytes are compared (STO-30), and the writer is told with the last of them: told with each
        chunk, it could find out an object of which it knows the id, byte by byte. (SEC-17)"""
        data = read.data if read is not None and read.number == stored.number else None
        if (extent := stored.value.extent) is not None and data is None and put.total_bytes == stored.value.total_bytes:
            reading = self.disk.read(self, extent, put.offset, memoryview(put.payload).nbytes)
            return self._compare_with_disk(peer_id, put, stored.number, reading)
        if put.offset == 0:
            self._drop_upload(peer_id, put.object_id)
            begun = ComparedValue(stored.number, put.total_bytes)
            self.uploads.begin(peer_id, put.object_id, put.owner, begun, self.now)
        compared = self.uploads.uploads[peer_id, put.object_id].value
        assert isinstance(compared, ComparedValue), "what is compared is an upload of an object that exists"
        compared.compare(stored.value, put.payload, data)
        self.uploads.append(peer_id, put.object_id, put.payload, self.now)
        if compared.is_complete:
            self.uploads.remove(peer_id, put.object_id)
            if compared.is_named_by(put.object_id):
                return self._replace(peer_id, put, stored)
            if not compared.is_same:
                self._refuse(peer_id, put.request_id, refusals.other_bytes(put.object_id, compared))
                return None
            self._add_owner(put.object_id, put.owner, put.grant)
        self._confirm(peer_id, put.request_id)
        return None

    def _replace(self, peer_id: PeerId, put: Put, stored: StoredObject) -> Job | None:
        """The id is the hash of what was put, and the object has other bytes: no task can use them as what the id names
        (STO-29), and to keep them would keep a function from those who have it. (STO-30)"""
        for owner in list(stored.owners):
            self._let_go(put.object_id, owner)
        if put.offset == 0:
            return self._put(peer_id, put)
        self._refuse(peer_id, put.request_id, refusals.begin_again(put.object_id))
        return None

    def _compare_with_disk(self, peer_id: PeerId, put: Put, number: int, reading: Reading) -> Job:
        """The object may be released, or put again, while its bytes are read: the Put is looked at from the start."""
        data = yield from reading
        yield from self._put(peer_id, put, ReadBytes(number, data)) or ()

    def _take_chunk(self, peer_id: PeerId, put: Put) -> None:
        if put.offset == 0:
            self._drop_upload(peer_id, put.object_id)
            if memoryview(put.payload).nbytes == put.total_bytes:
                # Most objects are one chunk: they never become an upload.
                value = StoredValue(put.total_bytes)
                value.append(put.payload)
                self._complete(put.object_id, value, put.owner, put.grant)
                return
            self.uploads.begin(peer_id, put.object_id, put.owner, StoredValue(put.total_bytes), self.now)
        self.uploads.append(peer_id, put.object_id, put.payload, self.now)
        upload = self.uploads.uploads[peer_id, put.object_id]
        if upload.value.is_complete:
            self.uploads.remove(peer_id, put.object_id)
            assert isinstance(upload.value, StoredValue), "what is compared is an upload of an object that exists"
            self._complete(put.object_id, upload.value, put.owner, put.grant)

    def _drop_upload(self, peer_id: PeerId, object_id: ObjectId) -> None:
        if self.uploads.get(peer_id, object_id) is not None:
            self.uploads.remove(peer_id, object_id)

    def _file_offered(self, event: FileOffered) -> None:
        """A whole object in a file. What it is refused for does not end an upload of the same id: nothing was sent
        out of order. A file that is not kept is closed with the event, when nothing refers to it any more."""
        peer_id, put, file = event.peer_id, event.put, event.file
        if (no_right := self.rights.refusal(peer_id, put)) is not None:
            self._refuse(peer_id, put.request_id, no_right)
            return
        if put.owner in self.gone_owners:
            self._refuse(peer_id, put.request_id, refusals.owner_gone(put.owner))
        elif (stored := self.objects.get(put.object_id)) is not None and stored.is_again(put):
            self._put_again(put.object_id, put.owner, put.grant)
            self._confirm(peer_id, put.request_id)
        elif stored is not None:
            # The bytes have to be compared, and are nothing to be read here at once: they may be very many. (STO-30)
            unread = refusals.unreadable_file("the object exists, and is compared with what is put")
            self._refuse(peer_id, put.request_id, unread)
        elif isinstance(file, str):
            self._refuse(peer_id, put.request_id, refusals.unreadable_file(file))
        elif (refusal := room.check_file(self, self.disk, put, file.size)) is not None:
            self._refuse(peer_id, put.request_id, refusal)
        else:
            self._drop_upload(peer_id, put.object_id)
            self._confirm(peer_id, put.request_id)
            self._complete(put.object_id, FileValue(file), put.owner, put.grant)
        self.speakers.note(peer_id, put.owner)
