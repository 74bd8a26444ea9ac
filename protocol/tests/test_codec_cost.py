"""What hostile envelopes cost to read, in counted calls: a bounded number for each word that was sent (LIM-10)."""

from __future__ import annotations

import contextlib
import struct
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protocol.tests import strategies

from scaler_protocol import codec, codes
from scaler_protocol.codec.framing import WORD_BYTES
from scaler_protocol.codec.registry import registry
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import Bye, ClusterStatus, Error, Hello, ManagerStatus, Ping, Submit, WorkerStatus

CALLS = 3_000
CALLS_PER_WORD = 100
"""A struct of a list takes one word at least, and of the largest kind a hundred calls."""

STRANGERS = frozenset({Hello, Bye, Error})
LIST, STRUCTS = 1, 7


def calls_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What it returns, or the CodecError that it raises, and how many functions were called for that. The first call,
    in which a kind of message may be met for the first time and its plan is made, is not counted."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with contextlib.suppress(codec.CodecError):
        function(*arguments)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = function(*arguments)
    except codec.CodecError as error:
        found = error
    finally:
        sys.setprofile(before)
    return found, count


def words_of(envelope: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack("<Q", envelope[WORD_BYTES:])]


def joined(words: list[int]) -> bytes:
    return struct.pack(f"<II{len(words)}Q", 0, len(words), *words)


def list_pointer(at: int, target: int) -> int:
    """A pointer at one word to a list of structs, whose tag is at another."""
    return (target - at - 1 & 0x3FFFFFFF) << 2 | LIST | STRUCTS << 32


@st.composite
def hostile(draw: st.DrawFn) -> tuple[bytes, int]:
    """A message of any kind in which some words have become pointers to lists that claim very many structs, or to what
    another word points to. And how many payload frames its kind has."""
    envelope, *payload = codec.encode(draw(strategies.messages()), 3, 2)
    words = words_of(bytes(envelope))
    length = len(words)
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(1, length - 1))
        if draw(st.booleans()):
            # A tag: so many structs of so many words of data and of pointers.
            count = draw(st.sampled_from((1, 40, 900, 2_000, 65_536, 2**29 - 1)))
            words.append(count << 2 | draw(st.integers(0, 2)) << 32 | draw(st.integers(0, 2)) << 48)
            words[at] = list_pointer(at, len(words) - 1)
        else:
            other = draw(st.integers(1, length - 1))
            offset = words[other] >> 2 & 0x3FFFFFFF
            words[at] = words[other] & ~(0x3FFFFFFF << 2) | (offset + other - at & 0x3FFFFFFF) << 2
    return joined(words), len(payload)


def empty_structs(message: Any, field: str, count: int) -> bytes:
    """The envelope of this message whose list claims so many structs without words."""
    builder = registry().envelope.new_message()
    builder.seq = 9
    builder.message.init(message).init(field, 1)
    words = words_of(builder.to_bytes())
    at = next(at for at, word in enumerate(words) if word & 3 == LIST and word >> 32 & 7 == STRUCTS)
    tag = at + 1 + (words[at] >> 2 & 0x3FFFFFFF)
    words[at] &= (1 << 35) - 1
    words[tag] = count << 2
    return joined(words[: tag + 1])


@settings(max_examples=400, deadline=None)
@given(hostile())
@example((empty_structs("managerStatus", "units", 1_000), 0))
@example((empty_structs("clusterStatus", "workers", 1_000), 0))
def test_reading_costs_a_bounded_amount_for_each_word(sent: tuple[bytes, int]) -> None:
    envelope, payload_frames = sent
    _, calls = calls_of(codec.decode, envelope, [b""] * payload_frames)
    assert calls <= CALLS + CALLS_PER_WORD * len(envelope) // WORD_BYTES


@pytest.mark.parametrize(("message", "field"), [("managerStatus", "units"), ("workerStatus", "processors")])
def test_structs_without_words_count_as_a_word(message: str, field: str) -> None:
    found, calls = calls_of(codec.decode, empty_structs(message, field, 1_000), [])
    assert isinstance(found, codec.CodecError) and found.code == codes.BAD_ENVELOPE
    assert calls < 100, f"{calls} calls before it was refused"


@pytest.mark.parametrize("kind", (ManagerStatus, ClusterStatus, WorkerStatus, Submit))
def test_what_a_stranger_may_not_send_is_not_read(kind: type) -> None:
    name = kind.__name__[0].lower() + kind.__name__[1:]
    field = {"managerStatus": "units", "clusterStatus": "workers", "workerStatus": "processors"}.get(name)
    builder = registry().envelope.new_message()
    builder.seq, builder.ack = 9, 2
    union = builder.message.init(name)
    if field is not None:
        union.init(field, 500)
    payload = [b""] * registry().by_name[name].payload_frames
    builder.payloadFrames = len(payload)
    found, calls = calls_of(codec.decode, builder.to_bytes(), payload, codec.DEFAULT_LIMITS, STRANGERS)
    assert (found.seq, found.ack, type(found.message)) == (9, 2, kind)
    assert calls < 100, f"{calls} calls for a message that is not taken"


def test_what_may_be_sent_is_read() -> None:
    (envelope,) = codec.encode(Ping(7), 9)
    assert codec.decode(envelope, [], codec.DEFAULT_LIMITS, frozenset({Ping})).message == Ping(7)


def test_columns_of_many_lengths_leave_nothing_behind() -> None:
    """Each length has its own way of being cut, which must not be kept for all of them."""
    column = bytes(ID_BYTES * 50_000)
    assert split_ids(column) == (bytes(ID_BYTES),) * 50_000
    tracemalloc.start()
    try:
        for count in range(49_900, 50_000):
            assert len(split_ids(column[: ID_BYTES * count])) == count
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 8 * 1024 * 1024
