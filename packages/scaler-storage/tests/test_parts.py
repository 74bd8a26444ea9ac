"""The small parts of the core: the table of changes, deadlines, and the return of memory."""

from __future__ import annotations

import itertools

import pytest

from scaler_protocol.process.memory import DELAY_SECONDS, MUCH_BYTES, MemoryReturn
from scaler_storage.core.deadlines import Deadlines
from scaler_storage.core.states import TRANSITIONS, Change, IllegalChange, ObjectState, next_state


@pytest.mark.parametrize(("state", "change"), list(itertools.product(ObjectState, Change)))
def test_every_change_is_a_row_or_a_mistake(state, change):
    if (state, change) in TRANSITIONS:
        assert next_state(state, change) is TRANSITIONS[state, change]
    else:
        with pytest.raises(IllegalChange, match=state.value):
            next_state(state, change)


def test_every_state_can_be_reached_and_left():
    assert {state for state, _ in TRANSITIONS} == set(ObjectState) == set(TRANSITIONS.values())
    assert {change for _, change in TRANSITIONS} == set(Change)


def test_deadlines_come_in_order_and_leftovers_are_bounded():
    deadlines: Deadlines[int] = Deadlines()
    for number in range(1000):
        deadlines.set(number % 10, 1000.0 - number)
        deadlines.check()
    assert deadlines.next() == 1.0
    assert deadlines.first_due(0.5) is None
    due = []
    while (key := deadlines.first_due(5.0)) is not None:
        due.append(key)
        deadlines.remove(key)
        deadlines.check()
    assert due == [9, 8, 7, 6, 5] and len(deadlines) == 5


def test_memory_is_returned_some_time_after_much_was_freed():
    trims: list[str] = []
    memory = MemoryReturn(lambda: trims.append("trim"))
    memory.look(2 * MUCH_BYTES, 0.0)
    memory.look(MUCH_BYTES + 1, 1.0)
    assert memory.next_deadline() is None, "too little was freed"
    memory.look(MUCH_BYTES, 2.0)
    assert memory.next_deadline() == 2.0 + DELAY_SECONDS
    memory.look(0, 2.0 + DELAY_SECONDS / 2)
    assert trims == []
    memory.look(0, 2.0 + DELAY_SECONDS)
    assert trims == ["trim"] and memory.next_deadline() is None
    memory.look(0, 100.0)
    assert trims == ["trim"], "nothing was freed since"
