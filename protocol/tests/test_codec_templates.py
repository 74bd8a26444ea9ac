"""Lone tasks by template: the same bytes and the same verdicts as by the ordinary way, which is the measure here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol import codec, codes
from scaler_protocol.codec import envelope as envelope_module
from scaler_protocol.codec.registry import Registry
from scaler_protocol.codec.templates import MISSES, TEMPLATE_BYTES, TEMPLATES
from scaler_protocol.columns import join_u32
from scaler_protocol.messages import Dispatch, Results, Submit, TaskHeader

HEADER = TaskHeader(client=b"c" * 16, flags=codes.FLAG_PROFILING)
SUBMIT = Submit(TaskHeader(flags=1), b"f" * 16, b"t" * 16, b"value", join_u32((5,)))
DISPATCH = Dispatch(HEADER, b"f" * 16, b"t" * 16, b"value", join_u32((5,)))
RESULTS = Results(b"t" * 16, b"value", join_u32((5,)), profiles=bytes(24), credit=3)
WITH_INPUT = replace(
    DISPATCH, payload=b"i" * 16 + b"input", part_sizes=join_u32((16,)), part_kinds=bytes((codes.KIND_TASK,)),
    input_ids=b"i" * 16, input_sizes=join_u32((5,)),
)  # fmt: skip
WITH_KEY = replace(SUBMIT, key_sizes=b"\3", keys=b"key")
LONE = (SUBMIT, WITH_KEY, DISPATCH, RESULTS, WITH_INPUT, replace(RESULTS, statuses=b"\1", attempts=b"\2\0"))


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A codec that has no templates yet."""
    fresh = Registry()
    monkeypatch.setattr(envelope_module, "registry", lambda: fresh)
    yield fresh


def varied(message: Any, number: int) -> Any:
    """Another message of the same shape."""
    size = 5 + number % 3
    value = bytes((number % 256,)) * size
    task_id = number.to_bytes(16, "big")
    if isinstance(message, Results):
        return replace(message, ids=task_id, payload=value, sizes=join_u32((size,)), credit=number)
    if message.input_ids:
        return replace(message, ids=task_id, payload=b"i" * 16 + value, input_sizes=join_u32((size,)))
    if getattr(message, "keys", b""):
        message = replace(message, keys=b"%03d" % (number % 1000))
    return replace(message, ids=task_id, functions=task_id[::-1], payload=value, part_sizes=join_u32((size,)))


@pytest.mark.parametrize("message", LONE, ids=lambda message: type(message).__name__)
def test_written_as_the_ordinary_encoder_writes(known: Registry, message: Any) -> None:
    for number in range(20):
        one = varied(message, number)
        envelope, payload = codec.encode(one, number, 2**63 + number)
        assert envelope == known.build(one, number, 2**63 + number)
        assert payload is one.payload
    assert known.templates.written_count == 1


@pytest.mark.parametrize("message", LONE, ids=lambda message: type(message).__name__)
def test_read_as_it_was_written(known: Registry, message: Any) -> None:
    for number in range(20):
        one = varied(message, number)
        envelope = known.build(one, number, number + 1)
        assert codec.decode(envelope, [one.payload]) == codec.Envelope(number, number + 1, one)
    assert known.templates.read_count == 1


@pytest.mark.parametrize("message", LONE, ids=lambda message: type(message).__name__)
def test_changed_bytes_are_judged_as_by_the_ordinary_decoder(
    known: Registry, monkeypatch: pytest.MonkeyPatch, message: Any
) -> None:
    """Every byte of the envelope, and payloads that do not fit, with and without a template for the shape."""
    chance = random.Random(23)
    base = known.build(message, 3, 2)
    codec.decode(base, [message.payload])
    assert known.templates.read_count == 1
    for at in range(len(base)):
        changed = bytearray(base)
        changed[at] ^= 1 << chance.randrange(8)
        payload = message.payload[: chance.choice((None, None, -1))]
        by_template = verdict(bytes(changed), payload)
        with monkeypatch.context() as context:
            context.setattr(known.templates, "read", lambda envelope, payload: None)
            assert verdict(bytes(changed), payload) == by_template, f"byte {at}"


