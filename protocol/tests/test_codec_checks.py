"""Batches that do not add up are refused as a whole, each for its own reason (BAT-2 and its neighbours)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol import codec, codes
from scaler_protocol.columns import BUCKET_ROW, FUNCTION_ROW, join_u16, join_u32
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Dispatch,
    Limits,
    Message,
    Put,
    Recall,
    Release,
    Results,
    Returned,
    StorageStatus,
    StorageStatusRequest,
    Submit,
    TaskHeader,
    WorkerStatus,
)


def task_id(number: int) -> bytes:
    return bytes((number,)) * 16


SUBMIT = Submit(
    # Three tasks: one with a value, one with an object and a value, one with the result of the first.
    header=TaskHeader(call_format=codes.CALL_SEPARATE),
    functions=task_id(0xF0) + task_id(0xF1),
    ids=task_id(1) + task_id(2) + task_id(3),
    payload=b"hi" + task_id(0x0B) + b"!" + task_id(1),
    part_sizes=join_u32([2, 16, 1, 16]),
    function_indexes=join_u16([0, 1, 0]),
    part_counts=join_u16([1, 2, 1]),
    part_kinds=bytes([0, 1, 0, 2]),
    dependency_counts=join_u16([0, 0, 1]),
    dependencies=task_id(1),
    task_flags=bytes([0, 1, 0]),
)
DISPATCH = Dispatch(
    header=TaskHeader(client=task_id(0xC), call_format=codes.CALL_SEPARATE),
    functions=task_id(0xF0),
    ids=task_id(3) + task_id(4),
    payload=task_id(1) + b"four" + b"HI",
    part_sizes=join_u32([16, 4]),
    part_kinds=bytes([2, 0]),
    attempts=join_u16([1, 2]),
    input_ids=task_id(1),
    input_sizes=join_u32([2]),
)
RESULTS = Results(
    ids=task_id(1) + task_id(2) + task_id(3),
    payload=b"HI" + task_id(0x99),
    sizes=join_u32([2, 16, 0]),
    attempts=join_u16([1, 1, 3]),
    statuses=bytes([0, 0, codes.STATUS_CANCELED]),
    kinds=bytes([0, 1, codes.KIND_NONE]),
    profiles=bytes(72),
)
STATUS = WorkerStatus(functions=FUNCTION_ROW.pack(task_id(0xF0), 1, 1), function_buckets=BUCKET_ROW.pack(0, 60, 1))


def refusal(message: Message, limits: Limits = codec.DEFAULT_LIMITS) -> codec.CodecError:
    envelope, *payload = codec.encode(message, 4)
    with pytest.raises(codec.CodecError) as caught:
        codec.decode(bytes(envelope), payload, limits)
    assert caught.value.seq == 4
    return caught.value


@pytest.mark.parametrize("batch", [SUBMIT, DISPATCH, RESULTS], ids=lambda batch: type(batch).__name__)
def test_the_batches_these_tests_spoil_are_right(batch: Message) -> None:
    envelope, payload = codec.encode(batch, 4)
    assert codec.decode(bytes(envelope), [payload]).message == batch


SPOILED: list[tuple[Message, str, dict[str, Any]]] = [
    (SUBMIT, "BAT-1", {"ids": b""}),
    (SUBMIT, "BAT-2", {"ids": SUBMIT.ids[:-1]}),
    (SUBMIT, "BAT-2", {"ids": SUBMIT.ids[:32] + task_id(1)}),
    (SUBMIT, "BAT-1", {"functions": b""}),
    (SUBMIT, "BAT-2", {"functions": SUBMIT.functions[:-1]}),
    (SUBMIT, "BAT-2", {"function_indexes": join_u16([0, 2, 0])}),
    (SUBMIT, "BAT-2", {"function_indexes": join_u16([0, 1])}),
    (SUBMIT, "BAT-2", {"function_indexes": b"\0"}),
    (SUBMIT, "BAT-2", {"part_counts": join_u16([1, 2])}),
    (SUBMIT, "BAT-2", {"part_counts": join_u16([1, 1, 1])}),
    (SUBMIT, "BAT-2", {"part_counts": b""}),
    (SUBMIT, "BAT-2", {"part_kinds": bytes([0, 1, 0])}),
    (SUBMIT, "BAT-2", {"part_kinds": bytes([0, 1, 3, 2])}),
    (SUBMIT, "BAT-8", {"part_kinds": bytes([1, 1, 0, 2])}),
    (SUBMIT, "BAT-2", {"part_sizes": b""}),
    (SUBMIT, "BAT-2", {"part_sizes": join_u32([2, 16, 2, 16])}),
    (SUBMIT, "BAT-2", {"payload": b"hi"}),
    (SUBMIT, "BAT-2", {"payload": b""}),
    (SUBMIT, "BAT-2", {"dependency_counts": join_u16([0, 1])}),
    (SUBMIT, "BAT-2", {"dependency_counts": join_u16([0, 1, 1])}),
    (SUBMIT, "BAT-2", {"dependencies": b""}),
    (SUBMIT, "SCH-30", {"dependencies": task_id(2)}),
    (SUBMIT, "SCH-30", {"dependency_counts": join_u16([0, 1, 0])}),
    (SUBMIT, "SCH-30", {"dependency_counts": b"", "dependencies": b""}),
    (SUBMIT, "BAT-2", {"task_flags": bytes(2)}),
    (SUBMIT, "BAT-2", {"key_sizes": bytes(2)}),
    (SUBMIT, "BAT-2", {"keys": b"k"}),
    (SUBMIT, "BAT-2", {"key_sizes": bytes([1, 0, 0]), "keys": b"kk"}),
    (SUBMIT, "BAT-13", {"key_sizes": bytes([0, 0, 65]), "keys": bytes(65)}),
    (SUBMIT, "BAT-5", {"attempts": join_u16([1, 1, 1])}),
    (SUBMIT, "BAT-5", {"input_ids": task_id(1)}),
    (SUBMIT, "BAT-7", {"header": TaskHeader(call_format=codes.CALL_SEPARATE, keywords=("a", "b"))}),
    (SUBMIT, "BAT-7", {"header": TaskHeader(), "part_counts": join_u16([0, 3, 1])}),
    (DISPATCH, "SCH-3", {"header": TaskHeader()}),
    (DISPATCH, "BAT-5", {"dependencies": task_id(1)}),
    (DISPATCH, "BAT-5", {"key_sizes": bytes(len(DISPATCH.ids) // 16)}),
    (DISPATCH, "BAT-2", {"attempts": join_u16([1])}),
    (DISPATCH, "BAT-2", {"attempts": join_u16([1, 0])}),
    (DISPATCH, "BAT-9", {"input_ids": task_id(5)}),
    (DISPATCH, "BAT-2", {"input_ids": task_id(1) * 2, "input_sizes": join_u32([2, 0])}),
    (DISPATCH, "BAT-2", {"input_ids": b"x"}),
    (DISPATCH, "BAT-2", {"input_sizes": b""}),
    (DISPATCH, "BAT-2", {"input_sizes": join_u32([3])}),
    (DISPATCH, "BAT-2", {"input_kinds": bytes([codes.KIND_TASK])}),
    (DISPATCH, "BAT-8", {"input_kinds": bytes([codes.KIND_OBJECT])}),
    (RESULTS, "BAT-1", {"ids": b""}),
    (RESULTS, "BAT-2", {"ids": task_id(1) * 3}),
    (RESULTS, "BAT-2", {"attempts": join_u16([1, 1])}),
    (RESULTS, "BAT-2", {"attempts": join_u16([1, 0, 1])}),
    (RESULTS, "BAT-2", {"statuses": bytes(2)}),
    (RESULTS, "BAT-2", {"statuses": bytes([0, 0, 7])}),
    (RESULTS, "BAT-2", {"kinds": bytes([0, 1, 3])}),
    (RESULTS, "BAT-8", {"kinds": bytes([1, 1, 2])}),
    (RESULTS, "BAT-2", {"kinds": bytes([2, 1, 2]), "statuses": bytes([2, 0, 2])}),
    (RESULTS, "BAT-11", {"statuses": b""}),
    (RESULTS, "BAT-2", {"sizes": join_u32([2, 16])}),
    (RESULTS, "BAT-2", {"sizes": join_u32([2, 16, 1])}),
    (RESULTS, "BAT-2", {"profiles": bytes(71)}),
    (RESULTS, "BAT-2", {"payload": memoryview(b"short")}),
]


@pytest.mark.parametrize(
    ("batch", "clause", "change"), SPOILED, ids=lambda x: "-".join(x) if isinstance(x, dict) else type(x).__name__
)
def test_a_batch_that_does_not_add_up_is_refused(batch: Any, clause: str, change: dict[str, Any]) -> None:
    error = refusal(replace(batch, **change))
    assert (error.code, error.clause) == (codes.BAD_BATCH, clause), error.text
    assert error.text.endswith("nothing of the batch was accepted")


def test_more_tasks_than_agreed_are_too_large() -> None:
    for batch in (SUBMIT, RESULTS):
        error = refusal(batch, Limits(batch_tasks=2))
        assert (error.code, error.clause) == (codes.TOO_LARGE, "BAT-4")


def test_sizes_that_overflow_32_bits_together_are_no_way_around_the_sum() -> None:
    batch = replace(SUBMIT, part_sizes=join_u32([2**32 - 1, 16, 1, 16]))
    assert refusal(batch).clause == "BAT-2"


def test_what_breaks_no_clause_passes() -> None:
    """Robust where the spec leaves freedom: unknown flags and formats, functions twice, ids twice in a Cancel."""
    submit = replace(
        SUBMIT, header=TaskHeader(call_format=77, flags=1 << 31), task_flags=bytes([255] * 3), functions=task_id(9) * 2
    )
    twice = task_id(1) * 2
    fine = [
        submit,
        Cancel(twice),
        Recall(twice),
        Returned(b""),
        CancelReply(task_id(1), bytes([200])),
        Release(0, task_id(1), twice),
        StorageStatusRequest(0, task_id(1) * 1_000),
        StorageStatus(0, owner_objects=bytes(16), owner_bytes=bytes(16)),
        StorageStatus(0, owner_objects=bytes(16), owner_bytes=bytes(16), owner_user_bytes=bytes(16)),
    ]
    for message in fine:
        envelope, *payload = codec.encode(message)
        assert codec.decode(bytes(envelope), payload).message == message


@pytest.mark.parametrize(
    "message",
    [
        Cancel(b"x"),
        Recall(b"x" * 17),
        Returned(b"x"),
        Release(1, task_id(1), b"x"),
        CancelReply(b"x"),
        CancelReply(task_id(1), bytes(2)),
        StorageStatusRequest(1, task_id(1) * 1_001),
        StorageStatusRequest(1, b"x" * 17),
        StorageStatus(1, owner_objects=bytes(8)),
        StorageStatus(1, owner_objects=bytes(9), owner_bytes=bytes(9)),
        StorageStatus(1, owner_objects=bytes(16), owner_bytes=bytes(16), owner_user_bytes=bytes(8)),
        Put(1, b"short", task_id(1), 0, 0, b""),
    ],
    ids=lambda message: type(message).__name__,
)
def test_ids_that_are_not_whole_are_unreadable(message: Message) -> None:
    error = refusal(message)
    assert (error.code, error.clause) == (codes.BAD_ENVELOPE, "FRM-8")


@pytest.mark.parametrize(
    "spoiled",
    (
        {"samples": bytes(55)},
        {"functions": bytes(33)},
        {"functions": bytes(32 * 258), "function_buckets": b""},
        {"functions": b""},
        {"function_buckets": bytes(7)},
        {"function_buckets": BUCKET_ROW.pack(1, 0, 1)},
        {"function_buckets": BUCKET_ROW.pack(0, 61, 1)},
        {"function_buckets": BUCKET_ROW.pack(0, 60, 1) * 62},
    ),
)
def test_rows_of_a_status_that_do_not_add_up_are_unreadable(spoiled: dict[str, bytes]) -> None:
    error = refusal(replace(STATUS, **spoiled))  # type: ignore[arg-type]
    assert (error.code, error.clause) == (codes.BAD_ENVELOPE, "FRM-8")


def test_records_can_be_checked_without_bytes() -> None:
    codec.check(SUBMIT, Limits())
    with pytest.raises(codec.CodecError):
        codec.check(replace(SUBMIT, payload=b""), Limits())
