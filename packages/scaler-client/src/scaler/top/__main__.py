# PYTHON_ARGCOMPLETE_OK
"""`scaler_top ADDR`: what a cluster does, in a terminal."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import closing

from scaler.client import __version__
from scaler.monitoring import Recorder, Subscription
from scaler.top.report import as_json, as_text
from scaler_protocol.process import ArgumentParser, StartupError, UsageError, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options

PROGRAM = "scaler_top"
STATUS_TOPICS = ("status",)
RECORDED_TOPICS = ("status", "tasks", "graphs", "logs")
LISTEN_SECONDS = 0.25  #: for so long a signal may have to wait


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Watch a cluster in a terminal: scheduler, tasks by state, messages, and a line for each worker.",
        epilog="Keys: ? lists all of them. Arrows choose a worker, Enter shows its processors; Tab turns to functions "
        "and events; / filters; letters in brackets sort; q quits.\n\n"
        "Example: scaler_top tcp://127.0.0.1:2345",
    )
    parser.add_argument(
        "address", help="of the scheduler, or of its monitor, as the scheduler logs them when it starts; ipc:// too"
    )
    parser.add_argument(
        "--timeout",
        "-t",
        type=positive_seconds,
        default=5.0,
        help="seconds to wait for a first answer (default: %(default)g)",
    )
    parser.add_argument("--once", "-1", action="store_true", help="print everything once, as text, and end")
    parser.add_argument("--json", action="store_true", help="print everything once, as one line of JSON, and end")
    parser.add_argument(
        "--record", metavar="FILE", help="also write what is published to FILE, for scaler_ui --replay; .gz compresses"
    )
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    if options.record:
        return _record(options)
    is_report = options.once or options.json
    if not is_report:
        _check_terminal()
    with Subscription(options.address, STATUS_TOPICS, keys=key_options(options)) as subscription:
        state = subscription.first(options.timeout)
        if is_report:
            print(as_json(state) if options.json else as_text(state))
        else:
            _show(subscription)
    return 0


def _record(options: argparse.Namespace) -> int:
    """With the display, or where there is no terminal, without."""
    if options.once or options.json:
        raise UsageError("--record goes on until it is ended: leave --once and --json out")
    is_shown = _is_terminal()
    if is_shown:
        _check_terminal()
    with (
        closing(Recorder(options.record)) as recorder,
        Subscription(options.address, RECORDED_TOPICS, recorder=recorder, keys=key_options(options)) as subscription,
    ):
        subscription.first(options.timeout)
        if is_shown:
            _show(subscription)
        else:
            _listen(subscription, recorder, options.record)
    return 0


def _listen(subscription: Subscription, recorder: Recorder, name: str) -> None:
    """Records until a signal ends it. The signal only sets a flag: an exception within a write would leave the
    compressed file with a wrong checksum. (docs/operations/recording.md)"""
    ends: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore Ctrl-C otherwise
        signal.signal(number, lambda number, frame: ends.append(number))
    print(f"recording to {name}; Ctrl-C ends it", flush=True)
    while not (ends or recorder.trouble):
        subscription.poll(LISTEN_SECONDS)


def _show(subscription: Subscription) -> None:
    from scaler.top.terminal import Terminal  # needs the extra; reports and recordings do not

    Terminal(subscription).run()


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _check_terminal() -> None:
    if not _is_terminal():
        raise UsageError("this is not a terminal: use --once, --json or --record in scripts")
    try:
        import prompt_toolkit  # noqa: F401
    except ModuleNotFoundError:
        raise StartupError(
            "the display needs prompt_toolkit: run `pip install 'scaler-client[top]'`, or use --once or --json"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
