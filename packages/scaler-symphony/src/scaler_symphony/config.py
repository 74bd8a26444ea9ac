"""The options of `scaler_symphony_cluster`."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaler_protocol.ids import PeerId
from scaler_protocol.keys import KeyOptions, Pass
from scaler_protocol.messages import NO_PEER, Capability
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    add_program_arguments,
    add_secret,
    check_event_loop,
    given_secret,
    logging_options,
    positive_int,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.worker_arguments import (
    add_capabilities,
    add_connection,
    add_functions,
    add_grace,
    add_present,
    add_queue_size,
    add_scheduler,
    add_unit,
    checked_addresses,
    optional_address,
    optional_addresses,
)
from scaler_symphony import __version__
from scaler_symphony.grid import GridOptions

PROGRAM = "scaler_symphony_cluster"
SECTION = "symphony_worker_adapter"
_DEFAULTS = GridOptions(application="")


@dataclass(frozen=True, slots=True)
class SymphonyConfig:
    address: str
    grid: GridOptions
    base_concurrency: int
    worker_name: str
    capabilities: tuple[Capability, ...] = ()
    queue_size: int = 1000
    heartbeat_seconds: float = 2.0
    death_timeout_seconds: float = 300.0
    grace_seconds: float = 1.0  #: what running tasks get on SIGTERM
    present_seconds: float = 60.0  #: tasks are kept for a restarted scheduler so long
    storage_address: str = ""  #: empty: the one the scheduler names
    hosts_scheduler_address: str = ""  #: of nested clients, when it is another one there
    functions: tuple[str, ...] = ()  #: modules of the hosts whose functions tasks may name
    io_threads: int = 1
    event_loop: str = "builtin"
    logging: LoggingOptions = field(default_factory=LoggingOptions)
    manager_id: PeerId = NO_PEER  #: of the worker manager that started this worker (MGR-8)
    unit_id: str = ""
    keys: KeyOptions = field(default_factory=KeyOptions)
    shown: Pass | None = None  #: what the keys were found to be, once they are looked for
    hosts_key_file: str = ""  #: of the services, as it is called on the hosts


def parse_arguments(arguments: Sequence[str] | None = None) -> SymphonyConfig:
    parsed = parser().parse_settings(arguments)
    check_event_loop(parsed.event_loop)
    return SymphonyConfig(
        address=checked_addresses(parsed.address),
        grid=GridOptions(
            parsed.service_name,
            parsed.user,
            given_secret(parsed, "password"),
            parsed.session_type,
            parsed.session_name,
        ),
        base_concurrency=parsed.base_concurrency,
        worker_name=parsed.worker_name,
        capabilities=parsed.worker_capabilities,
        queue_size=parsed.worker_task_queue_size,
        heartbeat_seconds=parsed.heartbeat_interval,
        death_timeout_seconds=parsed.death_timeout_seconds,
        grace_seconds=parsed.grace_seconds,
        present_seconds=parsed.present_seconds,
        storage_address=optional_address(parsed.object_storage_address),
        hosts_scheduler_address=optional_addresses(parsed.worker_scheduler_address),
        functions=parsed.functions,
        io_threads=parsed.io_threads,
        event_loop=parsed.event_loop,
        logging=logging_options(parsed),
        manager_id=parsed.unit[0],
        unit_id=parsed.unit[1],
        keys=key_options(parsed),
        hosts_key_file=parsed.worker_key_file or "",
    )


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section=SECTION,
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="A worker that runs tasks inside IBM Spectrum Symphony.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2345 ScalerService --base-concurrency 4",
    )
    add_scheduler(parser)
    parser.add_argument("service_name", help="the Symphony application that runs the tasks, such as ScalerService")
    _add_worker(parser.add_argument_group("worker"))
    _add_symphony(parser.add_argument_group("Symphony"))
    _add_connection(parser.add_argument_group("connection"))
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    return parser


def _add_worker(group: argparse._ArgumentGroup) -> None:
    default = max((os.cpu_count() or 2) - 1, 1)
    group.add_argument(
        "--base-concurrency", "-n", type=positive_int, default=default, metavar="N",
        help="how many tasks run at once that are not nested; each level of nesting may take one more. With N service "
        "instances it is N less the deepest level (default: one less than there are processors, %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--worker-name", "-w", default=socket.gethostname(), metavar="NAME", help="(default: the host's name)"
    )
    add_capabilities(group, "--worker-capabilities", "-wc", "--per-worker-capabilities", "-pwc")
    add_queue_size(group, "--worker-task-queue-size", "-wtqs")
    add_grace(group)
    add_present(group)
    add_functions(group)
    add_unit(group)


def _add_symphony(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--session-type", default=_DEFAULTS.session_type, metavar="NAME",
        help="of those in the application profile (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--session-name", default=_DEFAULTS.session_name, metavar="NAME",
        help="what operators see in Symphony's console (default: %(default)s)",
    )  # fmt: skip
    group.add_argument("--user", default=_DEFAULTS.user, metavar="NAME", help="(default: %(default)s)")
    add_secret(group, "--password", SECTION, "of that user (default: %(default)s)", _DEFAULTS.password)


def _add_connection(group: argparse._ArgumentGroup) -> None:
    add_connection(group, "--io-threads", "-it")
    group.add_argument(
        "--worker-key-file", metavar="FILE",
        help="the ticket file of a worker, as it is called on the hosts (default: what is found there)",
    )  # fmt: skip
    group.add_argument(
        "--worker-scheduler-address", "-wsa", metavar="ADDRESS",
        help="the scheduler, when nested clients on the hosts must reach it by another address than this worker",
    )  # fmt: skip
