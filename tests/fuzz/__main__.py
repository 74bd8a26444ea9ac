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
from tests.fuzz.runner import line_of, run, runnable

EACH_SECONDS = 10.0
"""In a long run a family has so long before the next one has its turn, with a fresh cluster after each round."""


def main() -> int:
    options = parser().parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    seconds = 3600.0 if options.hour else options.seconds
    names = options.families or runnable(options.access)
    print(f"seed {seed}; {len(names)} families, {seconds:g} s in all", flush=True)
    end_at = time.monotonic() + seconds
    summary = Summary()
    try:
        while True:
            left = max(end_at - time.monotonic(), 0.0)
            each = min(EACH_SECONDS, max(left / len(names), 0.5))
            for verdict in run(names, seed, each, tell, options.access):
                summary.add(verdict)
            seed += 1
            if time.monotonic() >= end_at:
                break
    finally:  # also of a run that is interrupted
        print(f"\n{summary.text(options.access)}", flush=True)
    return 1 if summary.failed else 0


class Summary:
    """What a closing note can take as it is. It takes no more memory however long the run is."""

    def __init__(self) -> None:
        self._places: Counter[str] = Counter()
        self._runs = self._calls = 0
        self._slowest: tuple[float, str] = (0.0, "")
        #: by server: the largest growth under one family
        self._grown: dict[str, tuple[int, str]] = {}
        #: by family: how often, and how to repeat the first
        self.failed: dict[str, tuple[int, str]] = {}

    def add(self, verdict: Verdict) -> None:
        self._places.update(verdict.places)
        self._runs += 1
        self._calls += verdict.calls
        self._slowest = max(self._slowest, (verdict.slowest_seconds, verdict.name))
        for server, grown in verdict.grown_bytes.items():
            self._grown[server] = max(self._grown.get(server, (0, "")), (grown, verdict.name))
        if verdict.troubles:
            count, command = self.failed.get(verdict.name, (0, verdict.command))
            self.failed[verdict.name] = (count + 1, command)

    def text(self, access: str) -> str:
        lines = [f"access {access}: {self._places.total():,} inputs in {self._runs} runs of families"]
        lines += [f"    {place:34} {count:14,} inputs" for place, count in sorted(self._places.items())]
        seconds, name = self._slowest
        lines.append(f"bystander: {self._calls:,} calls, the slowest {seconds:.2f} s ({name})")
        for server, (grown, by) in sorted(self._grown.items()):
            lines.append(f"    {server:10} grew by at most {grown >> 20} MiB ({by})")
        lines.append(f"{len(self.failed)} families failed")
        lines += [f"    {name}, {count} times: {command}" for name, (count, command) in sorted(self.failed.items())]
        return "\n".join(lines)


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
