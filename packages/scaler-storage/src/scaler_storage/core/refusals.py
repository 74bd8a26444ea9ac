"""Why a request is refused: a code for the program, and a sentence for the person who reads the log."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Get, Put
from scaler_protocol.records import dataclass
from scaler_storage.core.limits import MEBIBYTE, UNLIMITED, CoreLimits
from scaler_storage.core.objects import ObjectTable, StoredObject
from scaler_storage.core.uploads import Upload
from scaler_storage.core.values import ComparedValue


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int
    text: str


def no_such_object(object_id: ObjectId, is_waited_for: bool) -> Refusal:
    how = "did not come into being in the time allowed" if is_waited_for else "is not stored"
    return Refusal(codes.NO_SUCH_OBJECT, f"object {object_id.hex()} {how}: it was never put, or has been released")


def owner_gone(owner: PeerId) -> Refusal:
    return Refusal(codes.OWNER_GONE, f"client {owner.hex()} has left the cluster: nothing more is stored for it")


def not_allowed(owner: PeerId) -> Refusal:
    named = f"owner {owner.hex()}" if owner else "no owner"
    return Refusal(
        codes.NOT_ALLOWED,
        f"the request names {named}, and has not its grant: this storage asks for keys. A client sends what its "
        "Welcome says, and a worker what the Dispatch of the task says; a storage and its scheduler have one key file",
    )


def of_another_user(owner: PeerId) -> Refusal:
    return Refusal(
        codes.NOT_ALLOWED,
        f"the grant of owner {owner.hex()} is another user's: a client's own grant is for its user alone, and one that "
        "came with a task is for the user of the worker that was given the task, with a ticket for the role worker",
    )


def ended(owner: PeerId) -> Refusal:
    return Refusal(
        codes.NOT_ALLOWED,
        f"the grant of owner {owner.hex()} had ended when this session began: a worker has it for the tasks of that "
        "client, for about a week. Use the one of a newer task",
    )


def of_another_family(owner: PeerId) -> Refusal:
    return Refusal(
        codes.NOT_ALLOWED,
        f"owner {owner.hex()} has objects of another family: a client of another user had this peerId before. A client "
        "that begins again takes a new random peerId",
    )


def check_room(wanted_bytes: int, held_bytes: int, limits: CoreLimits) -> Refusal | None:
    limit = limits.memory_bytes
    if limit is None or held_bytes + wanted_bytes <= limit:
        return None
    return Refusal(
        codes.STORAGE_FULL,
        f"the object storage holds {_mebibytes(held_bytes)} of at most {_mebibytes(limit)} and cannot take "
        f"{_mebibytes(wanted_bytes)} more: release objects, or start it with a larger --memory-limit",
    )


def disk_full(
    wanted_bytes: int,
    held_bytes: int,
    disk_bytes: int,
    limits: CoreLimits,
    trouble: str,
    largest: Sequence[int],
) -> Refusal:
    """Nothing can leave memory for the disk, or nothing does in time. `largest`: what those owners have that have most.
    Any client may read this, and a peerId is no client's to know but its own: monitors show whose these bytes are."""
    owners = ", ".join(map(_mebibytes, largest)) or "nothing"
    is_limited = limits.disk_bytes is not None and limits.disk_bytes < UNLIMITED
    disk = f" of at most {_mebibytes(limits.disk_bytes or 0)}" if is_limited else ""
    reason = f"; the disk: {trouble}" if trouble else ""
    return Refusal(
        codes.STORAGE_FULL,
        f"the object storage holds {_mebibytes(held_bytes)} of at most {_mebibytes(limits.memory_bytes or 0)} in "
        f"memory and {_mebibytes(disk_bytes)}{disk} on the disk, and cannot take {_mebibytes(wanted_bytes)} more"
        f"{reason}. The largest owners have {owners}: scaler_top shows which clients these are. Release objects, or "
        "start it with a larger --disk-limit or --memory-limit",
    )


def quota(held_bytes: int, wanted_bytes: int, most_bytes: int) -> Refusal:
    return Refusal(
        codes.QUOTA,
        f"the user of this client has {_mebibytes(held_bytes)} in the object storage, and each user may have "
        f"{_mebibytes(most_bytes)} (--user-limit): {_mebibytes(wanted_bytes)} more are not taken. Release values and "
        "results that are no longer needed, or ask the operator for more",
    )


