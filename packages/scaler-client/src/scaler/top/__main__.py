# PYTHON_ARGCOMPLETE_OK
"""`scaler_top ADDR`: what a cluster does, in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scaler.monitoring import Recorder, Subscription
from scaler.top.report import as_json, as_text
from scaler_protocol import __version__
from scaler_protocol.process import ArgumentParser, StartupError, UsageError, positive_seconds, run_command

PROGRAM = "scaler_top"
STATUS_TOPICS = ("status",)
RECORDED_TOPICS = ("status", "tasks", "graphs", "logs")


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Watch a cluster in a terminal: scheduler, tasks by state, messages, and a line for each worker.",
        epilog="Keys: the letters in brackets sort by that column, the same again turns the order round; arrows, page "
        "keys, home, end and the mouse wheel scroll; t hides the upper part; q quits.\n\n"
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
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    is_report = options.once or options.json
    if not is_report:
        _check_terminal()
    recorder = Recorder(options.record) if options.record else None
    topics = STATUS_TOPICS if recorder is None else RECORDED_TOPICS
    try:
        with Subscription(options.address, topics, recorder=recorder) as subscription:
            state = subscription.first(options.timeout)
            if is_report:
                _print(as_json(state) if options.json else as_text(state))
            else:
                from scaler.top.terminal import Terminal  # needs the extra; reports do not

                Terminal(subscription).run()
    finally:
        if recorder is not None:
            recorder.close()
    return 0


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("this is not a terminal: use --once or --json in scripts")
    try:
        import prompt_toolkit  # noqa: F401
    except ModuleNotFoundError:
        raise StartupError(
            "the display needs a library: pip install 'scaler-client[top]', or use --once or --json"
        ) from None


def _print(text: str) -> None:
    """Names of workers may have letters that a terminal of another encoding has not."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


if __name__ == "__main__":
    sys.exit(main())
