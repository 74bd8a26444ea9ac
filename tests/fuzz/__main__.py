"""`python -m tests.fuzz [FAMILY ...] --seconds 60 --seed 1`: hostile peers against a real cluster (`make fuzz`)."""

from __future__ import annotations

import argparse
import itertools
import secrets
import signal
import sys
import time

from tests.fuzz.access import ACCESS
from tests.fuzz.arena import CALLS_FACTOR, Verdict
from tests.fuzz.families import FAMILIES
from tests.fuzz.runner import line_of, run, runnable
from tests.fuzz.summary import Summary

EACH_SECONDS = 10.0
"""In a long run a family has so long before the next one has its turn, with a fresh cluster after each round."""
JUDGED_SECONDS = 1.0
"""From so long for each family on, its median call is judged, and not only told."""


def main() -> int:
    options = parser().parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    seconds = 3600.0 if options.hour else options.seconds
    print(f"seed {seed}, {seconds:g} s in all, access {', '.join(options.access)}", flush=True)
    summaries = {access: Summary(access) for access in options.access}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        in_rounds(options.families, seed, seconds, summaries)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        for summary in summaries.values():
            print(f"\n{summary.text()}", flush=True)
    return 1 if any(summary.failed for summary in summaries.values()) else 0


def in_rounds(families: list[str], seed: int, seconds: float, summaries: dict[str, Summary]) -> None:
    """Each with one access, in turns. Its counts are told after each: a run of an hour may be ended from outside."""
    end_at = time.monotonic() + seconds
    for access in itertools.cycle(summaries):
        summary = summaries[access]

        def took(verdict: Verdict, summary: Summary = summary) -> None:
            summary.add(verdict)
            tell(verdict)

        names = families or runnable(access)
        left = max(end_at - time.monotonic(), 0.0)
        each = min(EACH_SECONDS, max(left / len(names) / len(summaries), 0.5))
        run(names, seed, each, took, access, is_judged=each >= JUDGED_SECONDS)
        print("\n".join(["", *summary.counts(), ""]), flush=True)
        seed += 1
        if time.monotonic() >= end_at:
            return


def accesses(text: str) -> list[str]:
    found = text.split(",")
    if not set(found) <= set(ACCESS):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ACCESS)}")
    return found


def tell(verdict: Verdict) -> None:
    print(line_of(verdict), flush=True)
    for trouble in verdict.troubles:
        print(f"    FAILED: {trouble}", flush=True)
    if verdict.troubles:
        print(f"    again: {verdict.command}", flush=True)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        epilog="The bystander's calls are compared with those before each family, while this process spins and sends "
        f"nothing. A family fails if their median is above {CALLS_FACTOR:g} times that, or a server grows by too much.",
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of: {', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them (default: %(default)g)")
    parser.add_argument("--hour", action="store_true", help="for an hour, in rounds")
    parser.add_argument(
        "--access", type=accesses, default=["insecure"],
        help="a cluster without keys; or one with a key, and hostile peers that are strangers, that hold a ticket of "
        "another role than they claim, or of that role; several with commas: in turns. "
        f"Of: {', '.join(ACCESS)} (default: insecure)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="of all choices (default: one that is told)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
