# PYTHON_ARGCOMPLETE_OK
"""`scaler_symphony_cluster tcp://127.0.0.1:2345 ScalerService --base-concurrency 4`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

from scaler_protocol.process import posix_command, run_command, run_server

posix_command("scaler_symphony_cluster")  # before the imports that fail elsewhere

from scaler_protocol.transport import use_io_threads
from scaler_symphony.config import PROGRAM, parse_arguments
from scaler_symphony.service import SymphonyService
from scaler_symphony.soam import import_soamapi


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    config = parse_arguments(arguments)
    soamapi = import_soamapi()  # before the key is waited for: nothing makes it appear
    config = replace(config, shown=config.keys.find_worker_pass(config.address, config.death_timeout_seconds))
    use_io_threads(config.io_threads)

    async def serve(stop: asyncio.Event) -> None:
        await SymphonyService(config, soamapi).run(stop)

    return run_server(serve, config.logging, config.event_loop)


if __name__ == "__main__":
    sys.exit(main())
