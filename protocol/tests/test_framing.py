"""The lane's framing, byte by byte (LAN-5, LAN-7)."""

from __future__ import annotations

from collections.abc import Sequence

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol.messages import Limits
from scaler_protocol.transport.framing import MOST_FRAMES, Assembler, FramingError, Parts, header

LIMITS = Limits(envelope_bytes=100, payload_frame_bytes=200)
MESSAGE_LIMIT = 400

Message = list[bytes]
messages = st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=MOST_FRAMES), max_size=8)


def written(message: Sequence[bytes]) -> bytes:
    return header(message) + b"".join(message)


def assembled(assembler: Assembler, stream: bytes, cuts: Sequence[int]) -> list[Message]:
    """What comes of the stream when it arrives in portions of these sizes, and the rest at once."""
    sizes = [*cuts, len(stream)]
    found: list[Message] = []
    while stream:
        portion = stream[: sizes.pop(0) if len(sizes) > 1 else len(stream)]
        if (space := assembler.space) is None:
            parts = assembler.feed(portion)
        else:
            portion = portion[: len(space)]
            space[: len(portion)] = portion
            parts = assembler.filled(len(portion))
        stream = stream[len(portion) :]
        found += [frames_of(one) for one in parts]
    return found


def frames_of(parts: Parts) -> Message:
    envelope, payload, size, has_more = parts
    assert envelope is not None and not has_more
    frames = [envelope, *map(bytes, payload)]
    assert size == sum(map(len, frames))
    return frames


@given(messages, st.lists(st.integers(1, 30)))
def test_any_messages_in_any_portions(sent: list[Message], cuts: list[int]) -> None:
    stream = b"".join(map(written, sent))
    assert assembled(Assembler(LIMITS), stream, cuts) == sent


@given(st.binary(max_size=300), st.lists(st.integers(1, 30)))
def test_any_bytes_are_messages_or_refused(noise: bytes, cuts: list[int]) -> None:
    assembler = Assembler(Limits(envelope_bytes=500, payload_frame_bytes=500))
    try:
        found = assembled(assembler, noise, cuts)
    except FramingError:
        return
    assert noise.startswith(b"".join(map(written, found)))
    assert assembler.space is None or len(assembler.space) <= 1_000, "nobody can ask for more memory than a message has"


def test_the_first_bytes() -> None:
    assert header([b"abc"]) == bytes.fromhex("01000000 03000000")
    assert header([b"abc", b""]) == bytes.fromhex("02000000 03000000 00000000")


@pytest.mark.parametrize(
    "head", (header([b""])[:0] + bytes(4), bytes([MOST_FRAMES + 1, 0, 0, 0]), b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 8)
)
def test_what_is_no_header(head: bytes) -> None:
    with pytest.raises(FramingError):
        Assembler(LIMITS).feed(head)


def test_an_envelope_beyond_the_limit_is_told_and_not_kept() -> None:
    (parts,) = Assembler(LIMITS).feed(written([bytes(101), b"payload"]))
    assert parts == (None, [b"payload"], 108, False)


def test_a_message_beyond_all_limits_is_the_end() -> None:
    assert Assembler(LIMITS).feed(header([bytes(100), bytes(MESSAGE_LIMIT - 100)])) == []
    with pytest.raises(FramingError, match="401 bytes"):
        Assembler(LIMITS).feed(header([bytes(100), bytes(MESSAGE_LIMIT - 99)]))


def test_a_large_payload_stays_where_it_was_received() -> None:
    assembler = Assembler(Limits())
    message = [b"envelope", bytes(range(256)) * 1_000]
    stream = written(message)
    assert assembler.feed(stream[:1_000]) == []
    space = assembler.space
    assert space is not None and len(space) == len(stream) - 1_000
    space[:] = stream[1_000:]
    (parts,) = assembler.filled(len(space))
    (payload,) = parts[1]
    assert frames_of(parts) == message
    assert isinstance(payload, memoryview) and payload.readonly and payload.obj is space.obj


@pytest.mark.parametrize("connections", [1, 16])
def test_memory_follows_what_has_arrived(connections: int) -> None:  # LIM-4
    """A header of a dozen bytes claims 128 MiB."""
    head = header([bytes(8), memoryview(bytearray(1)).cast("B")])
    claim = head[:8] + (Assembler(Limits()).message_limit - 8).to_bytes(4, "little")
    before = psutil.Process().memory_info().rss
    assemblers = [Assembler(Limits()) for _ in range(connections)]
    for assembler in assemblers:
        assert assembler.feed(claim + b"begun") == []
    grown = psutil.Process().memory_info().rss - before
    assert grown < 8 << 20, f"{connections} claims have taken {grown} bytes"
    assert [len(assembler.space or b"") for assembler in assemblers] == [(128 << 20) - 5] * connections


def test_a_large_message_is_whole_again() -> None:
    assembler = Assembler(Limits())
    message = [b"envelope", bytes(range(256)) * 20_000]
    stream = written(message)
    assert assembler.feed(stream[:70_000]) == []
    at, found = 70_000, []
    while not found:
        space = assembler.space
        assert space is not None
        count = min(len(space), 1_000_003)
        space[:count] = stream[at : at + count]
        at += count
        found = assembler.filled(count)
    assert at == len(stream) and frames_of(found[0]) == message
