"""The options that every command has: its event loop, its logging, and what is accepted for old scripts' sake."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from scaler_protocol.process.event_loop import EVENT_LOOPS
from scaler_protocol.process.logs import DEFAULT_LOGGING_PATHS, FORMATS, LEVELS, LoggingOptions


def add_program_arguments(parser: argparse.ArgumentParser, version: str = "") -> None:
    """What every command has that runs until it is stopped: its event loop, where it logs to, and its version."""
    _add_event_loop(parser)
    add_logging_arguments(parser)
    if version:  # a part of an earlier release gives none
        parser.add_argument("--version", action="version", version=f"{parser.prog} {version}")


def _add_event_loop(parser: argparse.ArgumentParser) -> None:
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
        metavar="LEVEL",
        help=f"the least level that is logged: {', '.join(LEVELS)} (default: %(default)s)",
    )
    group.add_argument(
        "--logging-format",
        choices=tuple(FORMATS),
        default="text",
        metavar="FORMAT",
        help="text: lines for people; json: an object a line, for programs (default: %(default)s)",
    )
    group.add_argument(
        "--logging-config-file",
        "-lcf",
        "-lc",
        metavar="FILE",
        help="a file for logging.config.fileConfig; then the options above have no effect",
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
        format=arguments.logging_format,
    )
