"""The segment table at the head of an envelope: read by hand, because pycapnp ignores what follows the message."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from scaler_protocol import codes
from scaler_protocol.codec.errors import CodecError

WORD_BYTES = 8
SEGMENTS_MAX = 64
NESTING_MAX = 16
"""The schema nests five structs and lists deep."""

SPARE_WORDS = 32
"""The pointers between segments are visited twice."""

_COUNT = Struct("<I")


@lru_cache(maxsize=SEGMENTS_MAX)
def _sizes_of(count: int) -> Struct:
    return Struct(f"<{count}I")


def split_segments(message: bytes) -> list[memoryview]:
    """The segments of a message in Cap'n Proto's stream encoding, which fills it to the last byte. (FRM-6, FRM-7)"""
    if len(message) < 2 * WORD_BYTES:
        raise _unreadable(f"{len(message)} bytes are too few for a message")
    count = _COUNT.unpack_from(message)[0] + 1
    if count > SEGMENTS_MAX:
        raise CodecError(codes.BAD_ENVELOPE, f"it claims {count} segments, more than {SEGMENTS_MAX}", "FRM-7")
    head_bytes = (4 + 4 * count + 7) // WORD_BYTES * WORD_BYTES
    if len(message) < head_bytes:
        raise _unreadable(f"it ends within its table of {count} segments")
    sizes = _sizes_of(count).unpack_from(message, 4)
    expected = head_bytes + WORD_BYTES * sum(sizes)
    if len(message) != expected:
        raise _unreadable(f"its segment table promises {expected} bytes, but it has {len(message)}")
    view = memoryview(message)
    if count == 1:
        return [view[head_bytes:]]
    segments = []
    for size in sizes:
        segments.append(view[head_bytes : head_bytes + WORD_BYTES * size])
        head_bytes += WORD_BYTES * size
    return segments


def traversal_limit(message: bytes) -> int:
    """In words. Reading every field once visits every word at most once, and an element of a list that has no words
    counts as one. So what it costs to read a message is bounded by its length, whatever it claims. (LIM-10)"""
    return len(message) // WORD_BYTES + SPARE_WORDS


def _unreadable(text: str) -> CodecError:
    return CodecError(codes.BAD_ENVELOPE, text, "FRM-6")
