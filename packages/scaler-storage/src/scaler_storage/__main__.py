# PYTHON_ARGCOMPLETE_OK
"""`scaler_object_storage_server ADDRESS`, or `python -m scaler_storage ADDRESS`."""

from __future__ import annotations

import asyncio
import sys

from scaler_protocol.process import posix_command, run_command, run_server, use_all_descriptors

posix_command("scaler_object_storage_server")  # before the imports that fail elsewhere

from scaler_storage.config import PROGRAM, Config, parse
from scaler_storage.core import actions
from scaler_storage.core.copies import Copies
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.objects import StoredObject
from scaler_storage.core.spilling import Spilling
from scaler_storage.service import StorageService

RECORDS = (Config, CoreLimits, Spilling, Copies, StoredObject, actions.Send, actions.Strike)
"""What a storage makes when it starts, or with its first object: see `scaler_protocol.process.warm`."""


def main() -> int:
    return run_command(PROGRAM, _run)


def _run() -> int:
    config = parse()
    use_all_descriptors()
    return run_server(lambda stop: _serve(config, stop), config.logging, config.event_loop)


async def _serve(config: Config, stop: asyncio.Event) -> None:
    await StorageService(config, stop).run()


if __name__ == "__main__":
    sys.exit(main())
