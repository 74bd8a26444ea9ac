"""Values that are read once for many tasks."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from scaler_protocol.ids import new_object_id
from scaler_protocol.running.kept import KEPT_BYTES, KEPT_CELL, WANTED_CELL, KeptValues, most_kept_bytes

A, B, C = new_object_id(), new_object_id(), new_object_id()


def test_only_what_nobody_can_change_is_kept():
    kept = KeptValues()
    for value in (bytearray(9), [1], (1, []), {}, object()):
        kept.offer(A, value, 9)
        assert kept.get(A) is None
    value = b"never changes"
    kept.offer(A, value, len(value))
    assert kept.get(A) is value


def test_the_one_that_was_not_used_for_longest_goes_first():
    kept = KeptValues(limit_bytes=20)
    kept.offer(A, b"a", 10)
    kept.offer(B, b"b", 10)
    assert kept.get(A) == b"a"
    kept.offer(C, b"c", 10)
    assert (kept.get(A), kept.get(B), kept.get(C)) == (b"a", None, b"c")
    kept.offer(B, b"b", 21)
    assert kept.get(B) is None, "larger than all that may be kept"


def test_what_is_not_used_between_two_looks_is_forgotten():
    kept = KeptValues(limit_bytes=20)
    kept.offer(A, b"a", 10)
    kept.offer(B, b"b", 10)
    kept.age()
    assert kept.get(B) == b"b"
    kept.age()
    assert (kept.get(A), kept.get(B)) == (None, b"b")
    kept.clear()
    kept.offer(A, b"a", 20)
    assert (kept.get(A), kept.get(B)) == (b"a", None), "the room of what was forgotten is free again"


def test_under_a_limit_of_memory_most_of_it_is_left_to_tasks():
    mib = 1 << 20
    assert most_kept_bytes(0) == KEPT_BYTES
    assert [most_kept_bytes(limit * mib) // mib for limit in (64, 512, 4096, 65536)] == [8, 64, 512, 512]


def test_what_is_wanted_back_is_given_at_once_and_in_a_change_after_it():
    """At each line of a change, where a signal handler can run."""
    steps = 0
    while True:
        cells, trims = [0, 0], []
        kept = KeptValues(20, cells, lambda trims=trims: trims.append(1))
        kept.offer(A, b"a", 10)
        kept.offer(B, b"b", 10)
        assert cells == [20, 0]
        with interrupted_after(steps, kept, cells) as is_interrupted:
            kept.get(A)
            kept.offer(C, b"c", 10)
            kept.age()
        if not is_interrupted:
            break
        assert (cells[WANTED_CELL], len(trims)) == (0, 1), f"after {steps} steps"
        assert cells[KEPT_CELL] == 10 * sum(kept.get(one) is not None for one in (A, B, C))
        kept.clear()
        assert cells == [0, 0]
        steps += 1
    assert steps > 20


@contextmanager
def interrupted_after(steps, kept, cells):
    """Wants everything back after so many lines of code of the kept values, as a signal handler would."""
    left, interrupted = steps, []

    def trace(frame, event, _argument):
        nonlocal left
        if frame.f_code.co_filename != KeptValues.offer.__code__.co_filename or frame.f_code.co_name == "give_back":
            return None
        if event == "line":
            left -= 1
            if left < 0 and not interrupted:
                interrupted.append(steps)
                cells[WANTED_CELL] = 1
                kept.give_back()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield interrupted
    finally:
        sys.settrace(before)
