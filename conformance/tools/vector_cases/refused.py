"""What a decoder refuses, with which code, and what of it can still be read."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from conformance.tools.vector_cases import samples
from conformance.tools.vector_cases.case import Case, an_id, frames_of, name_of
from conformance.tools.vector_cases.layouts import (
    PING_AT_ONCE,
    PING_TAG,
    ROOT,
    envelope_words,
    far_pointer,
    stream,
    struct_pointer,
    unknown_member,
    words,
)
from conformance.tools.vector_cases.samples import one_result, one_task

from scaler_protocol import codes
from scaler_protocol.codec import encode_task_error
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Error,
    Message,
    Ping,
    Put,
    Shutdown,
    StorageStatusRequest,
    TaskHeader,
    TaskLog,
)

PING = ROOT + envelope_words(PING_TAG)


def refused_cases() -> list[Case]:
    return [
        *_noise(),
        *_pointers(),
        *_frames(),
        *_limits(),
        *_fields(),
        *_submits(),
        *_dispatches(),
        *_results(),
        _task_error(),
    ]


def _bad(message: str, name: str, frames: tuple[bytes, ...], code: int, clause: str, note: str, seq: int = 5) -> Case:
    return Case(message, name, frames, (clause,), note, code, is_encoded=False, seq=seq)


# ---------------------------------------------------------------- envelopes


def _noise() -> list[Case]:
    ping = stream(PING + PING_AT_ONCE)
    noise = struct.pack("<16I", *(pow(3, i, 2**32 - 5) for i in range(1, 17)))
    http = b"GET / HTTP/1.1\r\nHost: scheduler:2345\r\nAccept: */*\r\n\r\n"
    zeros = bytes(56)
    unreadable = [
        ("empty", b"", "FRM-6", "No byte at all"),
        ("short", ping[:4], "FRM-6", "Less than a segment table"),
        ("truncated", ping[:-8], "FRM-6", "The last word is missing"),
        ("truncated-mid-word", ping[:-3], "FRM-6", "Cut within a word"),
        ("trailing-word", ping + bytes(8), "FRM-6", "A word follows the last segment"),
        ("trailing-byte", ping + b"\0", "FRM-6", "A byte follows the last segment"),
        ("twice", ping + ping, "FRM-6", "Two messages in one frame"),
        ("noise", noise, "FRM-6", "Arbitrary bytes"),
        ("http", http, "FRM-7", "A web browser has found the port"),
        ("segments-65", stream(PING + PING_AT_ONCE, *[b""] * 64), "FRM-7", "One segment too many"),
        ("segments-claimed", struct.pack("<4I", 2**32 - 1, 1, 1, 1), "FRM-7", "Claims 2^32 segments"),
        ("table-cut", struct.pack("<4I", 62, 1, 1, 1), "FRM-6", "Ends within its table of segments"),
        ("zeros", zeros, "FRM-6", "One segment of no words, then zeros"),
    ]
    cases = [
        _bad("Envelope", name, (data,), codes.BAD_ENVELOPE, clause, note, seq=0)
        for name, data, clause, note in unreadable
    ]
    unknown = _bad("Envelope", "unknown-member", (unknown_member(),), codes.UNKNOWN_MESSAGE, "ERR-2",
                   "A kind of message from a newer version: seq is readable")  # fmt: skip
    return [*cases, unknown]


def _pointers() -> list[Case]:
    outside = stream(PING + words(struct_pointer(1000, 1, 0), 7))
    not_utf8 = frames_of(Error(1, text="????"))[0].replace(b"????", b"\xff\xfe\xfd\xfc")
    no_nul = frames_of(Error(1, text="????"))[0].replace(b"????\0", b"?????")
    task_log = frames_of(TaskLog(an_id(1), 1, "text"))[0]
    as_list = bytearray(stream(PING + PING_AT_ONCE))
    as_list[8 * 5] |= 1
    return [
        _bad("Ping", "pointer-outside", (outside,), codes.BAD_ENVELOPE, "FRM-8", "The member lies beyond the segment"),
        _bad("Ping", "far-pointer-outside", (stream(PING + words(far_pointer(9, 0))),), codes.BAD_ENVELOPE, "FRM-8",
             "A far pointer into a segment that is not there"),
        _bad("Ping", "far-pointer-to-itself", (stream(PING + words(far_pointer(0, 4))),), codes.BAD_ENVELOPE, "FRM-8",
             "A far pointer whose pad is itself"),
        _bad("Ping", "list-for-struct", (bytes(as_list),), codes.BAD_ENVELOPE, "FRM-8", "A list for a struct"),
        _bad("Error", "text-not-utf8", (not_utf8,), codes.BAD_ENVELOPE, "FRM-8", "Text is UTF-8"),
        _bad("Error", "text-without-nul", (no_nul,), codes.BAD_ENVELOPE, "FRM-8", "Text ends with a NUL"),
        _bad("TaskLog", "id-short", (frames_of(TaskLog(an_id(1)[:15], 1, "text"))[0],), codes.BAD_ENVELOPE, "FRM-8",
             "An id of 15 bytes"),
        _bad("TaskLog", "id-missing", (frames_of(TaskLog(b"", 1, "text"))[0],), codes.BAD_ENVELOPE, "FRM-8",
             "An id that must be there is not"),
        _bad("TaskLog", "payload-on-none", (task_log, b""), codes.BAD_FRAMING, "FRM-2", "A frame too many, if empty"),
    ]  # fmt: skip


def _frames() -> list[Case]:
    cases = []
    for message in (one_task(), one_result(), Put(1, an_id(0x0B), an_id(0xC1), 4, 0, b"four")):
        envelope, payload = frames_of(message)
        kind = name_of(message)
        cases += [
            _bad(kind, "no-payload", (envelope,), codes.BAD_FRAMING, "FRM-2", "The payload frame is missing"),
            _bad(kind, "two-payloads", (envelope, payload, payload), codes.BAD_FRAMING, "FRM-2", "One frame too many"),
        ]
    promised = stream(ROOT + envelope_words(PING_TAG, payload_frames=1) + PING_AT_ONCE)
    return [
        *cases,
        _bad("Ping", "payload-promised", (promised, b""), codes.BAD_FRAMING, "FRM-2", "A Ping has no payload"),
        _bad("Ping", "payload-promised-none", (promised,), codes.BAD_FRAMING, "FRM-2", "Promised, and not there"),
    ]


def _limits() -> list[Case]:
    two = one_task(ids=an_id(1) + an_id(2), payload=b"", part_sizes=join_u32([0, 0]))
    results = one_result(ids=an_id(1) + an_id(2), payload=b"", sizes=join_u32([0, 0]))
    put = frames_of(Put(1, an_id(0x0B), an_id(0xC1), 5, 0, b"12345"))
    return [
        Case("Submit", "too-many-tasks", frames_of(two), ("BAT-4",), "Two tasks where one was agreed",
             codes.TOO_LARGE, False, limits={"batchTasks": 1}),
        Case("Results", "too-many-tasks", frames_of(results), ("BAT-4",), "Two results where one was agreed",
             codes.TOO_LARGE, False, limits={"batchTasks": 1}),
        Case("Put", "payload-too-large", put, ("FRM-5",), "Five bytes where four were agreed",
             codes.TOO_LARGE, False, limits={"payloadFrameBytes": 4}),
        Case("Ping", "envelope-too-large", frames_of(Ping(7)), ("FRM-4",), "56 bytes where 55 were agreed",
             codes.TOO_LARGE, False, seq=0, limits={"envelopeBytes": 55}),
    ]  # fmt: skip


def _fields() -> list[Case]:
    unreadable: list[tuple[Message, str, str]] = [
        (Shutdown(float("nan")), "nan", "Seconds are a finite number"),
        (Shutdown(float("inf")), "infinite", "Seconds are a finite number"),
        (Shutdown(-1.0), "negative", "Seconds are not negative"),
        (Cancel(an_id(1) + b"x"), "ids-cut", "Seventeen bytes are not whole ids"),
        (StorageStatusRequest(7, an_id(1)[:15]), "owners-cut", "Fifteen bytes are no whole id"),
        (CancelReply(an_id(1), bytes(2)), "outcomes-too-long", "Two outcomes for one id"),
    ]
    return [
        _bad(name_of(message), name, frames_of(message), codes.BAD_ENVELOPE, "FRM-8", note)
        for message, name, note in unreadable
    ]


# ---------------------------------------------------------------- batches


def _spoiled(batch: Any, rows: list[tuple[str, str, dict[str, Any], str]]) -> list[Case]:
    return [
        _bad(name_of(batch), name, frames_of(replace(batch, **change)), codes.BAD_BATCH, clause, note)
        for name, clause, change, note in rows
    ]


def _submits() -> list[Case]:
    one, three = one_task(), samples.WORKED_SUBMIT
    keywords = TaskHeader(call_format=codes.CALL_SEPARATE, keywords=("a", "b"))
    return [
        *_spoiled(one, [
            ("no-tasks", "BAT-1", {"ids": b"", "part_sizes": b"", "payload": b""}, "A batch of nothing"),
            ("no-functions", "BAT-1", {"functions": b""}, "No function to call"),
            ("functions-cut", "BAT-2", {"functions": an_id(1)[:15]}, "The table is not whole"),
            ("ids-cut", "BAT-2", {"ids": an_id(1) + b"x"}, "The ids are not whole"),
            ("payload-short", "BAT-2", {"payload": b"cal"}, "One byte less than the sizes say"),
            ("payload-long", "BAT-2", {"payload": b"calls"}, "One byte more than the sizes say"),
            ("size-huge", "BAT-2", {"part_sizes": join_u32([2**32 - 1])}, "4 GiB are promised"),
            ("keywords-without-parts", "BAT-7", {"header": keywords}, "Two names for one part"),
            ("packed-without-part", "BAT-7", {"part_counts": b"\0\0", "part_sizes": b"", "payload": b""}, "No call"),
            ("attempts", "BAT-5", {"attempts": b"\1\0"}, "A column of Dispatch"),
            ("inputs", "BAT-5", {"input_ids": an_id(1), "input_sizes": join_u32([0])}, "Columns of Dispatch"),
            ("awaited", "BAT-5", {"awaited_counts": join_u16([0])}, "A column of Dispatch"),
            ("key-long", "BAT-13", {"key_sizes": b"\x41", "keys": b"k" * 65}, "A key of 65 bytes"),
            ("keys-unsized", "BAT-2", {"keys": b"k"}, "One there, none promised"),
            ("kind-unknown", "BAT-2", {"part_kinds": b"\3"}, "No such kind of part"),
            ("object-size", "BAT-8", {"part_kinds": b"\1"}, "An object id of four bytes"),
            ("task-without-dependency", "SCH-30",
             {"part_kinds": b"\2", "part_sizes": join_u32([16]), "payload": an_id(7)}, "A result not waited for"),
        ]),
        *_spoiled(three, [
            ("id-twice", "BAT-2", {"ids": an_id(1) + an_id(2) + an_id(1)}, "The first and the third are one"),
            ("function-index", "BAT-2", {"function_indexes": join_u16([0, 2, 0])}, "Two functions are 0 and 1"),
            ("function-indexes-short", "BAT-2", {"function_indexes": join_u16([0, 1])}, "Two of three"),
            ("part-counts-long", "BAT-2", {"part_counts": join_u16([1, 2, 1, 0])}, "Four for three"),
            ("part-counts-disagree", "BAT-2", {"part_counts": join_u16([1, 1, 1])}, "Three parts, four sizes"),
            ("part-kinds-short", "BAT-2", {"part_kinds": bytes((0, 1, 0))}, "Three of four"),
            ("part-sizes-odd", "BAT-2", {"part_sizes": three.part_sizes[:-1]}, "Not whole numbers"),
            ("dependency-counts-disagree", "BAT-2", {"dependency_counts": join_u16([0, 1, 1])}, "Two, and one there"),
            ("dependencies-uncounted", "BAT-2", {"dependency_counts": b""}, "One there, none promised"),
            ("task-flags-short", "BAT-2", {"task_flags": b"\1"}, "One of three"),
            ("key-sizes-short", "BAT-2", {"key_sizes": b"\1\1", "keys": b"ab"}, "Two of three"),
            ("keys-disagree", "BAT-2", {"key_sizes": b"\1\0\1", "keys": b"abc"}, "Three bytes, and two promised"),
            ("dependency-of-another", "SCH-30", {"dependency_counts": join_u16([1, 0, 0])}, "One waits, another reads"),
        ]),
    ]  # fmt: skip


def _dispatches() -> list[Case]:
    return _spoiled(samples.FULL_DISPATCH, [
        ("no-client", "SCH-3", {"header": TaskHeader()}, "Whose tasks are these?"),
        ("attempt-zero", "BAT-2", {"attempts": join_u16([1, 0])}, "Attempts are counted from 1"),
        ("attempts-short", "BAT-2", {"attempts": join_u16([1])}, "One of two"),
        ("dependencies", "BAT-5", {"dependency_counts": join_u16([0, 0])}, "A column of Submit"),
        ("keys", "BAT-5", {"key_sizes": b"\1\0", "keys": b"k"}, "Columns of Submit"),
        ("input-missing", "BAT-9", {"input_ids": an_id(1) + an_id(9)}, "A part names a task whose result is not here"),
        ("input-twice", "BAT-2", {"input_ids": an_id(1) * 2}, "Which of the two?"),
        ("input-kind-unknown", "BAT-2", {"input_kinds": bytes((0, 2))}, "An input is bytes or an object"),
        ("input-sizes-short", "BAT-2", {"input_sizes": join_u32([2])}, "One of two"),
        ("input-object-size", "BAT-8", {"input_kinds": bytes((1, 1))}, "An object id of two bytes"),
    ]) + _spoiled(samples.CHAIN_DISPATCH, [
        ("awaited-by-another", "BAT-9", {"awaited_counts": join_u16([1, 1, 1])}, "One awaits, another takes"),
        ("awaited-counts-short", "BAT-2", {"awaited_counts": join_u16([0, 3])}, "Two of three"),
        ("awaited-counts-disagree", "BAT-2", {"awaited_counts": join_u16([0, 1, 1])}, "Two, and three there"),
        ("awaited-uncounted", "BAT-2", {"awaited_counts": b""}, "Three there, none promised"),
    ])  # fmt: skip


def _results() -> list[Case]:
    return _spoiled(samples.FULL_RESULTS, [
        ("no-results", "BAT-1", {"ids": b"", "sizes": b"", "payload": b""}, "A batch of nothing"),
        ("id-twice", "BAT-2", {"ids": an_id(1) * 9}, "A task ends once"),
        ("status-unknown", "BAT-2", {"statuses": bytes((0, 0, 2, 1, 2, 3, 4, 5, 7))}, "The set of statuses is closed"),
        ("statuses-short", "BAT-2", {"statuses": bytes((0, 0, 2))}, "Three of nine"),
        ("kind-unknown", "BAT-2", {"kinds": bytes((0, 1, 3, 0, 0, 0, 0, 0, 0))}, "No such kind of result"),
        ("object-size", "BAT-8", {"kinds": bytes((1, 1, 2, 0, 0, 0, 0, 0, 0))}, "An object id of two bytes"),
        ("none-with-bytes", "BAT-2", {"kinds": bytes((0, 1, 2, 2, 0, 0, 0, 0, 0))}, "No value, of one byte"),
        ("success-without-value", "BAT-11", {"statuses": b""}, "A success has a value"),
        ("sizes-short", "BAT-2", {"sizes": join_u32([2, 16])}, "Two of nine"),
        ("sizes-disagree", "BAT-2", {"sizes": join_u32([2, 16, 0, 1, 1, 1, 1, 1, 2])}, "A byte more than there is"),
        ("attempt-zero", "BAT-2", {"attempts": join_u16([0] * 9)}, "Attempts are counted from 1"),
        ("profiles-cut", "BAT-2", {"profiles": bytes(24)}, "One of nine"),
    ])  # fmt: skip


def _task_error() -> Case:
    cut = encode_task_error(samples.FULL_TASK_ERROR)[:-8]
    return _bad("TaskError", "truncated", (cut,), codes.BAD_ENVELOPE, "FRM-6", "The last word is missing", seq=0)
