"""Whether there is room for a Put, or for an owner more of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Put
from scaler_storage.core import refusals
from scaler_storage.core.disk import Disk
from scaler_storage.core.refusals import Refusal

if TYPE_CHECKING:
    from scaler_storage.core.parts import Parts


def check_put(core: Parts, disk: Disk, peer_id: PeerId, put: Put) -> Refusal | None:
    chunk_bytes = memoryview(put.payload).nbytes
    upload = core.uploads.get(peer_id, put.object_id)
    stored = core.objects.get(put.object_id)
    refusal = refusals.check_shape(put, chunk_bytes, core.limits) or refusals.check_continues(put, upload, stored)
    if refusal is not None:
        return refusal
    if upload is None and core.uploads.count_of(peer_id) >= core.limits.session_uploads:
        return refusals.too_many("unfinished uploads", core.limits.session_uploads)
    refusal = refusals.check_entry(put.owner, core.objects, core.limits)
    if refusal is not None:
        return refusal
    if stored is not None:
        return _check_room(core, disk, 0)  # of its bytes nothing will be kept
    # The first chunk must leave room for the whole value, so that a hopeless upload fails early; nothing is
    # reserved, so two uploads may both begin and the later one fail at a later chunk.
    held = core.memory_bytes
    if put.offset == 0 and upload is not None:
        held -= upload.kept_bytes
    return _check_room(core, disk, put.total_bytes - put.offset, held)


def _check_room(core: Parts, disk: Disk, wanted_bytes: int, held_bytes: int | None = None) -> Refusal | None:
    """For so many bytes more in a value, and for what is noted of it and its owner."""
    held_bytes = core.memory_bytes if held_bytes is None else held_bytes
    refusal = refusals.check_room(wanted_bytes + core.limits.entry_bytes, held_bytes, core.limits)
    return refusal and (disk.refusal(core, wanted_bytes) if disk.spilling.is_enabled else refusal)


def check_owner(core: Parts, disk: Disk, owner: PeerId, wanted_bytes: int = 0) -> Refusal | None:
    """Whether this owner may have one object more."""
    return refusals.check_entry(owner, core.objects, core.limits) or _check_room(core, disk, wanted_bytes)
