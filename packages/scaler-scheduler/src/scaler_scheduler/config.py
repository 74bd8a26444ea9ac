"""The command line of `scaler_scheduler`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_protocol.addresses import (
    AddressError,
    default_monitor_address,
    default_storage_address,
    parse_address,
)
from scaler_protocol.messages import Timers
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_arguments_without_effect,
    add_event_loop_argument,
    add_logging_arguments,
    logging_options,
    positive_int,
    positive_seconds,
)
from scaler_scheduler.core import Policy

PROGRAM = "scaler_scheduler"


@dataclass(frozen=True, slots=True)
class Config:
    address: str
    storage_address: str
    #: was the storage's address given? If not, and nothing answers there, the scheduler starts one itself.
    is_storage_given: bool
    advertised_storage_address: str
    monitor_address: str
    is_insecure: bool
    policy: Policy
    timers: Timers
    event_loop: str
    logging: LoggingOptions


def parse(arguments: Sequence[str] | None = None) -> Config:
    """Raises UsageError, or exits with code 2 and one line, for what cannot be."""
    options = _parser().parse_args(arguments)
    try:
        _check_addresses(options)
        storage = options.object_storage_address or default_storage_address(options.address)
        monitor = options.monitor_address or default_monitor_address(options.address)
    except AddressError as error:
        raise UsageError(str(error)) from None
    return Config(
        address=options.address,
        storage_address=storage,
        is_storage_given=options.object_storage_address is not None,
        advertised_storage_address=options.advertised_object_storage_address or _as_seen_from_afar(storage),
        monitor_address=monitor,
        is_insecure=options.insecure,
        policy=Policy(
            uses_capabilities=options.allocate_policy == "capability",
            load_balance_seconds=options.load_balance_seconds,
            is_protected=options.protected,
        ),
        timers=Timers(heartbeat_seconds=options.heartbeat_seconds, lease_seconds=options.worker_timeout_seconds),
        event_loop=options.event_loop,
        logging=logging_options(options),
    )


def _as_seen_from_afar(storage: str) -> str:
    """An address that means "every interface" names no place to dial: peers then derive it from ours (HSK-18)."""
    return "" if parse_address(storage, is_bind=True).host in ("*", "0.0.0.0", "::") else storage


def _check_addresses(options: argparse.Namespace) -> None:
    bound = parse_address(options.address, is_bind=True)
    if options.monitor_address:
        parse_address(options.monitor_address, is_bind=True)
    for text in (options.object_storage_address, options.advertised_object_storage_address):
        if text:
            parse_address(text)
    if not bound.is_loopback and not options.insecure:
        raise UsageError(
            f"{options.address} can be reached from other machines, and whoever reaches it can run code on the "
            "workers: listen on 127.0.0.1, or add --insecure if the network around this machine keeps strangers out"
        )


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog=PROGRAM,
        description="The scheduler: takes tasks from clients and spreads them over workers.",
        epilog="Example: scaler_scheduler tcp://127.0.0.1:2345",
    )
    parser.add_argument("address", help="where to listen for clients and workers, such as tcp://127.0.0.1:2345")
    addresses = parser.add_argument_group("addresses")
    addresses.add_argument(
        "--object-storage-address", "-osa", metavar="ADDRESS",
        help="the object storage server (default: the next port; started here if nothing answers there)",
    )  # fmt: skip
    addresses.add_argument(
        "--advertised-object-storage-address", "-aosa", metavar="ADDRESS",
        help="the same server as clients and workers reach it, where that differs",
    )  # fmt: skip
    addresses.add_argument(
        "--monitor-address", "-ma", metavar="ADDRESS",
        help="where to publish what the cluster does (default: the second next port)",
    )  # fmt: skip
    addresses.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines can reach, without a key"
    )
    _add_scheduling_arguments(parser.add_argument_group("scheduling"))
    add_event_loop_argument(parser)
    add_logging_arguments(parser)
    add_arguments_without_effect(
        parser,
        (("--io-threads", "-it"), positive_int, "one thread carries more than the scheduler can send"),
        (("--max-number-of-tasks-waiting", "-mt"), int, "tasks wait for as long as they have to"),
        (("--client-timeout-seconds", "-ct"), positive_seconds, "--worker-timeout-seconds is for every peer"),
        (("--object-retention-seconds", "-ot"), positive_seconds, "objects go when their last user does"),
        (("--load-balance-trigger-times", "-lbt"), positive_int, "tasks are moved when a worker is idle"),
    )
    return parser


def _add_scheduling_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allocate-policy", "-ap", choices=("even", "capability"), default="even",
        help="even: the least loaded worker; capability: among those that offer what the task needs (default: even)",
    )  # fmt: skip
    group.add_argument(
        "--load-balance-seconds", "-ls", type=float, default=1.0, metavar="SECONDS",
        help="how often idle workers are given queued tasks of busy ones; zero or less: never (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--worker-timeout-seconds", "-wt", type=positive_seconds, default=60.0, metavar="SECONDS",
        help="a peer that is silent for so long is lost (default: 60)",
    )  # fmt: skip
    group.add_argument(
        "--heartbeat-seconds", type=positive_seconds, default=2.0, metavar="SECONDS",
        help="peers that have nothing to say show life so often (default: 2)",
    )  # fmt: skip
    group.add_argument(
        "--protected", "-p", nargs="?", type=_boolean, const=True, default=False, metavar="BOOL",
        help="refuse clients that ask to shut the cluster down (default: False)",
    )  # fmt: skip


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "yes", "1"):
        return True
    if text.lower() in ("false", "no", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
