"""Encodings that are legal and unusual, put together by hand. Only decoders meet them."""

from __future__ import annotations

import struct
from typing import Any

from conformance.tools.vector_cases import samples
from conformance.tools.vector_cases.case import Case

from scaler_protocol.codec.registry import registry

PING_TAG, RETURNED_TAG = 4, 18
"""Positions in the union, not `@` numbers."""


def stream(*segments: bytes) -> bytes:
    """Segments behind their table."""
    table = struct.pack(f"<{len(segments) + 1}I", len(segments) - 1, *(len(segment) // 8 for segment in segments))
    return table + bytes(-len(table) % 8) + b"".join(segments)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def struct_pointer(offset: int, data_words: int, pointers: int) -> int:
    return (offset << 2) | data_words << 32 | pointers << 48


def far_pointer(segment: int, word: int, *, is_double: bool = False) -> int:
    return 2 | is_double << 2 | word << 3 | segment << 32


def envelope_words(tag: int, payload_frames: int = 0, seq: int = 5, ack: int = 3) -> bytes:
    """The data section of an Envelope: three words."""
    return words(seq, ack, payload_frames | tag << 16)


ROOT = words(struct_pointer(0, 3, 1))
PING_AT_ONCE = words(struct_pointer(0, 1, 0), 7)


def layout_cases() -> list[Case]:
    return [*_segments(), *_other_versions(), _many_segments(), _member_left_out()]


def _segments() -> list[Case]:
    ping = ROOT + envelope_words(PING_TAG)
    return [
        _ping("by-hand", stream(ping + PING_AT_ONCE), "The example of chapter 1, byte for byte", "FRM-6"),
        _ping("spare-space", stream(ping + PING_AT_ONCE + words(0, 0, 0)), "Unused words end the segment", "FRM-6"),
        _ping("empty-segment", stream(ping + PING_AT_ONCE, b""), "The second segment is empty", "FRM-7"),
        _ping("segments-64", stream(ping + PING_AT_ONCE, *[b""] * 63), "As many segments as there may be", "FRM-7"),
        _ping(
            "far-pointer",
            stream(ping + words(far_pointer(1, 0)), words(struct_pointer(0, 1, 0), 7)),
            "The member lies in the second segment, behind a far pointer",
            "FRM-7",
        ),
        _ping(
            "double-far-pointer",
            stream(
                ping + words(far_pointer(1, 0, is_double=True)),
                words(far_pointer(2, 0), struct_pointer(0, 1, 0)),
                words(7),
            ),
            "The pad lies in a third segment: a far pointer and a tag",
            "FRM-7",
        ),
        _ping(
            "root-far-pointer",
            stream(words(far_pointer(1, 0)), ping + PING_AT_ONCE),
            "Even the root pointer may be far",
            "FRM-7",
        ),
    ]


def _other_versions() -> list[Case]:
    return [
        _ping(
            "newer-field",
            stream(ROOT + envelope_words(PING_TAG) + words(struct_pointer(0, 2, 1), 7, 99, 0)),
            "Ping has a further number and pointer that version 1.0 does not know",
            "EVO-2",
        ),
        _ping(
            "newer-envelope",
            stream(
                words(struct_pointer(0, 4, 2)) + envelope_words(PING_TAG) + words(99, struct_pointer(1, 1, 0), 0, 7)
            ),
            "The envelope itself has grown",
            "EVO-2",
        ),
        _ping(
            "older-sender",
            stream(ROOT + envelope_words(PING_TAG) + words(struct_pointer(-1 & 0x3FFFFFFF, 0, 0))),
            "A struct of no words: every field has its default",
            "EVO-2",
        ),
    ]


def _many_segments() -> Case:
    return Case(
        "Submit",
        "many-segments",
        _in_many_segments(),
        ("FRM-7",),
        "The worked example, with each of its columns in a segment of its own",
        is_encoded=False,
    )


def _ping(name: str, envelope: bytes, note: str, *clauses: str) -> Case:
    return Case("Ping", name, (envelope,), clauses, note, is_encoded=False)


def _in_many_segments() -> tuple[bytes, ...]:
    """pycapnp, told to allocate no more than it needs at each step."""
    known = registry()
    member = known.by_record[samples.Submit]
    builder: Any = known.envelope.new_message(1, lambda least_words: bytearray(8 * least_words))
    builder.seq, builder.ack, builder.payloadFrames = 5, 3, 1
    assert member.plan is not None
    member.plan.write(builder.message.init("submit"), samples.WORKED_SUBMIT)
    return bytes(builder.to_bytes()), bytes(samples.WORKED_SUBMIT.payload)


def _member_left_out() -> Case:
    """A null pointer stands for a struct of defaults, so this is a Returned that gives nothing back."""
    envelope = stream(ROOT + envelope_words(RETURNED_TAG) + words(0))
    return Case("Returned", "null", (envelope,), ("EVO-2",), "The member is a null pointer", is_encoded=False)


def unknown_member() -> bytes:
    return stream(ROOT + envelope_words(4000) + words(struct_pointer(0, 1, 0), 7))
