"""scaler_protocol.values: what goes in comes out, writable, by value where it must."""

from __future__ import annotations

import functools
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol import values
from scaler_protocol.values import ALIGNMENT, MAGIC, CallPickler, PartReference, ValueFormatError

try:
    import numpy
except ImportError:  # it is optional for users too
    numpy = None  # type: ignore[assignment]

needs_numpy = pytest.mark.skipif(numpy is None, reason="numpy is not installed")

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
ANY = st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner), st.tuples(inner, inner)), max_leaves=10)


def joined(value: object) -> bytes:
    return b"".join(values.dumps(value))


def printed_by(script: str) -> bytes:
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60, env=path).stdout


@functools.cache
def doubled(number: int) -> int:
    return 2 * number


@given(ANY)
def test_round_trip(value: object) -> None:
    assert values.loads(joined(value)) == value
    assert values.loads(memoryview(bytearray(joined(value)))) == value


def test_an_open_text_file_arrives_as_its_content(tmp_path: Path) -> None:
    """As docs/guide/best-practices.md says."""
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\n")  # a file's position counts bytes: with the line ends of Windows it would be another
    with path.open() as file:
        file.readline()
        there = values.loads(joined(file))
    assert isinstance(there, io.StringIO)
    assert (there.read(), there.getvalue()) == ("two\n", "one\ntwo\n")


@pytest.mark.parametrize("mode", ["rb", "w"])
def test_any_other_open_file_is_refused(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "lines"
    path.touch()
    with path.open(mode) as file, pytest.raises((TypeError, pickle.PicklingError), match="annot pickle"):
        values.dumps(file)


@given(st.lists(st.tuples(ANY, ANY), max_size=20))
def test_batch_round_trip(calls: list[tuple[object, ...]]) -> None:
    payload, sizes = CallPickler().dump(calls)
    assert sum(sizes) == len(payload)
    assert values.load_many(payload, sizes) == [(arguments, {}) for arguments in calls]


def test_each_call_of_a_batch_reads_alone() -> None:
    shared = ["the same object in every call"]
    payload, sizes = CallPickler().dump([(shared, shared)] * 3)
    last = payload[-sizes[-1] :]
    (first, second), _ = values.loads(last)
    assert first == shared and first is second


def test_pickler_is_reusable_after_a_failure() -> None:
    pickler = CallPickler()
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickler.dump([([1],), (sys._getframe(),), ([3],)])
    assert pickler.failed_index == 1
    payload, sizes = pickler.dump([([4],)])
    assert values.load_many(payload, sizes) == [(([4],), {})]


@needs_numpy
@pytest.mark.parametrize("receive", [bytes, bytearray])
@pytest.mark.parametrize("count", [10, 100_000])
def test_arrays_arrive_writable(receive: type, count: int) -> None:
    array = numpy.arange(count, dtype="f8")
    copy = values.loads(receive(joined({"a": array, "b": [array[:3]]})))
    assert (copy["a"] == array).all()
    copy["a"][0] = -1.0
    assert array[0] == 0.0


@needs_numpy
def test_large_buffers_are_not_copied_and_aligned() -> None:
    array = numpy.zeros(1_000_000)
    pieces = values.dumps(array)
    assert bytes(pieces[0][:4]) == MAGIC
    assert any(numpy.shares_memory(numpy.frombuffer(piece, "u1"), array) for piece in pieces)
    offset = sum(len(piece) for piece in pieces[:-1])
    assert offset % ALIGNMENT == 0
    received = bytearray(b"".join(pieces))
    assert numpy.shares_memory(values.loads(received), numpy.frombuffer(received, "u1"))


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_large_bytes_are_not_copied_and_stay_one_object(kind: type) -> None:
    large = kind(os.urandom(values.LARGE_BYTES))
    pieces = values.dumps(large)
    assert sum(memoryview(piece).obj is large for piece in pieces) == 1
    assert values.loads(b"".join(pieces)) == large and type(values.loads(b"".join(pieces))) is kind
    pieces = values.dumps_call((large, 5), {"again": large})
    assert values.size_of(pieces) < 1.1 * len(large)
    (first, five), keywords = values.loads(b"".join(pieces))
    assert first == large and first is keywords["again"] and five == 5


@pytest.mark.parametrize("last", [b"b" * values.LARGE_BYTES, bytearray(values.LARGE_BYTES)])
def test_a_batch_with_large_bytes_is_no_batch(last: object) -> None:
    pickler = CallPickler()
    with pytest.raises(values.TooLarge):
        pickler.dump([(1,), (last,)])
    assert values.load_many(*pickler.dump([([4],)])) == [(([4],), {})]


@needs_numpy
def test_batch_frames_large_arrays_and_goes_on() -> None:
    array = numpy.arange(3_000.0)
    payload, sizes = CallPickler().dump([(1, [2]), (array, array[5:]), ([3],)])
    first, second, third = values.load_many(payload, sizes)
    assert first == ((1, [2]), {}) and third == (([3],), {})
    assert (second[0][0] == array).all() and (second[0][1] == array[5:]).all()


@pytest.mark.parametrize(
    "broken", [b"\xff", b"\xffSV2" + bytes(20), MAGIC + b"\xff\xff\xff\xff", MAGIC + bytes(4) + b"\xff" * 8 + b"x"]
)
def test_broken_framing_is_our_error(broken: bytes) -> None:
    with pytest.raises(ValueFormatError):
        values.loads(broken)


def test_references_are_values() -> None:
    arguments = (PartReference(1), 2)
    assert values.loads(joined((arguments, {"key": PartReference(2)}))) == (arguments, {"key": PartReference(2)})


def test_functions_of_the_main_module_travel_by_value() -> None:
    """What is defined in a script can be read by a process that does not have the script."""
    script = """
import sys
from scaler_protocol import values
factor = 3
def triple(x): return helper(x)
def helper(x): return x * factor
offset = 4
closure = (lambda n: lambda x: x + n)(offset)
sys.stdout.buffer.write(b"".join(values.dumps((triple, closure, lambda x: -x))))
"""
    triple, closure, minus = values.loads(printed_by(script))
    assert (triple(2), closure(1), minus(5)) == (6, 5, -5)


MAIN_WITH_CACHES = """
import functools, sys
from scaler_protocol import values

@functools.lru_cache(maxsize=7, typed=True)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Square:
    def __init__(self, side):
        self.side = side

    @functools.cached_property
    def area(self):
        return self.side**2

    @functools.cache
    def larger(self, by):
        return Square(self.side + by)

sys.stdout.buffer.write(b"".join(values.dumps([fibonacci, Square(3), Square(3).larger])))
"""


def test_what_remembers_its_values_in_the_main_module_travels_by_value() -> None:
    fibonacci, square, larger = values.loads(printed_by(MAIN_WITH_CACHES))
    assert fibonacci(30) == 832040 and fibonacci.cache_parameters() == {"maxsize": 7, "typed": True}
    assert (square.area, square.__dict__) == (9, {"side": 3, "area": 9})
    assert larger(1) is larger(1) and larger(1).area == 16


def test_a_cached_function_of_a_module_travels_by_its_name() -> None:
    assert values.loads(joined(doubled)) is doubled
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        there = values.loads(joined(doubled))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert there is not doubled and there(2) == 4
