"""One message as frames. Encoding never refuses: cases have to be able to say what is wrong. Decoding is strict and
says which clause a peer's bytes break."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .codes import Named
from .schema import load

PAYLOAD_KINDS = frozenset({"submit", "dispatch", "results", "keptResults", "put", "value"})
MAX_SEGMENTS = 64
_READ_LIMITS: dict[str, int] = {"traversal_limit_in_words": 1 << 26, "nesting_limit": 24}

#: Fields that hold an id of 16 bytes; those that may be empty; those that hold any number of ids.
_IDS = frozenset({"peerId", "serverId", "objectId", "owner", "source", "target", "taskId"})
_OPTIONAL_IDS = frozenset({"client", "serializer", "parentTask", "graphId", "managerId", "sourceOwner"})
_ID_COLUMNS = frozenset({"ids", "functions", "dependencies", "inputIds", "owners"})
#: Columns of another kind that have the name of one of ids.
_NO_IDS = frozenset({("graphShapes", "dependencies"), ("graphPart", "dependencies")})
_OPTIONAL_HERE = frozenset(
    {
        ("workerStatus", "taskId"),
        ("clusterStatus", "taskId"),
        ("clusterStatus", "serverId"),
        ("explain", "taskId"),
        ("explanation", "taskId"),
        ("get", "owner"),
    }
)


class Unreadable(Exception):
    """A peer sent bytes that are no message of this protocol."""

    def __init__(self, clause: str, text: str) -> None:
        super().__init__(text)
        self.clause = clause
        self.text = text


@dataclass(frozen=True, slots=True)
class Message:
    """`kind` and `body` in the names of the schema; ids and columns are bytes."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0
    ack: int = 0
    payload: tuple[bytes, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


def encode(message: Message, *, payload_frames: int | None = None) -> list[bytes]:
    """`payload_frames`: what the envelope claims, where that is not the truth."""
    claimed = len(message.payload) if payload_frames is None else payload_frames
    body = dict(message.body) if message.kind != "acknowledge" else None
    content = {"seq": message.seq, "ack": message.ack, "payloadFrames": claimed, "message": {message.kind: body}}
    return [_bytes_of("envelope", "Envelope", content), *message.payload]


def encode_task_error(body: Mapping[str, Any]) -> bytes:
    return _bytes_of("tasks", "TaskError", dict(body))


def _bytes_of(file: str, struct: str, content: Mapping[str, Any]) -> bytes:
    builder = getattr(load(file), struct).new_message()
    builder.from_dict(_plain(content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoded: bytes = builder.to_bytes()
    return encoded


def _plain(value: Any) -> Any:
    """Without names: pycapnp takes no number that is more than one."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, Named) else value


def decode(frames: Sequence[bytes], *, is_lenient: bool = False) -> Message:
    """`is_lenient`: do not look at lengths of ids and the like."""
    if not frames:
        raise Unreadable("FRM-2", "a message without a frame")
    envelope, *payload = frames
    content = _read("envelope", "Envelope", envelope)
    (kind, body), *_ = content["message"].items()
    if content["payloadFrames"] != len(payload):
        raise Unreadable("FRM-2", f"{kind}: payloadFrames is {content['payloadFrames']}, and {len(payload)} came")
    if len(payload) != (1 if kind in PAYLOAD_KINDS else 0):
        raise Unreadable("FRM-2", f"{kind} with {len(payload)} payload frames")
    body = {} if body is None else body
    for problem in () if is_lenient else _problems(kind, body):
        raise Unreadable("FRM-8", f"{kind}: {problem}")
    return Message(kind, body, content["seq"], content["ack"], tuple(payload))


def decode_task_error(encoded: bytes) -> dict[str, Any]:
    return _read("tasks", "TaskError", encoded)


def _read(file: str, struct: str, encoded: bytes) -> dict[str, Any]:
    check_segments(encoded)
    try:
        with getattr(load(file), struct).from_bytes(encoded, **_READ_LIMITS) as reader:
            content: dict[str, Any] = reader.to_dict(verbose=True)
            if struct == "Envelope":
                content["message"] = {reader.message.which(): content["message"].get(str(reader.message.which()))}
            return content
    except Exception as error:  # noqa: BLE001  pycapnp's errors have no common base
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unreadable("FRM-6", f"{struct} cannot be read: {text[:160]}") from None


def check_segments(encoded: bytes) -> None:
    """The segment table, and that the bytes are exactly as many as it says."""
    if len(encoded) < 8:
        raise Unreadable("FRM-6", f"an envelope of {len(encoded)} bytes is too short for a segment table")
    count = int.from_bytes(encoded[:4], "little") + 1
    if len(encoded) < 4 + 4 * count:
        raise Unreadable("FRM-6", f"a frame of {len(encoded)} bytes cannot hold a table of {count} segments")
    if count > MAX_SEGMENTS:
        raise Unreadable("FRM-7", f"the segment table tells of {count} segments, more than {MAX_SEGMENTS}")
    head = 4 + 4 * count
    head += head % 8
    words = sum(int.from_bytes(encoded[at : at + 4], "little") for at in range(4, 4 + 4 * count, 4))
    if len(encoded) != head + 8 * words:
        raise Unreadable("FRM-6", f"the segment table tells of {head + 8 * words} bytes, and there are {len(encoded)}")


def _problems(kind: str, body: Mapping[str, Any]) -> Iterator[str]:
    for name, value in body.items():
        if isinstance(value, bytes):
            is_optional = name in _OPTIONAL_IDS or (kind, name) in _OPTIONAL_HERE
            if (name in _IDS or name in _OPTIONAL_IDS) and not (len(value) == 16 or (is_optional and not value)):
                yield f"{name} has {len(value)} bytes, an id has 16"
            if name in _ID_COLUMNS and (kind, name) not in _NO_IDS and len(value) % 16:
                yield f"{name} has {len(value)} bytes, which is no whole number of ids"
        elif isinstance(value, float) and not (math.isfinite(value) and value >= 0):
            yield f"{name} is {value}, a time or share is finite and not negative"
        elif isinstance(value, dict):
            yield from _problems(kind, value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    yield from _problems(kind, item)
