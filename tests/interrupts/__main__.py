"""`python -m tests.interrupts --seconds 300 --seed 7`: interrupt a client for as long as you like."""

from __future__ import annotations

import argparse
import faulthandler
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.interrupts.stress import WAIT, Broken, stress
from tests.support.clusters import RealCluster, task_total
from tests.support.fake_cluster import FakeCluster
from tests.support.processes import Stage


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interrupts")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="a cluster of real processes, which runs generators too")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds + 5 * WAIT, exit=True)
    with ExitStack() as exits:
        try:
            if options.real:
                directory = Path(exits.enter_context(tempfile.TemporaryDirectory()))
                _keep_keys_in(directory)
                cluster = RealCluster(exits.enter_context(Stage(directory)), 2)
                told = stress(cluster.address, options.seconds, options.seed, lambda: task_total(cluster.snapshot()))
                cluster.wait_until_empty()
            else:
                fake = FakeCluster()
                exits.callback(fake.stop)
                told = stress(fake.address, options.seconds, options.seed)
        except Broken:
            faulthandler.dump_traceback(all_threads=True)
            raise
    print(told)


def _keep_keys_in(directory: Path) -> None:
    """In the environment, because the commands have to find the same."""
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        place = directory / name.lower()
        place.mkdir(mode=0o700)
        os.environ[name] = str(place)


main()
