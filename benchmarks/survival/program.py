"""One engine and one fault, in the engine's own interpreter: a program with tasks, as a user would write it.

It prints one line of JSON. If its engine ends it before that, there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.naps import Beginning, beginnings, nap
from benchmarks.survival.engines import ENGINES, Engine, is_alive, until

FAULTS = ("scheduler", "worker", "processor")
#: How much longer than without a fault results are waited for; the engines' own patience is a minute at most.
PATIENCE_SECONDS = 120.0


class Program:
    def __init__(self, engine: Engine, log: Path, count: int, seconds: float) -> None:
        self._engine = engine
        self._log = log
        self._count = count
        self._seconds = seconds

    def run(self, fault: str) -> dict[str, Any]:
        futures = self._submit()
        least = min(self._count // 4, 2 * self._engine.workers)
        until(lambda: len(beginnings(self._log)) >= least, "some have begun")
        struck_at, victims = self._strike(fault)
        ends_at = time.monotonic() + PATIENCE_SECONDS + self._count * self._seconds / self._engine.workers
        errors = Counter(filter(None, (self._error(future, number, ends_at) for number, future in enumerate(futures))))
        return {
            "lost": sum(errors.values()),
            "errors": dict(errors),
            "again": again(beginnings(self._log)),
            "pause": pause(beginnings(self._log), struck_at, victims),
            "goes_on": self._goes_on(),
            "version": self._engine.version,
        }

    def _submit(self) -> list[Any]:
        """The first ones after another, so that there is always a worker about to have room for the next one."""
        futures = []
        for number in range(self._count):
            futures.append(self._engine.submit(nap, str(self._log), number, self._seconds))
            if number < self._engine.workers:
                time.sleep(self._seconds / self._engine.workers)
        return futures

    def _strike(self, fault: str) -> tuple[float, set[int]]:
        """When the cluster was whole again as far as this program makes it so, and the tasks that ran in what died."""
        if fault == "scheduler":
            self._engine.kill_scheduler()
            self._engine.start_scheduler()
            return time.time(), set()
        last = beginnings(self._log)[-1]
        victim = self._engine.worker_of(last.process_id) if fault == "worker" else last.process_id
        running = [one for one in beginnings(self._log) if time.time() < one.at + self._seconds]
        struck = {
            one.number for one in running
            if victim == one.process_id or (fault == "worker" and self._engine.worker_of(one.process_id) == victim)
        }  # fmt: skip
        os.kill(victim, signal.SIGKILL)
        struck_at = time.time()
        until(lambda: not is_alive(victim), "it is gone")
        return struck_at, struck

    def _error(self, future: Any, number: int, ends_at: float) -> str:
        """Its class; empty for the right value."""
        try:
            value = self._engine.result(future, max(ends_at - time.monotonic(), 0.01))
        except BaseException as error:  # noqa: BLE001 whatever an engine raises is its result
            return type(error).__name__
        return "" if value == number else "wrong value"

    def _goes_on(self) -> bool:
        """Whether the same program can have another task run, within a minute."""
        try:
            return bool(self._engine.result(self._engine.submit(nap, str(self._log), -1, 0.0), 60.0) == -1)
        except BaseException:  # noqa: BLE001
            return False


def again(begun: list[Beginning]) -> int:
    """How many beginnings are too many."""
    return len(begun) - len({one.number for one in begun})


def pause(begun: list[Beginning], struck_at: float, victims: set[int]) -> float | None:
    """Seconds until a task begins; if tasks ran in what died, until all of them have begun again. None: never."""
    after = [one for one in begun if one.at > struck_at]
    if victims - {one.number for one in after}:
        return None
    firsts = [min(one.at for one in after if one.number == number) for number in victims]
    found = max(firsts, default=min((one.at for one in after), default=None))
    return None if found is None else found - struck_at


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival.program", description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("directory", type=Path)
    for name, kind in (("tasks", int), ("seconds", float), ("workers", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # engines print
    engine = ENGINES[options.engine](options.directory, options.workers)
    engine.start()
    found = Program(engine, options.directory / "begun", options.tasks, options.seconds).run(options.fault)
    print(json.dumps(found), file=answers, flush=True)
    os._exit(0)  # the program that has started this one ends the cluster; some engines would wait for what is gone


if __name__ == "__main__":
    main()
