"""What a processor keeps of the functions it has run is bounded. (WRK-22)"""

from __future__ import annotations

import operator
from functools import partial

import pytest

from scaler_protocol import classes, values
from scaler_protocol.ids import NO_OWNER, ObjectId, Owner, PeerId, content_id
from scaler_protocol.running.calls import BROUGHT_OBJECTS, Objects
from scaler_protocol.running.errors import TaskFailed
from scaler_protocol.running.loaded import REMEMBERED_BYTES, REMEMBERED_FAMILIES, REMEMBERED_OBJECTS


def bring(objects: Objects, number: int, size: int = 0, family: bytes = b"") -> ObjectId:
    content = b"".join(values.dumps(partial(operator.contains, (number, bytes(size)))))
    objects.bring(family, content_id(content), content)
    return content_id(content)


def test_by_count_and_by_bytes() -> None:
    objects = Objects()
    for number in range(REMEMBERED_OBJECTS + 100):
        assert objects.load_function(bring(objects, number), NO_OWNER)(number)
    assert len(objects.shelf.loaded) == len(objects.shelf.sizes) == REMEMBERED_OBJECTS
    size = REMEMBERED_BYTES // 10
    for number in range(20):
        last = bring(objects, number, size)
        assert objects.load_function(last, NO_OWNER)(number)
    assert len(objects.shelf.loaded) < 10 and objects.shelf.bytes_count <= REMEMBERED_BYTES
    alone = bring(objects, 0, REMEMBERED_BYTES + 1)
    assert objects.load_function(alone, NO_OWNER)(0) and list(objects.shelf.loaded) == [alone], (
        "the last one stays, however large"
    )


def test_what_is_used_again_within_the_retention_time_stays() -> None:
    objects = Objects()
    first, second = bring(objects, 1), bring(objects, 2)
    kept, _ = objects.load_function(first, NO_OWNER), objects.load_function(second, NO_OWNER)
    objects.forget_unused(objects.retention_seconds)
    assert not objects.shelf.loaded and objects.load_function(first, NO_OWNER) is kept
    objects.forget_unused(2 * objects.retention_seconds)
    assert objects.load_function(first, NO_OWNER) is kept and set(objects.shelf.sizes) == {first}
    objects.forget_unused(3 * objects.retention_seconds)
    objects.forget_unused(4 * objects.retention_seconds)
    assert not objects.shelf.loaded and not objects.shelf.sizes and objects.shelf.bytes_count == 0


def test_what_came_with_tasks_that_went_elsewhere_does_not_pile_up() -> None:
    objects = Objects()
    ids = [bring(objects, number) for number in range(2 * BROUGHT_OBJECTS)]
    assert len(objects.brought) == BROUGHT_OBJECTS and objects.load_function(ids[-1], NO_OWNER)(2 * BROUGHT_OBJECTS - 1)
    with pytest.raises(TaskFailed, match="named no object storage"):
        objects.load_function(ids[0], NO_OWNER)


def test_what_came_with_a_task_is_compared_with_its_id() -> None:
    objects = Objects()
    named, sent = (b"".join(values.dumps(function)) for function in (operator.add, operator.sub))
    objects.bring(b"", content_id(named), sent)
    with pytest.raises(TaskFailed, match="named no object storage"):  # it is fetched instead (STO-29)
        objects.load_function(content_id(named), NO_OWNER)
    objects.bring(b"", content_id(named), named)
    assert objects.load_function(content_id(named), NO_OWNER) is operator.add


def test_what_the_storage_has_is_compared_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ObjectId] = []
    objects = Objects(fetched=lambda _family, object_id, _content: told.append(object_id))
    named, stored = (b"".join(values.dumps(function)) for function in (operator.add, operator.sub))
    monkeypatch.setattr(objects, "fetch", lambda *_: memoryview(stored))
    for load in (objects.load_function, objects.serializer):
        with pytest.raises(TaskFailed, match="other bytes"):
            load(content_id(named), NO_OWNER)
    assert not told and not objects.shelf.loaded, "neither kept here nor told to the agent"
    assert objects.load_function(content_id(stored), NO_OWNER) is operator.sub and told == [content_id(stored)]


