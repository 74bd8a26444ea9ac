"""`python -m tests.simulation`: run seeds, tell what a failing one saw; or go on from a dump."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from itertools import chain
from pathlib import Path

from tests.simulation.deaths import DrainingWorld, HarshWorld, LateWorld, OftenDeadWorld, TwiceDeadWorld
from tests.simulation.grey import GreyWorld
from tests.simulation.managed import HarshManagedWorld, ManagedWorld
from tests.simulation.managed_pair import ManagedPairWorld
from tests.simulation.presenting import PresentingWorld
from tests.simulation.restored import NotADump, Restored, read
from tests.simulation.standby import StandbyWorld
from tests.simulation.world import Report, World

WORLDS: dict[str, type[World]] = {
    "any": World,
    "presenting": PresentingWorld,
    "twice-dead": TwiceDeadWorld,
    "often-dead": OftenDeadWorld,
    "draining": DrainingWorld,
    "late": LateWorld,
    "harsh": HarshWorld,
    "grey": GreyWorld,
    "managed": ManagedWorld,
    "harsh-managed": HarshManagedWorld,
    "standby": StandbyWorld,
    "managed-standby": ManagedPairWorld,
}


def run_seed(seed: int, kind: type[World] = World) -> tuple[Report | None, World, str]:
    """The report, or None and what went wrong."""
    world = kind(seed)
    try:
        return world.run(), world, ""
    except Exception:
        return None, world, traceback.format_exc()


def _is_death(trouble: str) -> bool:
    return trouble.startswith("scheduler") and trouble.endswith(" crashes")


def run_dump(path: Path) -> int:
    try:
        restored = Restored(read(path.read_text(encoding="utf-8")))
    except (OSError, NotADump) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    print(f"in order, with {restored.unfinished_count:,} of {restored.tables_line['unfinished']:,} unfinished tasks")
    print(restored.run())
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument(
        "--world", choices=WORLDS, default="any", help="of which kind; all but any and grey kill schedulers"
    )
    parser.add_argument("--dump", type=Path, metavar="FILE", help="no seed: a scheduler as scaler_dump has written it")
    parser.add_argument(
        "--transcript", type=int, nargs="?", const=10**6, default=80, metavar="LINES",
        help="how much of a failing run's transcript to print (default: 80 lines; without LINES: all)",
    )  # fmt: skip
    options = parser.parse_args()
    if options.dump is not None:
        return run_dump(options.dump)
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    begun = time.monotonic()
    reports: list[Report] = []
    for seed in seeds:
        report, world, error = run_seed(seed, WORLDS[options.world])
        if report is None:
            print(f"seed {seed} FAILED at {world.clock.now:.4f} virtual seconds\n")
            print("\n".join(list(world.transcript)[-options.transcript :]))
            print(f"\n{error}\nagain: python -m tests.simulation --world {options.world} --seed {seed} --transcript")
            return 1
        reports.append(report)
    hours = sum(report.virtual_seconds for report in reports) / 3600
    print(
        f"{len(reports)} seeds passed: {sum(report.tasks for report in reports):,} tasks, "
        f"{sum(report.messages for report in reports):,} messages, "
        f"{sum(len(report.troubles) for report in reports)} misfortunes, "
        f"{sum(map(_is_death, chain(*(report.troubles for report in reports)))):,} of them deaths of schedulers, "
        f"{hours:.1f} virtual hours in {time.monotonic() - begun:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
