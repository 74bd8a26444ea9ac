"""Command lines: the options all commands share, and argument types whose errors are one readable line."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from typing import NoReturn

from scaler_protocol.process.event_loop import EVENT_LOOPS
from scaler_protocol.process.failures import EXIT_USAGE
from scaler_protocol.process.logs import DEFAULT_LOGGING_PATHS, LEVELS, LoggingOptions

_BYTE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_BYTE_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class ArgumentParser(argparse.ArgumentParser):
    """argparse, except that a mistake is answered with one line; the usage is what --help is for."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (try {self.prog} --help)", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def add_event_loop_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--event-loop",
        "-el",
        "-e",
        choices=EVENT_LOOPS,
        default="builtin",
        help="asyncio's own loop, or uvloop where it is installed (default: %(default)s)",
    )


def add_logging_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logging")
    group.add_argument(
        "--logging-paths",
        "-lp",
        nargs="+",
        default=list(DEFAULT_LOGGING_PATHS),
        metavar="PATH",
        help="files to log to, any number of them; /dev/stdout and /dev/stderr work everywhere (default: /dev/stdout)",
    )
    group.add_argument(
        "--logging-level",
        "-ll",
        choices=tuple(LEVELS),
        type=str.upper,
        default="INFO",
        help="the least level that is logged (default: %(default)s)",
    )
    group.add_argument(
        "--logging-config-file",
        "-lcf",
        metavar="FILE",
        help="a file for logging.config.fileConfig; then the two options above have no effect",
    )


def add_arguments_without_effect(
    parser: argparse.ArgumentParser, *options: tuple[tuple[str, ...], Callable[[str], object], str]
) -> None:
    """Options that operators' scripts have, of things that do not exist here: each with its names, type and reason."""
    group = parser.add_argument_group("accepted and without effect")
    for names, kind, reason in options:
        group.add_argument(*names, type=kind, metavar="VALUE", help=reason)


def logging_options(arguments: argparse.Namespace) -> LoggingOptions:
    return LoggingOptions(
        paths=tuple(arguments.logging_paths),
        level=arguments.logging_level,
        config_file=arguments.logging_config_file,
    )


def byte_count(text: str) -> int:
    """A number of bytes: 1000000, 512M, 4GiB; units are powers of 1024."""
    match = _BYTE_COUNT.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 1000000, 512M or 4GiB")
    value = int(float(match[1]) * _BYTE_UNITS[match[2].lower()])
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size above zero")
    return value


def positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return value


def positive_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return value
