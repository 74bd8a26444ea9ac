# PYTHON_ARGCOMPLETE_OK
"""`scaler_dump ADDR FILE`: all that a scheduler remembers, and the last that it has heard and said."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from scaler.client import __version__
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler_protocol.errors import ScalerError
from scaler_protocol.messages import DumpPart, DumpRequest
from scaler_protocol.process import ArgumentParser, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.private_files import open_private

PROGRAM = "scaler_dump"


class DumpError(ScalerError):
    """The scheduler is there, and there is no dump."""


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Write what a scheduler remembers to a file, an object of JSON in each line: clients, workers, "
        "unfinished tasks and where they are, and its last thousand events. Arguments and results are not in it; names "
        "of functions, workers and hosts are. The scheduler is not changed, and goes on.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2345 scheduler.dump",
    )
    parser.add_argument("address", help="of the scheduler, as it logs it when it starts")
    parser.add_argument("file", help="to write; - is the standard output")
    parser.add_argument(
        "--timeout",
        "-t",
        type=positive_seconds,
        default=10.0,
        help="seconds to wait for each answer (default: %(default)g)",
    )
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    with Subscription(options.address, (), keys=key_options(options)) as subscription:
        text = b"".join(parts(subscription, options.timeout))
    if options.file == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return 0
    try:
        with open_private(options.file) as file:
            file.write(text)
    except OSError as error:
        raise DumpError(f"{options.file} cannot be written: {error.strerror or error}") from None
    lines = text.count(b"\n")
    print(f"{lines:,} lines are in {options.file}")
    return 0


def parts(subscription: Subscription, timeout_seconds: float) -> Iterator[bytes]:
    number, count = 0, 1
    while number < count:
        found = answer(subscription, DumpRequest(number, number), DumpPart, timeout_seconds)
        if not found.part_count:
            raise DumpError("the scheduler has forgotten the dump before all of it was here: try again")
        count = found.part_count
        yield found.data
        number += 1


if __name__ == "__main__":
    sys.exit(main())
