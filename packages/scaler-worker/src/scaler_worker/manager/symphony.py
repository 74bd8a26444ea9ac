"""Units as `scaler_symphony_cluster`, which is another dist: it is started by its name."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_program_arguments,
    check_event_loop,
    logging_options,
    positive_int,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.worker_arguments import add_capabilities, add_grace, add_scheduler, checked_addresses
from scaler_worker import __version__
from scaler_worker.manager.arguments import capabilities_text
from scaler_worker.manager.config import PROGRAM, SECTION, add_manager_name
from scaler_worker.manager.native import NativeBackend
from scaler_worker.manager.service import ManagerConfig, NewBackend

COMMAND = "scaler_symphony_cluster"
PASSWORD_VARIABLE = "SCALER_SYMPHONY_WORKER_ADAPTER_PASSWORD"
CLOSE_SECONDS = 30.0
"""Closing its Symphony session may take its time, besides the grace of its tasks."""


@dataclass(frozen=True, slots=True)
class SymphonyUnits:
    """What each unit is like."""

    manager: ManagerConfig
    service_name: str
    base_concurrency: int
    grace_seconds: float
    further: tuple[str, ...]
    event_loop: str
    logging: LoggingOptions

    def new_backend(self) -> NewBackend:
        """Raises UsageError when the command is not installed."""
        return partial(
            NativeBackend,
            arguments_of=partial(_arguments, self),
            stop_seconds=self.manager.stop_seconds,
            command=(_command(),),
            secret_names=(PASSWORD_VARIABLE,),
            address=self.manager.address,
            keys=self.manager.keys,
        )


def parse_symphony(arguments: Sequence[str]) -> SymphonyUnits:
    parsed = symphony_parser().parse_settings(arguments)
    check_event_loop(parsed.event_loop)
    name = parsed.worker_manager_id or f"symphony {parsed.service_name}"
    capabilities = parsed.per_worker_capabilities
    stop_seconds = parsed.grace_seconds + CLOSE_SECONDS
    return SymphonyUnits(
        ManagerConfig(
            checked_addresses(parsed.address),
            name,
            1,
            capabilities=capabilities,
            stop_seconds=stop_seconds,
            keys=key_options(parsed),
        ),
        parsed.service_name,
        parsed.max_task_concurrency,
        parsed.grace_seconds,
        tuple(shlex.split(parsed.cluster_options)),
        parsed.event_loop,
        logging_options(parsed),
    )


def symphony_parser() -> ArgumentParser:
    parser = ArgumentParser(
        f"{PROGRAM} symphony",
        section=SECTION,
        kind="symphony",
        key_aliases={"scheduler_address": "address"},
        description="A worker that runs tasks inside IBM Spectrum Symphony, while there is work for it.",
        epilog=f"Example: {PROGRAM} symphony tcp://127.0.0.1:2345 --service-name ScalerService -mtc 4",
    )
    add_scheduler(parser)
    parser.add_argument(
        "--service-name", "-sn", required=True, metavar="NAME", help="the Symphony application that runs the tasks"
    )
    parser.add_argument(
        "--max-task-concurrency", "-mtc", "--base-concurrency", "-n", type=positive_int,
        default=max((os.cpu_count() or 2) - 1, 1), metavar="N",
        help="how many tasks run at once that are not nested (default: %(default)s)",
    )  # fmt: skip
    add_capabilities(parser, "--per-worker-capabilities", "-pwc")
    add_grace(parser)
    parser.add_argument(
        "--cluster-options", default="", metavar="TEXT",
        help=f'further options of {COMMAND}: "--session-type Fast"',
    )  # fmt: skip
    add_manager_name(parser)
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    return parser


def _arguments(units: SymphonyUnits, unit_id: str) -> list[str]:
    manager = units.manager
    arguments = [
        manager.address,
        units.service_name,
        f"--base-concurrency={units.base_concurrency}",
        f"--worker-name={unit_id}",
        f"--worker-capabilities={capabilities_text(manager.capabilities)}",
        f"--unit={manager.manager_id.hex()}:{unit_id}",
        f"--grace-seconds={units.grace_seconds!r}",
        f"--event-loop={units.event_loop}",
    ]
    return [*arguments, *units.further, *units.logging.arguments()]


def _command() -> str:
    """Beside this interpreter, as pip puts it, or wherever the shell finds it."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which(COMMAND, path=beside) or shutil.which(COMMAND)
    if found is None:
        raise UsageError(f"there is no {COMMAND} here: run `pip install scaler-symphony`")
    return found
