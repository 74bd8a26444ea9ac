"""`python -m benchmarks.survival --peer-python PYTHON`: what a `kill -9` leaves of running work, in each engine.

A program submits tasks that only sleep. While they run, one process is killed: the scheduler, which is then started
again with the same command; a worker; or the process that runs a task. Each task notes when it begins, and each future
is waited for. Every engine is started afresh for each fault, by its own commands, with their defaults.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.survival.engines import ENGINES
from benchmarks.survival.program import FAULTS

ROOT = Path(__file__).resolve().parents[2]
OURS = "scaler"
LIMIT_SECONDS = 600.0
_PR_SET_CHILD_SUBREAPER = 36


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.survival", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has distributed and ray")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one; may be repeated")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one; may be repeated")
    parser.add_argument("--tasks", type=int, default=40, help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="that run one each (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    options = parser.parse_args(arguments)
    options.engine = options.engine or (list(ENGINES) if options.peer_python else [OURS])
    if options.peer_python is None and options.engine != [OURS]:
        parser.error("--peer-python names the interpreter that has the other engines")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")  # daemons of the engines stay children of this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and are ended by it
    found: list[dict[str, Any]] = []
    for fault in options.fault or FAULTS:
        for engine in options.engine:
            one = {"engine": engine, "fault": fault, **tried(engine, fault, options)}
            print(json.dumps(one), file=sys.stderr, flush=True)
            found.append(one)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found, options.tasks))
    return 0


def tried(engine: str, fault: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the program has found; or how it ended before it could tell."""
    python = sys.executable if engine == OURS else options.peer_python
    sizes = ("--tasks", options.tasks, "--seconds", options.seconds, "--workers", options.workers)
    with tempfile.TemporaryDirectory(prefix="survival-", ignore_cleanup_errors=True) as directory:
        line = [python, "-m", "benchmarks.survival.program", engine, fault, directory, *map(str, sizes)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (Path(directory) / "errors").open("ab") as errors:
            program = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=errors)
            try:
                output, _ = program.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                program.kill()
                output = b""
            finally:
                end_children()
        if output:
            answer: dict[str, Any] = json.loads(output)
            return answer
        last = (Path(directory) / "errors").read_text(errors="replace").strip().splitlines()[-3:]
        return {"ended": program.returncode, "last": last}


def end_children() -> None:
    left = psutil.Process().children(recursive=True)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(left, timeout=10.0)


def table(found: Sequence[dict[str, Any]], count: int) -> str:
    lines = [
        f"| killed | engine | lost of {count} | begun again | begins after | a new task |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        kind = ENGINES[one["engine"]]
        victims = {"scheduler": kind.scheduler_is, "worker": kind.worker_is, "processor": kind.processor_is}
        name = f"{one['engine']} {one.get('version', '')}".strip()
        lines.append("| " + " | ".join((victims[one["fault"]], name, *_cells(one))) + " |")
    return "\n".join(lines)


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    if "ended" in one:
        return f"all: the program was ended ({one['ended']})", "", "", ""
    lost = f"{one['lost']} ({', '.join(one['errors'])})" if one["lost"] else "0"
    pause = "none begins" if one["pause"] is None else f"{one['pause']:.1f} s"
    return lost, str(one["again"]), pause, "runs" if one["goes_on"] else "fails"


if __name__ == "__main__":
    sys.exit(main())
