"""Messages to frames and back (FRM-2 to FRM-8)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import Any, NamedTuple

from scaler_protocol import codes
from scaler_protocol.codec.checks import check
from scaler_protocol.codec.errors import CodecError, reason
from scaler_protocol.codec.framing import NESTING_MAX, WORD_BYTES, split_segments, traversal_limit
from scaler_protocol.codec.registry import MemberPlan, Registry, registry
from scaler_protocol.messages import (
    Buffer,
    ClusterStatus,
    GraphShapes,
    Limits,
    Message,
    StackSamples,
    TaskLog,
    TaskSamples,
)
from scaler_protocol.messages.common import NO_TASK

DEFAULT_LIMITS = Limits()


class Envelope(NamedTuple):
    """A message as it stood in the session."""

    seq: int
    ack: int
    message: Message


def encode(message: Message, seq: int = 0, ack: int = 0) -> list[Buffer]:
    """The frames of this message: its envelope and, for messages that have one, the payload as it is, not copied.

    Raises ValueError for a record whose fields do not fit the schema, which is a mistake of ours.
    """
    known = registry()
    try:
        envelope = known.templates.write(message, seq, ack) or known.build(message, seq, ack)
    except Exception as error:  # noqa: BLE001  pycapnp's errors have no common base
        told = str(error).split("\n", 1)[0]  # what follows is a C++ stack
        raise ValueError(f"this {type(message).__name__} does not fit the schema: {told}") from None
    if not known.by_record[type(message)].payload_frames:
        return [envelope]
    payload: Buffer = message.payload  # type: ignore[union-attr]
    if type(payload) is memoryview and (payload.ndim != 1 or payload.itemsize != 1):
        payload = payload.cast("B")  # the length of a view counts its items, and that of a frame its bytes
    return [envelope, payload]


def decode(
    envelope: bytes,
    payload_frames: Sequence[Buffer],
    limits: Limits = DEFAULT_LIMITS,
    readable: Container[type] | None = None,
) -> Envelope:
    """The message that these frames hold, checked in full: role code trusts its columns. Raises only CodecError.

    The payload is handed on as it came: a memoryview over a received frame stays one. With `readable`, a message of
    any other kind is not read (FRM-20): the record has that type and no field may be looked at. It is for the session
    layer to refuse.
    """
    seq = 0
    try:
        if len(envelope) > limits.envelope_bytes:
            text = f"the envelope has {len(envelope)} bytes, more than the limit of {limits.envelope_bytes}"
            raise CodecError(codes.TOO_LARGE, text, "FRM-4")
        known = registry()
        if len(payload_frames) == 1:
            payload = payload_frames[0]
            found = known.templates.read(envelope, payload)
            if found is not None:
                seq, ack, message, is_checked = found
                if len(payload) > limits.payload_frame_bytes:
                    raise _too_large_payload(payload, limits)
                if not is_checked:
                    check(message, limits)
                return Envelope(seq, ack, message)
        get = known.access.getter(_open(known, envelope))
        seq, ack = get(known.seq), get(known.ack)
        member = _member(known, get(known.message))
        _check_payload_frames(member, get(known.payload_frames), payload_frames, limits)
        if readable is not None and member.record not in readable:
            return Envelope(seq, ack, object.__new__(member.record))
        message = _read(known, member, get(known.message), payload_frames)
        check(message, limits)
        known.templates.learn(envelope, message)
        return Envelope(seq, ack, message)
    except CodecError as error:
        raise CodecError(error.code, error.text, error.clause, seq) from None
    except Exception as error:  # noqa: BLE001  pycapnp's errors have no common base, and bad Text is a UnicodeError
        text = f"the envelope cannot be read: {reason(error)}"
        raise CodecError(codes.BAD_ENVELOPE, text, "FRM-8", seq) from None


def readable_seq(envelope: bytes) -> int:
    """Of an envelope that came with frames of which no kind has so many; zero when it cannot be read."""
    try:
        decode(envelope, (b"", b""))
    except CodecError as error:
        return error.seq
    raise AssertionError("no kind of message has two payload frames")


def _open(known: Registry, envelope: bytes) -> Any:
    return known.envelope.from_segments(split_segments(envelope), traversal_limit(envelope), NESTING_MAX)


def _member(known: Registry, union: Any) -> MemberPlan:
    try:
        return known.by_name[known.access.member(union)]
    except Exception:  # noqa: BLE001  pycapnp says "not a union" of a member it does not know, and its number is lost
        text = "this kind of message is unknown here; the sender may be of a newer version"
        raise CodecError(codes.UNKNOWN_MESSAGE, text, "ERR-2") from None


def _read(known: Registry, member: MemberPlan, union: Any, payload_frames: Sequence[Buffer]) -> Message:
    plan = member.plan
    if plan is None:
        empty: Message = member.record()
        return empty
    message: Message = plan.read(known.access.getter(union)(member.handle), *payload_frames)
    return message


def _check_payload_frames(member: MemberPlan, promised: int, frames: Sequence[Buffer], limits: Limits) -> None:
    if not promised == len(frames) == member.payload_frames:
        right, came = member.payload_frames, len(frames)
        text = f"{member.name} has {right} payload frames; its envelope promises {promised}, and {came} came"
        raise CodecError(codes.BAD_FRAMING, text, "FRM-2")
    for frame in frames:
        if len(frame) > limits.payload_frame_bytes:
            raise _too_large_payload(frame, limits)


def _too_large_payload(frame: Buffer, limits: Limits) -> CodecError:
    text = f"the payload has {len(frame)} bytes, more than the limit of {limits.payload_frame_bytes}"
    return CodecError(codes.TOO_LARGE, text, "FRM-5")


# ------------------------------------------------------------ for many peers

_MOST = (1 << 64) - 1
_NUMBER = struct.Struct("<Q")
_NUMBERS = struct.Struct("<QQ")
_SEGMENT_COUNT = struct.Struct("<I")

#: kinds that may be encoded once, by name: what makes an empty message of each. Most processes need none
_EMPTY: dict[str, Callable[[], Message]] = {
    "ClusterStatus": ClusterStatus,
    "TaskSamples": TaskSamples,
    "GraphShapes": GraphShapes,
    "StackSamples": StackSamples,
    "TaskLog": lambda: TaskLog(NO_TASK, 0, ""),
}


Frames = Sequence[Buffer]


class Encoded:
    """A message that goes to many peers, encoded once; `frames` gives a copy with other numbers in it.

    A publication for monitors may have some hundred kilobytes and take milliseconds to encode. What differs
    between the copies that the watchers get are three numbers: `seq` and `ack` of each session, and the `requestId` of
    the answer to a question. Where these lie is not known here but found: the ordinary encoder writes a small message
    of the same kind twice, with the number changed, and the bytes that differ are the number. They lie in the first
    segment, which the encoder begins with the envelope and the message's own struct, so their place there does not
    depend on what follows.
    """

    __slots__ = ("_envelope", "_numbers_at", "_request_at", "_request_id", "kind")

    def __init__(self, message: Message) -> None:
        self.kind: type = type(message)
        (envelope,) = encode(message)
        self._envelope = bytes(envelope)
        begin = _first_segment(self._envelope)
        self._numbers_at = begin + _numbers_at(self.kind.__name__)
        self._request_at = begin + _request_at() if self.kind is ClusterStatus else 0
        self._request_id: int | None = None

    def answering(self, request_id: int) -> Encoded:
        """The same ClusterStatus as the answer to a question."""
        assert self._request_at, f"{self.kind.__name__} has no requestId"
        answer = object.__new__(Encoded)
        for name in Encoded.__slots__:
            setattr(answer, name, getattr(self, name))
        answer._request_id = request_id
        return answer

    def __len__(self) -> int:
        return len(self._envelope)

    def frames(self, seq: int, ack: int) -> list[Buffer]:
        copy = bytearray(self._envelope)
        _NUMBERS.pack_into(copy, self._numbers_at, seq, ack)
        if self._request_id is not None:
            _NUMBER.pack_into(copy, self._request_at, self._request_id)
        return [copy]


Sent = Message | Encoded


def counted(
    encode: Callable[[Message, int, int], Frames], counts: dict[type, int]
) -> Callable[[Sent, int, int], Frames]:
    """Encodes also what is encoded already, and counts both by their kinds."""

    def encode_and_count(message: Sent, seq: int, ack: int) -> Frames:
        if isinstance(message, Encoded):
            counts[message.kind] += 1
            return message.frames(seq, ack)
        counts[type(message)] += 1
        return encode(message, seq, ack)

    return encode_and_count


def _first_segment(envelope: bytes) -> int:
    """Where it begins, behind the table of segments."""
    count = _SEGMENT_COUNT.unpack_from(envelope)[0] + 1
    return int((4 + 4 * count + 7) // WORD_BYTES * WORD_BYTES)


@cache
def _numbers_at(name: str) -> int:
    message = _EMPTY[name]()
    return _difference(encode(message, 0, 0)[0], encode(message, _MOST, _MOST)[0], _NUMBERS.size)


@cache
def _request_at() -> int:
    return _difference(encode(ClusterStatus(0))[0], encode(ClusterStatus(_MOST))[0], _NUMBER.size)


def _difference(one: Buffer, other: Buffer, size: int) -> int:
    """Where the two differ, counted from the beginning of the first segment."""
    one, other = bytes(one), bytes(other)
    places = [place for place in range(len(one)) if one[place] != other[place]]
    assert places[-1] - places[0] + 1 == size == len(places), "all bytes of the numbers differ, and no others"
    return places[0] - _first_segment(one)
