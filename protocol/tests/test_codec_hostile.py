"""Whatever bytes come, decode gives a message or raises CodecError, with a sentence for people in it."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.tests import strategies

from scaler_protocol import codec, codes
from scaler_protocol.codec.bounds import LIST_ITEMS_MAX, most_items
from scaler_protocol.codec.framing import SEGMENTS_MAX
from scaler_protocol.codec.registry import registry
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import (
    Cancel,
    Error,
    Hello,
    Limits,
    ManagerStatus,
    ManagerTarget,
    NameFunctions,
    Ping,
    ProcessorStatus,
    Put,
    Shutdown,
    TaskError,
    TaskLog,
    Unit,
    WorkerStatus,
)

SEQ_AT = 16
"""Where `seq` lies in an envelope as our encoder writes it: after the segment table and the root pointer."""
TAG_AT = SEQ_AT + 16 + 2


def refusal(envelope: bytes, payload: list[Any] | None = None, limits: Limits | None = None) -> codec.CodecError:
    with pytest.raises(codec.CodecError) as caught:
        codec.decode(envelope, payload or [], limits or codec.DEFAULT_LIMITS)
    return caught.value


def frame(message: Any, seq: int = 9) -> bytearray:
    return bytearray(codec.encode(message, seq)[0])


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, list[Any]]:
    """A valid message with some of its bytes changed, cut off or added."""
    envelope, *payload = codec.encode(draw(strategies.messages()), 3, 2)
    data = bytearray(envelope)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.sampled_from((0, 1, 2, 4, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    if draw(st.integers(0, 4)) == 0:
        data += draw(st.binary(max_size=16))
    return bytes(data), payload * draw(st.sampled_from((1, 1, 1, 0, 2)))


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_mutated_messages_raise_nothing_else(frames: tuple[bytes, list[Any]]) -> None:
    try:
        codec.decode(*frames)
    except codec.CodecError as error:
        expect_readable(error)


def test_many_random_mutations_raise_nothing_else() -> None:
    """Fewer kinds of change than above, but thousands of them, from a seed."""
    chance = random.Random(1729)
    base = [bytes(frame(message)) for message in (Ping(7), TaskLog(b"t" * 16, 1, "text"), Error(5, text="x" * 40))]
    refused = 0
    for _ in range(6000):
        data = bytearray(chance.choice(base))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            codec.decode(bytes(data), [])
        except codec.CodecError as error:
            expect_readable(error)
            refused += 1
    assert 1000 < refused < 6000, "the mutations hit nothing, or everything"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise_raises_nothing_else(noise: bytes) -> None:
    expect_readable(refusal(noise))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 100))
def test_unreadable_task_errors_raise_nothing_else(noise: bytes, at: int) -> None:
    data = bytearray(codec.encode_task_error(TaskError(500, "TypeError", "no", "trace", b"pickle")))
    data[at % len(data) : at % len(data) + len(noise)] = noise
    for hostile in (noise, bytes(data)):
        try:
            codec.decode_task_error(hostile)
        except codec.CodecError as error:
            expect_readable(error)


def expect_readable(error: codec.CodecError) -> None:
    assert error.code and error.clause
    assert error.text.isprintable() and "stack:" not in error.text and "0x" not in error.text
    assert "\n" not in str(error) and error.clause in str(error)


# ---------------------------------------------------------------- framing


@pytest.mark.parametrize(
    ("envelope", "part_of_text"),
    [
        (b"", "too few"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "segments"),
        (bytes(frame(Ping(7))[:-8]), "promises 56 bytes, but it has 48"),
        (bytes(frame(Ping(7))) + bytes(8), "promises 56 bytes, but it has 64"),
        (bytes(frame(Ping(7))) + b"x", "it has 57"),
        (struct.pack("<I", SEGMENTS_MAX) + bytes(8 * SEGMENTS_MAX), "claims 65 segments"),
        (struct.pack("<III", 9, 1, 1) + bytes(8), "within its table of 10 segments"),
        (struct.pack("<II", 0xFFFFFFFF, 1) + bytes(8), "claims 4294967296 segments"),
    ],
)
def test_what_is_no_envelope_is_refused(envelope: bytes, part_of_text: str) -> None:
    error = refusal(envelope)
    assert (error.code, error.seq) == (codes.BAD_ENVELOPE, 0)
    assert part_of_text in error.text


def test_an_unknown_member_is_told_with_its_seq() -> None:
    data = frame(Ping(7))
    struct.pack_into("<H", data, TAG_AT, 999)
    error = refusal(bytes(data))
    assert (error.code, error.clause, error.seq) == (codes.UNKNOWN_MESSAGE, "ERR-2", 9)


@pytest.mark.parametrize("payload", [[], [b"a", b"b"]])
def test_a_wrong_count_of_payload_frames_is_refused(payload: list[bytes]) -> None:
    data = frame(Put(1, b"o" * 16, b"p" * 16, 1, 0, b"a"))
    error = refusal(bytes(data), payload)
    assert (error.code, error.clause, error.seq) == (codes.BAD_FRAMING, "FRM-2", 9)


def test_a_promise_of_frames_that_the_kind_has_not_is_refused() -> None:
    data = frame(Ping(7))
    struct.pack_into("<H", data, SEQ_AT + 16, 1)
    assert refusal(bytes(data), [b"payload"]).code == codes.BAD_FRAMING


def test_limits_are_those_of_the_session() -> None:
    limits = Limits(payload_frame_bytes=4, envelope_bytes=200)
    error = refusal(bytes(frame(Put(1, b"o" * 16, b"p" * 16, 5, 0, b""))), [b"12345"], limits)
    assert (error.code, error.clause, error.seq) == (codes.TOO_LARGE, "FRM-5", 9)
    error = refusal(bytes(frame(Error(1, text="x" * 200))), [], limits)
    assert (error.code, error.clause, error.seq) == (codes.TOO_LARGE, "FRM-4", 0)
    codec.decode(bytes(frame(Put(1, b"o" * 16, b"p" * 16, 4, 0, b""))), [b"1234"], limits)


def test_an_id_of_another_length_is_refused() -> None:
    error = refusal(bytes(frame(TaskLog(b"t" * 15, 1, ""))))
    assert (error.code, error.seq) == (codes.BAD_ENVELOPE, 9)
    assert error.text == "taskId of TaskLog is 15 bytes long; it must be 16 bytes"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_seconds_are_finite_and_not_negative(number: float) -> None:
    assert "graceSeconds of Shutdown" in refusal(bytes(frame(Shutdown(number)))).text


def test_text_that_is_not_utf8_is_refused() -> None:
    data = bytes(frame(Error(1, text="?" * 20))).replace(b"?", b"\xff")
    assert refusal(data).code == codes.BAD_ENVELOPE


def test_lists_that_claim_more_than_they_have_cost_nothing() -> None:
    """A list of structs without words may claim 2^29 of them in eight bytes."""
    for count in (LIST_ITEMS_MAX + 1, 2**20, 2**29 - 1):
        data = frame(WorkerStatus())
        struct.pack_into("<II", data, len(data) - 8, 1, 7)  # `processors`, last in the struct: a list right behind
        data += struct.pack("<II", count << 2, 0)  # its tag: so many structs of no words
        struct.pack_into("<I", data, 4, (len(data) - 8) // 8)
        error = refusal(bytes(data))
        assert error.code == codes.BAD_ENVELOPE
        assert error.seq == 9


def test_lists_are_bounded_even_when_their_bytes_are_there() -> None:
    message = ManagerTarget(1, 1, stop=("",) * LIST_ITEMS_MAX)
    assert codec.decode(bytes(frame(message)), []).message == message
    error = refusal(bytes(frame(replace(message, stop=("",) * (LIST_ITEMS_MAX + 1)))))
    assert (error.code, error.clause, error.seq) == (codes.BAD_ENVELOPE, "FRM-8", 9)
    assert "a list has 65537 items" in error.text


@pytest.mark.parametrize(
    ("message", "field", "item"),
    [
        (Hello(1, 1, 1, b"p" * 16), "features", ""),
        (WorkerStatus(), "processors", ProcessorStatus(1, 1)),
        (ManagerStatus(), "units", Unit("u")),
        (NameFunctions(b"", ()), "names", "f"),
    ],
)
def test_lists_that_servers_read_are_shorter(message: Any, field: str, item: Any) -> None:
    most = most_items(type(message), field)
    ids = {"ids": b"i" * (ID_BYTES * most)} if field == "names" else {}
    longest = replace(message, **{field: (item,) * most}, **ids)
    assert codec.decode(bytes(frame(longest)), []).message == longest
    error = refusal(bytes(frame(replace(longest, **{field: (item,) * (most + 1)}))))
    assert (error.code, error.clause, error.seq) == (codes.BAD_ENVELOPE, "LIM-9", 9)


def test_pointers_to_the_same_bytes_cannot_multiply_them() -> None:
    """Two hundred Texts that are all one long Text would be far more than the envelope holds."""
    length = 8000
    builder = registry().envelope.new_message(5000)
    builder.seq = 9
    features = builder.message.init("hello").init("features", 201)
    features[0] = "x" * length
    data = bytearray(builder.to_bytes())
    size = struct.pack("<I", (length + 1) << 3 | 2)
    at = data.index(size) - 4
    (offset,) = struct.unpack_from("<i", data, at)
    for i in range(1, 201):
        data[at + 8 * i : at + 8 * (i + 1)] = struct.pack("<i", offset - 4 * i) + size
    error = refusal(bytes(data))
    assert (error.code, error.seq) == (codes.BAD_ENVELOPE, 9)
    assert error.text == "the envelope cannot be read: its pointers lead to more than it holds"


def test_the_longest_envelope_is_within_the_traversal_limit() -> None:
    message = Cancel(bytes(4 * 1024 * 1024 - 256))
    (envelope,) = codec.encode(message)
    assert codec.decode(bytes(envelope), []).message == message
