"""The options of `scaler_scheduler`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scaler_protocol.addresses import (
    AddressError,
    default_monitor_address,
    default_storage_address,
    parse_address,
)
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Timers
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_program_arguments,
    byte_count,
    check_event_loop,
    flag,
    http_url,
    logging_options,
    non_negative_seconds,
    positive_int,
    positive_seconds,
    seconds,
    whole_number,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.records import dataclass
from scaler_scheduler import __version__
from scaler_scheduler.core import Policy
from scaler_scheduler.policy_text import ENGINES, PolicyChoice, parse_policy

PROGRAM = "scaler_scheduler"

SHORTEST_STANDBY_LEASE_SECONDS = 0.5
"""A scheduler with a long turn, such as with a hundred thousand tasks, is silent for some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Config:
    address: str
    storage_address: str
    #: was the storage's address given? If not, and nothing answers there, the scheduler starts one itself.
    is_storage_given: bool
    #: options of the storage that is started here
    storage_arguments: tuple[str, ...]
    advertised_storage_address: str
    monitor_address: str
    standby_of: str  #: another scheduler, on which this one follows; empty: none
    standby_lease_seconds: float
    adapter_webhook_url: str  #: of a worker adapter that brings workers, or empty
    keys: KeyOptions
    policy: Policy
    worker_timers: Timers
    client_timers: Timers
    vanished_host_seconds: float
    object_retention_seconds: float
    status_seconds: float
    io_threads: int
    event_loop: str
    logging: LoggingOptions


def parse(arguments: Sequence[str] | None = None) -> Config:
    """Raises UsageError, or exits with code 2 and one line, for what cannot be."""
    options = parser().parse_settings(arguments)
    check_event_loop(options.event_loop)
    try:
        _check_addresses(options)
        storage = options.object_storage_address or default_storage_address(options.address)
        monitor = options.monitor_address or default_monitor_address(options.address)
    except AddressError as error:
        raise UsageError(str(error)) from None
    choice = _choice(options)
    heartbeat = options.heartbeat_seconds
    return Config(
        address=options.address,
        storage_address=storage,
        is_storage_given=options.object_storage_address is not None,
        storage_arguments=_storage_arguments(options),
        advertised_storage_address=options.advertised_object_storage_address or as_seen_from_afar(storage),
        monitor_address=monitor,
        standby_of=_standby_of(options),
        standby_lease_seconds=options.standby_lease_seconds,
        keys=key_options(options),
        policy=_policy(options, choice),
        adapter_webhook_url=options.adapter_webhook_url or "",
        worker_timers=Timers(heartbeat_seconds=heartbeat, lease_seconds=options.worker_timeout_seconds),
        client_timers=Timers(heartbeat_seconds=heartbeat, lease_seconds=options.client_timeout_seconds),
        vanished_host_seconds=options.vanished_host_seconds,
        object_retention_seconds=options.object_retention_seconds,
        status_seconds=options.status_report_interval_seconds,
        io_threads=options.io_threads,
        event_loop=options.event_loop,
        logging=logging_options(options),
    )


def _standby_of(options: argparse.Namespace) -> str:
    """A standby must not start a storage of its own: values have to outlive the scheduler that it follows on."""
    if not options.standby_of:
        return ""
    try:
        other = str(parse_address(options.standby_of))
    except AddressError as error:
        raise UsageError(f"--standby-of: {error}") from None
    if options.object_storage_address is None:
        raise UsageError("--standby-of needs --object-storage-address: name the storage of both schedulers to both")
    if other == str(parse_address(options.address, is_bind=True)):
        raise UsageError(f"--standby-of {other} is this scheduler's own address: name the other scheduler's")
    return other


def _storage_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    given = {
        "--memory-limit": options.storage_memory_limit,
        "--user-limit": options.storage_user_limit,
        "--spill-directory": options.storage_spill_directory,
        "--data-directory": options.storage_data_directory,
        "--disk-limit": options.storage_disk_limit,
    }
    arguments = tuple(f"{name}={value}" for name, value in given.items() if value is not None)
    if arguments and options.object_storage_address is not None:
        name = arguments[0].partition("=")[0]
        raise UsageError(
            f"--storage{name[1:]} is for a storage that is started here: give {name} to the one that "
            "--object-storage-address names"
        )
    return arguments


