"""Every message goes out and comes back as it was, and nothing of pycapnp comes with it."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol.tests import strategies

from scaler_protocol import codec
from scaler_protocol.canonical import (
    from_canonical,
    task_error_from_canonical,
    task_error_to_canonical,
    to_canonical,
)
from scaler_protocol.codec.registry import registry
from scaler_protocol.messages import Ping, Put, Submit, TaskError, TaskHeader, TaskLog

PLAIN_TYPES = frozenset((int, float, bool, str, bytes))
numbers = st.integers(0, 2**64 - 1)


def expect_plain(value: Any) -> None:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            expect_plain(getattr(value, field.name))
    elif type(value) is tuple:
        for item in value:
            expect_plain(item)
    else:
        assert type(value) in PLAIN_TYPES, type(value)


@pytest.mark.parametrize("record", strategies.MESSAGE_TYPES, ids=lambda record: record.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_message_comes_back_as_it_was(record: type, data: st.DataObject) -> None:
    message = data.draw(strategies.of(record))
    seq, ack = data.draw(numbers), data.draw(numbers)
    envelope, *payload = codec.encode(message, seq, ack)
    decoded = codec.decode(bytes(envelope), payload)
    assert decoded == codec.Envelope(seq, ack, message)
    assert type(decoded.message) is record
    expect_plain(decoded.message)


@settings(max_examples=100, deadline=None)
@given(strategies.messages())
def test_canonical_form_is_one_form_for_one_meaning(message: Any) -> None:
    document = to_canonical(codec.Envelope(1, 2, message))
    again = from_canonical(document)
    assert to_canonical(again) == document
    # What came through the canonical form is a message like any other.
    envelope, *payload = codec.encode(again.message, again.seq, again.ack)
    assert to_canonical(codec.decode(bytes(envelope), payload)) == document


@settings(max_examples=50, deadline=None)
@given(strategies.task_errors())
def test_task_errors_come_back_as_they_were(error: TaskError) -> None:
    decoded = codec.decode_task_error(codec.encode_task_error(error))
    assert decoded == error
    expect_plain(decoded)
    assert task_error_from_canonical(task_error_to_canonical(error)) == error


def test_a_payload_is_handed_on_and_never_copied() -> None:
    payload = bytearray(b"value")
    message = Put(1, b"o" * 16, b"p" * 16, 5, 0, memoryview(payload))
    envelope, frame = codec.encode(message, 1)
    assert frame is message.payload
    decoded = codec.decode(bytes(envelope), [frame])
    assert isinstance(decoded.message, Put)
    assert decoded.message.payload is frame


@pytest.mark.parametrize("form", ("B", "i", ("i", (3, 2)), ("B", (24, 1))), ids=str)
def test_a_frame_is_as_long_as_its_bytes(form: Any) -> None:
    """Whatever the items of a view are that somebody sends: nobody behind the codec asks again."""
    items = memoryview(bytes(range(24)))
    payload = items.cast(form) if type(form) is str else items.cast(*form)
    _, frame = codec.encode(Put(1, b"o" * 16, b"p" * 16, 24, 0, payload), 1, 1)
    assert (len(frame), bytes(frame), bytes(memoryview(frame)[20:])) == (24, bytes(range(24)), bytes(range(20, 24)))


def test_lone_surrogates_are_sent_as_escapes() -> None:
    (envelope,) = codec.encode(TaskLog(b"t" * 16, 1, "file \udc80"), 1)
    assert codec.decode(bytes(envelope), []).message == TaskLog(b"t" * 16, 1, "file \\udc80")


def test_a_record_that_does_not_fit_is_our_mistake_and_says_so() -> None:
    with pytest.raises(ValueError, match="this Ping does not fit the schema"):
        codec.encode(Ping(-1))


@pytest.mark.parametrize("record", strategies.MESSAGE_TYPES, ids=lambda record: record.__name__)
def test_defaults_of_records_are_those_of_the_schema(record: type) -> None:
    """What holds the schema's default is not written, so a record with another default would change on the way."""
    plan = registry().by_record[record].plan
    for field in plan.fields if plan else ():
        own = record.__dataclass_fields__[field.name]  # type: ignore[attr-defined]
        default = own.default_factory() if own.default_factory is not dataclasses.MISSING else own.default
        assert default in (dataclasses.MISSING, field.default), field.name


def test_equal_headers_are_one_object() -> None:
    envelope, payload = codec.encode(_submit(TaskHeader(priority=3)), 1)
    first, second = (codec.decode(bytes(envelope), [payload]).message for _ in range(2))
    assert first.header is second.header  # type: ignore[union-attr]


def test_headers_with_much_text_are_not_kept() -> None:
    header = TaskHeader(call_format=1, keywords=("k" * 2000,))
    envelope, payload = codec.encode(_submit(header), 1)
    first, second = (codec.decode(bytes(envelope), [payload]).message for _ in range(2))
    assert first.header == second.header == header  # type: ignore[union-attr]
    assert first.header is not second.header  # type: ignore[union-attr]


def _submit(header: TaskHeader) -> Submit:
    return Submit(header, b"f" * 16, b"t" * 16, b"", struct.pack("<I", 0))
