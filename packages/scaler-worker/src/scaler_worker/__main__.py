# PYTHON_ARGCOMPLETE_OK
"""`scaler_cluster -n 4 tcp://127.0.0.1:2345`"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from scaler_protocol.process import posix_command, run_command, setup_logging

posix_command("scaler_cluster")  # before the imports that fail elsewhere

from scaler_worker import zygote
from scaler_worker.cluster import Cluster
from scaler_worker.config import ClusterConfig, parse_arguments

RECORDS = (ClusterConfig, *zygote.RECORDS)
"""What a cluster of workers makes when it starts: see `scaler_protocol.process.warm`."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command("scaler_cluster", lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    config = parse_arguments(arguments)
    setup_logging(config.logging)
    return Cluster(config).run()


if __name__ == "__main__":
    sys.exit(main())