def _policy(options: argparse.Namespace, choice: PolicyChoice) -> Policy:
    return Policy(
        load_balance_seconds=options.load_balance_seconds,
        load_balance_trigger_times=options.load_balance_trigger_times,
        waiting_limit=options.max_number_of_tasks_waiting,
        lost_processors_limit=options.lost_processors_limit,
        is_protected=options.protected,
        shows_texts=options.monitor_texts,
        allows_control=options.allow_control,
        owner_grace_seconds=options.client_timeout_seconds,
        scaling=choice.scaling,
        user_weights=dict(options.user_weights),
        user_tasks=options.user_tasks,
        user_task_bytes=options.user_task_bytes,
    )


def _choice(options: argparse.Namespace) -> PolicyChoice:
    if options.policy_content is None:
        if options.policy_engine_type != "simple":
            raise UsageError(f"--policy-engine-type {options.policy_engine_type} needs --policy-content")
        return PolicyChoice(options.allocate_policy or "even")
    choice = parse_policy(options.policy_engine_type, options.policy_content)
    if options.allocate_policy not in (None, choice.allocation):
        raise UsageError(
            f"--allocate-policy {options.allocate_policy} and --policy-content {options.policy_content!r} contradict "
            "each other: leave one of them out"
        )
    return choice


def as_seen_from_afar(address: str) -> str:
    """An address that means "every interface" names no place to dial: peers derive the storage's from ours (HSK-18),
    and monitors dial ours (HSK-19)."""
    return "" if parse_address(address, is_bind=True).host in ("*", "0.0.0.0", "::") else address


def _check_addresses(options: argparse.Namespace) -> None:
    parse_address(options.address, is_bind=True)
    if options.monitor_address:
        parse_address(options.monitor_address, is_bind=True)
    for text in (options.object_storage_address, options.advertised_object_storage_address):
        if text:
            parse_address(text)


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section="scheduler",
        key_aliases={
            "bind_address": "address",
            "scheduler_address": "address",
            "storage_address": "object_storage_address",
        },
        description="The scheduler: takes tasks from clients and spreads them over workers.",
        epilog="Example: scaler_scheduler tcp://127.0.0.1:2345",
    )
    parser.add_argument("address", help="where to listen for clients and workers, such as tcp://127.0.0.1:2345")
    _add_addresses(parser.add_argument_group("addresses"))
    _add_standby(parser.add_argument_group("a second scheduler"))
    _add_storage(parser.add_argument_group("an object storage that is started here"))
    _add_policy(parser.add_argument_group("scheduling"))
    _add_times(parser.add_argument_group("times"))
    parser.add_argument(
        "--io-threads", "-it", type=positive_int, default=1, metavar="N",
        help="threads that move messages between sockets and the scheduler (default: 1)",
    )  # fmt: skip
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    return parser


def _add_addresses(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--object-storage-address", "-osa", metavar="ADDRESS",
        help="the object storage server (default: the next port; started here if nothing answers there)",
    )  # fmt: skip
    group.add_argument(
        "--advertised-object-storage-address", "-aosa", metavar="ADDRESS",
        help="the same server as clients and workers reach it, where that differs",
    )  # fmt: skip
    group.add_argument(
        "--monitor-address", "-ma", metavar="ADDRESS",
        help="where monitors are served, besides the address itself (default: the second next port)",
    )  # fmt: skip
    group.add_argument(
        "--adapter-webhook-url", "-awu", type=http_url, metavar="URL",
        help="a worker adapter that starts workers when there is work, and shuts them down when there is none",
    )  # fmt: skip


def _add_standby(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--standby-of", "-so", metavar="ADDRESS",
        help="another scheduler of this cluster: serve when it is gone, and wait until then; needs "
        "--object-storage-address",
    )  # fmt: skip
    group.add_argument(
        "--standby-lease-seconds", "-sl", type=_lease_seconds, default=5.0, metavar="SECONDS",
        help=f"it is gone when it has given no sign for so long, {SHORTEST_STANDBY_LEASE_SECONDS:g} or more "
        "(default: 5)",
    )  # fmt: skip


def _lease_seconds(text: str) -> float:
    value = positive_seconds(text)
    if value < SHORTEST_STANDBY_LEASE_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text} s is less than a scheduler that is at work may be silent: give {SHORTEST_STANDBY_LEASE_SECONDS:g} "
            "or more"
        )
    return value


def _add_storage(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--storage-memory-limit", type=byte_count, metavar="BYTES", help="its --memory-limit, such as 8GiB"
    )
    group.add_argument("--storage-user-limit", type=byte_count, metavar="BYTES", help="its --user-limit")
    group.add_argument("--storage-spill-directory", metavar="DIR", help="its --spill-directory")
    group.add_argument("--storage-data-directory", metavar="DIR", help="its --data-directory")
    group.add_argument("--storage-disk-limit", type=byte_count, metavar="BYTES", help="its --disk-limit")


