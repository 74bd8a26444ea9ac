"""Values that are still coming in. An upload belongs to one session and one object id, and ends with the session.

What has come of them takes room, and the writer decides when the rest comes. So while there is no room for another
request, uploads give way: those that stand still, and then those of a user whose uploads hold much more than the user
asks for who wants the room. Two users who want about the same never take each other's room. (LIM-22)
"""

from __future__ import annotations

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Buffer
from scaler_protocol.records import dataclass
from scaler_storage.core.deadlines import Deadlines
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.values import ComparedValue, StoredValue

UploadKey = tuple[PeerId, ObjectId]
User = str | PeerId
"""Where there are no keys, each peer is a user."""

#: What the uploads of one user hold more than another user asks for, so often: then they give way.
_MUCH_MORE = 2


@dataclass(frozen=True, slots=True)
class Upload:
    owner: PeerId
    value: StoredValue | ComparedValue
    user: User

    @property
    def kept_bytes(self) -> int:
        return 0 if isinstance(self.value, ComparedValue) else self.value.held_bytes

    @property
    def missing_bytes(self) -> int:
        return 0 if isinstance(self.value, ComparedValue) else self.value.total_bytes - self.value.held_bytes


class UploadTable:
    def __init__(self, limits: CoreLimits) -> None:
        self._limits = limits
        #: of every peer with a session whose ticket says so
        self.users: dict[PeerId, User] = {}
        self.uploads: dict[UploadKey, Upload] = {}
        #: for each session that uploads, the ids of its uploads; no empty sets
        self.by_peer: dict[PeerId, set[ObjectId]] = {}
        #: for each owner that something is uploaded for, these uploads; no empty dicts
        self.by_owner: dict[PeerId, dict[UploadKey, None]] = {}
        #: for each user that uploads, its uploads, the one that stood still for longest first, and the bytes kept of
        #: all of them; no empty ones
        self.of_user: dict[User, dict[UploadKey, None]] = {}
        self.kept_bytes: dict[User, int] = {}
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
        user = self.user_of(peer_id)
        upload = Upload(owner, value, user)
        self.missing_bytes += upload.missing_bytes
        self.uploads[peer_id, object_id] = upload
        self.by_peer.setdefault(peer_id, set()).add(object_id)
        self.by_owner.setdefault(owner, {})[peer_id, object_id] = None
        self.of_user.setdefault(user, {})[peer_id, object_id] = None
        self.kept_bytes.setdefault(user, 0)
        self.deadlines.set((peer_id, object_id), now + self._limits.upload_idle_seconds)
        return upload

    def append(self, peer_id: PeerId, object_id: ObjectId, payload: Buffer, now: float) -> None:
        upload = self.uploads[peer_id, object_id]
        before = upload.kept_bytes
        upload.value.append(payload)
        received = upload.kept_bytes - before
        self.received_bytes += received
        self.missing_bytes -= received
        self.kept_bytes[upload.user] += received
        of_user = self.of_user[upload.user]
        of_user[peer_id, object_id] = of_user.pop((peer_id, object_id))
        self.deadlines.set((peer_id, object_id), now + self._limits.upload_idle_seconds)

    def remove(self, peer_id: PeerId, object_id: ObjectId) -> Upload:
        """Forget it; a complete one hands its value over to the caller."""
        upload = self.uploads.pop((peer_id, object_id))
        self.received_bytes -= upload.kept_bytes
        self.missing_bytes -= upload.missing_bytes
        self.deadlines.remove((peer_id, object_id))
        self.kept_bytes[upload.user] -= upload.kept_bytes
        of_user = self.of_user[upload.user]
        del of_user[peer_id, object_id]
        if not of_user:
            del self.of_user[upload.user], self.kept_bytes[upload.user]
        of_peer = self.by_peer[peer_id]
        of_peer.remove(object_id)
        if not of_peer:
            del self.by_peer[peer_id]
        of_owner = self.by_owner[upload.owner]
        del of_owner[peer_id, object_id]
        if not of_owner:
            del self.by_owner[upload.owner]
        return upload

    def remove_peer(self, peer_id: PeerId) -> None:
        self.users.pop(peer_id, None)
        for object_id in list(self.by_peer.get(peer_id, ())):
            self.remove(peer_id, object_id)

    def remove_owner(self, owner: PeerId) -> None:
        for peer_id, object_id in list(self.by_owner.get(owner, ())):
            self.remove(peer_id, object_id)

    def user_of(self, peer_id: PeerId) -> User:
        return self.users.get(peer_id, peer_id)

    def most_of(self, peer_id: PeerId) -> int:
        """How many uploads of a session may be unfinished: less when all sessions together have many. (LIM-22)"""
        limits = self._limits
        is_much = len(self.uploads) >= limits.all_uploads
        return min(limits.least_uploads, limits.session_uploads) if is_much else limits.session_uploads

    def give_way(self, user: User, wanted_bytes: int, missing_bytes: int, own: UploadKey | None, now: float) -> int:
        """Forget uploads until so many bytes are free that are missing, for a request of this user that wants so many
        in all; how many are. `own`: the upload that the request continues."""
        entry_bytes, free = self._limits.entry_bytes, 0
        if missing_bytes > self.received_bytes + entry_bytes * len(self.uploads):
            return free  # for nothing
        while free < missing_bytes and (key := self._next_to_go(user, wanted_bytes, own, now)) is not None:
            free += self.remove(*key).kept_bytes + entry_bytes
        return free

    def _next_to_go(self, user: User, wanted_bytes: int, own: UploadKey | None, now: float) -> UploadKey | None:
        limits = self._limits
        key = self.deadlines.first_due(now + limits.upload_idle_seconds - limits.upload_still_seconds)
        if key is not None and key != own:
            return key
        if not self.kept_bytes:
            return None
        largest = max(self.kept_bytes, key=self.kept_bytes.__getitem__)
        fair_bytes = _MUCH_MORE * (self.kept_bytes.get(user, 0) + wanted_bytes)
        return None if largest == user or self.kept_bytes[largest] <= fair_bytes else next(iter(self.of_user[largest]))

    def remove_idle(self, now: float) -> None:
        while (key := self.deadlines.first_due(now)) is not None:
            self.remove(*key)