def check_entry(owner: PeerId, objects: ObjectTable, limits: CoreLimits) -> Refusal | None:
    """Whether one more object of this owner may be noted (LIM-12)."""
    owned = objects.owned.get(owner)
    if objects.entries >= limits.objects:
        what = f"the storage holds {limits.objects} objects, as many as it may"
    elif owned is None and len(objects.owned) >= limits.owners:
        what = f"the storage holds objects of {limits.owners} owners, as many as it may"
    elif owned is not None and len(owned) >= limits.owner_objects:
        what = f"client {owner.hex()} has {limits.owner_objects} objects, as many as one may have"
    else:
        return None
    return Refusal(codes.TOO_MANY, f"{what}: release some that are not needed any more")


def unreadable_file(reason: str) -> Refusal:
    return Refusal(codes.UNREADABLE_FILE, f"{reason}: put the object in chunks")


def unreadable_object(object_id: ObjectId, reason: str) -> Refusal:
    """As if it were not stored: a client that can make it again does so then."""
    return Refusal(codes.NO_SUCH_OBJECT, f"object {object_id.hex()} cannot be read back from the disk: {reason}")


def exists(object_id: ObjectId) -> Refusal:
    return Refusal(
        codes.EXISTS,
        f"object {object_id.hex()} exists with other bytes, which another client or worker has stored under this id: "
        "nothing was changed. Find out which program that was, and restart the storage to be rid of them",
    )


def other_bytes(object_id: ObjectId, compared: ComparedValue) -> Refusal:
    """What was put under this id is not what the object has, or that cannot be found out."""
    return unreadable_object(object_id, compared.trouble) if compared.trouble else exists(object_id)


def begin_again(object_id: ObjectId) -> Refusal:
    text = (
        f"other bytes than those of object {object_id.hex()} were under its id, and are gone: begin again at offset 0"
    )
    return Refusal(codes.BAD_CHUNK, text)


def too_many(what: str, limit: int) -> Refusal:
    return Refusal(codes.TOO_MANY, f"this session already has {limit} {what}: wait until some of them have ended")


def too_many_for(object_id: ObjectId, limit: int) -> Refusal:
    return Refusal(codes.TOO_MANY, f"{limit} requests wait for object {object_id.hex()} already: ask again later")


def bad_range(get: Get, total_bytes: int) -> Refusal:
    return Refusal(codes.BAD_CHUNK, f"offset {get.offset} lies beyond the end of the object, {total_bytes} bytes")


def check_shape(put: Put, chunk_bytes: int, limits: CoreLimits) -> Refusal | None:
    """What is wrong with this chunk, whatever came before it."""
    if chunk_bytes > limits.chunk_bytes:
        return Refusal(codes.BAD_CHUNK, f"a chunk of {chunk_bytes} bytes: at most {limits.chunk_bytes} are accepted")
    if put.total_bytes > limits.object_bytes:
        return Refusal(codes.STORAGE_FULL, f"an object of {put.total_bytes} bytes: at most {limits.object_bytes} fit")
    if put.offset + chunk_bytes > put.total_bytes:
        return Refusal(
            codes.BAD_CHUNK,
            f"a chunk of {chunk_bytes} bytes at offset {put.offset} reaches beyond the object's {put.total_bytes}",
        )
    if chunk_bytes == 0 and put.total_bytes != 0:
        return Refusal(codes.BAD_CHUNK, "an empty chunk: only an empty object has one")
    return None


def check_continues(put: Put, upload: Upload | None, stored: StoredObject | None) -> Refusal | None:
    """Whether this chunk is the next one of its upload. A chunk at offset zero always is: it begins a new one."""
    if put.offset == 0:
        return None
    if upload is not None and upload.value.compared != (None if stored is None else stored.number):
        # Its first chunks were not compared with what is there now, or with what is not there any more.
        upload = None
    if upload is None:
        return Refusal(codes.BAD_CHUNK, f"a chunk at offset {put.offset} of an upload not begun: begin at offset 0")
    if put.offset != upload.value.held_bytes:
        return Refusal(
            codes.BAD_CHUNK,
            f"a chunk at offset {put.offset} where {upload.value.held_bytes} comes next: begin again at offset 0",
        )
    if put.total_bytes != upload.value.total_bytes or put.owner != upload.owner:
        return Refusal(codes.BAD_CHUNK, "a chunk with another total or owner than the first: begin again at offset 0")
    return None


def _mebibytes(count: int) -> str:
    return f"{count / MEBIBYTE:,.1f} MiB"
