"""The attackers, in processes of their own: libzmq ends a process for what hostile peers do with it, such as closing a
socket in the middle of a message. The cluster, its judgement and the counts outlive that.

`Attackers` is used by the process that judges. It starts `python -m tests.fuzz.attackers`, which forks once for each
attack, so that an attack begins in a process without threads and without sockets, and costs no start of Python.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import selectors
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.fuzz.access import Access
from tests.fuzz.attack import Attack, Scene

TOLD_SECONDS = 0.2
"""How often an attack tells what it has done: so much of the counts is lost with a process that ends."""
OVERTIME_SECONDS = 120.0
"""An attack that takes so much longer than it has been given is ended."""
LEAST_SECONDS = 0.3
"""With less time left, an attack whose process has ended is not begun again."""


@dataclass(slots=True)
class Outcome:
    """What one attack has done, however many processes it took."""

    places: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    kept_bytes: int = 0
    audited_messages: int = 0
    refused_messages: int = 0
    troubles: list[str] = field(default_factory=list)
    #: how the attackers' processes ended that did not end by themselves
    deaths: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.places.total()

    def add(self, told: dict[str, Any]) -> None:
        self.places.update(told["places"])
        self.sessions += told["sessions"]
        self.kept_bytes += told["kept_bytes"]
        self.audited_messages += told["audited_messages"]
        self.refused_messages += told["refused_messages"]
        self.troubles += told["troubles"]


class Attackers:
    """To be closed."""

    def __init__(self, scene: Scene, families: str = "tests.fuzz.runner") -> None:
        """`families`: the module that registers all of them."""
        self._scene = scene
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.attackers", families],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=scene.environment,
            cwd=scene.directory,
        )
        self._rest = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, family: str, seed: str, seconds: float) -> Outcome:
        """Once more with other choices, for the time that is left, if the process of the attack has ended."""
        outcome = Outcome()
        end_at = time.monotonic() + seconds
        while (left := end_at - time.monotonic()) > LEAST_SECONDS or not (outcome.deaths or outcome.inputs):
            death = self._one(family, f"{seed}/{len(outcome.deaths) or ''}", max(left, LEAST_SECONDS), outcome)
            if not death:
                break
            outcome.deaths.append(death)
        return outcome

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(OVERTIME_SECONDS)

    def _one(self, family: str, seed: str, seconds: float, outcome: Outcome) -> str:
        """How its process has ended; empty: by itself."""
        scene, pipe = self._scene, self._process.stdin
        assert pipe is not None
        wanted = {
            "family": family, "seed": seed, "seconds": seconds, "access": scene.access.kind, "port": scene.port,
            "page_port": scene.page_port, "standby_port": scene.standby_port, "directory": str(scene.directory),
        }  # fmt: skip
        pipe.write(json.dumps(wanted).encode() + b"\n")
        pipe.flush()
        last: dict[str, Any] = {}
        ends_at = time.monotonic() + seconds + OVERTIME_SECONDS
        while True:
            told = self._told(ends_at)
            if "ended" in told:
                break
            last = told
        if last:
            outcome.add(last)
        return str(told["ended"])

    def _told(self, ends_at: float) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                ready = selector.select(max(0.0, ends_at - time.monotonic()))
                data = os.read(pipe.fileno(), 1 << 16) if ready else b""
                if not data:
                    self._process.kill()
                    raise AssertionError("the attackers' process has ended" if ready else "an attack does not end")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told


# ---------------------------------------------------------------- in the attackers' process


def main() -> None:
    """A line for each attack that is wanted; ends with its input."""
    importlib.import_module(sys.argv[1])
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with open(os.devnull, "wb") as nowhere:  # there goes what tasks of a client that is attacked print
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        process_id = os.fork()
        if process_id == 0:
            os._exit(_attack(json.loads(line), told))
        _, status = os.waitpid(process_id, 0)
        code = os.waitstatus_to_exitcode(status)
        _tell(told, {"ended": "" if code == 0 else f"signal {-code}" if code < 0 else f"exit code {code}"})


def _attack(wanted: dict[str, Any], told: IO[str]) -> int:
    from tests.fuzz.families import FAMILIES

    directory = Path(wanted["directory"])
    access = Access(wanted["access"], directory)
    scene = Scene(access, directory, wanted["port"], wanted["page_port"], wanted["standby_port"], dict(os.environ))
    family = FAMILIES[wanted["family"]]
    has_sessions = family.has_sessions and access.may_have_sessions
    attack = Attack(scene, random.Random(wanted["seed"]), wanted["seconds"], family.place, has_sessions=has_sessions)
    attack.wants_audits = has_sessions and family.least_accepted is not None
    is_over = threading.Event()
    teller = threading.Thread(target=_tell_on, args=(attack, told, is_over), daemon=True)
    teller.start()
    try:
        family.run(attack)
    except Exception:
        attack.troubles.append(f"the attack itself is broken: {traceback.format_exc()[-2000:]}")
    finally:
        try:
            attack.close()
            access.close()
        finally:
            is_over.set()
            teller.join()
    return 0


def _tell_on(attack: Attack, told: IO[str], is_over: threading.Event) -> None:
    while True:
        was_over = is_over.wait(TOLD_SECONDS)
        done = {
            "places": dict(attack.places.copy()), "sessions": attack.sessions, "kept_bytes": attack.kept_bytes,
            "troubles": list(attack.troubles), "audited_messages": attack.audited_messages,
            "refused_messages": attack.refused_messages,
        }  # fmt: skip
        _tell(told, done)
        attack.told.set()
        if was_over:
            return


def _tell(file: IO[str], told: dict[str, Any]) -> None:
    file.write(json.dumps(told) + "\n")
    file.flush()


if __name__ == "__main__":
    main()
