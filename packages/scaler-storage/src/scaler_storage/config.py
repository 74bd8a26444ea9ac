"""The command line of `scaler_object_storage_server`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import field

from scaler_protocol.addresses import AddressError, parse_address
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Timers
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    UsageError,
    add_program_arguments,
    byte_count,
    check_event_loop,
    logging_options,
)
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.records import dataclass
from scaler_storage import __version__
from scaler_storage.core.limits import UNLIMITED

PROGRAM = "scaler_object_storage_server"


@dataclass(frozen=True, slots=True)
class Config:
    address: str
    memory_limit_bytes: int | None = None
    user_limit_bytes: int | None = None
    spill_directory: str | None = None
    data_directory: str | None = None
    disk_limit_bytes: int | None = None
    shares_memory: bool = True
    event_loop: str = "builtin"
    logging: LoggingOptions = field(default_factory=LoggingOptions)
    timers: Timers = field(default_factory=Timers)
    keys: KeyOptions = field(default_factory=KeyOptions)


def parse(arguments: Sequence[str] | None = None) -> Config:
    """Raises UsageError, or exits with code 2 and one line, for what cannot be."""
    options = parser().parse_settings(arguments)
    check_event_loop(options.event_loop)
    keys = key_options(options)
    return Config(
        address=_bind_address(options.address),
        memory_limit_bytes=options.memory_limit,
        user_limit_bytes=options.user_limit,
        spill_directory=options.spill_directory,
        data_directory=options.data_directory,
        disk_limit_bytes=_disk_limit(options),
        shares_memory=not options.no_shared_memory,
        event_loop=options.event_loop,
        logging=logging_options(options),
        keys=keys,
    )


def _disk_limit(options: argparse.Namespace) -> int | None:
    if options.spill_directory is not None and options.data_directory is not None:
        raise UsageError(
            "--data-directory and --spill-directory exclude each other: objects that are kept on the disk leave memory "
            "near --memory-limit as well"
        )
    if options.spill_directory is None and options.data_directory is None:
        if options.disk_limit is not None:
            raise UsageError(
                "--disk-limit needs --spill-directory or --data-directory: the directory in which objects may lie"
            )
        return None
    if options.data_directory is None and options.memory_limit is None:
        raise UsageError("--spill-directory needs --memory-limit: near that limit objects are moved to the disk")
    return UNLIMITED if options.disk_limit is None else int(options.disk_limit)


def _bind_address(text: str) -> str:
    """Also accepts host:port alone, as this command has always done."""
    address_text = text if "://" in text else f"tcp://{text}"
    try:
        address = parse_address(address_text, is_bind=True)
    except AddressError as error:
        raise UsageError(str(error)) from None
    return str(address)


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section="object_storage_server",
        key_aliases={"bind_address": "address", "storage_address": "address", "object_storage_address": "address"},
        description="The object storage: keeps large arguments and results for the tasks of a cluster, in memory.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2346",
    )
    parser.add_argument("address", help="where to listen, such as tcp://127.0.0.1:2346 or 127.0.0.1:2346")
    parser.add_argument(
        "--memory-limit",
        type=byte_count,
        metavar="BYTES",
        help="refuse objects beyond this many bytes in all, such as 8GiB (default: no limit)",
    )
    parser.add_argument(
        "--user-limit",
        type=byte_count,
        metavar="BYTES",
        help="refuse objects of a user, with QuotaError, beyond this many bytes of that user in memory and on disk, "
        "such as 4GiB (default: no limit but that of all users)",
    )
    parser.add_argument(
        "--spill-directory",
        metavar="DIR",
        help="from 80 %% of --memory-limit on, move the objects that were used least recently into files without names "
        "on the file system of this directory; nothing is left there when the storage ends (default: objects "
        "stay in memory)",
    )
    parser.add_argument(
        "--data-directory",
        metavar="DIR",
        help="keep objects in this directory, for a storage that is started again with it; those of the last moment "
        "before a kill may be missing. From 80 %% of --memory-limit on, objects that are there leave memory, least "
        "recently used first (default: objects end with the storage)",
    )
    parser.add_argument(
        "--disk-limit",
        type=byte_count,
        metavar="BYTES",
        help="how much of that file system objects may take, such as 100GiB; 5 %% of it is always left free "
        "(default: no other limit)",
    )
    parser.add_argument(
        "--no-shared-memory",
        action="store_true",
        help="send all bytes through the socket, also to and from processes on this host (default: large values are "
        "shared in memory with those of the same user)",
    )
    add_key_arguments(parser)
    add_program_arguments(parser, __version__)
    return parser
