"""Whether there is room for a Put, or for an owner more of an object: in the storage, and in the quota of its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Duplicate, Put, PutShared
from scaler_storage.core import refusals
from scaler_storage.core.disk import Disk
from scaler_storage.core.refusals import Refusal

if TYPE_CHECKING:
    from scaler_storage.core.objects import StoredObject
    from scaler_storage.core.parts import Parts
    from scaler_storage.core.uploads import UploadKey
    from scaler_storage.core.values import AnyValue


def check_put(core: Parts, disk: Disk, peer_id: PeerId, put: Put) -> Refusal | None:
    chunk_bytes = memoryview(put.payload).nbytes
    upload = core.uploads.get(peer_id, put.object_id)
    stored = core.objects.get(put.object_id)
    refusal = refusals.check_shape(put, chunk_bytes, core.limits) or refusals.check_continues(put, upload, stored)
    if refusal is not None:
        return refusal
    if upload is None and core.uploads.count_of(peer_id) >= core.uploads.most_of(peer_id):
        return refusals.too_many("unfinished uploads", core.uploads.most_of(peer_id))
    refusal = refusals.check_entry(put.owner, core.objects, core.limits) or _check_quota(
        core, put, put.total_bytes, stored
    )
    if refusal is not None:
        return refusal
    if stored is not None:
        return _check_room(core, disk, peer_id, 0)  # of its bytes nothing will be kept
    # The first chunk must leave room for the whole value, so that a hopeless upload fails early; nothing is
    # reserved, so two uploads may both begin and the later one fail at a later chunk.
    own = None if upload is None else (peer_id, put.object_id)
    freed = 0
    if put.offset == 0 and upload is not None:
        freed = upload.kept_bytes
    return _check_room(core, disk, peer_id, put.total_bytes - put.offset, freed, own)


def _check_room(
    core: Parts, disk: Disk, asking: PeerId, wanted_bytes: int, freed_bytes: int = 0, own: UploadKey | None = None
) -> Refusal | None:
    """For so many bytes more in a value, and for what is noted of it and its owner. `freed_bytes`: of what is held,
    what the request replaces."""
    limits, uploads = core.limits, core.uploads
    if limits.memory_bytes is None:
        return None
    wanted = wanted_bytes + limits.entry_bytes
    refusal = refusals.check_room(wanted, core.memory_bytes - freed_bytes, limits)
    if refusal is None:
        return None
    if wanted <= limits.memory_bytes:
        missing = core.memory_bytes - freed_bytes + wanted - limits.memory_bytes
        if uploads.give_way(uploads.user_of(asking), wanted, missing, own, core.now) >= missing:
            return None
    return disk.refusal(core, wanted_bytes) if disk.spilling.is_enabled else refusal


def check_file(core: Parts, disk: Disk, put: PutShared, size: int) -> Refusal | None:
    """Whether this owner may have this value in a file as an object more."""
    return _check_quota(core, put, size, None) or _check_owner(core, disk, put.owner, size)


def check_duplicate(
    core: Parts, disk: Disk, duplicate: Duplicate, value: AnyValue, target: StoredObject | None
) -> Refusal | None:
    """Whether this owner may have this value under another name, or as one owner more."""
    refusal = _check_quota(core, duplicate, value.total_bytes, target)
    return refusal or _check_owner(core, disk, duplicate.owner)


def _check_owner(core: Parts, disk: Disk, owner: PeerId, wanted_bytes: int = 0) -> Refusal | None:
    return refusals.check_entry(owner, core.objects, core.limits) or _check_room(core, disk, owner, wanted_bytes)


def _check_quota(
    core: Parts, request: Put | PutShared | Duplicate, wanted: int, stored: StoredObject | None
) -> Refusal | None:
    """Whether its user may have so much more, whatever other users have."""
    by_user, most = core.objects.by_user, core.limits.user_bytes
    if by_user is None or most is None:
        return None
    family = core.rights.family(request.owner, request.grant)
    if stored is not None and family in stored.families:
        return None  # as when a client takes over under a new name what it has (CLI-11)
    held = by_user.has(family)
    return None if held + wanted <= most else refusals.quota(held, wanted, most)
