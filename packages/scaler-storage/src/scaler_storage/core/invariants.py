"""Everything the core keeps twice, derived again and compared. Tests and the simulator call it after every event."""

from __future__ import annotations

from collections import Counter, defaultdict

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Duplicate
from scaler_storage.core import keeping_invariants, spilling_invariants
from scaler_storage.core.core import StorageCore
from scaler_storage.core.status import LARGE_BYTES
from scaler_storage.core.uploads import User
from scaler_storage.core.values import AnyValue, FileValue, StoredValue


def check(core: StorageCore) -> None:
    _check_objects(core)
    _check_quotas(core)
    _check_uploads(core)
    _check_waiters(core)
    _check_bounds(core)
    _check_work(core)
    _check_namings(core)


def _check_objects(core: StorageCore) -> None:
    owned: defaultdict[PeerId, set[ObjectId]] = defaultdict(set)
    names: defaultdict[int, int] = defaultdict(int)
    values: dict[int, AnyValue] = {}
    gone = set(core.gone_owners._gone) - {departure.release.owner for departure in core.departures}
    for object_id, stored in core.objects.objects.items():
        assert stored.owners, "an object without owners is deleted (OWN-1)"
        assert stored.value.is_complete, "an object has all its bytes (STO-3)"
        assert not stored.owners & gone, "owners that are gone own nothing (OWN-4)"
        values[id(stored.value)] = stored.value
        names[id(stored.value)] += 1
        for owner in stored.owners:
            owned[owner].add(object_id)
    assert {owner: set(ids) for owner, ids in core.objects.owned.items()} == dict(owned), "the index by owner"
    sums = {owner: sum(core.objects.objects[one].value.total_bytes for one in ids) for owner, ids in owned.items()}
    assert core.objects.owned_bytes == sums, "the bytes of each owner"
    pairs = sum(len(stored.owners) for stored in core.objects.objects.values())
    assert core.objects.entries == pairs, "pairs of objects and owners are counted"
    assert core.objects.value_bytes == sum(value.total_bytes for value in values.values()), "each value counts once"
    for key, value in values.items():
        assert value.names == names[key], "a value knows how many ids stand for it"
        _check_value(value)
    classes: defaultdict[int, set[ObjectId]] = defaultdict(set)
    for object_id, stored in core.objects.objects.items():
        if stored.value.total_bytes >= LARGE_BYTES:
            classes[stored.value.total_bytes.bit_length()].add(object_id)
    assert {bits: set(ids) for bits, ids in core.largest.classes.items()} == classes, "large objects by their size"
    spilling_invariants.check(core.disk.spilling, list(values.values()))
    if core.disk.keeping is not None:
        keeping_invariants.check(core.disk.keeping, core.objects)


def _check_quotas(core: StorageCore) -> None:
    if (by_user := core.by_user) is None:
        return
    of_user: Counter[bytes] = Counter()
    for stored in core.objects.objects.values():
        for family in stored.families:
            of_user[family[: by_user.user_bytes]] += stored.value.total_bytes
    assert by_user.of_user == +of_user, "what each user has"


def _check_value(value: AnyValue) -> None:
    if isinstance(value, FileValue):
        assert value.file is None or value.total_bytes == value.file.size, (
            "a file has the bytes of its value and no others"
        )
        return
    if value.extent is not None:
        assert not value.chunks and not value.starts, "what is on the disk is not in memory"
        return
    offset = 0
    assert len(value.starts) == len(value.chunks), "one start for each chunk"
    for start, chunk in zip(value.starts, value.chunks, strict=True):
        assert start == offset and chunk.nbytes > 0, "chunks follow one another"
        assert chunk.readonly and chunk.ndim == 1 and chunk.itemsize == 1, "chunks are plain bytes"
        offset += chunk.nbytes
    assert value.held_bytes == offset <= value.total_bytes, "not more bytes than the value has"


