# PYTHON_ARGCOMPLETE_OK
"""`scaler_native_worker_adapter tcp://127.0.0.1:2345 --host 127.0.0.1 --port 8080`"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

from scaler_protocol.process import StartupError, UsageError, posix_command, run_command, run_server, setup_logging

posix_command("scaler_native_worker_adapter")  # before the imports that fail elsewhere

from scaler_worker.adapter.config import PROGRAM, AdapterConfig, parse_arguments
from scaler_worker.cores import share_cores, usable_cores
from scaler_worker.manager.arguments import unit_arguments
from scaler_worker.manager.native import STOP_MARGIN_SECONDS, NativeBackend
from scaler_worker.manager.service import KEY_SECONDS
from scaler_worker.manager.shares import with_share

logger = logging.getLogger("scaler.adapter")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    config = parse_arguments(arguments)
    setup_logging(config.cluster.logging)  # it may wait for the key, and log that
    config = config.with_token(KEY_SECONDS)
    share_cores(os.environ, usable_cores(), config.max_groups)  # a group sees itself alone
    return run_server(partial(_serve, config), None, config.cluster.event_loop)


async def _serve(config: AdapterConfig, stop: asyncio.Event) -> None:
    try:
        from aiohttp import web
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed: run `pip install 'scaler-worker[webhook]'`") from None
    from scaler_protocol.web import listen
    from scaler_worker.adapter.groups import Groups
    from scaler_worker.adapter.server import AdapterServer

    new_backend = partial(
        NativeBackend,
        shares=config.shares,
        arguments_of=lambda name: unit_arguments(dataclasses.replace(config.cluster, worker_names=(name,))),
        stop_seconds=config.cluster.grace_seconds + STOP_MARGIN_SECONDS,
        address=config.cluster.address,
        keys=config.cluster.keys,
    )
    groups = Groups(new_backend, config.max_groups)
    offered = with_share(config.cluster.capabilities, config.shares)
    server = AdapterServer(groups, offered, config.token, config.hosts)
    runner = web.AppRunner(server.application(), access_log=None, handle_signals=False)
    await runner.setup()
    assert runner.server is not None
    try:
        listener = await listen(runner.server, config.host, config.port, server.bounds)
    except OSError as error:
        await runner.cleanup()
        raise StartupError(f"cannot listen on {config.host}:{config.port}: {error.strerror or error}") from None
    host, port = listener.sockets[0].getsockname()[:2]
    logger.info(
        "NativeWorkerAdapter: listen to http://%s:%d for the scheduler at %s", host, port, config.cluster.address
    )
    try:
        await stop.wait()
    finally:
        listener.close()
        await groups.close()
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
