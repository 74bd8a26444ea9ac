"""The options of `scaler_cluster`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from scaler_protocol.ids import PeerId
from scaler_protocol.keys import KeyOptions, Pass
from scaler_protocol.messages import NO_PEER, Capability
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_arguments_without_effect,
    add_program_arguments,
    byte_count,
    check_event_loop,
    flag,
    logging_options,
    non_negative_seconds,
    parse_preload,
    positive_int,
    positive_seconds,
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
)
from scaler_protocol.records import dataclass
from scaler_worker import __version__
from scaler_worker.code_sets.options import (
    ALL,
    DEFAULT_CODE_BYTES,
    DEFAULT_ENVIRONMENT_BYTES,
    MODULES,
    NONE,
    CodeOptions,
)

if TYPE_CHECKING:
    from scaler_worker.gpus import Gpus

PROGRAM = "scaler_cluster"


LEAST_MEMORY_BYTES = 64 << 20
"""A processor that has imported nothing but ours has about half of that."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    address: str
    worker_names: tuple[str, ...] = ("0",)
    capabilities: tuple[Capability, ...] = ()
    queue_size: int = 1000
    heartbeat_seconds: float = 2.0
    death_timeout_seconds: float = 300.0
    grace_seconds: float = 1.0  #: what running tasks get on SIGTERM
    task_timeout_seconds: float = 0.0  #: of every task; zero: none but its own
    present_seconds: float = 60.0  #: tasks are kept for a restarted scheduler so long
    object_retention_seconds: float = 3600.0
    collect_seconds: float = 30.0
    trim_threshold_bytes: int = 1 << 30
    memory_bytes: int = 0  #: the most that one processor may have; zero: any
    tasks_per_processor: int = 0  #: it is replaced after so many; zero: never for that
    shares_processors: bool = False  #: one processor may run tasks of several users
    max_processors: int = 128
    suspends_hard: bool = False
    hides_streamed_output: bool = False  #: what clients show is not written here as well
    gpus: str = ""  #: which GPUs the workers share out; empty: nothing is said of them
    devices: Gpus | None = None  #: in the process of one worker: those of its tasks
    storage_address: str = ""  #: empty: the one the scheduler names
    preload: str = ""
    code: CodeOptions = field(default_factory=CodeOptions)  #: for the modules and packages of clients
    functions: tuple[str, ...] = ()  #: modules whose functions tasks may name
    io_threads: int = 1
    event_loop: str = "builtin"
    logging: LoggingOptions = field(default_factory=LoggingOptions)
    keys: KeyOptions = field(default_factory=KeyOptions)
    shown: Pass | None = None  #: what the keys were found to be, once they are looked for
    manager_id: PeerId = NO_PEER  #: of the worker manager that started these workers (MGR-8)
    unit_id: str = ""

    @property
    def slot_count(self) -> int:
        """Returns one for each processor, and some for those that have exited and are not buried yet."""
        return self.max_processors * 2 + 16


def _memory_limit(text: str) -> int:
    value = byte_count(text)
    if value < LEAST_MEMORY_BYTES:
        least = LEAST_MEMORY_BYTES >> 20
        raise argparse.ArgumentTypeError(
            f"{text!r} is less than a processor needs before its first task: give at least {least}MiB"
        )
    return value


def parse_arguments(arguments: Sequence[str] | None = None) -> ClusterConfig:
    parsed = parser().parse_settings(arguments)
    return cluster_config(
        parsed,
        worker_names=_names(parsed.worker_names, parsed.num_of_workers),
        manager_id=parsed.unit[0],
        unit_id=parsed.unit[1],
        gpus=given_gpus(parsed),
    )


