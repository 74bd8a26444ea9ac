"""A client under test, driven by JSON lines on its stdin and stdout (`ports/ADAPTER.md`).

A command is one object with an `id` and an `op`; its answer has the same `id` and `ok`, `error` or `unsupported`. What
happens by itself is an object with `event`. Anything else on stdout is the port's mistake, and is said so.
"""

from __future__ import annotations

import json
import os
import re
import select
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from scaler_conformance.launch import Subject
from scaler_conformance.transcript import Transcript
from scaler_conformance.verdicts import Breach, Ended, NotReady, Unsupported, Unusable

from .pump import Pump
from .scheduler import ClientGuest

if TYPE_CHECKING:
    from scaler_conformance.scene import Scene

ANSWER_SECONDS = 10.0
LINE_BYTES = 64 << 20
READ_BYTES = 1 << 20
ID = re.compile("[0-9a-fA-F]{32}")
HEX = re.compile("([0-9a-fA-F]{2})*")
#: Never unsupported.
CORE_OPS = frozenset({"info", "connect", "close", "submit", "map", "cancel"})
SHOWN = 160
#: A pipe that is full for so long: the sockets are served, then it is tried again.
PIPE_SECONDS = 0.01


class TesteeError(Exception):
    """The testee could not do what it was asked, and says why."""


