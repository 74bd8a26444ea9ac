"""`python -m tests.fuzz [FAMILY ...] --seconds 60 --seed 1`: hostile peers against a real cluster (`make fuzz`)."""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import signal
import sys
import time
from collections.abc import Sequence

from tests.fuzz.access import ACCESS
from tests.fuzz.arena import CALLS_FACTOR, Verdict
from tests.fuzz.families import FAMILIES
from tests.fuzz.runner import line_of, run, runnable
from tests.fuzz.summary import Summary

EACH_SECONDS = 10.0
"""In a long run a family has so long before the next one has its turn, with a fresh cluster after each round."""
LEAST_SECONDS = 0.5
"""In a short run not all families have their turn: so long is needed for one to do anything."""
BETWEEN_SECONDS = 1.0
"""What begins and ends the turn of a family, about."""
JUDGED_SECONDS = 1.0
"""From so long for each family on, its median call is judged, and not only told."""


def main() -> int:
    options = parser().parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    seconds = 3600.0 if options.hour else options.seconds
    accesses = options.access or ACCESS
    print(f"seed {seed}, {seconds:g} s in all, access {', '.join(accesses)}", flush=True)
    summaries = {access: Summary(access) for access in accesses}
    #: of an access that was named, families are run that it does not hold against, too
    named = options.families if options.access else []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        in_rounds(options.families, seed, seconds, summaries, named)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    finally:
        for summary in summaries.values():
            print(f"\n{summary.text()}", flush=True)
    return 1 if any(summary.failed for summary in summaries.values()) else 0


def in_rounds(
    families: Sequence[str], seed: int, seconds: float, summaries: dict[str, Summary], named: Sequence[str] = ()
) -> None:
    """Each with one access, in turns, at least once. Its counts are told after each: a run of an hour may be ended from
    outside."""
    end_at = time.monotonic() + seconds
    for turn, access in enumerate(itertools.cycle(summaries)):
        summary = summaries[access]

        def took(verdict: Verdict, summary: Summary = summary) -> None:
            summary.add(verdict)
            tell(verdict)

        of_round = len(summaries) - turn % len(summaries)
        share = max(end_at - time.monotonic(), 0.0) / of_round
        names = named or some_of(families, access, int(share / (LEAST_SECONDS + BETWEEN_SECONDS)), seed)
        if names:
            each = min(EACH_SECONDS, max(share / len(names) - BETWEEN_SECONDS, LEAST_SECONDS))
            run(names, seed, each, took, access, is_judged=each >= JUDGED_SECONDS)
            print("\n".join(["", *summary.counts(), ""]), flush=True)
        seed += 1
        if time.monotonic() >= end_at and turn + 1 >= len(summaries):
            return


def some_of(families: Sequence[str], access: str, most: int, seed: int) -> list[str]:
    """Of these families, or of all, those that attack something with this access; a choice if time is short."""
    names = [name for name in runnable(access) if name in (families or FAMILIES)]
    if families or len(names) <= most:
        return names
    chosen = random.Random(seed).sample(names, max(most, 1))
    return [name for name in names if name in chosen]


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
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY",
        help=f"of: {', '.join(FAMILIES)} (default: all; in a short run as many as there is time for, by the seed)",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them (default: %(default)g)")
    parser.add_argument("--hour", action="store_true", help="for an hour, in rounds")
    parser.add_argument(
        "--access", type=accesses,
        help="a cluster without keys; or one with a key, and hostile peers that are strangers, that hold a ticket of "
        "another role than they claim, or of that role; several with commas: in turns. "
        f"Of: {', '.join(ACCESS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="of all choices (default: one that is told)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