def cluster_config(parsed: argparse.Namespace, **others: Any) -> ClusterConfig:
    """From the options that `add_worker_options` has added."""
    check_event_loop(parsed.event_loop)
    return ClusterConfig(
        address=checked_addresses(parsed.address),
        capabilities=parsed.per_worker_capabilities,
        queue_size=parsed.worker_task_queue_size,
        heartbeat_seconds=parsed.heartbeat_interval,
        death_timeout_seconds=parsed.death_timeout_seconds,
        grace_seconds=parsed.grace_seconds,
        task_timeout_seconds=parsed.task_timeout_seconds,
        present_seconds=parsed.present_seconds,
        object_retention_seconds=parsed.object_retention_seconds,
        collect_seconds=parsed.garbage_collect_interval_seconds,
        trim_threshold_bytes=parsed.trim_memory_threshold_bytes,
        memory_bytes=parsed.memory_per_processor or 0,
        tasks_per_processor=parsed.tasks_per_processor or 0,
        shares_processors=parsed.share_processors_between_users,
        max_processors=parsed.max_processors,
        suspends_hard=parsed.hard_processor_suspend,
        hides_streamed_output=parsed.hide_streamed_output,
        storage_address=optional_address(parsed.object_storage_address),
        preload=parsed.preload or "",
        functions=parsed.functions,
        code=CodeOptions(
            parsed.client_code,
            parsed.code_directory or "",
            parsed.code_limit,
            parsed.environment_limit,
            parsed.environment_timeout_seconds,
        ),
        io_threads=parsed.io_threads,
        event_loop=parsed.event_loop,
        logging=logging_options(parsed),
        keys=key_options(parsed),
        **others,
    )


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section="cluster",
        key_aliases={"scheduler_address": "address", "storage_address": "object_storage_address"},
        description="Workers that run tasks for a scheduler.",
        epilog='Example: scaler_cluster -n 4 tcp://127.0.0.1:2345 --per-worker-capabilities "gpu=2,linux"',
    )
    add_scheduler(parser)
    workers = parser.add_argument_group("workers")
    _add_count(workers)
    add_worker_options(parser, workers)
    return parser


def add_worker_options(parser: ArgumentParser, workers: argparse._ArgumentGroup) -> None:
    """All that says what workers are like, but not how many there are; worker managers have the same."""
    _add_workers(workers)
    _add_tasks(parser.add_argument_group("tasks"))
    _add_code(parser.add_argument_group("code of clients"))
    _add_memory(parser.add_argument_group("memory"))
    add_connection(parser.add_argument_group("connection"), "--io-threads", "-it", "--worker-io-threads")
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    add_arguments_without_effect(
        parser, (("--log-hub-address", "-la"), str, "there is no log hub: logs go to --logging-paths")
    )


def _add_count(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--num-of-workers", "-n", type=positive_int, metavar="N",
        help="how many workers (default: as many as names, else one less than there are processors)",
    )  # fmt: skip
    group.add_argument(
        "--worker-names", "-wn", default="", metavar="NAMES",
        help="comma separated, as many as workers (default: numbers)",
    )  # fmt: skip
    add_gpus(group)
    add_unit(group)


def add_gpus(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--gpus", type=_gpu_ids, metavar="auto|IDS",
        help="share out these GPUs among the workers: each offers the capability gpu and shows each task as many "
        "as the task needs, as CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES; auto: those that are found here",
    )  # fmt: skip


def _add_workers(group: argparse._ArgumentGroup) -> None:
    add_capabilities(group, "--per-worker-capabilities", "-pwc")
    add_queue_size(
        group, "--worker-task-queue-size", "-wtqs", "--per-worker-task-queue-size", "--per-worker-queue-size", "-wqs"
    )
    group.add_argument(
        "--max-processors", type=positive_int, default=128, metavar="N",
        help="the most processes of one worker, which bounds how deep tasks may nest (default: %(default)s)",
    )  # fmt: skip


