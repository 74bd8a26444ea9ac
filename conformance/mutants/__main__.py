"""`python -m conformance.mutants`: does the suite notice every mutant of ours?"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from . import table
from .hunt import SEEDS, SEEDS_TO_FIND, Caught, hunt, sequences
from .registry import Mutant, all_mutants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.mutants", description=__doc__)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="a clause, a role, or 'storage/STO-*'; all")
    parser.add_argument("--list", action="store_true", help="print their names only")
    parser.add_argument(
        "--sequences", action="store_true", help=f"{SEEDS} generated runs for each, instead of directed cases; hours"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many at a time (default: 2)")
    parser.add_argument("--table", action="store_true", help=f"write what was found to {table.TABLE.name}")
    chosen = parser.parse_args()
    mutants = [mutant for mutant in all_mutants().values() if _fits(mutant, chosen.patterns)]
    if chosen.sequences:
        mutants = [mutant for mutant in mutants if not mutant.unseen]
    if chosen.list:
        for mutant in mutants:
            print(mutant.id)
        return 0
    if not mutants:
        parser.error("no mutant fits; --list shows all")
    began_at = time.monotonic()
    free = _hunt_all(mutants, chosen)
    print(f"{len(mutants) - free} of {len(mutants)} mutants are caught, in {time.monotonic() - began_at:.0f} s")
    return 1 if free else 0


def _hunt_all(mutants: Sequence[Mutant], chosen: argparse.Namespace) -> int:
    """How many went free."""
    free = 0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for caught in pool.map(sequences if chosen.sequences else hunt, mutants):
            print(_line(caught), flush=True)
            free += not caught.is_caught
            if chosen.table:
                _note(caught)
    return free


def _note(caught: Caught) -> None:
    """At once: a hunt of hours may be broken off."""
    known = all_mutants()
    rows = {identifier: row for identifier, row in table.read().items() if identifier in known}
    row = rows.get(caught.mutant.id, table.Row())
    if caught.seeds:
        row = dataclasses.replace(row, seeds=f"{sum(map(bool, caught.seeds))}/{len(caught.seeds)}")
    else:
        row = dataclasses.replace(row, case=caught.case or table.NOTHING)
    table.write({**rows, caught.mutant.id: row})


def _fits(mutant: Mutant, patterns: list[str]) -> bool:
    names = (mutant.role, mutant.clause, mutant.id)
    return not patterns or any(pattern in names or fnmatch.fnmatchcase(mutant.id, pattern) for pattern in patterns)


def _line(caught: Caught) -> str:
    if caught.seeds:
        found = " ".join(name or "–" for name in caught.seeds)
        verdict = "caught" if caught.is_caught else f"FREE ({SEEDS_TO_FIND} of {SEEDS} are wanted)"
        return f"{verdict}  {caught.mutant.id}  in {caught.seconds:.0f} s: {found}"
    if caught.is_caught:
        return f"caught  {caught.mutant.id}  by {caught.case} in {caught.seconds:.1f} s"
    said = "".join(f"\n        {other}" for other in caught.others) or "\n        no case shows this clause"
    return f"FREE    {caught.mutant.id}{said}"


if __name__ == "__main__":
    sys.exit(main())
