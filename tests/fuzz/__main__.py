"""`python -m tests.fuzz [FAMILY ...] --seconds 60 --seed 1`: hostile peers against a real cluster (`make fuzz`)."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter

from tests.fuzz.access import ACCESS
from tests.fuzz.arena import Verdict
from tests.fuzz.families import FAMILIES
from tests.fuzz.runner import OPEN_WHEN_INSECURE, line_of, run

EACH_SECONDS = 10.0
"""In a long run a family has so long before the next one has its turn, with a fresh cluster after each round."""


def main() -> int:
    options = parser().parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    seconds = 3600.0 if options.hour else options.seconds
    left_open = OPEN_WHEN_INSECURE if options.access == "insecure" else ()
    names = options.families or [name for name in FAMILIES if name not in left_open]
    print(f"seed {seed}; {len(names)} families, {seconds:g} s in all", flush=True)
    end_at = time.monotonic() + seconds
    totals: Counter[str] = Counter()
    failed = 0
    while True:
        left = max(end_at - time.monotonic(), 0.0)
        each = min(EACH_SECONDS, max(left / len(names), 0.5))
        verdicts = run(names, seed, each, tell, options.access)
        totals.update({verdict.name: verdict.inputs for verdict in verdicts})
        failed += sum(bool(verdict.troubles) for verdict in verdicts)
        seed += 1
        if time.monotonic() >= end_at or len(verdicts) < len(names):
            break
    print(f"{sum(totals.values()):,} inputs; {failed} families failed")
    return 1 if failed else 0


def tell(verdict: Verdict) -> None:
    print(line_of(verdict), flush=True)
    for trouble in verdict.troubles:
        print(f"    FAILED: {trouble}", flush=True)
    if verdict.troubles:
        print(f"    again: {verdict.command}", flush=True)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of: {', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them (default: %(default)g)")
    parser.add_argument("--hour", action="store_true", help="for an hour, in rounds")
    parser.add_argument(
        "--access", choices=ACCESS, default="insecure",
        help="a cluster without keys; or one with a key, and hostile peers that are strangers, that hold a ticket of "
        "another role than they claim, or of that role (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="of all choices (default: one that is told)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