class Testee:
    def __init__(self, pump: Pump, subject: Subject, transcript: Transcript) -> None:
        self._pump = pump
        self._subject = subject
        self.transcript = transcript
        self._ids = 0
        self._lines: deque[bytes] = deque()
        #: written without the end of a line
        self._rest = b""
        self._is_closed = False
        self._answers: dict[int, dict[str, Any]] = {}
        self._ops: dict[int, str] = {}
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self._subject.process.stdout
        assert stream is not None
        with stream:
            while len(self._rest) < LINE_BYTES and (data := os.read(stream.fileno(), READ_BYTES)):
                *lines, self._rest = (self._rest + data).split(b"\n")
                self._lines.extend(lines)
        self._is_closed = True

    # ------------------------------------------------------------ lines

    def tell(self, op: str, **arguments: Any) -> int:
        """Write a command; its number."""
        self._ids += 1
        self._ops[self._ids] = op
        line = json.dumps({"id": self._ids, "op": op, **arguments})
        self.transcript.note("testee", f"is told {line[:SHOWN]}")
        try:
            is_written = self._write(line.encode() + b"\n")
        except OSError:
            self._subject.check()
            raise Ended("the testee has closed its stdin") from None
        if not is_written:
            raise Unusable(f"the testee has not read command {self._ids}, `{op}`, within {ANSWER_SECONDS:g} s")
        return self._ids

    def _write(self, data: bytes) -> bool:
        """Whether all of it was taken. The sockets of the suite are served meanwhile: a testee that reads nothing must
        not stop them, nor the clock of the case."""
        stream = self._subject.process.stdin
        assert stream is not None
        rest = memoryview(data)

        def is_all_taken() -> bool:
            nonlocal rest
            while rest and select.select((), (stream,), (), PIPE_SECONDS)[1]:
                rest = rest[os.write(stream.fileno(), rest[: select.PIPE_BUF]) :]
            return not rest

        return self._pump.until(is_all_taken, ANSWER_SECONDS)

    def take_lines(self) -> None:
        while self._lines:
            line = self._lines.popleft()
            shown = line.decode("utf-8", "replace").strip()[:SHOWN]
            self.transcript.note("testee", f"says {shown}")
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                raise Unusable(
                    f"the testee wrote a line to stdout that is no JSON: {shown!r}; logs go to stderr"
                ) from None
            if not isinstance(content, dict):
                raise Unusable(f"the testee wrote {shown!r}; each line is one JSON object")
            if "event" in content:
                self.events.append(_checked_event(content, shown))
            elif type(content.get("id")) is int:
                self._take_answer(content, shown)
            else:
                raise Unusable(f"the testee wrote {shown!r}, which is neither an answer with an id nor an event")

    def _take_answer(self, content: dict[str, Any], shown: str) -> None:
        number = content["id"]
        if number not in self._ops or number in self._answers:
            raise Unusable(f"the testee wrote {shown!r}; no command {number} is open, or it was answered before")
        if not isinstance(content.get("ok", {}), dict):
            raise Unusable(f"the testee wrote {shown!r}; `ok` is an object, such as {{}}")
        if not content.keys() & {"ok", "error", "unsupported"}:
            raise Unusable(f"the testee wrote {shown!r}, which has neither `ok` nor `error` nor `unsupported`")
        self._answers[number] = content

    def answer(self, number: int, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """What it answers; TesteeError when it could not, Unsupported when it does not know the command."""

        def is_there() -> bool:
            self.take_lines()
            return number in self._answers or self._is_closed

        self._pump.until(is_there, seconds)
        if number not in self._answers:
            raise Unusable(self._why_no_answer(number, seconds))
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

    def _why_no_answer(self, number: int, seconds: float) -> str:
        told = f"the testee did not answer command {number}, `{self._ops[number]}`"
        if self._is_closed:
            self._subject.check()
            return f"{told}: it has closed its stdout"
        rest = f"; it wrote {len(self._rest)} bytes without the end of a line" if self._rest else ""
        return f"{told}, within {seconds:g} s{rest}"

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
        return _id(self.ask("submit", function=function, arguments=given, **options).get("task"), "submit")

    def map(self, function: str, calls: list[list[bytes]], **options: Any) -> list[bytes]:
        given = [[argument.hex() for argument in call] for call in calls]
        tasks = self.ask("map", function=function, calls=given, **options).get("tasks")
        if not isinstance(tasks, list) or len(tasks) != len(calls):
            raise Unusable(f"`map` of {len(calls)} calls was answered without a list of as many `tasks`")
        return [_id(task, "map") for task in tasks]

    def graph(self, needs: dict[str, list[str]], *wanted: str) -> dict[str, bytes]:
        """Nodes that take the results of others; the ids of the tasks of those that are wanted."""
        nodes = [{"name": name, "arguments": [name.encode().hex()], "needs": others} for name, others in needs.items()]
        tasks = self.ask("graph", nodes=nodes, wanted=list(wanted)).get("tasks")
        if not isinstance(tasks, dict) or set(tasks) != set(wanted):
            raise Unusable(f"`graph` was answered without a task for each of {', '.join(wanted)}")
        return {name: _id(task, "graph") for name, task in tasks.items()}

    def stream(self, function: str, window: int, *arguments: bytes) -> bytes:
        """The id of the task, whose function gets the id of the stream and the window before these."""
        given = [argument.hex() for argument in arguments]
        return _id(self.ask("stream", function=function, window=window, arguments=given).get("task"), "stream")

    def take(self, task: bytes) -> bytes | None:
        """The next value of a stream; None when there is no other."""
        value = self.ask("take", task=task.hex()).get("value")
        return None if value is None else bytes.fromhex(value)

    def drop(self, task: bytes) -> None:
        self.ask("drop", task=task.hex())

    def result(self, task: bytes, seconds: float = ANSWER_SECONDS, clause: str = "") -> dict[str, Any]:
        return self.take_event("result", seconds, clause, task=task.hex())

    def reset(self) -> None:
        """No connection, and nothing of before."""
        try:
            self.ask("close")
        except TesteeError:
            pass  # there was none
        self.events.clear()


def _id(value: Any, op: str) -> bytes:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise Unusable(f"`{op}` was answered with {str(value)[:SHOWN]!r} for a task; an id is 32 hexadecimal digits")
    return bytes.fromhex(value)


def _checked_event(content: dict[str, Any], shown: str) -> dict[str, Any]:
    """With hexadecimal digits in small letters, as cases compare them."""
    if not isinstance(content["event"], str):
        raise Unusable(f"the testee wrote {shown!r}; `event` is a name")
    if content["event"] != "result":
        return content
    value = content.get("value", "")
    if type(content.get("status")) is not int or not isinstance(value, str) or not HEX.fullmatch(value):
        raise Unusable(
            f"the testee wrote {shown!r}; a result has a number as `status`, and hexadecimal digits as `value`"
        )
    task = _id(content.get("task"), "result").hex()
    return {**content, "task": task, **({"value": value.lower()} if "value" in content else {})}


def connect(scene: Scene, **options: Any) -> ClientGuest:
    known = len(scene.scheduler.guests)
    scene.testee.ask("connect", scheduler=scene.scheduler.address, heartbeat=0.25, lease=3.0, **options)

    def is_there() -> bool:
        scene.testee.take_lines()
        return len(scene.scheduler.guests) > known

    seconds = ANSWER_SECONDS if scene.scheduler.hellos else scene.arena.entry.ready_seconds
    if not scene.pump.until(is_there, seconds):
        text = f"the client was told to connect and did not say Hello within {seconds:g} s"
        if not scene.scheduler.hellos:  # nor will it in the next case
            raise NotReady(f"{text} (ready_seconds)", "HSK-1")
        raise Breach(text, "HSK-1")
    guest = scene.scheduler.guest("client")
    assert isinstance(guest, ClientGuest)
    return guest
