"""`python -m tests.interrupts --seconds 300 --seed 7`: interrupt a client for as long as you like."""

from __future__ import annotations

import argparse
import faulthandler

from tests.interrupts.stress import WAIT, Broken, stress
from tests.support.fake_cluster import FakeCluster


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interrupts")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--address", help="of a scheduler; without one, a small cluster in this process is used")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds + 3 * WAIT, exit=True)
    cluster = None if options.address else FakeCluster()
    try:
        print(stress(options.address or cluster.address, options.seconds, options.seed))  # type: ignore[union-attr]
    except Broken:
        faulthandler.dump_traceback(all_threads=True)
        raise
    finally:
        if cluster is not None:
            cluster.stop()


main()
