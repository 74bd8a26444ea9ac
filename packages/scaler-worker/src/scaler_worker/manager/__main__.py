# PYTHON_ARGCOMPLETE_OK
"""`scaler_worker_manager baremetal_native tcp://127.0.0.1:2345 --max-task-concurrency 8`"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from scaler_protocol.keys import Pass
from scaler_protocol.keys.web import ADAPTER_LABEL, web_token
from scaler_protocol.process import UsageError, posix_command, run_command, run_server, setup_logging

posix_command("scaler_worker_manager")  # before the imports that fail elsewhere

from scaler_worker import __version__
from scaler_worker.config import ClusterConfig
from scaler_worker.cores import share_cores, usable_cores
from scaler_worker.manager.arguments import unit_arguments
from scaler_worker.manager.config import PROGRAM, SlurmConfig, WebhookConfig, parse_native, parse_slurm, parse_webhook
from scaler_worker.manager.native import NativeBackend
from scaler_worker.manager.service import KEY_SECONDS, ManagerConfig, ManagerService, NewBackend
from scaler_worker.manager.slurm import SlurmBackend
from scaler_worker.manager.symphony import parse_symphony

HELP = f"""usage: {PROGRAM} KIND [options] address

Brings workers to a scheduler, as many as it has use for, and takes them away again.

KIND is one of
  baremetal_native  processes of this machine
  slurm             jobs of Slurm
  symphony          tasks inside IBM Spectrum Symphony
  webhook           whatever a worker adapter starts when it is asked

{PROGRAM} KIND --help shows the options of each."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(PROGRAM, lambda: _run(given))


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"{PROGRAM} {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
        return 0 if arguments else 2
    kind = KINDS.get(arguments[0])
    if kind is None:
        raise UsageError(f"there are no workers of kind {arguments[0]!r}; one of: {', '.join(KINDS)}")
    return kind(arguments[1:])


def run_native(arguments: Sequence[str]) -> int:
    config = parse_native(arguments)
    if config.is_fixed:
        from scaler_worker.cluster import Cluster  # what runs tasks, and so deserializes (SEC-3)

        setup_logging(config.cluster.logging)
        return Cluster(config.cluster).run()

    setup_logging(config.cluster.logging)
    share_cores(os.environ, usable_cores(), len(config.cluster.worker_names))  # a unit sees itself alone
    arguments_of = partial(_unit_arguments, config.manager, dataclasses.replace(config.cluster, gpus=""))
    new_backend = partial(
        NativeBackend,
        shares=config.shares,
        arguments_of=arguments_of,
        stop_seconds=config.manager.stop_seconds,
        address=config.manager.address,
        keys=config.manager.keys,
    )
    return _serve(config.manager, new_backend, config.cluster.event_loop)


def run_slurm(arguments: Sequence[str]) -> int:
    config = parse_slurm(arguments)
    setup_logging(config.cluster.logging)
    manager = config.manager.with_key()  # before its workers need it
    key_arguments = manager.keys.for_remote_workers(manager.address, _ticket_path(config))
    arguments_of = lambda unit_id: [*key_arguments, *_unit_arguments(manager, config.cluster, unit_id)]  # noqa: E731
    new_backend = partial(
        SlurmBackend, manager_id=config.manager.manager_id, options=config.slurm, arguments_of=arguments_of
    )
    return _serve(config.manager, new_backend, config.cluster.event_loop)


def _ticket_path(config: SlurmConfig) -> str:
    """Of the workers: beside the logs of the jobs, named as they are, so that the next life of this manager and jobs
    that are started again find the same file."""
    return os.path.join(config.slurm.log_directory, f"scaler-{config.manager.manager_id.hex()}.key")


def _serve(manager: ManagerConfig, new_backend: NewBackend, event_loop: str) -> int:
    """Runs a manager. The command logs already, because the manager may wait for the key, and logs that."""
    manager = manager.with_key()

    async def serve(stop: asyncio.Event) -> None:
        await ManagerService(manager, new_backend).run(stop)

    return run_server(serve, None, event_loop)


def _unit_arguments(manager: ManagerConfig, cluster: ClusterConfig, unit_id: str) -> list[str]:
    count = manager.workers_per_unit
    names = (unit_id,) if count == 1 else tuple(f"{unit_id}-{number}" for number in range(count))
    return unit_arguments(
        dataclasses.replace(cluster, worker_names=names, manager_id=manager.manager_id, unit_id=unit_id)
    )


def run_webhook(arguments: Sequence[str]) -> int:
    config = parse_webhook(arguments)
    setup_logging(config.logging)  # it may wait for the key, and log that
    shown = config.keys.find_pass(config.address, KEY_SECONDS)
    if not config.token:  # only now: the adapter refuses a manager without its token for good
        config = dataclasses.replace(config, token=web_token(config.keys, config.address, ADAPTER_LABEL))
    return run_server(partial(_serve_webhook, config, shown), None, config.event_loop)


def run_symphony(arguments: Sequence[str]) -> int:
    units = parse_symphony(arguments)
    setup_logging(units.logging)
    return _serve(units.manager, units.new_backend(), units.event_loop)


async def _serve_webhook(config: WebhookConfig, shown: Pass | None, stop: asyncio.Event) -> None:
    try:
        from scaler_worker.manager import webhook  # its HTTP library is an extra
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed: run `pip install 'scaler-worker[webhook]'`") from None
    await webhook.serve(config, shown, stop)


KINDS: dict[str, Callable[[Sequence[str]], int]] = {
    "baremetal_native": run_native,
    "slurm": run_slurm,
    "symphony": run_symphony,
    "webhook": run_webhook,
}


if __name__ == "__main__":
    sys.exit(main())