def _check_uploads(core: StorageCore) -> None:
    by_peer: defaultdict[PeerId, set[ObjectId]] = defaultdict(set)
    received_bytes = 0
    for (peer_id, object_id), upload in core.uploads.uploads.items():
        assert peer_id in core.roles, "an upload ends with its session (STO-8)"
        assert upload.owner not in core.gone_owners, "and with its owner (STO-8)"
        assert 0 < upload.value.held_bytes < upload.value.total_bytes, "an upload is begun and not finished"
        if isinstance(upload.value, StoredValue):
            assert upload.value.names == 0, "nothing else refers to it"
            _check_value(upload.value)
            received_bytes += upload.value.held_bytes
        by_peer[peer_id].add(object_id)
    assert core.uploads.by_peer == dict(by_peer), "the index by peer"
    uploads = core.uploads
    named = {(upload.owner, key) for key, upload in uploads.uploads.items()}
    assert named == {(owner, key) for owner, keys in uploads.by_owner.items() for key in keys}, "the index by owner"
    assert all(uploads.by_owner.values()), "no owner without uploads"
    kept_bytes: defaultdict[User, int] = defaultdict(int)
    for upload in core.uploads.uploads.values():
        kept_bytes[upload.user] += upload.kept_bytes
    assert core.uploads.kept_bytes == dict(kept_bytes), "what the uploads of each user hold"
    of_user = {user: dict.fromkeys(keys) for user, keys in core.uploads.of_user.items()}
    assert {key: user for user, keys in of_user.items() for key in keys} == {
        key: upload.user for key, upload in core.uploads.uploads.items()
    }, "the index by user"
    assert core.uploads.users.keys() <= core.roles.keys(), "users of sessions"
    assert core.uploads.received_bytes == received_bytes, "the sum of what was received"
    assert core.uploads.deadlines.due_at.keys() == core.uploads.uploads.keys(), "one deadline for each upload"
    core.uploads.deadlines.check()


def _check_waiters(core: StorageCore) -> None:
    by_object: defaultdict[ObjectId, dict[bytes, list[int]]] = defaultdict(dict)
    by_peer: defaultdict[PeerId, set[int]] = defaultdict(set)
    for number, waiter in sorted(core.waiters.waiters.items()):
        assert waiter.number == number, "a waiter is found by its number"
        assert waiter.peer_id in core.roles, "a wait ends with its session (STO-17)"
        stored = core.objects.get(waiter.object_id)
        is_readable = stored is not None and core.rights.may_read(waiter.peer_id, waiter.request, stored)
        assert not is_readable, "no request waits for an object that exists and may be read (STO-7)"
        by_object[waiter.object_id].setdefault(waiter.family, []).append(number)
        by_peer[waiter.peer_id].add(number)
    derived = {
        object_id: {family: list(waiters) for family, waiters in families.items()}
        for object_id, families in core.waiters.by_object.items()
    }
    assert derived == dict(by_object), "the index by object and family, in the order of coming"
    assert core.waiters.by_peer == dict(by_peer), "the index by peer"
    requests = {number: waiter.request for number, waiter in core.waiters.waiters.items()}
    named = {(one.owner, number) for number, one in requests.items() if isinstance(one, Duplicate)}
    assert named == {(o, n) for o, numbers in core.waiters.by_owner.items() for n in numbers}, "the index by owner"
    assert core.waiters.deadlines.due_at.keys() == core.waiters.waiters.keys(), "one deadline for each waiter"
    core.waiters.deadlines.check()


def _check_bounds(core: StorageCore) -> None:
    limits = core.limits
    assert limits.memory_bytes is None or core.memory_bytes <= limits.memory_bytes, "the memory limit holds"
    assert len(core.gone_owners) <= limits.gone_owners, "gone owners are bounded"
    assert all(len(ids) <= limits.session_uploads for ids in core.uploads.by_peer.values()), "uploads are bounded"
    assert all(len(n) <= limits.session_waiters for n in core.waiters.by_peer.values()), "waiters are bounded"


def _check_work(core: StorageCore) -> None:
    held: Counter[PeerId] = Counter()
    for peer_id, jobs in core.work.jobs.items():
        assert jobs, "no empty queues"
        held[peer_id] += sum(size for _, size in jobs)
    core.work.pressure.check(+held)
    assert core.pacing.count == sum(map(len, core.pacing.waiting.values())), "Gets that wait are counted"
    for peer_id, gets in core.pacing.waiting.items():
        assert gets and peer_id in core.roles, "Gets wait for a peer that has a session"
        assert len(gets) <= core.limits.session_waiters


def _check_namings(core: StorageCore) -> None:
    namings = core.namings
    schedulers = {peer_id for peer_id, role in core.roles.items() if role == ROLE_SCHEDULER}
    assert namings.silent | namings.by_peer.keys() == schedulers, "what is named ends with the session (OWN-17)"
    assert len(core.speakers) <= core.limits.owners, "speakers are bounded"
    for naming in namings.by_peer.values():
        assert naming.coming is None or len(naming.coming) <= naming.coming_count <= naming.total_count, "parts add up"
    assert namings.size <= core.limits.named_owners + len(core.objects.owned), "what is named is bounded"
