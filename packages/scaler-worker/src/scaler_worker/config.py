"""What a cluster of workers is told on its command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaler_protocol.addresses import AddressError, parse_address
from scaler_protocol.messages import Capability
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_arguments_without_effect,
    add_logging_arguments,
    logging_options,
    positive_int,
    positive_seconds,
)
from scaler_worker.processor.main import parse_preload


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    address: str
    worker_names: tuple[str, ...] = ("0",)
    capabilities: tuple[Capability, ...] = ()
    queue_size: int = 1000
    heartbeat_seconds: float = 2.0
    death_timeout_seconds: float = 300.0
    grace_seconds: float = 1.0  #: what running tasks get on SIGTERM
    object_retention_seconds: float = 3600.0
    max_processors: int = 128
    storage_address: str = ""  #: empty: the one the scheduler names
    preload: str = ""
    logging: LoggingOptions = field(default_factory=LoggingOptions)


def parse_arguments(arguments: Sequence[str] | None = None) -> ClusterConfig:
    parsed = _parser().parse_args(arguments)
    return ClusterConfig(
        address=_address(parsed.address),
        worker_names=_names(parsed.worker_names, parsed.num_of_workers),
        capabilities=parsed.per_worker_capabilities,
        queue_size=parsed.worker_task_queue_size,
        heartbeat_seconds=parsed.heartbeat_interval,
        death_timeout_seconds=parsed.death_timeout_seconds,
        grace_seconds=parsed.grace_seconds,
        object_retention_seconds=parsed.object_retention_seconds,
        max_processors=parsed.max_processors,
        storage_address=_address(parsed.object_storage_address) if parsed.object_storage_address else "",
        preload=parsed.preload or "",
        logging=logging_options(parsed),
    )


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser("scaler_cluster", description="Start workers that run tasks for a scheduler.")
    parser.add_argument("address", help="the scheduler, such as tcp://127.0.0.1:2345")
    _add_workers(parser)
    _add_times(parser)
    _add_processors(parser)
    add_logging_arguments(parser)
    add_arguments_without_effect(
        parser,
        (("-el", "--event-loop"), str, "an agent's loop is a poller of its own"),
        (("-it", "--io-threads"), positive_int, "one is enough for one connection"),
        (("-tts", "--task-timeout-seconds"), float, "a task says for itself how long it may run"),
        (("-gc", "--garbage-collect-interval-seconds"), positive_seconds, "processors collect when they are idle"),
        (("-tm", "--trim-memory-threshold-bytes"), int, "values are freed as tasks end"),
    )
    parser.add_argument(
        *("-hps", "--hard-processor-suspend"),
        action="store_true",
        help="accepted and without effect: a waiting task is never stopped by a signal",
    )
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("-n", "--num-of-workers"),
        type=positive_int,
        metavar="N",
        help="how many workers (default: as many as names, else one less than there are processors)",
    )
    parser.add_argument(
        *("-wn", "--worker-names"), default="", metavar="NAMES", help="comma separated; as many as workers"
    )
    parser.add_argument(
        *("-pwc", "--per-worker-capabilities"),
        type=parse_capabilities,
        default=(),
        metavar="CAPABILITIES",
        help='what each worker offers: "gpu,linux", or with amounts: "gpu=2"',
    )
    parser.add_argument(
        *("-wtqs", "--worker-task-queue-size", "--per-worker-task-queue-size"),
        type=positive_int,
        default=1000,
        metavar="N",
        help="the most tasks a worker queues, reached only with tiny ones (default: %(default)s)",
    )
    parser.add_argument(
        *("-osa", "--object-storage-address"),
        default="",
        metavar="ADDRESS",
        help="the object storage, when workers must reach it by another address than the scheduler names",
    )


def _add_times(parser: argparse.ArgumentParser) -> None:
    options = (
        (("-hi", "--heartbeat-interval"), 2.0, "how often a worker tells its status"),
        (("-ds", "--death-timeout-seconds"), 300.0, "how long workers look for a scheduler before they give up"),
        (("--grace-seconds",), 1.0, "how long running tasks may go on when the cluster is told to stop"),
        (("--object-retention-seconds",), 3600.0, "how long a processor keeps functions it no longer uses"),
    )
    for names, default, text in options:
        parser.add_argument(
            *names, type=positive_seconds, default=default, metavar="SECONDS", help=f"{text} (default: %(default)s)"
        )


def _add_processors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-processors",
        type=positive_int,
        default=128,
        metavar="N",
        help="the most processes of one worker, which bounds how deep tasks may nest (default: %(default)s)",
    )
    parser.add_argument(
        "--preload",
        type=_preload,
        default=None,
        metavar="MODULE:FUNCTION(ARGUMENTS)",
        help="call this once in every new processor, before its first task",
    )


def parse_capabilities(text: str) -> tuple[Capability, ...]:
    """`gpu=2,linux`: names, and amounts where they are counted."""
    return tuple(_capability(item.strip()) for item in text.split(",") if item.strip())


def _capability(text: str) -> Capability:
    name, equals, amount = (part.strip() for part in text.partition("="))
    if not name or (equals and not amount.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a capability: write name, or name=amount")
    return Capability(name, int(amount) if equals else -1)


def _preload(text: str) -> str:
    try:
        parse_preload(text)
    except (ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _address(text: str) -> str:
    try:
        return str(parse_address(text))
    except AddressError as error:
        raise UsageError(str(error)) from None


def _names(text: str, count: int | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        return tuple(str(index) for index in range(count or max((os.cpu_count() or 2) - 1, 1)))
    if count not in (None, len(names)):
        raise UsageError(f"--worker-names has {len(names)} names for {count} workers; give one for each")
    return names
