"""The ports in other languages (`conformance/ports`): their programs, and a client that is driven by JSON lines."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.support.processes import WAIT, Stage

PORTS = ROOT / "conformance" / "ports"
CPP_CLIENT = PORTS / "cpp" / "build" / "scaler_port_client"
CPP_WORKER = PORTS / "cpp" / "build" / "scaler_port_worker"
TYPESCRIPT_CLIENT = PORTS / "typescript" / "build" / "out" / "src" / "port_client.js"

CLIENTS = {"cpp": [str(CPP_CLIENT)], "typescript": ["node", str(TYPESCRIPT_CLIENT)]}


def need(*programs: Path) -> None:
    """Skips a test whose port was not built, unless `make ports` asks for it."""
    missing = [program for program in programs if not program.exists()]
    if not missing:
        return
    lacks = [name for name in ("g++", "cmake", "capnp", "node", "npm") if shutil.which(name) is None]
    reason = f"this machine has no {', '.join(lacks)}" if lacks else "the port is not built"
    text = f"{reason}; `make ports` installs and builds what {missing[0].name} needs"
    if os.environ.get("SCALER_PORTS") == "required":
        pytest.fail(text)
    pytest.skip(text)


class PortClient:
    """A client of a port, as ADAPTER.md describes."""

    def __init__(self, stage: Stage, language: str) -> None:
        self._process = subprocess.Popen(
            CLIENTS[language],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=stage.environment(),
            cwd=stage.directory,
            text=True,
        )
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._events: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> PortClient:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(WAIT) == 0, "at the end of its input a client leaves in peace"
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError("the client did not leave at the end of its input") from None
        finally:
            self._reader.join(WAIT)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(json.loads(line))

    def _until(self, is_there: Callable[[], bool], what: str) -> None:
        while not is_there():
            try:
                line = self._lines.get(timeout=WAIT)
            except queue.Empty:
                raise AssertionError(f"waited {WAIT:g} s in vain for {what}; so far {self._events}") from None
            if "event" in line:
                self._events.append(line)
            else:
                self._answers[line["id"]] = line

    def answer(self, op: str, **arguments: Any) -> dict[str, Any]:
        self._id += 1
        number = self._id
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        self._until(lambda: number in self._answers, f"the answer to {op}")
        return self._answers.pop(number)

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        answer = self.answer(op, **arguments)
        assert "ok" in answer, answer
        return dict(answer["ok"])

    def connect(self, address: str, **options: Any) -> None:
        self.ask("connect", scheduler=address, **options)
        self.event("connected")

    def submit(self, function: str, *arguments: bytes, **options: Any) -> str:
        given = [argument.hex() for argument in arguments]
        return str(self.ask("submit", function=function, arguments=given, **options)["task"])

    def event(self, kind: str, **wanted: Any) -> dict[str, Any]:
        def fits(event: dict[str, Any]) -> bool:
            return event["event"] == kind and all(event.get(name) == value for name, value in wanted.items())

        self._until(lambda: any(map(fits, self._events)), f"the event {kind} {wanted}")
        event = next(event for event in self._events if fits(event))
        self._events.remove(event)
        return event

    def result(self, task: str) -> bytes:
        event = self.event("result", task=task)
        assert event["status"] == 0, event
        return bytes.fromhex(event["value"])

    def error(self, task: str) -> tuple[int, dict[str, Any]]:
        event = self.event("result", task=task)
        return event["status"], event["error"]

    def call(self, function: str, *arguments: bytes, **options: Any) -> bytes:
        return self.result(self.submit(function, *arguments, **options))
