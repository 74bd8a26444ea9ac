"""`make bench`: every round starts each engine afresh, in turns, and runs every workload; the table shows medians.

In turns, because a machine's speed drifts; afresh, because an engine that idles beside the one being measured still
costs. Nothing is tuned for the benchmark: every engine runs with the defaults its users get.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import readme, table
from benchmarks.engine_process import EngineFailure, EngineProcess
from benchmarks.records import Records
from benchmarks.workloads import LIFE, NAMES, WORKLOADS, Workload

OURS, BASELINE = "scaler", "pool"
START_SECONDS = 60.0
MIB = 1 << 20


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        type=peer,
        metavar="NAME=PYTHON",
        help="another engine, and an interpreter that has it: dask=…, ray=…, loky=…,\n"
        "or any name for a dist that exposes scaler.Client",
    )
    parser.add_argument("--only", action="append", choices=NAMES, metavar="WORKLOAD", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="how many rounds (default: 3, quick: 1)")
    parser.add_argument("--workers", type=int, default=2, help="workers of each engine (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="draw how many times better Scaler is")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def peer(text: str) -> tuple[str, str]:
    name, _, python = text.partition("=")
    if not name or not python or name in (OURS, BASELINE):
        raise argparse.ArgumentTypeError(f"expected NAME=PYTHON with a name of its own, got {text!r}")
    return name, python


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    engines = {OURS: sys.executable, BASELINE: sys.executable, **dict(options.peer)}
    chosen = set(options.only or NAMES)
    records = Records()
    names = list(engines)
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            Round(records, name, engines[name], options, f"round {turn + 1} of {options.rounds}").run(chosen)
    shown = table.render(records, names, chosen)
    about = described(records, options)
    print(f"\n{about}\n\n{shown}")
    if options.json:
        options.json.write_text(json.dumps({"about": about, **records.as_json()}, indent=1) + "\n", encoding="utf-8")
    if options.draw:
        options.draw.write_text(table.drawn(records, names, chosen), encoding="utf-8")
    if options.readme:
        readme.write(about, shown)
    return 1 if any(engine == OURS for engine, _ in records.failures) else 0


def described(records: Records, options: argparse.Namespace) -> str:
    sizes = "quick sizes, not for comparison" if options.quick else "full sizes"
    versions = "; ".join(f"{name}: {version}" for name, version in records.versions.items())
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {options.workers} workers each, "
        f"{options.rounds} rounds, medians, {sizes}. {versions}. Columns with × say how many times better Scaler is."
    )


class Round:
    """One engine, once, from start to stop."""

    def __init__(self, records: Records, name: str, python: str, options: argparse.Namespace, label: str) -> None:
        self._records = records
        self._name = name
        self._python = python
        self._options = options
        self._label = label
        self._engine: EngineProcess | None = None
        #: tried once a round: the reason then holds for every workload
        self._cannot_start: EngineFailure | None = None

    def run(self, chosen: set[str]) -> None:
        try:
            for workload in WORKLOADS:
                if workload.name in chosen and (self._name, workload.name) not in self._records.unsupported:
                    self._attempt(workload)
            if LIFE in chosen or self._engine is not None:
                self._stop()
        finally:
            if self._engine is not None:
                self._engine.close()

    def _attempt(self, workload: Workload) -> None:
        """A workload that fails costs its engine a fresh start, and the other engines nothing."""
        try:
            figures = self._measure(self._started(), workload)
        except EngineFailure as failure:
            self._fail(workload.name, failure)
            self._abandon()
            return
        if figures is not None:
            self._say(workload.name, ", ".join(f"{name} {table.number(value)}" for name, value in figures.items()))
            self._records.add(self._name, workload.name, figures)

    def _measure(self, engine: EngineProcess, workload: Workload) -> dict[str, float] | None:
        engine.settle()
        if workload.warm_up and self._ask(engine, workload, workload.warm_up) is None:
            return None
        sizes = workload.quick if self._options.quick else workload.sizes
        cpu_before = engine.cpu_seconds()
        memory_before = engine.memory_bytes(with_client=True)
        figures = self._ask(engine, workload, sizes)
        if figures is None:
            return None
        if workload.observe == "cpu":
            figures |= cpu_per_task(cpu_before, engine.cpu_seconds(), engine.scheduler_id, sizes["count"])
        if workload.observe == "memory":
            growth = engine.memory_bytes(with_client=True) - memory_before
            figures["mib_per_1000"] = growth / MIB * 1000 / sizes["count"]
            engine.ask(workload.limit_seconds, do="run", measure="drop_results", sizes={})
        return figures

    def _ask(self, engine: EngineProcess, workload: Workload, sizes: dict[str, int]) -> dict[str, float] | None:
        sizes = {**sizes, "workers": self._options.workers}
        answer = engine.ask(workload.limit_seconds, do="run", measure=workload.measure, sizes=sizes)
        if "unsupported" in answer:
            self._records.unsupported[self._name, workload.name] = answer["unsupported"]
            return None
        return figures_of(answer)

    def _started(self) -> EngineProcess:
        if self._cannot_start is not None:
            raise self._cannot_start
        if self._engine is None:
            self._engine = engine = EngineProcess(self._name, self._python)
            try:
                self._start(engine)
            except EngineFailure as failure:
                self._cannot_start = failure
                raise
        return self._engine

    def _start(self, engine: EngineProcess) -> None:
        answer = engine.ask(START_SECONDS, do="start", workers=self._options.workers)
        figures = figures_of(answer)
        engine.scheduler_id = answer["scheduler_id"] or engine.scheduler()
        figures["rest_mib"] = engine.memory_bytes(with_client=False) / MIB
        self._records.add(self._name, LIFE, figures)
        self._records.versions[self._name] = f"{answer['version']} Python {answer['python']}".strip()

    def _stop(self) -> None:
        try:
            figures = figures_of(self._started().ask(START_SECONDS, do="stop"))
        except EngineFailure as failure:
            self._fail(LIFE, failure)
            return
        self._records.add(self._name, LIFE, figures)

    def _fail(self, workload: str, failure: EngineFailure) -> None:
        if failure is not self._cannot_start:
            self._say(workload, f"failed: {failure}")
        self._records.fail(self._name, workload, str(failure))

    def _abandon(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _say(self, workload: str, text: str) -> None:
        print(f"{self._label}  {self._name:<12}  {workload:<14}  {text}", file=sys.stderr, flush=True)


def figures_of(answer: dict[str, Any]) -> dict[str, float]:
    if "error" in answer:
        raise EngineFailure(answer["error"])
    return dict(answer["figures"])


def cpu_per_task(
    before: dict[int, float], after: dict[int, float], scheduler_id: int | None, count: int
) -> dict[str, float]:
    spent = {pid: seconds - before.get(pid, 0.0) for pid, seconds in after.items()}
    figures = {"cpu_ms_per_task": sum(spent.values()) / count * 1e3}
    if scheduler_id in spent:
        figures["scheduler_us_per_task"] = spent[scheduler_id] / count * 1e6
    return figures


if __name__ == "__main__":
    sys.exit(main())
