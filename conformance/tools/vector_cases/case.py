"""One vector: frames, and what a decoder makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.codec import encode
from scaler_protocol.messages import Message

SEQ, ACK = 5, 3
"""The numbers in all envelopes but those where they are the point."""


@dataclass(frozen=True)
class Case:
    message: str
    """The record's name, which is the directory; `Envelope` for what is none, `TaskError` for values of results."""
    name: str
    frames: tuple[bytes, ...]
    clauses: tuple[str, ...]
    note: str
    code: int = 0
    """The error a receiver answers with; 0 for a valid message."""
    is_encoded: bool = True
    """Whether an encoder should be able to make this too. False for layouts that are legal and few would choose."""
    seq: int = SEQ
    """What the receiver can still read of it; 0 when nothing."""
    limits: dict[str, int] = field(default_factory=dict)
    """In force when it is received, where they are not the defaults."""


def frames_of(message: Message, seq: int = SEQ, ack: int = ACK) -> tuple[bytes, ...]:
    return tuple(bytes(frame) for frame in encode(message, seq, ack))


def name_of(message: Message) -> str:
    return type(message).__name__


def an_id(number: int) -> bytes:
    """Sixteen times the same byte: easy to find in a dump."""
    return bytes((number,)) * 16
