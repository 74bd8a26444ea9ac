"""What a storage holds, in numbers (STO-16, MON-26)."""

from __future__ import annotations

from scaler_protocol import codes
from scaler_protocol.columns import join_u64, split_ids
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import StorageStatus, StorageStatusRequest
from scaler_storage.core.limits import UNLIMITED
from scaler_storage.core.objects import ObjectTable
from scaler_storage.core.spilling import Spilling


def status_of(
    request: StorageStatusRequest,
    role: int,
    objects: ObjectTable,
    memory_bytes: int,
    waiter_count: int,
    spilling: Spilling,
) -> StorageStatus:
    # A peer id names the owner of objects, so only the scheduler, which has given it, is told of one. (MON-26)
    owners = split_ids(request.owners) if role == codes.ROLE_SCHEDULER else ()
    disk_limit = spilling.limits.disk_bytes
    return StorageStatus(
        request.request_id,
        object_count=len(objects.objects),
        owner_count=len(objects.owned),
        memory_bytes=memory_bytes,
        waiter_count=waiter_count,
        owner_objects=join_u64([len(objects.owned.get(PeerId(owner), ())) for owner in owners]),
        owner_bytes=join_u64([objects.owned_bytes.get(PeerId(owner), 0) for owner in owners]),
        disk_bytes=spilling.taken_bytes,
        moving_bytes=spilling.moving_bytes,
        memory_limit_bytes=spilling.limits.memory_bytes or 0,
        disk_limit_bytes=0 if disk_limit is None or disk_limit >= UNLIMITED else disk_limit,
        disk_room_bytes=spilling.room_bytes,
        disk_trouble=spilling.trouble,
    )