def verdict(envelope: bytes, payload: bytes) -> Any:
    try:
        return codec.decode(envelope, [payload])
    except codec.CodecError as error:
        return error.code, error.text, error.clause, error.seq


def test_a_payload_of_the_wrong_size_is_refused(known: Registry) -> None:
    envelope = known.build(DISPATCH, 1, 1)
    codec.decode(envelope, [DISPATCH.payload])
    with pytest.raises(codec.CodecError, match="the sizes add up to 5 bytes, but the payload has 6"):
        codec.decode(envelope, [DISPATCH.payload + b"!"])


def test_a_number_that_does_not_fit_is_our_mistake_and_says_so(known: Registry) -> None:
    codec.encode(RESULTS)
    assert known.templates.written_count == 1
    with pytest.raises(ValueError, match="this Results does not fit the schema"):
        codec.encode(replace(RESULTS, credit=-1))


def test_what_is_never_the_same_is_remembered_within_bounds(known: Registry) -> None:
    for number in range(2 * MISSES * TEMPLATES):
        message = replace(SUBMIT, header=TaskHeader(priority=number))
        envelope, payload = codec.encode(message, 1, 1)
        assert codec.decode(bytes(envelope), [payload]).message == message
    assert 0 < known.templates.written_count <= TEMPLATES
    assert 0 < known.templates.read_count <= TEMPLATES


def test_batches_of_more_are_none_of_its_business(known: Registry) -> None:
    two = replace(SUBMIT, ids=b"t" * 16 + b"u" * 16, part_sizes=join_u32((2, 3)))
    envelope, payload = codec.encode(two, 1, 1)
    assert codec.decode(bytes(envelope), [payload]).message == two
    assert known.templates.written_count == known.templates.read_count == 0


def test_a_task_with_very_many_inputs_is_none_either(known: Registry) -> None:
    """To make a template of the sum of ten thousand took 15 ms, and no other message is like it."""
    ids = [number.to_bytes(16, "big") for number in range(TEMPLATE_BYTES)]
    message = replace(
        DISPATCH, payload=b"value", input_ids=b"".join(ids), input_sizes=join_u32([0] * len(ids))
    )  # fmt: skip
    for _ in range(2 * MISSES):
        envelope, payload = codec.encode(message, 1, 1)
        assert codec.decode(bytes(envelope), [payload]).message == message
    assert known.templates.written_count == known.templates.read_count == 0


def test_another_layout_of_the_same_message_is_read(known: Registry) -> None:
    """Other encoders write out empty columns, which takes more or fewer bytes than ours."""
    message = Submit(TaskHeader(), b"f" * 16, b"t" * 16, b"x", part_sizes=join_u32([1]))
    ours, _ = codec.encode(message, 1, 0)
    longer = (2).to_bytes(4, "little") + b"".join(size.to_bytes(4, "little") for size in (len(ours) // 8 - 1, 0, 0))
    foreign = longer + bytes(ours)[8:]
    assert len(foreign) != len(ours)
    for _ in range(MISSES + 2):
        assert codec.decode(foreign, [b"x"]).message.ids == message.ids


def test_a_call_without_parts_takes_the_ordinary_way(known: Registry) -> None:
    message = Submit(TaskHeader(call_format=codes.CALL_SEPARATE), b"f" * 16, b"t" * 16, b"", b"", part_counts=b"\0\0")
    for _ in range(2 * MISSES):
        (envelope, payload) = codec.encode(message, 1, 0)
        assert codec.decode(bytes(envelope), [bytes(payload)]).message == message
    assert not known.templates.written_count and not known.templates.read_count
