# PYTHON_ARGCOMPLETE_OK
"""`scaler_explain ADDR TASK`: what `client.explain(future)` and `client.stack(future)` tell, asked from outside."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scaler.client import __version__
from scaler.client.futures.explaining import id_of, sentence
from scaler.client.futures.stacks import stack_of
from scaler.monitoring import Subscription
from scaler.monitoring.asking import NoAnswer, answer
from scaler.monitoring.endings import record_text
from scaler.monitoring.waits import waits_text
from scaler.top.formats import plain
from scaler_protocol.ids import shown_task
from scaler_protocol.messages import Explain, Explanation, StackReply, StackRequest
from scaler_protocol.process import ArgumentParser, UsageError, flag, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options

PROGRAM = "scaler_explain"
_REQUEST_ID = 1


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Say in one sentence why a task has not ended: no worker, none that offers what it asks for, "
        "behind so many others, running on which worker and since when. As client.explain(future), for any client.",
        epilog="Example: scaler_explain tcp://127.0.0.1:2345 49b1442b3e9834c3c610000000000000",
    )
    parser.add_argument("address", help="of the scheduler, as it logs it when it starts")
    parser.add_argument(
        "task",
        help="its id: 32 hexadecimal digits, as of future.task_id.hex(), or the short form of scaler_ui, of the output "
        "and of futures, such as 648752af:9",
    )
    parser.add_argument(
        "--stack",
        help="show also where a running task is in its code now; for a scheduler that was started with --monitor-texts",
        **flag(),
    )
    parser.add_argument(
        "--timeout",
        "-t",
        type=positive_seconds,
        default=8.0,
        help="seconds to wait for the answer (default: %(default)g)",
    )
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def question_of(text: str) -> Explain:
    try:
        task_id, short = id_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Explain(_REQUEST_ID, task_id, *short)


def _run(options: argparse.Namespace) -> int:
    question = question_of(options.task)
    with Subscription(options.address, (), keys=key_options(options)) as subscription:
        explanation = answer(subscription, question, Explanation, options.timeout)
        if question.task_source and explanation.task_id and shown_task(explanation.task_id) != options.task.lower():
            raise NoAnswer("the scheduler is older and does not know short forms: give all 32 digits of the id")
        print(plain(told(explanation, subscription.state.address)))
        if options.stack and explanation.state:
            request = StackRequest(_REQUEST_ID, explanation.task_id)
            stack = stack_of(answer(subscription, request, StackReply, options.timeout))
            print("\n".join(plain(line) for line in str(stack).splitlines()))
            return 0 if stack.text else 1
    return 0


def told(explanation: Explanation, address: str) -> str:
    name, record = explanation.function_name, explanation.record
    if explanation.state:
        said, user = sentence(explanation, explanation.capabilities, address), explanation.user
    elif record.task_id:
        said, user = record_text(record), record.user
    else:
        return f"the scheduler at {address} does not have this task: the task has ended, or was never submitted there"
    waits = waits_text(explanation)
    if waits:
        said = f"{said}; {waits}"
    if record.key:
        name = f"{record.key} ({name})" if name else record.key
    of_user = f" of {user}" if user else ""
    return f"{name or 'a task'}{of_user}: {said}" if name or of_user else said


if __name__ == "__main__":
    sys.exit(main())
