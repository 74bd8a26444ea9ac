"""Messages as bytes of a stream, without sockets: the framing of the local lane (LAN-5, LAN-7).

    count of frames, u32 │ length of each, u32 … │ the frames

Theory of operation. Bytes come in portions that know nothing of messages. What is whole is cut out of a portion as it
comes. The one message that is begun and not whole gets memory of its own, `space`, into which the rest is received
directly, so that a large payload is copied by the kernel only. A header only claims how long its message is: beyond
`_PLAIN_BYTES` the space is mapped, and the system gives memory to those of its pages only into which bytes have been
received (LIM-4, LAN-9).
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from struct import Struct

from scaler_protocol.messages import Buffer, Limits
from scaler_protocol.session.channel import Frames

#: Envelope (None when it is beyond the limit), payload frames, bytes in all, and whether there are more frames than
#: any peer could mean.
Parts = tuple[bytes | None, Sequence[Buffer], int, bool]

#: Two are the most in version 1. Some more are read, so that the complaint can name the message (FRM-2).
MOST_FRAMES = 5

#: From here on a payload stays where it was received.
_VIEW_BYTES = 65_536

#: A message up to this size, one with a value of 1 MiB among them, gets its memory when it begins: memory that malloc
#: has used before costs less than pages that are new to the process.
_PLAIN_BYTES = (1 << 20) + 65_536

_COUNT = Struct("<I")
_LENGTHS = [Struct(f"<{count}I") for count in range(MOST_FRAMES + 1)]
_HEADERS = [Struct(f"<{1 + count}I") for count in range(MOST_FRAMES + 1)]
_two_of, _TWO_BYTES = _HEADERS[2].unpack_from, _HEADERS[2].size


class FramingError(Exception):
    """These bytes are no messages, and where the next one begins cannot be found out."""


def header(frames: Frames) -> bytes:
    """What goes before the frames of a message."""
    count = len(frames)
    return _HEADERS[count].pack(count, *map(len, frames))


def largest_message(limits: Limits) -> int:
    """Above our own limits, because those are answered with TOO_LARGE (as FRM-13)."""
    return 2 * max(limits.payload_frame_bytes, limits.envelope_bytes)


def _new_body(size: int) -> bytearray | mmap.mmap:
    if size <= _PLAIN_BYTES or sys.platform == "win32":
        return bytearray(size)
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Assembler:
    __slots__ = ("_begun", "_body", "_envelope_limit", "_filled", "_lengths", "message_limit")

    def __init__(self, limits: Limits) -> None:
        self._envelope_limit = limits.envelope_bytes
        #: of the bytes of one message; a larger one ends the connection
        self.message_limit = largest_message(limits)
        #: of a message whose header is not whole
        self._begun = b""
        #: of a message that is not whole, the lengths of its frames, and how much of it is here
        self._body: bytearray | mmap.mmap | None = None
        self._lengths: tuple[int, ...] = ()
        self._filled = 0

    @property
    def space(self) -> memoryview | None:
        """Where the next bytes belong; `filled` then says how many they were. None: `feed` them."""
        return None if self._body is None else memoryview(self._body)[self._filled :]

    def filled(self, count: int) -> list[Parts]:
        assert self._body is not None, "there is space only while a message is not whole"
        self._filled += count
        if self._filled < len(self._body):
            return []
        body, self._body = memoryview(self._body).toreadonly(), None
        return [self._cut(body, 0, self._lengths)]

    def feed(self, data: bytes) -> list[Parts]:
        """The messages that are whole with these bytes. Raises FramingError."""
        assert self._body is None, "a message is begun: its bytes belong into `space`"
        if (one := self._only(data)) is not None:
            return [one]
        if self._begun:
            data, self._begun = self._begun + data, b""
        messages: list[Parts] = []
        at, end = 0, len(data)
        while end - at >= _COUNT.size:
            (count,) = _COUNT.unpack_from(data, at)
            if not 1 <= count <= MOST_FRAMES:
                raise FramingError(f"a message of {count} frames")
            body_at = at + _COUNT.size + _LENGTHS[count].size
            if body_at > end:
                break
            lengths = _LENGTHS[count].unpack_from(data, at + _COUNT.size)
            size = sum(lengths)
            if size > self.message_limit:
                raise FramingError(f"a message of {size} bytes")
            at = body_at + size
            if at > end:
                self._begin(lengths, data[body_at:])
                return messages
            messages.append(self._cut(data, body_at, lengths))
        self._begun = data[at:]
        return messages

    def _only(self, data: bytes) -> Parts | None:
        """What nearly all portions are: one whole message with a payload, and of no size that is worth a word."""
        size = len(data) - _TWO_BYTES
        if self._begun or not 0 < size < self.message_limit:
            return None
        count, envelope_bytes, payload_bytes = _two_of(data)
        if count != 2 or envelope_bytes + payload_bytes != size or envelope_bytes > self._envelope_limit:
            return None
        payload_at = _TWO_BYTES + envelope_bytes
        return data[_TWO_BYTES:payload_at], (data[payload_at:],), size, False

    def _begin(self, lengths: tuple[int, ...], data: bytes) -> None:
        self._lengths = lengths
        self._filled = len(data)
        self._body = _new_body(sum(lengths))
        self._body[: len(data)] = data

    def _cut(self, data: bytes | memoryview, at: int, lengths: tuple[int, ...]) -> Parts:
        """The envelope is copied to `bytes`, since Cap'n Proto needs it aligned."""
        payload_at = at + lengths[0]
        envelope = bytes(data[at:payload_at]) if lengths[0] <= self._envelope_limit else None
        if len(lengths) == 1:
            return envelope, (), lengths[0], False
        payload: list[Buffer] = []
        at = payload_at
        for length in lengths[1:]:
            frame = data[at : at + length]
            payload.append(frame if length >= _VIEW_BYTES else bytes(frame))
            at += length
        return envelope, payload, sum(lengths), False
