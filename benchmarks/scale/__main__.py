"""`make bench-scale`: does a task cost the same however many workers, clients and other tasks there are?

Every measurement has a process of its own. Times are processor time of the scheduler's core alone, the least of the
rounds; memory is what the process grows by.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks import drawing
from benchmarks.scale.measures import MEASURES, Figures
from benchmarks.scale.sweeps import FLAT, SWEEPS, Sweep

LIMIT_SECONDS = 600.0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the tasks: does it run at all?")
    parser.add_argument("--rounds", type=int, default=1, help="the least of so many counts (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=[sweep.name for sweep in SWEEPS], metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("build/scale"), help="for the page and the JSON (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    chosen = set(options.only or [sweep.name for sweep in SWEEPS])
    measured = [(sweep, run(sweep, options)) for sweep in SWEEPS if sweep.name in chosen]
    about = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{about}{', quick sizes, not for comparison' if options.quick else ''}\n")
    for sweep, series in measured:
        print(table(sweep, series))
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out, about, measured)
    print(f"plots: {options.out / 'index.html'}")
    return 0


def run(sweep: Sweep, options: argparse.Namespace) -> dict[str, list[tuple[int, Figures]]]:
    """For each series: where along the sweep, and what was measured there."""
    found: dict[str, list[tuple[int, Figures]]] = {name: [] for name in sweep.series}
    for value in sweep.quick_values if options.quick else sweep.values:
        for name in sweep.series:
            rounds = [fresh(sweep.measure, sweep.sizes(name, value, is_quick=options.quick))
                      for _ in range(options.rounds)]  # fmt: skip
            figures = {figure: min(one[figure] for one in rounds) for figure in rounds[0]}
            shown = ", ".join(f"{figure} {number:.2f}" for figure, number in figures.items())
            print(f"{sweep.name}  {sweep.across} {value:,}  {name}:  {shown}", file=sys.stderr, flush=True)
            found[name].append((value, figures))
    return found


def fresh(measure: str, sizes: dict[str, int]) -> Figures:
    """In a process that has done nothing else, so that memory and caches are those of this measurement."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(MEASURES[measure], (), sizes).get(LIMIT_SECONDS)


def table(sweep: Sweep, series: dict[str, list[tuple[int, Figures]]]) -> str:
    values = [value for value, _ in next(iter(series.values()))]
    rows = [[f"{sweep.title}, {sweep.unit}, by {sweep.across}", *(f"{value:,}" for value in values), "most / least"]]
    for name, points in series.items():
        numbers = [figures[sweep.figure] for _, figures in points]
        rows.append([name, *(f"{number:.1f}" for number in numbers), f"{max(numbers) / min(numbers):.2f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) if not index else cell.rjust(width)
             for index, (cell, width) in enumerate(zip(row, widths, strict=True))) + " |" for row in rows]  # fmt: skip
    rule = "|" + "|".join("-" * (width + 2) if not index else "-" * (width + 1) + ":"
                          for index, width in enumerate(widths)) + "|"  # fmt: skip
    return "\n".join([lines[0], rule, *lines[1:], ""])


def write(out: Path, about: str, measured: Sequence[tuple[Sweep, dict[str, list[tuple[int, Figures]]]]]) -> None:
    plots = []
    entries: list[dict[str, Any]] = []
    for sweep, series in measured:
        lines = {name: [(float(value), figures[sweep.figure]) for value, figures in points]
                 for name, points in series.items()}  # fmt: skip
        plots.append(drawing.lines(sweep.title, sweep.across, sweep.unit, lines))
        entries += [{"sweep": sweep.name, "series": name, sweep.across: value, **figures}
                    for name, points in series.items() for value, figures in points]  # fmt: skip
    text = f"{about}. {FLAT}"
    page = f"<!doctype html><meta charset=utf-8><title>Scale</title><p>{escape(text)}</p>\n{''.join(plots)}"
    (out / "index.html").write_text(page, encoding="utf-8")
    (out / "scale.json").write_text(json.dumps({"about": about, "figures": entries}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
