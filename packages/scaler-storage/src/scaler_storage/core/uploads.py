"""Values that are still coming in. An upload belongs to one session and one object id, and ends with the session."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Buffer
from scaler_storage.core.deadlines import Deadlines
from scaler_storage.core.values import ComparedValue, StoredValue

UploadKey = tuple[PeerId, ObjectId]


@dataclass(frozen=True, slots=True)
class Upload:
    owner: PeerId
    value: StoredValue | ComparedValue

    @property
    def kept_bytes(self) -> int:
        return 0 if isinstance(self.value, ComparedValue) else self.value.held_bytes

    @property
    def missing_bytes(self) -> int:
        return 0 if isinstance(self.value, ComparedValue) else self.value.total_bytes - self.value.held_bytes


class UploadTable:
    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self.uploads: dict[UploadKey, Upload] = {}
        #: for each session that uploads, the ids of its uploads; no empty sets
        self.by_peer: dict[PeerId, set[ObjectId]] = {}
        #: when each upload counts as given up
        self.deadlines: Deadlines[UploadKey] = Deadlines()
        #: bytes kept of all of them
        self.received_bytes = 0
        #: bytes that are still to come, and will be kept
        self.missing_bytes = 0

    def get(self, peer_id: PeerId, object_id: ObjectId) -> Upload | None:
        return self.uploads.get((peer_id, object_id))

    def count_of(self, peer_id: PeerId) -> int:
        return len(self.by_peer.get(peer_id, ()))

    def begin(
        self, peer_id: PeerId, object_id: ObjectId, owner: PeerId, value: StoredValue | ComparedValue, now: float
    ) -> Upload:
        upload = Upload(owner, value)
        self.missing_bytes += upload.missing_bytes
        self.uploads[peer_id, object_id] = upload
        self.by_peer.setdefault(peer_id, set()).add(object_id)
        self.deadlines.set((peer_id, object_id), now + self._idle_seconds)
        return upload

    def append(self, peer_id: PeerId, object_id: ObjectId, payload: Buffer, now: float) -> None:
        upload = self.uploads[peer_id, object_id]
        before = upload.kept_bytes
        upload.value.append(payload)
        self.received_bytes += upload.kept_bytes - before
        self.missing_bytes -= upload.kept_bytes - before
        self.deadlines.set((peer_id, object_id), now + self._idle_seconds)

    def remove(self, peer_id: PeerId, object_id: ObjectId) -> Upload:
        """Forget it; a complete one hands its value over to the caller."""
        upload = self.uploads.pop((peer_id, object_id))
        self.received_bytes -= upload.kept_bytes
        self.missing_bytes -= upload.missing_bytes
        self.deadlines.remove((peer_id, object_id))
        of_peer = self.by_peer[peer_id]
        of_peer.remove(object_id)
        if not of_peer:
            del self.by_peer[peer_id]
        return upload

    def remove_peer(self, peer_id: PeerId) -> None:
        for object_id in list(self.by_peer.get(peer_id, ())):
            self.remove(peer_id, object_id)

    def remove_owner(self, owner: PeerId) -> None:
        for peer_id, object_id in [key for key, upload in self.uploads.items() if upload.owner == owner]:
            self.remove(peer_id, object_id)

    def remove_idle(self, now: float) -> None:
        while (key := self.deadlines.first_due(now)) is not None:
            self.remove(*key)
