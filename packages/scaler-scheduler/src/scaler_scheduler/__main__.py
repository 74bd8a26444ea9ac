# PYTHON_ARGCOMPLETE_OK
"""`scaler_scheduler ADDRESS`, or `python -m scaler_scheduler ADDRESS`."""

from __future__ import annotations

import asyncio
import sys

from scaler_protocol.process import StartupError, posix_command, run_command, run_server, use_all_descriptors

posix_command("scaler_scheduler")  # before the imports that fail elsewhere

from scaler_scheduler.config import PROGRAM, Config, parse
from scaler_scheduler.core.policy import Policy, Scaling
from scaler_scheduler.policy_text import PolicyChoice
from scaler_scheduler.publishing import Identity
from scaler_scheduler.service import SchedulerService

REBIND_LOOKS = 50
REBIND_LOOK_SECONDS = 0.1

RECORDS = (Config, Policy, PolicyChoice, Scaling, Identity)
"""What a scheduler makes when it starts: see `scaler_protocol.process.warm`."""


def main() -> int:
    return run_command(PROGRAM, _run)


def _run() -> int:
    config = parse()
    use_all_descriptors()
    return run_server(lambda stop: _serve(config, stop), config.logging, config.event_loop)


async def _serve(config: Config, stop: asyncio.Event) -> None:
    """One life after another: a scheduler that was followed by its standby waits for its turn, as a new one."""
    looks = 0
    while True:
        life = asyncio.Event()
        relay = asyncio.ensure_future(_relay(stop, life))
        try:
            service = await _begun(config, life, looks)
            await service.run()
        finally:
            relay.cancel()
        if stop.is_set() or not (service.is_followed and config.standby_of):
            return
        looks = REBIND_LOOKS


async def _begun(config: Config, life: asyncio.Event, looks: int) -> SchedulerService:
    """libzmq gives the port of the life before back in the background."""
    for _ in range(looks):
        try:
            return SchedulerService(config, life)
        except StartupError:
            await asyncio.sleep(REBIND_LOOK_SECONDS)
    return SchedulerService(config, life)


async def _relay(stop: asyncio.Event, life: asyncio.Event) -> None:
    await stop.wait()
    life.set()


if __name__ == "__main__":
    sys.exit(main())