def _add_tasks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--task-timeout-seconds", "-tts", "-tt", type=non_negative_seconds, default=0.0, metavar="SECONDS",
        help="stop every task that runs for longer; zero: only those that have a timeout of their own (default: 0)",
    )  # fmt: skip
    add_grace(group)
    add_present(group)
    group.add_argument(
        "--hard-processor-suspend", "-hps", **flag(),
        help="stop the whole process of a task that waits for its children while they run in its place: its other "
        "threads, if it has any, stand still too (default: False)",
    )  # fmt: skip
    group.add_argument(
        "--share-processors-between-users", **flag(),
        help="run a task in a process that has run tasks of another user: what one has changed there, the others find "
        "(default: False)",
    )  # fmt: skip
    group.add_argument(
        "--hide-streamed-output", **flag(),
        help="do not write what a task prints to the output of the workers as well, if its client shows it "
        "(default: False)",
    )  # fmt: skip
    group.add_argument(
        "--preload", type=_preload, metavar="MODULE:FUNCTION(ARGUMENTS)",
        help="call this once in every new processor, before its first task",
    )  # fmt: skip
    add_functions(group)


def _add_code(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--client-code", choices=(ALL, MODULES, NONE), default=ALL,
        help="what tasks may bring: their own modules and packages, only modules, or neither: "
        "Client(code=..., requirements=...) (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--code-directory", metavar="PATH",
        help="where the workers of a host keep the modules and packages of clients (default: scaler-code-UID in the "
        "directory for temporary files, or in ~/.cache if another account has taken that name)",
    )  # fmt: skip
    group.add_argument(
        "--code-limit", type=byte_count, default=DEFAULT_CODE_BYTES, metavar="BYTES",
        help="the most bytes of clients' modules on this host; what has not been used for longest is removed "
        "(default: 2GiB)",
    )  # fmt: skip
    group.add_argument(
        "--environment-limit", type=byte_count, default=DEFAULT_ENVIRONMENT_BYTES, metavar="BYTES",
        help="the same for packages that clients require (default: 20GiB)",
    )  # fmt: skip
    group.add_argument(
        "--environment-timeout-seconds", type=positive_seconds, default=900.0, metavar="SECONDS",
        help="how long the installation of a client's packages may take (default: 900)",
    )  # fmt: skip


def _add_memory(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--memory-per-processor", type=_memory_limit, metavar="BYTES",
        help="end a task with MemoryLimitError whose process reaches this much memory, such as 4GiB, and replace a "
        "process that keeps 80 %% of it between two tasks (default: no limit)",
    )  # fmt: skip
    group.add_argument(
        "--tasks-per-processor", type=positive_int, metavar="N",
        help="replace a process after so many tasks, for code that leaks memory (default: never)",
    )  # fmt: skip
    group.add_argument(
        "--object-retention-seconds", "-ot", type=non_negative_seconds, default=3600.0, metavar="SECONDS",
        help="how long a processor keeps functions and serializers that no task uses; the scheduler may say less "
        "(default: 3600)",
    )  # fmt: skip
    group.add_argument(
        "--garbage-collect-interval-seconds", "-gc", type=positive_seconds, default=30.0, metavar="SECONDS",
        help="a busy processor collects garbage so often, an idle one at once (default: 30)",
    )  # fmt: skip
    group.add_argument(
        "--trim-memory-threshold-bytes", "-tm", type=byte_count, default=1 << 30, metavar="BYTES",
        help="a processor that has this much memory or more gives back what is free after it has collected, such as "
        "512M (default: 1GiB)",
    )  # fmt: skip


def _gpu_ids(text: str) -> str:
    from scaler_worker.gpus import parse_gpus  # most hosts have none

    try:
        return parse_gpus(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def given_gpus(parsed: argparse.Namespace) -> str:
    """Of the option that `add_gpus` has added."""
    if parsed.gpus and any(one.name == "gpu" for one in parsed.per_worker_capabilities):
        raise UsageError("--gpus counts the capability gpu: take it out of --per-worker-capabilities")
    return parsed.gpus or ""


def _preload(text: str) -> str:
    try:
        parse_preload(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _names(text: str, count: int | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        return tuple(str(index) for index in range(count or max((os.cpu_count() or 2) - 1, 1)))
    if count not in (None, len(names)):
        raise UsageError(f"--worker-names has {len(names)} names for {count} workers; give one for each")
    return names