def _user_weights(text: str) -> tuple[tuple[str, float], ...]:
    weights = []
    for part in text.split(","):
        user, _, number = part.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if not user.strip() or not 0.01 <= weight <= 100:
            raise argparse.ArgumentTypeError(f"{part!r} is not USER=WEIGHT with a weight from 0.01 to 100")
        weights.append((user.strip(), weight))
    return tuple(weights)


def _add_policy(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allocate-policy", "-ap", choices=("even", "capability"), metavar="POLICY",
        help="even and capability mean the same: the least loaded of the workers that offer what the task needs",
    )  # fmt: skip
    group.add_argument(
        "--policy-content", "-pc", metavar="TEXT",
        help='the same and more in one text: "allocate=even_load; scaling=no"',
    )  # fmt: skip
    group.add_argument(
        "--policy-engine-type", "-et", choices=ENGINES, default="simple", metavar="TYPE",
        help=f"how that text is written: {' or '.join(ENGINES)} (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--user-weights", type=_user_weights, default=(), metavar="USER=WEIGHT,...",
        help="shares of users while programs compete for workers: with ana=3 programs of ana get three times the time "
        "that others get (default: 1 for each)",
    )  # fmt: skip
    group.add_argument(
        "--user-tasks", type=positive_int, default=Policy().user_tasks, metavar="N",
        help="refuse further tasks of a user, with QuotaError, while so many of that user have not ended "
        "(default: 10000000)",
    )  # fmt: skip
    group.add_argument(
        "--user-task-bytes", type=byte_count, default=Policy().user_task_bytes, metavar="BYTES",
        help="the same for the arguments that travel with these tasks (default: 4GiB)",
    )  # fmt: skip
    group.add_argument(
        "--max-number-of-tasks-waiting", "-mt", type=whole_number, default=-1, metavar="N",
        help="refuse further tasks, with NoWorkerError, while so many wait for a worker; -1: never (default: -1)",
    )  # fmt: skip
    group.add_argument(
        "--lost-processors-limit", "-lpl", type=positive_int, default=3, metavar="N",
        help="a task ends with ProcessorDiedError when so many processes that ran it have died; 1: at the first "
        "(default: 3)",
    )  # fmt: skip
    group.add_argument(
        "--load-balance-seconds", "-ls", type=seconds, default=1.0, metavar="SECONDS",
        help="how often to look for idle workers and queued tasks of busy ones, besides when a worker becomes idle; "
        "zero or less: never (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--load-balance-trigger-times", "-lbt", type=positive_int, default=2, metavar="N",
        help="how many looks in a row must find some before tasks are moved (default: 2)",
    )  # fmt: skip
    group.add_argument(
        "--protected", "-p", **flag(), help="refuse clients that ask to shut the cluster down (default: False)"
    )
    group.add_argument(
        "--monitor-texts", **flag(),
        help="monitors see the tracebacks of tasks that failed, in which names and values of programs may stand, and "
        "may ask where in its code a running task is (default: type and first line only)",
    )  # fmt: skip
    group.add_argument(
        "--allow-control", **flag(),
        help="with the cluster's key, or a ticket as operator, tasks may be canceled and workers let go from scaler_ui "
        "and scaler_top (default: these only watch)",
    )  # fmt: skip


def _add_times(group: argparse._ArgumentGroup) -> None:
    options = (
        (("--client-timeout-seconds", "-ct"), 60.0, "a client that is silent for so long is lost, and its tasks end"),
        (("--worker-timeout-seconds", "-wt"), 60.0, "a worker that is silent for so long is lost: others do its tasks"),
        (("--heartbeat-seconds",), 2.0, "peers that have nothing to say show life so often"),
        (("--status-report-interval-seconds", "-sri"), 1.0, "how often the state is published to monitors"),
    )
    for names, default, text in options:
        group.add_argument(
            *names, type=positive_seconds, default=default, metavar="SECONDS", help=f"{text} (default: {default:g})"
        )
    group.add_argument(
        "--vanished-host-seconds", type=non_negative_seconds, default=5.0, metavar="SECONDS",
        help="others do a worker's tasks when its host has given no sign for so long, not even TCP's (Linux, without a "
        "proxy in between); zero: only --worker-timeout-seconds counts (default: 5)",
    )  # fmt: skip
    group.add_argument(
        "--object-retention-seconds", "-ot", type=non_negative_seconds, default=60.0, metavar="SECONDS",
        help="how long workers keep functions and serializers that no task uses; a worker's own option may say less; "
        "zero: only that counts (default: 60)",
    )  # fmt: skip
