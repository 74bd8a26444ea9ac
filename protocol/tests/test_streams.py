"""The counting of streams: a law over any order of yields, credits, cancels and losses. (WRK-58, WRK-59, CLI-28)"""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol import values
from scaler_protocol.streams import BEGUN, CREDIT, VALUE, Streamed, StreamId, Taking, Writing, step_of, stream_object_id

STREAM = StreamId(bytes(range(16)))


class Model:
    """A generator of so many values, the storage as a table, and a client."""

    def __init__(self, count: int, window: int) -> None:
        self.total = count
        self.window = window
        self.stored: set[tuple[int, int]] = {(BEGUN, 0)}
        self.writing = Writing(window)
        self.taking = Taking(window)
        self.taken: list[int] = []
        self.has_ended = False

    def write(self) -> bool:
        """One step of the generator; False: it waits for a credit, or has ended."""
        writing = self.writing
        if self.has_ended:
            return False
        if not writing.has_room:
            if (CREDIT, writing.credits + 1) not in self.stored:
                return False
            writing.credits += 1
        elif writing.count == self.total:
            self.has_ended = True
        else:
            assert (VALUE, writing.count) not in self.stored
            self.stored.add((VALUE, writing.count))
            writing.count += 1
        self.check()
        return True

    def take(self, releases: bool) -> bool:
        taking = self.taking
        if (VALUE, taking.count) not in self.stored:
            return False
        self.taken.append(taking.count)
        taking.count += 1
        while taking.owes_credit and not self.has_ended:
            self.stored.add((CREDIT, taking.credits + 1))
            taking.credits += 1
        if releases:
            self.release()
        self.check()
        return True

    def release(self) -> None:
        released = self.taking.releasable()
        for kind, number in released:
            needed = number > self.writing.credits if kind == CREDIT else number >= self.taking.count
            assert not needed, "the other side still needs it"
        assert self.stored.issuperset(released)
        self.stored.difference_update(released)
        self.taking.released()
        assert not self.taking.releasable()

    def clear(self) -> None:
        assert self.has_ended, "before that, another value may be stored"
        taken = len(self.taking.releasable())  # and not released yet
        leftovers = self.taking.leftovers()
        assert len(leftovers) <= 4 * self.window + 4 + taken, "a bound for what is named"
        self.stored.difference_update(leftovers)
        assert not self.stored, "nothing stays"

    def check(self) -> None:
        unread = [number for kind, number in self.stored if kind == VALUE and number >= self.taking.count]
        assert len(unread) <= self.window
        assert self.taken == list(range(self.taking.count)), "in order, each once"
        assert self.writing.count <= self.taking.most


MOVES = st.lists(st.sampled_from(["write", "take", "take later"]), max_size=120)


@given(st.integers(0, 40), st.integers(1, 20), MOVES, st.sampled_from(["all", "canceled", "lost"]))
def test_values_arrive_in_order_and_once_and_nothing_stays(count: int, window: int, moves: list[str], end: str) -> None:
    model = Model(count, window)
    for move in moves:
        if move == "write":
            model.write()
        else:
            model.take(releases=move == "take")
    if end == "all":
        while model.write() or model.take(releases=True):  # neither waits for the other for ever
            pass
        assert model.taken == list(range(count))
    elif end == "lost":
        model.has_ended = True
        while model.take(releases=True):
            pass
        assert len(model.taken) == model.writing.count, "what was stored before the worker was lost is delivered"
    model.has_ended = True
    model.clear()


def test_a_generator_is_at_most_a_window_ahead() -> None:
    model = Model(count=1_000, window=5)
    while model.write():
        pass
    assert model.writing.count == 5
    model.take(releases=True)
    model.take(releases=True)
    while model.write():
        pass
    assert model.writing.count == 7, "one credit is for half a window"


@pytest.mark.parametrize(("window", "step"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (65_536, 32_768)])
def test_values_that_a_credit_is_for(window: int, step: int) -> None:
    assert step_of(window) == step


def test_ids_are_those_of_the_specification() -> None:
    stream = StreamId(bytes.fromhex("000102030405060708090a0b0c0d0e0f"))
    for kind, number, tail in (
        (BEGUN, 0, "00" + 8 * "00"),
        (VALUE, 0, "01" + 8 * "00"),
        (VALUE, 258, "01" + "0201" + 6 * "00"),
        (CREDIT, 1, "02" + "01" + 7 * "00"),
    ):
        expected = hashlib.blake2b(stream + bytes.fromhex(tail), digest_size=16).digest()
        assert stream_object_id(stream, kind, number) == expected
    assert stream_object_id(stream, VALUE, 0).hex() == "bb2854e8046db29b0701212ee97f70aa"
    assert stream_object_id(stream, CREDIT, 1).hex() == "f1a95bdb3e16b6f6d58e9830c8e0dbad"


def test_a_streamed_function_travels() -> None:
    travelled = values.loads(bytes(values.join(values.dumps(Streamed(sum)))))
    assert type(travelled) is Streamed
    assert travelled.func is sum
