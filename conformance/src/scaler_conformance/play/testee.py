"""A client under test, driven by JSON lines on its stdin and stdout (`ports/ADAPTER.md`).

A command is one object with an `id` and an `op`; its answer has the same `id` and `ok`, `error` or `unsupported`. What
happens by itself is an object with `event`. Anything else on stdout is the port's mistake, and is said so.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from scaler_conformance.launch import Subject
from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach, Ended, Unsupported

from .pump import Pump
from .scheduler import ClientGuest

if TYPE_CHECKING:
    from scaler_conformance.scene import Scene

ANSWER_SECONDS = 10.0
LINE_BYTES = 64 << 20
#: Never unsupported.
CORE_OPS = frozenset({"info", "connect", "close", "submit", "map", "cancel"})
SHOWN = 160


class TesteeError(Exception):
    """The testee could not do what it was asked, and says why."""


class Testee:
    def __init__(self, pump: Pump, subject: Subject, transcript: Transcript) -> None:
        self._pump = pump
        self._subject = subject
        self.transcript = transcript
        self._ids = 0
        self._lines: deque[bytes] = deque()
        self._answers: dict[int, dict[str, Any]] = {}
        self._ops: dict[int, str] = {}
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self._subject.process.stdout
        assert stream is not None
        with stream:
            for line in iter(lambda: stream.readline(LINE_BYTES), b""):
                self._lines.append(line)

    # ------------------------------------------------------------ lines

    def tell(self, op: str, **arguments: Any) -> int:
        """Write a command; its number."""
        self._ids += 1
        self._ops[self._ids] = op
        line = json.dumps({"id": self._ids, "op": op, **arguments})
        self.transcript.note("testee", f"is told {line[:SHOWN]}")
        stream = self._subject.process.stdin
        assert stream is not None
        try:
            stream.write(line.encode() + b"\n")
            stream.flush()
        except (BrokenPipeError, OSError):
            self._subject.check()
            raise Ended("the testee has closed its stdin") from None
        return self._ids

    def take_lines(self) -> None:
        while self._lines:
            line = self._lines.popleft()
            shown = line.decode("utf-8", "replace").strip()[:SHOWN]
            self.transcript.note("testee", f"says {shown}")
            try:
                content = json.loads(line)
            except ValueError:
                raise Breach(
                    f"the testee wrote a line to stdout that is no JSON: {shown!r}; logs go to stderr"
                ) from None
            if not isinstance(content, dict):
                raise Breach(f"the testee wrote {shown!r}; each line is one JSON object")
            if "event" in content:
                self.events.append(content)
            elif isinstance(content.get("id"), int):
                self._answers[content["id"]] = content
            else:
                raise Breach(f"the testee wrote {shown!r}, which is neither an answer with an id nor an event")

    def answer(self, number: int, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """What it answers; TesteeError when it could not, Unsupported when it does not know the command."""

        def is_there() -> bool:
            self.take_lines()
            return number in self._answers

        if not self._pump.until(is_there, seconds):
            raise Ended(f"the testee did not answer command {number} within {seconds:g} s")
        content = self._answers.pop(number)
        op = self._ops.pop(number)
        if content.get("unsupported"):
            if op in CORE_OPS:
                raise Breach(f"the testee calls `{op}` unsupported, which is what every client is for")
            raise Unsupported(f"the testee does not know the command `{op}`")
        if "ok" in content:
            return dict(content["ok"])
        error = content.get("error")
        raise TesteeError(str(error.get("text", error)) if isinstance(error, dict) else str(content))

    def ask(self, op: str, *, seconds: float = ANSWER_SECONDS, **arguments: Any) -> dict[str, Any]:
        return self.answer(self.tell(op, **arguments), seconds)

    # ------------------------------------------------------------ events

    def take_event(self, kind: str, seconds: float = ANSWER_SECONDS, clause: str = "", **wanted: Any) -> dict[str, Any]:
        """The first event of this kind, with these values, waited for if need be."""

        def found() -> dict[str, Any] | None:
            self.take_lines()
            fitting = (event for event in self.events if event["event"] == kind)
            return next((event for event in fitting if all(event.get(key) == wanted[key] for key in wanted)), None)

        self._pump.until(lambda: found() is not None, seconds)
        event = found()
        if event is None:
            raise Breach(f"the testee did not tell of a {kind} within {seconds:g} s", clause)
        self.events.remove(event)
        return event

    # ------------------------------------------------------------ words of cases

    def submit(self, function: str, *arguments: bytes, **options: Any) -> bytes:
        """The id of the task."""
        given = [argument.hex() for argument in arguments]
        return bytes.fromhex(self.ask("submit", function=function, arguments=given, **options)["task"])

    def map(self, function: str, calls: list[list[bytes]], **options: Any) -> list[bytes]:
        given = [[argument.hex() for argument in call] for call in calls]
        return [bytes.fromhex(task) for task in self.ask("map", function=function, calls=given, **options)["tasks"]]

    def result(self, task: bytes, seconds: float = ANSWER_SECONDS, clause: str = "") -> dict[str, Any]:
        return self.take_event("result", seconds, clause, task=task.hex())

    def reset(self) -> None:
        """No connection, and nothing of before."""
        try:
            self.ask("close")
        except TesteeError:
            pass  # there was none
        self.events.clear()


def connect(scene: Scene, **options: Any) -> ClientGuest:
    known = len(scene.scheduler.guests)
    scene.testee.ask("connect", scheduler=scene.scheduler.address, heartbeat=0.25, lease=3.0, **options)

    def is_there() -> bool:
        scene.testee.take_lines()
        return len(scene.scheduler.guests) > known

    if not scene.pump.until(is_there, ANSWER_SECONDS):
        raise Breach(f"the client was told to connect and did not say Hello within {ANSWER_SECONDS:g} s", "HSK-1")
    guest = scene.scheduler.guest("client")
    assert isinstance(guest, ClientGuest)
    return guest
