"""`python -m conformance.mutants`: does the suite notice every mutant of ours?"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .hunt import SEEDS, Caught, hunt, sequences
from .registry import Mutant, all_mutants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.mutants", description=__doc__)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="a clause, a role, or 'storage/STO-*'; all")
    parser.add_argument("--list", action="store_true", help="print their names only")
    parser.add_argument("--sequences", action="store_true", help=f"also {SEEDS} generated runs for each; hours")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many at a time (default: 2)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what was found as JSON")
    chosen = parser.parse_args()
    mutants = [mutant for mutant in all_mutants().values() if _fits(mutant, chosen.patterns)]
    if chosen.list:
        for mutant in mutants:
            print(mutant.id)
        return 0
    if not mutants:
        parser.error("no mutant fits; --list shows all")
    began_at = time.monotonic()
    with ProcessPoolExecutor(chosen.jobs) as pool:
        found = []
        for caught in pool.map(_examined if chosen.sequences else hunt, mutants):
            found.append(caught)
            print(_line(caught), flush=True)
    free = [caught for caught in found if not caught.is_caught]
    print(f"{len(found) - len(free)} of {len(found)} mutants are caught, in {time.monotonic() - began_at:.0f} s")
    unfound = [each for each in found if chosen.sequences and not each.mutant.unseen and not each.is_found_by_sequences]
    for caught in unfound:
        print(f"sequences found {caught.mutant.id} with {sum(map(bool, caught.seeds))} of {len(caught.seeds)} seeds")
    if chosen.out:
        content = [dataclasses.asdict(caught) | {"id": caught.mutant.id} for caught in found]
        chosen.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if free or unfound else 0


def _fits(mutant: Mutant, patterns: list[str]) -> bool:
    names = (mutant.role, mutant.clause, mutant.id)
    return not patterns or any(pattern in names or fnmatch.fnmatchcase(mutant.id, pattern) for pattern in patterns)


def _examined(mutant: Mutant) -> Caught:
    caught = hunt(mutant)
    seeds = () if mutant.unseen else sequences(mutant, range(SEEDS))
    return dataclasses.replace(caught, seeds=seeds)


def _line(caught: Caught) -> str:
    seeds = f"  [{sum(map(bool, caught.seeds))}/{len(caught.seeds)} seeds]" if caught.seeds else ""
    if caught.is_caught:
        return f"caught  {caught.mutant.id}  by {caught.case} in {caught.seconds:.1f} s{seeds}"
    said = "".join(f"\n        {other}" for other in caught.others) or "\n        no case shows this clause"
    return f"FREE    {caught.mutant.id}{seeds}{said}"


if __name__ == "__main__":
    sys.exit(main())
