"""Questions about where a running task is in its code (WRK-56): a person waits for the answer, and no task does.

The agent asks the processor, which answers as soon as its interpreter comes to the next bytecode. A processor that does
not answer in time is in code that does not return to the interpreter: then the answer is what the operating system
tells of the process. Questions about one task that come meanwhile share the answer.
"""

from __future__ import annotations

from scaler_protocol.codes import STACK_NO_ANSWER, STACK_NOT_RUNNING, STACK_TAKEN, STACK_TOO_MANY
from scaler_protocol.holding.tasks import Task
from scaler_protocol.messages import StackReply, StackRequest
from scaler_protocol.records import dataclass
from scaler_worker.core.actions import AskStack, LookAtProcess, Send
from scaler_worker.core.events import ProcessSeen, StackTaken
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import StackQuestion, Tables

ANSWER_SECONDS = 2.0
"""For the processor: much more than it needs between two bytecodes on a busy host, and what a person waits for."""
SHARED_LIMIT = 64
"""So many questions about one task wait for one answer."""

_BEGUN = (State.RUNNING, State.BLOCKED, State.RESUMING)


@dataclass(frozen=True, slots=True)
class _Place:
    task: Task
    processor: Processor


def asked(tables: Tables, request: StackRequest, now: float) -> None:
    place = _place(tables, request)
    if place is None:
        tables.actions.append(Send(_reply(tables, request.request_id, request, STACK_NOT_RUNNING)))
        return
    number = place.processor.number
    question = tables.stacks.get(number)
    if question is not None and question.task is place.task:
        if len(question.request_ids) < SHARED_LIMIT:
            question.request_ids.append(request.request_id)
        else:
            tables.actions.append(Send(_reply(tables, request.request_id, request, STACK_TOO_MANY)))
        return
    if question is not None:  # of the task before
        _answer(tables, number, question, STACK_NOT_RUNNING, now)
    tables.stack_serial += 1
    tables.stacks[number] = StackQuestion([request.request_id], place.task, tables.stack_serial, now + ANSWER_SECONDS)
    tables.actions.append(AskStack(number, tables.stack_serial))


def taken(tables: Tables, event: StackTaken, now: float) -> None:
    """An answer that comes too late, or that was not asked for, is dropped."""
    question = tables.stacks.get(event.processor)
    if question is not None and question.serial == event.serial:
        outcome = STACK_TAKEN if event.number == question.task.number else STACK_NOT_RUNNING
        _answer(tables, event.processor, question, outcome, now, event.text if outcome == STACK_TAKEN else "")


def seen(tables: Tables, event: ProcessSeen, now: float) -> None:
    question = tables.stacks.get(event.processor)
    if question is not None:
        _answer(tables, event.processor, question, STACK_NO_ANSWER, now, process=event.text)


def settle(tables: Tables, now: float) -> None:
    for number, question in list(tables.stacks.items()):
        processor = tables.processors.get(number)
        if processor is None or processor.first is not question.task:
            _answer(tables, number, question, STACK_NOT_RUNNING, now)
        elif now >= question.until and not question.is_overdue:
            question.is_overdue = True
            tables.actions.append(LookAtProcess(number, processor.process_id))


def _place(tables: Tables, request: StackRequest) -> _Place | None:
    """Of a task that has begun."""
    task = tables.tasks.get(request.task_id)
    processor = None if task is None or task.processor is None else tables.processors.get(task.processor)
    if task is None or processor is None or processor.first is not task or processor.state not in _BEGUN:
        return None
    return _Place(task, processor)


def _answer(
    tables: Tables, number: int, question: StackQuestion, outcome: int, now: float, text: str = "", process: str = ""
) -> None:
    del tables.stacks[number]
    processor = tables.processors.get(number)
    if outcome == STACK_NOT_RUNNING or processor is None:
        is_blocked, seconds = False, 0.0
    else:
        is_blocked, seconds = processor.is_waiting, max(0.0, now - processor.first_since)
    for request_id in question.request_ids:
        reply = StackReply(
            request_id, question.task.id, outcome, text, process, tables.settings.worker_name,
            is_blocked=is_blocked, running_seconds=seconds,
        )  # fmt: skip
        tables.actions.append(Send(reply))


def _reply(tables: Tables, request_id: int, request: StackRequest, outcome: int) -> StackReply:
    return StackReply(request_id, request.task_id, outcome, worker=tables.settings.worker_name)
