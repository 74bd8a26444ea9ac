# PYTHON_ARGCOMPLETE_OK
"""`scaler_explain ADDR TASK`: the sentence that `client.explain(future)` gives, asked from outside."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scaler.client import __version__
from scaler.client.futures.explaining import sentence
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler.top.formats import plain
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Explain, Explanation
from scaler_protocol.process import ArgumentParser, UsageError, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options

PROGRAM = "scaler_explain"
TASK_BYTES = 16
_REQUEST_ID = 1


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Say in one sentence why a task has not ended: no worker, none that offers what it asks for, "
        "behind so many others, running on which worker and since when. As client.explain(future), for any client.",
        epilog="Example: scaler_explain tcp://127.0.0.1:2345 49b1442b3e9834c3c610000000000000",
    )
    parser.add_argument("address", help="of the scheduler, as it logs it when it starts")
    parser.add_argument("task", help="its id in hexadecimal digits: future.task_id.hex(), or as scaler_ui shows it")
    parser.add_argument(
        "--timeout",
        "-t",
        type=positive_seconds,
        default=5.0,
        help="seconds to wait for the answer (default: %(default)g)",
    )
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def task_id_of(text: str) -> TaskId:
    try:
        task_id = bytes.fromhex(text)
    except ValueError:
        task_id = b""
    if len(task_id) != TASK_BYTES:
        raise UsageError(f"{plain(text)[:80]!r} is not the id of a task: give its {2 * TASK_BYTES} hexadecimal digits")
    return TaskId(task_id)


def _run(options: argparse.Namespace) -> int:
    task_id = task_id_of(options.task)
    with Subscription(options.address, (), keys=key_options(options)) as subscription:
        explanation = answer(subscription, Explain(_REQUEST_ID, task_id), Explanation, options.timeout)
        print(plain(told(explanation, subscription.state.address)))
    return 0


def told(explanation: Explanation, address: str) -> str:
    if not explanation.state:
        return f"the scheduler at {address} does not hold it: it has ended, or it was never submitted there"
    said = sentence(explanation, explanation.capabilities, address)
    of_user = f" of {explanation.user}" if explanation.user else ""
    return f"{explanation.function_name or 'a task'}{of_user}: {said}" if explanation.function_name or of_user else said


if __name__ == "__main__":
    sys.exit(main())
