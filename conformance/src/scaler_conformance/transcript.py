"""A conversation, written down while it happens: as lines to read, and as events to keep in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .wire import Message, Unreadable, code_name, read_results, read_tasks
from .wire.codes import OUTCOMES, ROLES, STATUSES

#: So much of a frame is kept; larger ones are rarely what went wrong.
FRAME_BYTES = 4096
EVENTS = 4000
#: What nearly every Hello and Welcome says the same.
_UNTOLD = frozenset({"software", "versionMin", "versionMax", "workersPerUnit"})
_USUAL: tuple[object, ...] = (
    {"inlineBytes": 65536, "payloadFrameBytes": 67108864, "batchTasks": 65536, "envelopeBytes": 4194304},
    {"heartbeatSeconds": 10.0, "leaseSeconds": 60.0},
    {"heartbeatSeconds": 2.0, "leaseSeconds": 60.0},
)
_ROLE_NAMES = {value: name for name, value in ROLES.items()}


class Transcript:
    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.events: list[dict[str, Any]] = []
        self.is_full = False
        #: the end is reached: what comes now is the clearing up
        self.is_sealed = False
        self._names: dict[bytes, str] = {}
        self._counts: dict[str, int] = {}
        self._began_at = time.monotonic()

    # ------------------------------------------------------------ names

    def name(self, identifier: bytes, kind: str) -> str:
        """t1, f1, o1 …: ids are unreadable and differ from run to run."""
        if identifier not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[identifier] = f"{kind}{self._counts[kind]}"
        return self._names[identifier]

    def call(self, identifier: bytes, name: str) -> None:
        self._names[identifier] = name

    def known(self, identifier: bytes) -> str:
        return self._names.get(identifier) or (f"{identifier.hex()[:8]}…" if identifier else "–")

    # ------------------------------------------------------------ events

    def message(self, peer: str, direction: str, message: Message, frames: Sequence[bytes]) -> None:
        self._add(
            {
                "peer": peer,
                "dir": direction,
                "kind": message.kind,
                "text": self.describe(message),
                "frames": [frame[:FRAME_BYTES].hex() for frame in frames],
            }
        )

    def raw(self, peer: str, direction: str, frames: Sequence[bytes], text: str) -> None:
        kept = [frame[:FRAME_BYTES].hex() for frame in frames[:8]]
        self._add({"peer": peer, "dir": direction, "kind": "", "text": text, "frames": kept})

    def note(self, peer: str, text: str) -> None:
        self._add({"peer": peer, "dir": "note", "kind": "", "text": text})

    def _add(self, event: dict[str, Any]) -> None:
        if self.is_sealed:
            return
        if len(self.events) < EVENTS:
            self.events.append({"t": round(time.monotonic() - self._began_at, 4), **event})
        else:
            self.is_full = True

    def pong_nonces(self, peer: str) -> list[int]:
        """Of all Pongs that came to this peer, in order, those that were sent again included; fences left out."""
        came = (event for event in self.events if event["peer"] == peer and event["dir"] == "receive")
        texts = [event["text"] for event in came if event["kind"] == "pong"]
        words = [text.rpartition("nonce ")[2] if "nonce" in text else "0" for text in texts]
        return [int(word) for word in words if word.isdigit()]

    def lines(self) -> list[str]:
        return list(render(self.events, self.subject))

    # ------------------------------------------------------------ one message

    def describe(self, message: Message) -> str:
        try:
            inner = ", ".join(self._details(message))
        except (Unreadable, KeyError) as error:
            inner = f"unreadable columns: {error}"
        head = message.kind[0].upper() + message.kind[1:]
        place = f"#{message.seq}" if message.seq else "#–"
        return f"{place:<4} {head} {inner}".rstrip()

    def _details(self, message: Message) -> Iterator[str]:
        body = message.body
        if message.kind in ("submit", "dispatch"):
            yield from (self._task(task) for task in read_tasks(message)[:8])
            yield from self._header(body["header"])
        elif message.kind == "results":
            for result in read_results(message)[:8]:
                yield f"{self.known(result.id)}·{result.attempt} {STATUSES.get(result.status, result.status)}"
            if body["credit"]:
                yield f"credit {body['credit']}"
        elif message.kind == "cancelReply":
            ids = [body["ids"][at : at + 16] for at in range(0, len(body["ids"]), 16)]
            outcomes = body["outcomes"] or bytes(len(ids))
            for name, outcome in zip(ids, outcomes, strict=False):
                yield f"{self.known(name)} {OUTCOMES.get(outcome, outcome)}"
        elif message.kind in ("error", "reject", "objectReply", "bye"):
            yield code_name(body["code"])
            yield from self._plain(body, skip=("code",))
            if message.kind == "reject":
                yield f"versions {body['versionMin']}..{body['versionMax']}"
        elif message.kind == "hello" and (body["versionMin"], body["versionMax"]) != (1, 1):
            yield f"versions {body['versionMin']}..{body['versionMax']}"
            yield from self._plain(body)
        else:
            yield from self._plain(body)

    def _task(self, task: Any) -> str:
        text = f"{self.known(task.id)}"
        if task.attempt != 1:
            text += f"·{task.attempt}"
        if task.dependencies:
            text += f"({' '.join(self.known(name) for name in task.dependencies)})"
        return text

    def _header(self, header: Mapping[str, Any]) -> Iterator[str]:
        for name, value in header.items():
            if name == "client" or not value or (name == "callFormat" and value == 2):
                continue
            yield f"{name} {self._value(name, value)}"

    def _plain(self, body: Mapping[str, Any], skip: tuple[str, ...] = ()) -> Iterator[str]:
        for name, value in body.items():
            if name in skip or name in _UNTOLD or value in (0, "", b"", False, [], -1) or value in _USUAL:
                continue
            shown = self._value(name, value)
            if shown != "{}":
                yield f"{name} {shown}"

    def _value(self, name: str, value: Any) -> str:
        if name == "nonce" and value >= 1 << 48:
            return f"f{value & 0xFFFF}" if value < 1 << 62 else f"s{value & 0xFFFF}"
        if name == "role":
            return _ROLE_NAMES.get(value, str(value))
        if isinstance(value, bytes):
            if len(value) % 16 == 0 and len(value) <= 128:
                return " ".join(self.known(value[at : at + 16]) for at in range(0, len(value), 16))
            return f"{len(value)} bytes"
        if isinstance(value, dict):
            return "{" + ", ".join(self._plain(value)) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._value("", item) for item in value[:6]) + "]"
        if isinstance(value, float):
            return f"{value:g}"
        return str(value)


def render(events: Sequence[Mapping[str, Any]], subject: str) -> Iterator[str]:
    """Acknowledgements say nothing that the others do not, and a Pong stands with its Ping."""
    width = max((len(event["peer"]) for event in events), default=0)
    arrows = {"send": "→", "receive": "←"}
    for event in events:
        if event["kind"] == "acknowledge":
            continue
        who = f"{event['peer']:<{width}}"
        if event["dir"] == "note":
            yield f"{who} ‖ {event['text']}"
        else:
            yield f"{who} {arrows[event['dir']]} {subject}  {event['text']}"
