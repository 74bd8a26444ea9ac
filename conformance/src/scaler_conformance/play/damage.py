"""Bytes that no encoder makes: the deviations that lie below the schema."""

from __future__ import annotations

import struct
from collections.abc import Sequence

#: Of an envelope whose root comes first, as ours do: the word with payloadFrames and the union's tag.
_HEAD = 8
_TAG_AT = _HEAD + 8 + 16 + 2


def with_tag(frames: Sequence[bytes], tag: int) -> list[bytes]:
    """The same message as a member of the union that may not exist."""
    envelope = bytearray(frames[0])
    envelope[_TAG_AT : _TAG_AT + 2] = tag.to_bytes(2, "little")
    return [bytes(envelope), *frames[1:]]


def emptied(frames: Sequence[bytes], count: int) -> list[bytes]:
    """The same message, whose list of one struct claims so many of them, which have no words."""
    words = [int.from_bytes(frames[0][at : at + 8], "little") for at in range(_HEAD, len(frames[0]), 8)]
    tags = {
        at: at + 1 + (word >> 2 & 0x3FFFFFFF) for at, word in enumerate(words) if word & (7 << 32 | 3) == 7 << 32 | 1
    }
    at, tag = next((at, tag) for at, tag in tags.items() if tag < len(words) and words[tag] & 0xFFFFFFFF == 1 << 2)
    words[at] &= (1 << 35) - 1
    words[tag] = count << 2
    return [frames[0][:_HEAD] + b"".join(word.to_bytes(8, "little") for word in words), *frames[1:]]


def grown(frames: Sequence[bytes]) -> list[bytes]:
    """As a newer peer encodes it: the envelope and its member have one data word and one pointer more.

    The root stays where it is only as a far pointer would; so the message is laid out anew: the root struct and the
    member's struct are copied to the end, longer, and everything they point to stays in its place.
    """
    words = [frames[0][at : at + 8] for at in range(_HEAD, len(frames[0]), 8)]
    root = _grow(words, 0)
    member = root + 3 + 1  # its one pointer comes after three data words and the new one
    _grow(words, member)
    size = len(words)
    return [b"\0\0\0\0" + size.to_bytes(4, "little") + b"".join(words), *frames[1:]]


def _grow(words: list[bytes], at: int) -> int:
    """Copy the struct that the pointer at `at` names to the end, one word and one pointer longer. Where it is now."""
    pointer = int.from_bytes(words[at], "little")
    offset = _signed(pointer & 0xFFFFFFFF) >> 2
    data, pointers = (pointer >> 32) & 0xFFFF, (pointer >> 48) & 0xFFFF
    old, new = at + 1 + offset, len(words)
    words += words[old : old + data]
    words.append(b"newfield")
    for index in range(pointers):
        words.append(_moved(words[old + data + index], old + data + index, len(words)))
    words.append(bytes(8))
    moved = ((new - at - 1) << 2) & 0xFFFFFFFF
    words[at] = (moved | (data + 1) << 32 | (pointers + 1) << 48).to_bytes(8, "little")
    return new


def _moved(word: bytes, old: int, new: int) -> bytes:
    pointer = int.from_bytes(word, "little")
    if pointer == 0:
        return word
    offset = (_signed(pointer & 0xFFFFFFFF) >> 2) + old - new
    return ((pointer & ~0xFFFFFFFF) | ((offset << 2) & 0xFFFFFFFC) | (pointer & 3)).to_bytes(8, "little")


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


def with_segments(envelope: bytes, extra: int) -> bytes:
    """The same message, followed by so many segments of no words."""
    sizes = [len(envelope) // 8 - 1, *[0] * extra]
    table = struct.pack(f"<{1 + len(sizes)}I", extra, *sizes)
    return table + bytes(-len(table) % 8) + envelope[_HEAD:]


def promising(frames: Sequence[bytes], count: int) -> list[bytes]:
    """Its envelope tells of so many payload frames, which is not what comes."""
    envelope = bytearray(frames[0])
    envelope[_TAG_AT - 2 : _TAG_AT] = count.to_bytes(2, "little")
    return [bytes(envelope), *frames[1:]]
