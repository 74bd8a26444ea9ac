"""A loop of `submit` that serializes a large function for each call says so once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from scaler import Client
from scaler.client.submitting.repeats import LARGE_BYTES, MOST_FUNCTIONS, REPEATED_BYTES, Repeats

SOURCE = """
TABLE = {number: bytes(100) for number in range(60_000)}
SMALL = {1: 2}
def lookup(number): return TABLE[number], SMALL
class Model:
    def __init__(self): self.name, self.weights = "m", [bytes(100) for _ in range(60_000)]
    def predict(self, number): return self.weights[number]
def local(table):
    def inside(number): return table[number]
    return inside
def by_default(number, table=TABLE): return table[number]
"""


def test_the_line_comes_once_and_after_enough() -> None:
    repeats = Repeats()
    size = REPEATED_BYTES // 4
    assert [repeats.has_to_tell("f", size) for _ in range(8)] == [0, 0, 0, 0, 5, 0, 0, 0]


def test_what_is_counted_is_bounded() -> None:
    repeats = Repeats()
    for _ in range(2):
        for index in range(MOST_FUNCTIONS + 1):
            assert not repeats.has_to_tell(f"f{index}", REPEATED_BYTES)


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("lookup", "the global variable TABLE of the function lookup"),
        ("Model().predict", "the attribute weights of the Model that the method belongs to"),
        ("local(TABLE)", "the variable table of the function around local.<locals>.inside"),
        ("by_default", "the default of the parameter table of the function by_default"),
    ],
)
def test_the_line_names_what_is_large(
    client: Client, caplog: pytest.LogCaptureFixture, expression: str, place: str
) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(SOURCE, names)
    function: Callable[[int], object] = eval(expression, names)
    with caplog.at_level(logging.WARNING, "scaler"):
        client.map(function, range(20))
        assert not caplog.records
        for number in range(10):
            client.submit(function, number)
    (record,) = caplog.records
    told = record.getMessage()
    assert f"because {place} (" in told
    assert "map()" in told and "send_object()" in told and "worker_state()" in told
    assert "read anew by its worker" in told, "the cost that map() does not save (decision 0025)"


def test_a_small_function_is_not_counted(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(f"TEXT = [bytes({LARGE_BYTES // 2})]\ndef f(number): return TEXT", names)
    with caplog.at_level(logging.WARNING, "scaler"):
        for number in range(2 * REPEATED_BYTES // LARGE_BYTES + 10):
            client.submit(names["f"], number)
    assert not caplog.records