def owner(name: bytes) -> Owner:
    return Owner(PeerId(name.ljust(16)), bytes(16))


def test_what_one_family_has_loaded_is_not_run_for_another() -> None:
    """(WRK-43)"""
    objects = Objects()
    ana, joe = owner(b"ana"), owner(b"joe")
    known = bring(objects, 1, family=ana.family)
    function = objects.load_function(known, ana)
    with pytest.raises(TaskFailed, match="named no object storage"):  # it is fetched for this family, if it may be
        objects.load_function(known, joe)
    with pytest.raises(TaskFailed, match="named no object storage"):
        objects.serializer(known, joe)
    inner = Owner(PeerId(b"nested".ljust(16)), ana.family + bytes(16))
    assert objects.load_function(known, inner) is function, "a client in a task of the same program"
    objects.forget_unused(objects.retention_seconds)
    with pytest.raises(TaskFailed, match="named no object storage"):
        objects.load_function(known, joe)
    assert objects.load_function(known, ana) is function


def test_a_function_that_may_have_state_is_read_for_each_call() -> None:
    """(decision 0025)"""
    objects = Objects()
    content = b"".join(values.dumps(partial(list.append, [])))
    objects.bring(b"", content_id(content), content)
    append = objects.load_function(content_id(content), NO_OWNER)
    append(1)
    again = objects.load_function(content_id(content), NO_OWNER)
    assert append.args == ([1],) and again.args == ([],)
    objects.forget_unused(objects.retention_seconds)
    assert objects.load_function(content_id(content), NO_OWNER).args == ([],), "also of what was not used for a while"
    assert objects.shelf.bytes_count == len(content)


def test_a_serializer_that_brings_its_classes_is_one_for_a_call() -> None:
    """Checks that a serializer is made for one call: its classes are those of the call's function and arguments."""
    objects = Objects()
    kind = type("Own", (), {"__module__": "__main__"})
    contents = [b"".join(values.dumps(made)) for made in (kind(), partial(isinstance))]
    ids = [content_id(content) for content in contents]
    for object_id, content in zip(ids, contents, strict=True):
        objects.bring(b"", object_id, content)
    first = objects.serializer(ids[0], NO_OWNER)
    assert objects.serializer(ids[0], NO_OWNER) is first
    shared = objects.serializer(ids[1], NO_OWNER)
    classes.end_call()
    assert objects.serializer(ids[0], NO_OWNER) is not first
    assert objects.serializer(ids[1], NO_OWNER) is shared
    classes.end_call()


def test_what_was_sent_along_for_one_family_is_not_for_another() -> None:
    objects = Objects()
    known = bring(objects, 1, family=owner(b"ana").family)
    with pytest.raises(TaskFailed, match="named no object storage"):
        objects.load_function(known, owner(b"joe"))
    assert objects.load_function(known, owner(b"ana"))(1)


def test_families_are_bounded_together() -> None:
    objects = Objects()
    owners = [owner(f"c{number}".encode()) for number in range(2 * REMEMBERED_FAMILIES)]
    for one in owners:
        objects.load_function(bring(objects, 1, family=one.family), one)
    kept = [one.family for one in owners if one.family in objects._shelves._shelves]
    assert len(kept) == REMEMBERED_FAMILIES and kept[-1] == owners[-1].family
    for one in owners[-2:]:
        for number in range(REMEMBERED_OBJECTS):
            objects.load_function(bring(objects, number, family=one.family), one)
    objects.load_function(bring(objects, 1, family=owners[0].family), owners[0])
    total = sum(len(shelf.loaded) for shelf in objects._shelves._shelves.values())
    assert total <= REMEMBERED_OBJECTS + 1
