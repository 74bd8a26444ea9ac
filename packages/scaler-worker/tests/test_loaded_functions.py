"""What a processor keeps of the functions it has run is bounded. (WRK-22)"""

from __future__ import annotations

import operator
from functools import partial

import pytest

from scaler_protocol import values
from scaler_protocol.ids import NO_OWNER, ObjectId, content_id
from scaler_protocol.running.calls import BROUGHT_OBJECTS, REMEMBERED_BYTES, REMEMBERED_OBJECTS, Objects
from scaler_protocol.running.errors import TaskFailed


def bring(objects: Objects, number: int, size: int = 0) -> ObjectId:
    content = b"".join(values.dumps(partial(operator.contains, (number, bytes(size)))))
    objects.bring(content_id(content), content)
    return content_id(content)


def test_by_count_and_by_bytes() -> None:
    objects = Objects()
    for number in range(REMEMBERED_OBJECTS + 100):
        assert objects.load_function(bring(objects, number), NO_OWNER)(number)
    assert len(objects.loaded) == len(objects._sizes) == REMEMBERED_OBJECTS
    size = REMEMBERED_BYTES // 10
    for number in range(20):
        last = bring(objects, number, size)
        assert objects.load_function(last, NO_OWNER)(number)
    assert len(objects.loaded) < 10 and objects._loaded_bytes <= REMEMBERED_BYTES
    alone = bring(objects, 0, REMEMBERED_BYTES + 1)
    assert objects.load_function(alone, NO_OWNER)(0) and list(objects.loaded) == [alone], (
        "the last one stays, however large"
    )


def test_what_is_used_again_within_the_retention_time_stays() -> None:
    objects = Objects()
    first, second = bring(objects, 1), bring(objects, 2)
    kept, _ = objects.load_function(first, NO_OWNER), objects.load_function(second, NO_OWNER)
    objects.forget_unused(objects.retention_seconds)
    assert not objects.loaded and objects.load_function(first, NO_OWNER) is kept
    objects.forget_unused(2 * objects.retention_seconds)
    assert objects.load_function(first, NO_OWNER) is kept and set(objects._sizes) == {first}
    objects.forget_unused(3 * objects.retention_seconds)
    objects.forget_unused(4 * objects.retention_seconds)
    assert not objects.loaded and not objects._sizes and objects._loaded_bytes == 0


def test_what_came_with_tasks_that_went_elsewhere_does_not_pile_up() -> None:
    objects = Objects()
    ids = [bring(objects, number) for number in range(2 * BROUGHT_OBJECTS)]
    assert len(objects.brought) == BROUGHT_OBJECTS and objects.load_function(ids[-1], NO_OWNER)(2 * BROUGHT_OBJECTS - 1)
    with pytest.raises(TaskFailed, match="named no object storage"):
        objects.load_function(ids[0], NO_OWNER)


def test_what_came_with_a_task_is_compared_with_its_id() -> None:
    objects = Objects()
    named, sent = (b"".join(values.dumps(function)) for function in (operator.add, operator.sub))
    objects.bring(content_id(named), sent)
    with pytest.raises(TaskFailed, match="named no object storage"):  # it is fetched instead (STO-29)
        objects.load_function(content_id(named), NO_OWNER)
    objects.bring(content_id(named), named)
    assert objects.load_function(content_id(named), NO_OWNER) is operator.add


def test_what_the_storage_has_is_compared_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ObjectId] = []
    objects = Objects(fetched=lambda object_id, _content: told.append(object_id))
    named, stored = (b"".join(values.dumps(function)) for function in (operator.add, operator.sub))
    monkeypatch.setattr(objects, "fetch", lambda *_: memoryview(stored))
    for load in (objects.load_function, objects.serializer):
        with pytest.raises(TaskFailed, match="other bytes"):
            load(content_id(named), NO_OWNER)
    assert not told and not objects.loaded, "neither kept here nor told to the agent"
    assert objects.load_function(content_id(stored), NO_OWNER) is operator.sub and told == [content_id(stored)]
