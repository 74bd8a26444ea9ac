"""Messages that every decoder accepts and that every encoder of their sender's role can make."""

from __future__ import annotations

from dataclasses import replace

from conformance.tools.vector_cases import samples
from conformance.tools.vector_cases.case import Case, an_id, frames_of, name_of
from conformance.tools.vector_cases.samples import many_results, many_tasks, one_result, one_task

from scaler_protocol import codes
from scaler_protocol.codec import encode_task_error
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.messages import Cancel, Dispatch, Message, Ping, TaskError, TaskHeader


def valid_cases() -> list[Case]:
    small = [_case(message, "minimal", "As little as this kind can say", "FRM-6") for message in samples.SMALL]
    full = [_case(message, "full", "Every field is set, none to its default", "FRM-6") for message in samples.FULL]
    told = [_case(one, "what-became-of-tasks", "Fields that were added", "FRM-6", "MON-32") for one in samples.HISTORY]
    told += [_case(one, "functions", "What functions cost", "FRM-6", "WRK-54", "MON-38") for one in samples.FUNCTIONS]
    return [*small, *full, *told, *_envelopes(), *_tasks(), *_dispatches(), *_results(), *_task_errors()]


def _case(message: Message, name: str, note: str, *clauses: str) -> Case:
    return Case(name_of(message), name, frames_of(message), clauses, note)


def _envelopes() -> list[Case]:
    highest = 2**64 - 1
    return [
        Case("Ping", "seq-zero", frames_of(Ping(7), 0, 0), ("SES-1",), "Outside the sequence", seq=0),
        Case("Ping", "seq-highest", frames_of(Ping(7), highest, highest), ("FRM-6",), "64 bits, unsigned", seq=highest),
        _case(Cancel(an_id(1) * 2), "id-twice", "An id that comes twice in a Cancel breaks no clause", "CAN-1"),
    ]


def _tasks() -> list[Case]:
    written_out = one_task(
        function_indexes=join_u16([0]), part_counts=join_u16([1]), part_kinds=b"\0", dependency_counts=b"\0\0",
        task_flags=b"\0",
    )  # fmt: skip
    no_parts = one_task(header=TaskHeader(call_format=codes.CALL_RAW), payload=b"", part_sizes=b"", part_counts=b"\0\0")
    newer = one_task(header=TaskHeader(call_format=77, flags=2**31), task_flags=b"\x80")
    full = replace(samples.WORKED_SUBMIT, header=samples.FULL_HEADER, part_counts=join_u16([1, 2, 1]),
                   task_flags=bytes((0, 1, 0)), is_graph_sealed=False, key_sizes=bytes((6, 0, 64)),
                   keys="läd-1".encode() + b"k" * 64)  # fmt: skip
    many = one_task(functions=b"".join(an_id(i) for i in range(256)), function_indexes=join_u16([255]))
    return [
        _case(one_task(), "minimal", "One task, every column that may be empty is empty", "BAT-1", "BAT-4"),
        _case(written_out, "columns-written-out", "Means the same as minimal: defaults written out", "BAT-1"),
        _case(samples.WORKED_SUBMIT, "worked-example", "The worked example of chapter 8", "BAT-1", "BAT-6"),
        _case(full, "full", "Every field is set, none to its default, in the header too", "BAT-1", "BAT-13"),
        _case(many_tasks(1000), "thousand", "A thousand tasks of three functions", "BAT-4"),
        _case(no_parts, "no-parts", "A RAW call without arguments: no part, no byte", "BAT-6", "BAT-7"),
        _case(one_task(payload=b"", part_sizes=join_u32([0])), "empty-payload", "One part of no bytes", "FRM-2"),
        _case(newer, "unknown-open-values", "An unknown call format and unknown flags pass the decoder", "EVO-4"),
        _case(many, "many-functions", "The last function of a longer table, of which most are unused", "BAT-2"),
        _case(one_task(functions=an_id(1) * 2), "function-twice", "A function may be listed twice", "BAT-2"),
    ]


def _dispatches() -> list[Case]:
    minimal = Dispatch(**{name: getattr(one_task(), name) for name in one_task().__dataclass_fields__})
    worked = Dispatch(
        header=TaskHeader(client=samples.PEER, call_format=codes.CALL_RAW),
        functions=an_id(0xF0), ids=an_id(3), payload=an_id(1) + b"HI", part_sizes=join_u32([16]), part_kinds=b"\2",
        input_ids=an_id(1), input_sizes=join_u32([2]),
    )  # fmt: skip
    return [
        _case(minimal, "minimal", "One task, every column that may be empty is empty", "BAT-1", "BAT-4"),
        _case(worked, "worked-example", "The worked example of chapter 8", "BAT-1", "BAT-9"),
        _case(samples.FULL_DISPATCH, "full", "Every field is set; the second input is an object", "BAT-9", "SCH-3"),
        _case(
            samples.CHAIN_DISPATCH,
            "chain",
            "Two tasks ahead of their time; the last takes one input besides, and awaits a task of an earlier Dispatch",
            "SCH-36",
            "WRK-23",
            "BAT-9",
        ),
    ]


def _results() -> list[Case]:
    error = encode_task_error(samples.FULL_TASK_ERROR)
    failed = one_result(payload=error, sizes=join_u32([len(error)]), statuses=b"\1")
    canceled = one_result(payload=b"", sizes=join_u32([0]), statuses=b"\2", kinds=b"\2")
    stored = one_result(payload=an_id(0x99), sizes=join_u32([16]), kinds=b"\1")
    return [
        _case(one_result(), "minimal", "One success, every column that may be empty is empty", "BAT-1"),
        _case(one_result(statuses=b"\0", kinds=b"\0", attempts=b"\1\0"), "columns-written-out", "As minimal", "BAT-1"),
        _case(failed, "failed", "The value is a TaskError with every field set", "BAT-10"),
        _case(canceled, "canceled", "Without a value", "BAT-10", "BAT-11"),
        _case(stored, "object", "The value is stored; its id is here", "BAT-8"),
        _case(one_result(payload=b"", sizes=join_u32([0])), "empty-value", "A value of no bytes is a value", "BAT-11"),
        _case(samples.FULL_RESULTS, "full", "Every status, every kind, profiles and credit", "BAT-1"),
        _case(many_results(1000), "thousand", "A thousand results", "BAT-4"),
    ]


def _task_errors() -> list[Case]:
    """No message of its own: the value of a result that is not a success, in the same encoding."""
    minimal = encode_task_error(TaskError(codes.TASK_CANCELED))
    return [
        Case("TaskError", "minimal", (minimal,), ("BAT-10",), "Only a code"),
        Case("TaskError", "full", (encode_task_error(samples.FULL_TASK_ERROR),), ("BAT-10",), "Every field is set"),
    ]
