"""Values that are read once for many tasks."""

from __future__ import annotations

from scaler_protocol.ids import new_object_id
from scaler_protocol.running.kept import KeptValues

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
