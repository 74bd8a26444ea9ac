"""Messages of all kinds, from the golden vectors, and what can be made wrong about them: fields, bytes, framing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from scaler_conformance.play import damage
from scaler_conformance.play.samples import frames_of, samples
from scaler_conformance.resources import vectors_folder
from scaler_conformance.wire import Message, Unreadable, decode, encode

Frames = list[bytes]

_NUMBERS = (0, 1, 2, 3, 127, 128, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_REALS = (0.0, 1e-9, 1.0, -1.0, 1e30, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", "x", "a\nb", "\x1b[2J", "‮gnp.exe", "x" * 300, "\x00", "</script>", '"} 1\nscaler_up 0')
_ITEMS = (0, 1, 2, 17, 300)


@cache
def vectors() -> Mapping[str, tuple[Message, ...]]:
    """By kind: the minimal and the full vector of each."""
    found: dict[str, list[Message]] = {kind: [message] for kind, message in samples().items()}
    for folder in sorted(vectors_folder().glob("*/full")):
        try:
            message = decode(frames_of(folder), is_lenient=True)
        except Unreadable:
            continue  # a TaskError is no message
        found.setdefault(message.kind, []).append(message)
    return {kind: tuple(messages) for kind, messages in found.items()}


def new_id(chance: random.Random) -> bytes:
    return bytes([chance.randrange(1, 256)]) + chance.randbytes(15)


def hello(chance: random.Random, role: int, **fields: Any) -> Message:
    """Well-formed. With timers so short that what it leaves behind is soon forgotten."""
    message = samples()["hello"]
    body = {**message.body, "role": role, "peerId": new_id(chance), "incarnation": chance.randrange(1, 1 << 62)}
    body["timers"] = {"heartbeatSeconds": 0.5, "leaseSeconds": 3.0}
    if role == 2:
        body["worker"] = {**body["worker"], "name": "hostile"}
    if role == 3:
        body["lastServerId"] = new_id(chance)  # it is a scheduler that would follow, and takes no other for a storage
    if role == 5:
        body["manager"] = {**body["manager"], "managerId": new_id(chance), "name": "hostile"}
    return Message("hello", {**body, **fields})


def frames(kind: str, seq: int = 0, payload: Sequence[bytes] = (), **fields: Any) -> Frames:
    """A message of this kind with these fields, and all others as in its minimal vector."""
    message = samples()[kind]
    return encode(Message(kind, {**message.body, **fields}, seq, 0, tuple(payload)))


def numbered(envelope: bytes, seq: int) -> bytes:
    """The same message with this number. The root begins with it, behind the table of segments and a pointer."""
    table = 4 * (int.from_bytes(envelope[:4], "little") + 2)
    at = table + table % 8 + 8
    return envelope[:at] + seq.to_bytes(8, "little") + envelope[at + 8 :]


def mutated(chance: random.Random, kind: str, seq: int) -> Frames:
    """A message of this kind, of which something is wrong, or in one case of five nothing."""
    message = replace(chance.choice(vectors()[kind]), seq=seq, ack=chance.choice((0, 0, 0, 1, 2**64 - 1)))
    if chance.random() < 0.5:
        message = _with_wrong_fields(chance, message)
    try:
        made = encode(message)
    except Exception:
        made = encode(replace(samples()[kind], seq=seq))
    return chance.choice(_HOW)(chance, made) if chance.random() < 0.6 else made


# ---------------------------------------------------------------- fields


def _with_wrong_fields(chance: random.Random, message: Message) -> Message:
    body = dict(message.body)
    for name in chance.sample(sorted(body), min(len(body), chance.randrange(1, 4))):
        body[name] = _wrong(chance, body[name])
    payload = message.payload
    if chance.random() < 0.3:
        payload = tuple(_wrong_bytes(chance, part) for part in payload)
    return replace(message, body=body, payload=payload)


def _wrong(chance: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(_NUMBERS)
    if isinstance(value, float):
        return chance.choice(_REALS)
    if isinstance(value, bytes):
        return _wrong_bytes(chance, value)
    if isinstance(value, str):
        return chance.choice(_TEXTS)
    if isinstance(value, dict) and value:
        name = chance.choice(sorted(value))
        return {**value, name: _wrong(chance, value[name])}
    if isinstance(value, list) and value:
        items = [_wrong(chance, item) if chance.random() < 0.5 else item for item in value]
        return (items * chance.choice(_ITEMS))[:300]
    return value


def _wrong_bytes(chance: random.Random, value: bytes) -> bytes:
    return chance.choice(
        (
            b"",
            value[:-1],
            value + b"x",
            value * 2,
            value * 300 if len(value) < 100 else value,
            bytes(16),
            chance.randbytes(16),
            chance.randbytes(chance.randrange(1, 200)),
            b"\xff" * max(len(value), 4),
        )
    )


# ---------------------------------------------------------------- bytes and framing


def _flip(chance: random.Random, made: Frames) -> Frames:
    data = bytearray(made[0])
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data))
        data[at] = chance.choice((data[at] ^ (1 << chance.randrange(8)), 0, 0x7F, 0x80, 0xFF))
    return [bytes(data), *made[1:]]


def _cut(chance: random.Random, made: Frames) -> Frames:
    return [made[0][: chance.randrange(len(made[0]) + 1)], *made[1:]]


def _insert(chance: random.Random, made: Frames) -> Frames:
    at = chance.randrange(len(made[0]) + 1)
    return [made[0][:at] + chance.randbytes(chance.choice((1, 8, 16))) + made[0][at:], *made[1:]]


def _tag(chance: random.Random, made: Frames) -> Frames:
    return damage.with_tag(made, chance.choice((chance.randrange(64), 9_999, 65_535)))


def _emptied(chance: random.Random, made: Frames) -> Frames:
    try:
        return damage.emptied(made, chance.choice((1, 1_000, 100_000, (1 << 29) - 1)))
    except StopIteration:  # it has no list of structs
        return made


def _segments(chance: random.Random, made: Frames) -> Frames:
    return [damage.with_segments(made[0], chance.choice((1, 63, 64, 511))), *made[1:]]


def _promising(chance: random.Random, made: Frames) -> Frames:
    return damage.promising(made, chance.choice((0, 1, 2, 3, 65_535)))


def _payloads(chance: random.Random, made: Frames) -> Frames:
    return [made[0], *[b"x"] * chance.choice((0, 1, 2, 5, 100))]


def _noise(chance: random.Random, made: Frames) -> Frames:
    return [chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(1, 4))]


def _pointer(chance: random.Random, made: Frames) -> Frames:
    """A word becomes a pointer: to itself, to a struct or a list without end, to another segment."""
    data = bytearray(made[0])
    words = len(data) // 8
    if words < 2:
        return made
    at = 8 * chance.randrange(1, words)
    value = chance.choice(
        (0xFFFFFFFC, 0x00070007FFFFFFFC, 0xFFFFFFFF00000001, 0xFFFFFFF700000001, 0x2, 0x7FFFFFF800000006)
    )
    data[at : at + 8] = (value & (2**64 - 1)).to_bytes(8, "little")
    return [bytes(data), *made[1:]]


_HOW: tuple[Callable[[random.Random, Frames], Frames], ...] = (
    _flip, _flip, _cut, _insert, _tag, _emptied, _segments, _promising, _payloads, _noise, _pointer,
)  # fmt: skip
