"""`python -m benchmarks.lone`: one call after the other, beside a process pool, both in turns and each started afresh.

CPU and wake-ups are those of all processes, from the kernel's accounts: times move with what else the machine does,
these much less. With `--steps` the steps of the interpreter in each process are counted, and the functions shown that
take most of them. One process is traced at a time, so that the others are as quick as ever. Linux only.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.driver.adapters import Engine, Pool, Scaler
from benchmarks.driver.tasks import increment

ENGINES: dict[str, Callable[[], Engine]] = {"scaler": Scaler, "pool": Pool}
WARM_UP_CALLS = 200
WORKERS = 2
TURN_SECONDS = 120.0
WRITTEN_SECONDS = 10.0
NAME_CHARACTERS = 60
HOOK = Path(__file__).with_name("hook")
START, STOP = signal.SIGRTMIN + 3, signal.SIGRTMIN + 4


def call(engine: Engine, count: int) -> list[float]:
    """Milliseconds that each took."""
    taken = []
    for number in range(count):
        began_at = time.perf_counter()
        assert engine.submit(increment, number).result() == number + 1
        taken.append((time.perf_counter() - began_at) * 1000)
    return taken


def family(process_id: int) -> list[int]:
    """This process and all below it."""
    found = [process_id]
    for path in Path(f"/proc/{process_id}/task").glob("*/children"):
        for child in path.read_text().split():
            found += family(int(child))
    return found


def spent() -> tuple[float, int]:
    """Microseconds on a processor, and how often a thread went to sleep, of all threads so far."""
    nanoseconds = switches = 0
    for process_id in family(os.getpid()):
        for thread in Path(f"/proc/{process_id}/task").iterdir():
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
            status = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
            switches += int(status["voluntary_ctxt_switches"])
    return nanoseconds / 1000, switches


def turn(engine: Engine, count: int) -> dict[str, float]:
    call(engine, WARM_UP_CALLS)
    cpu, switches = spent()
    taken = sorted(call(engine, count))
    cpu_after, switches_after = spent()
    return {
        "p50, ms": taken[count // 2],
        "p99, ms": taken[count * 99 // 100],
        "CPU, us": (cpu_after - cpu) / count,
        "wake-ups": (switches_after - switches) / count,
    }


def steps(engine: Engine, count: int, folder: Path) -> list[dict[str, Any]]:
    """For each process that can be traced: what it is called, and (file, function, calls, steps) of all calls."""
    call(engine, WARM_UP_CALLS)
    found = []
    for process_id in family(os.getpid()):
        if not _listens(process_id):
            continue
        os.kill(process_id, START)
        call(engine, count)
        os.kill(process_id, STOP)
        written = folder / str(process_id)
        until = time.monotonic() + WRITTEN_SECONDS
        while not written.exists() and time.monotonic() < until:
            call(engine, 1)  # who sleeps in a system call has to be woken
        if written.exists():
            words = Path(f"/proc/{process_id}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            found.append({"name": words[:NAME_CHARACTERS], "rows": json.loads(written.read_text())})
        call(engine, WARM_UP_CALLS)
    return found


def _listens(process_id: int) -> bool:
    """It has the hook. To any other process the signal would be the end."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught >> (START - 1) & 1)


def show_steps(processes: list[dict[str, Any]], count: int, most: int) -> None:
    for process in processes:
        rows = process["rows"]
        if sum(row[3] for row in rows) < 100 * count:
            continue  # it has no part in this
        calls, all_steps = (sum(row[column] for row in rows) / count for column in (2, 3))
        print(f"\n{all_steps:,.0f} steps and {calls:.0f} calls: {process['name']}")
        for path, name, calls, number in sorted(rows, key=lambda row: -int(row[3]))[:most]:
            print(f"{number / count:8.1f} {calls / count:6.1f}  {name:32} {'/'.join(Path(path).parts[-3:])}")


def in_turns(options: argparse.Namespace) -> None:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ENGINES}
    for _ in range(options.rounds):
        for name in ENGINES:
            command = [sys.executable, "-m", "benchmarks.lone", "--turn", name, "--calls", str(options.calls)]
            done = subprocess.run(command, stdout=subprocess.PIPE, timeout=TURN_SECONDS, check=True, text=True)
            (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
            found[name].append(json.loads(line))
    figures = list(found["pool"][0])
    print(f"{'median, and (least)':20}" + "".join(f"{figure:>20}" for figure in figures))
    for name, turns in found.items():
        columns = [[one[figure] for one in turns] for figure in figures]
        cells = [f"{statistics.median(column):.2f} ({min(column):.2f})" for column in columns]
        print(f"{name:20}" + "".join(f"{cell:>20}" for cell in cells))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lone", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--calls", type=int, default=400, help="of each turn (default: %(default)s)")
    parser.add_argument("--steps", type=int, metavar="N", help="count steps, and show the N functions that take most")
    parser.add_argument("--turn", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.turn is None and options.steps is None:
        in_turns(options)
        return 0
    if options.turn is None and "SCALER_STEPS" not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, "SCALER_STEPS": folder, "PYTHONPATH": os.pathsep.join(paths)}
            return subprocess.run([sys.executable, "-m", "benchmarks.lone", *sys.argv[1:]], env=environment).returncode
    engine = ENGINES[options.turn or "scaler"]()
    engine.start(WORKERS)
    try:
        if options.turn is not None:
            print(json.dumps(turn(engine, options.calls)))
        else:
            written = Path(os.environ["SCALER_STEPS"])
            show_steps(steps(engine, options.calls, written), options.calls, options.steps)
    finally:
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
