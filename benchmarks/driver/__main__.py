"""The loop: a command in, an answer out, until the input ends."""

import json
import os
import platform
import sys
import time
from typing import Any, TextIO

from benchmarks.driver import tasks
from benchmarks.driver.adapters import Engine, Unsupported, adapter_for
from benchmarks.driver.measures import MEASURES


def main() -> None:
    answers = take_standard_output()
    engine = adapter_for(sys.argv[1])()
    for line in sys.stdin:
        try:
            answer = perform(engine, json.loads(line))
        except Unsupported as error:
            answer = {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 whatever an engine raises is its result
            answer = {"error": f"{type(error).__name__}: {error}".strip()[:400]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def take_standard_output() -> TextIO:
    """Engines print; what they print goes to standard error, and answers have the pipe for themselves."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def perform(engine: Engine, command: dict[str, Any]) -> dict[str, Any]:
    if command["do"] == "start":
        return start(engine, command["workers"])
    if command["do"] == "run":
        return {"figures": MEASURES[command["measure"]](engine, **command["sizes"])}
    started_at = time.perf_counter()
    engine.stop()
    return {"figures": {"stop_seconds": time.perf_counter() - started_at}}


def start(engine: Engine, worker_count: int) -> dict[str, Any]:
    version = engine.version()  # imports metadata only; the engine's own import is part of starting it
    started_at = time.perf_counter()
    engine.start(worker_count)
    first = engine.submit(tasks.increment, 1).result()
    seconds = time.perf_counter() - started_at
    if first != 2:
        return {"error": f"the first result was {first!r}"}
    return {
        "figures": {"start_seconds": seconds},
        "version": version,
        "python": platform.python_version(),
        "scheduler_id": engine.scheduler_id(),
    }


if __name__ == "__main__":
    main()
