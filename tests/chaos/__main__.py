"""`python -m tests.chaos --seconds 300 --seed 1`: faults against real clusters, drawn by seed (`make chaos`).

Each cell of the matrix once, then again in another order, until the time is over. The table of pauses is written into
the docs, together with what earlier runs have measured.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from tests.chaos import table
from tests.chaos.arena import Measured, run
from tests.chaos.cells import Cell, every


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no fault begins later (default: 3600)")
    parser.add_argument("--seed", type=int, default=1, help="the order of the cells (default: 1)")
    parser.add_argument("--short", action="store_true", help="without the faults that take minutes")
    parser.add_argument("--only", default="", help="cells whose text has this in it")
    options = parser.parse_args()
    cells = [cell for cell in every() if options.only in cell.text and not (options.short and cell.is_long)]
    rng, ends_at = random.Random(options.seed), time.monotonic() + options.seconds
    measured: list[Measured] = []
    failed = 0
    runs = table.load()
    keys = tempfile.TemporaryDirectory(prefix="scaler-chaos-keys-")
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        os.environ[name] = keys.name  # a key of this run's own, which no stage counts as left over
    while cells and time.monotonic() < ends_at:
        for cell in rng.sample(cells, len(cells)):
            if time.monotonic() >= ends_at:
                break
            with tempfile.TemporaryDirectory(prefix="scaler-chaos-") as directory:
                one = _tried(cell, Path(directory) / "stage")
            failed += one is None
            measured += [] if one is None else [one]
    keys.cleanup()
    table.add(runs, measured)
    table.save(runs)
    print(f"{len(measured) + failed} faults, {failed} failed\n\n{table.table(runs)}")
    return 1 if failed else 0


def _tried(cell: Cell, directory: Path) -> Measured | None:
    begun_at = time.monotonic()
    try:
        measured = run(cell, directory)
    except AssertionError as error:
        print(f"FAILED  {cell.text}: {error}", flush=True)
        return None
    seconds = time.monotonic() - begun_at
    print(
        f"ok      {cell.text}: pause {measured.pause:.1f} s, {measured.reruns} begun again, {measured.text} "
        f"({seconds:.1f} s)",
        flush=True,
    )
    return measured


if __name__ == "__main__":
    raise SystemExit(main())
