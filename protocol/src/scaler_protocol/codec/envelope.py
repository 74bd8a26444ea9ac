"""Messages to frames and back (FRM-2 to FRM-8)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from scaler_protocol import codes
from scaler_protocol.codec.checks import check
from scaler_protocol.codec.errors import CodecError, reason
from scaler_protocol.codec.framing import NESTING_MAX, split_segments, traversal_limit
from scaler_protocol.codec.registry import MemberPlan, Registry, registry
from scaler_protocol.messages import Buffer, Limits, Message

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
