"""The small parts of the core: the table of changes, deadlines, and the return of memory."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from scaler_protocol.process.memory import DELAY_SECONDS, MEASURE_SECONDS, MUCH_BYTES, MemoryReturn, memory_measure
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
    memory = MemoryReturn(lambda: trims.append("trim"), lambda: (0, 0))
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


def test_memory_is_returned_that_no_count_has_seen() -> None:
    """After a flood of messages that were refused, malloc had hundreds of MiB that nothing was stored in."""
    trims: list[int] = []
    sizes = {"resident": 50 << 20, "given": 10 << 20}

    def trim() -> None:
        trims.append(sizes["resident"])
        sizes["resident"] = 60 << 20

    memory = MemoryReturn(trim, lambda: (sizes["resident"], sizes["given"]))
    memory.look(0, 0.0)
    assert trims == [], "a process has memory that malloc does not count"
    sizes["resident"] = 400 << 20
    memory.look(0, MEASURE_SECONDS / 2)
    assert trims == [], "seldom"
    memory.look(0, MEASURE_SECONDS)
    assert trims == [400 << 20]
    memory.look(0, 2 * MEASURE_SECONDS)
    assert trims == [400 << 20], "a trim that gives nothing back is not repeated"
    sizes.update(resident=400 << 20, given=300 << 20)
    memory.look(0, 3 * MEASURE_SECONDS)
    assert len(trims) == 1, "it is in use"
    sizes["given"] = 20 << 20
    memory.look(0, 4 * MEASURE_SECONDS)
    assert len(trims) == 2


@pytest.mark.skipif(memory_measure()() == (0, 0), reason="it needs glibc 2.33")
def test_a_process_gives_back_what_malloc_keeps() -> None:
    code = """
from scaler_protocol.process.memory import MemoryReturn, memory_measure
measure, memory = memory_measure(), MemoryReturn()
memory.look(0, 0.0)
kept = [bytearray(60_000) for _ in range(4_000)]
between = [bytearray(60_000) for _ in range(2)]  # the heap cannot shrink past it by itself
del kept
before = measure()[0]
memory.look(0, 10.0)
print(before - measure()[0] > 150 << 20)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "True\n"
