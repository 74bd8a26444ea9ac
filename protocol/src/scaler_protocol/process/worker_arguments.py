"""The arguments that every kind of worker has, or its managers, and their types."""

from __future__ import annotations

import argparse
import importlib.util

from scaler_protocol.addresses import AddressError, joined_addresses, parse_address, parse_addresses
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.messages import NO_PEER, Capability
from scaler_protocol.process.argument_types import non_negative_seconds, positive_int, positive_seconds
from scaler_protocol.process.failures import UsageError

Group = argparse._ActionsContainer


def add_scheduler(group: Group) -> None:
    group.add_argument(
        "address",
        help="the scheduler, such as tcp://127.0.0.1:2345, or a list of those that may serve: tcp://a:2345,tcp://b:2345",
    )


def add_capabilities(group: Group, *names: str) -> None:
    group.add_argument(
        *names, type=parse_capabilities, default=(), metavar="NAMES",
        help='what each worker offers: "gpu,linux", or with amounts: "gpu=2" (default: nothing)',
    )  # fmt: skip


def add_queue_size(group: Group, *names: str) -> None:
    group.add_argument(
        *names, type=positive_int, default=1000, metavar="N",
        help="the most tasks a worker queues, reached only with tiny ones (default: %(default)s)",
    )  # fmt: skip


def add_grace(group: Group) -> None:
    group.add_argument(
        "--grace-seconds", type=non_negative_seconds, default=1.0, metavar="SECONDS",
        help="how long running tasks may go on when their worker is told to stop (default: 1)",
    )  # fmt: skip


def add_present(group: Group) -> None:
    group.add_argument(
        "--present-seconds", type=non_negative_seconds, default=60.0, metavar="SECONDS",
        help="if the scheduler is lost, keep tasks for so long, and go on with them when it has been restarted; zero: "
        "stop them at once (default: 60)",
    )  # fmt: skip


def add_functions(group: Group) -> None:
    group.add_argument(
        "--functions", type=parse_modules, default=(), metavar="MODULES",
        help="modules, comma separated, whose public functions clients may call by name, with bytes for arguments and "
        "result (default: none)",
    )  # fmt: skip


def add_unit(group: Group) -> None:
    group.add_argument(
        "--unit", type=parse_unit, default=(NO_PEER, ""), metavar="MANAGER:UNIT",
        help="set by worker managers: the id of the manager in hexadecimal, and of the unit that is started",
    )  # fmt: skip


def add_connection(group: Group, *io_threads: str) -> None:
    group.add_argument(
        "--object-storage-address", "-osa", metavar="ADDRESS",
        help="the object storage, when it must be reached by another address than the scheduler names",
    )  # fmt: skip
    group.add_argument(
        "--heartbeat-interval", "-hi", "--heartbeat-interval-seconds", "-his",
        type=positive_seconds, default=2.0, metavar="SECONDS",
        help="how often a worker tells its status (default: 2)",
    )  # fmt: skip
    group.add_argument(
        "--death-timeout-seconds", "-ds", "-dts", "-dt", type=positive_seconds, default=300.0, metavar="SECONDS",
        help="how long to look for what a worker cannot do without, first of all a scheduler, before giving up "
        "(default: 300)",
    )  # fmt: skip
    group.add_argument(
        *io_threads, type=positive_int, default=1, metavar="N",
        help="threads of each worker that move messages between its socket and itself (default: 1)",
    )  # fmt: skip


def parse_capabilities(text: str) -> tuple[Capability, ...]:
    """`gpu=2,linux`: names, and amounts where they are counted."""
    return tuple(_capability(item.strip()) for item in text.split(",") if item.strip())


def _capability(text: str) -> Capability:
    name, equals, amount = (part.strip() for part in text.partition("="))
    if not name or (equals and not amount.isdecimal() and amount != "-1"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a capability: write name, or name=amount")
    return Capability(name, int(amount) if equals else -1)


def parse_unit(text: str) -> tuple[PeerId, str]:
    manager, _, unit_id = text.partition(":")
    try:
        manager_id = bytes.fromhex(manager)
    except ValueError:
        manager_id = b""
    if len(manager_id) != ID_BYTES or not unit_id:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form MANAGER:UNIT, with 32 hexadecimal digits first")
    return PeerId(manager_id), unit_id


def parse_modules(text: str) -> tuple[str, ...]:
    """Looked for now and imported later, in the processors: a misspelled one is told before there is a worker."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        try:
            is_there = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            is_there = False
        if not is_there:
            raise argparse.ArgumentTypeError(
                f"there is no module {name!r} here: is it installed, or its directory in PYTHONPATH?"
            )
    return names


def checked_address(text: str) -> str:
    """As it is written everywhere. Raises UsageError."""
    try:
        return str(parse_address(text))
    except AddressError as error:
        raise UsageError(str(error)) from None


def checked_addresses(text: str) -> str:
    """Of one scheduler, or a list of those that may serve. Raises UsageError."""
    try:
        return joined_addresses(parse_addresses(text))
    except AddressError as error:
        raise UsageError(str(error)) from None


def optional_addresses(text: str | None) -> str:
    """The same, or empty when none is given. Raises UsageError."""
    return checked_addresses(text) if text else ""


def optional_address(text: str | None) -> str:
    """Empty when it is not given; so is an environment variable that is set to nothing. Raises UsageError."""
    return checked_address(text) if text else ""
