"""Which functions are serialized once, and when one is serialized again. (CLI-3)"""

from __future__ import annotations

import json

import pytest
from cloudpickle import cloudpickle

from scaler.client.objects.functions import StoredFunction
from scaler.client.submitting.functions import FunctionMemory, SentAlong
from scaler_protocol.ids import new_object_id

MADE = StoredFunction(new_object_id(), 10, has_code=False)


def by_value(value: int) -> int:
    return value


by_value.__module__ = "__main__"  # as in a notebook: its code travels


@pytest.fixture
def memory() -> FunctionMemory:
    memory = FunctionMemory()
    memory.remember(json.dumps, MADE)
    assert memory.latest(json.dumps) is None and memory.recall(json.dumps) is MADE
    return memory


def test_the_one_used_last_is_found_without_the_lock(memory: FunctionMemory) -> None:
    assert memory.latest(json.dumps) is MADE
    assert memory.latest(json.loads) is None, "another function"


def test_not_if_its_module_is_sent_with_its_code_from_now_on(memory: FunctionMemory) -> None:
    cloudpickle.register_pickle_by_value(json)
    try:
        assert memory.latest(json.dumps) is None and memory.recall(json.dumps) is None
    finally:
        cloudpickle.unregister_pickle_by_value(json)
    assert memory.latest(json.dumps) is None and memory.recall(json.dumps) is None


def test_not_after_all_were_forgotten(memory: FunctionMemory) -> None:
    memory.clear()
    assert memory.latest(json.dumps) is None


def test_not_if_something_else_was_made_of_it_since(memory: FunctionMemory) -> None:
    memory.remember(json.dumps, SentAlong(b"", has_code=False))
    assert memory.latest(json.dumps) is None
    assert isinstance(memory.recall(json.dumps), SentAlong) and memory.latest(json.dumps) is None


def test_not_if_it_may_change_unnoticed(memory: FunctionMemory) -> None:
    memory.remember(by_value, MADE)
    assert memory.recall(by_value) is MADE
    assert memory.latest(by_value) is None and memory.latest(json.dumps) is None
