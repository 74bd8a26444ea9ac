"""Why a task waits, and where it is in its code: the question, the sentence that is made of the answer, and a warning
that comes unasked."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from scaler.client.core.actions import Explained
from scaler.client.core.events import Asked, ProgramEvent
from scaler.client.io.background import Background
from scaler.client.io.printing import Preparations
from scaler_protocol.code_tag import all_called, called
from scaler_protocol.columns import split_ids
from scaler_protocol.errors import readable
from scaler_protocol.ids import ID_BYTES, TaskId, shown_parts, shown_task
from scaler_protocol.messages import NO_TASK, Capability, Explanation, StackReply
from scaler_protocol.waits import Event

_log = logging.getLogger("scaler")

ANSWER_SECONDS = 10.0
SILENT_SECONDS = 5.0
"""More than two heartbeats of a worker, unless it was told to have longer ones."""
STILL_SECONDS = 10.0
"""The explanation of a task that has not begun says when its worker has ended nothing for so long. After some seconds
the task would have gone to another worker, if one that can run it worked (SCH-96)."""
LOOK_SECONDS = 2.5
LOOKS_TO_WARN = 4
"""So a task that no worker can run is warned of after ten seconds, and one that waits for a worker to start is not."""


class Scheduler(Protocol):
    """The connection to the scheduler that answers."""

    @property
    def address(self) -> str: ...

    @property
    def callbacks(self) -> Background: ...

    @property
    def preparations(self) -> Preparations: ...

    def post(self, *posted: ProgramEvent, is_batch: bool = False) -> None: ...


class Questions:
    """Questions on their way to the scheduler, and the watch over tasks that no worker can run.

    Answers come in whichever thread leads the connection: what is called then must not wait.
    """

    def __init__(self, connection: Scheduler) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._asked: dict[int, Callable[[Explained], None]] = {}
        #: when to look for tasks that no worker can run; None while nothing is pending
        self.look_at: float | None = None
        self._stuck = NO_TASK
        self._stuck_looks = 0

    def ask(
        self,
        task_id: TaskId,
        told: Callable[[Explained], None],
        *,
        wants_stack: bool = False,
        short: tuple[bytes, int] = (b"", 0),
    ) -> None:
        number = next(self._numbers)
        self._asked[number] = told
        self._connection.post(Asked(number, task_id, wants_stack, short), is_batch=True)

    def answered(self, answer: Explained) -> None:
        told = self._asked.pop(answer.request_id, None)
        if told is not None:
            told(answer)

    def forget(self) -> None:
        """The session in which they were asked is over, and no answer will come."""
        for number in list(self._asked):
            self.answered(Explained(number, None))

    def named(self, text: str, unsent: Iterable[TaskId]) -> TaskId | str:
        """The unfinished task of this client with this id, in either form. A sentence: why there is none. Waits for the
        answer. Raises ValueError for what is no id."""
        task_id, short = id_of(text)
        for one in unsent:
            if one == task_id or shown_parts(shown_task(one)) == short:
                return one
        answer = self._answer(task_id, short=short)
        if answer is None:
            return self.no_answer
        explanation = answer.explanation
        if explanation is None:
            return sentence(None, (), self._connection.address)
        found = explanation.task_id
        if explanation.state and (found == task_id or shown_parts(shown_task(found)) == short):
            return found
        return "the scheduler has no unfinished task of this client with this id: it has ended, or is another client's"

    def sentence_on(self, task_id: TaskId) -> str:
        """Waits for the answer, in the thread of the caller."""
        answer = self._answer(task_id)
        if answer is None:
            return self.no_answer
        told = self._connection.preparations.text_of(task_id)
        if told and answer.explanation is not None and answer.explanation.state == "dispatched":
            worker = readable(answer.explanation.worker)
            return f"it was sent to worker {worker}, and cannot begin before its packages are there: {told}"
        return sentence(answer.explanation, answer.capabilities, self._connection.address)

    def state_of(self, task_id: TaskId) -> str:
        """At the scheduler; empty if it does not have this task, or does not answer. Waits as `sentence_on` does."""
        answer = self._answer(task_id)
        return "" if answer is None or answer.explanation is None else answer.explanation.state

    def stack_of(self, task_id: TaskId) -> StackReply | str:
        """Waits for the answer. A sentence: why there is none."""
        answer = self._answer(task_id, wants_stack=True)
        if answer is None:
            return self.no_answer
        return answer.stack or f"the scheduler at {self._connection.address} is not connected"

    @property
    def no_answer(self) -> str:
        return f"the scheduler at {self._connection.address} has not answered within {ANSWER_SECONDS:g} s"

    def _answer(
        self, task_id: TaskId, *, wants_stack: bool = False, short: tuple[bytes, int] = (b"", 0)
    ) -> Explained | None:
        answers: list[Explained] = []
        is_answered = Event()

        def told(answer: Explained) -> None:
            answers.append(answer)
            is_answered.set()

        self.ask(task_id, told, wants_stack=wants_stack, short=short)
        return answers[0] if is_answered.wait(ANSWER_SECONDS) else None

    # ------------------------------------------------------------ what comes unasked

    def look(self, now: float, *, is_busy: bool) -> None:
        """Of the IO thread, whenever it wakes."""
        if not is_busy:
            self.look_at = None
        elif self.look_at is None:
            self.look_at = now + LOOK_SECONDS
        elif now >= self.look_at:
            self.look_at = now + LOOK_SECONDS
            self.ask(NO_TASK, self._note_stuck)

    def _note_stuck(self, answer: Explained) -> None:
        task_id = NO_TASK if answer.explanation is None else answer.explanation.task_id
        self._stuck_looks = self._stuck_looks + 1 if task_id == self._stuck else 1
        self._stuck = task_id
        if task_id and self._stuck_looks == LOOKS_TO_WARN:
            told = sentence(answer.explanation, answer.capabilities, self._connection.address)
            text = "a task has been waiting for %g s because no worker can run it: %s"
            # Handlers of the program's own may wait, or submit.
            self._connection.callbacks.run(lambda: _log.warning(text, LOOK_SECONDS * LOOKS_TO_WARN, told))


def id_of(text: str) -> tuple[TaskId, tuple[bytes, int]]:
    """The id of a task, from all its digits; or, for the short form, no id and the parts of it. ValueError if this is
    neither."""
    short = shown_parts(text.lower())
    if short is not None:
        return NO_TASK, short
    try:
        task_id = bytes.fromhex(text)
    except ValueError:
        task_id = b""
    if len(task_id) != ID_BYTES:
        raise ValueError(
            f"{readable(text)[:80]!r} is not the id of a task: give its {2 * ID_BYTES} hexadecimal digits, or its "
            "short form, such as 648752af:9"
        )
    return TaskId(task_id), (b"", 0)


def sentence(explanation: Explanation | None, capabilities: Sequence[Capability], address: str) -> str:
    """For people. None: the client is not connected to a scheduler."""
    if explanation is None:
        return f"the scheduler at {address} is not connected: the task is sent when it is there again"
    return readable(_BY_STATE.get(explanation.state, _elsewhere)(explanation, capabilities, address))


def _waiting(explanation: Explanation, capabilities: Sequence[Capability], address: str) -> str:
    unread = f", and {_unread(explanation)}" if explanation.unread_bytes else ""
    return f"it waits for {_counted(explanation.dependency_count, 'task')} that it depends on{unread}"


def _queued(explanation: Explanation, capabilities: Sequence[Capability], address: str) -> str:
    if explanation.unread_bytes:
        return f"it is queued, and {_unread(explanation)}"
    if explanation.recovery_seconds > 0:
        return (
            "it is queued: the scheduler was restarted, and waits for the workers of the one before to present what "
            f"they hold, for {explanation.recovery_seconds:.1f} s more at most"
        )
    connected = _counted(explanation.worker_count, "worker")
    starting = explanation.starting_count
    if starting and not explanation.able_count:
        are = "is" if starting == 1 else "are"
        return f"it is queued, and {_counted(starting, 'worker')} that could run it {are} being started"
    if not explanation.worker_count:
        return f"it is queued, and no worker is connected to the scheduler at {address}: start one"
    if not explanation.able_count:
        return f"it is queued, and no capable worker is connected: {_lacking(explanation, capabilities, connected)}"
    ahead = f"behind {_counted(explanation.ahead_count, 'other')}" if explanation.ahead_count else "next in line"
    more = f"; {starting:,} more being started" if starting else ""
    if explanation.trouble:
        more += f"; one takes no tasks for now, worker {explanation.trouble}"
    return f"it is queued, {ahead}: {explanation.able_count} of {connected} could run it and are busy{more}"


def _lacking(explanation: Explanation, capabilities: Sequence[Capability], connected: str) -> str:
    wanted = ", ".join(item.name if item.amount < 0 else f"{item.name}={item.amount}" for item in capabilities)
    code_tag = explanation.code_tag
    if code_tag and code_tag not in explanation.code_tags:
        also = f"; it also asks for {wanted}" if wanted else ""
        return (
            f"it needs {called(code_tag)}, because its function or an argument was sent as bytecode, and the workers "
            f"have {all_called(explanation.code_tags) or 'another'}{also}"
        )
    if explanation.has_code_set and not wanted and not code_tag:
        return (
            f"it imports modules or packages that its client has sent, and none of {connected} takes any "
            "(--client-code, or workers of an earlier version)"
        )
    is_rare = code_tag and any(tag != code_tag for tag in explanation.code_tags)
    together = f" together with {called(code_tag)}" if is_rare and wanted else ""
    return f"none of {connected} offers {wanted or 'what it asks'}{together}"


def _dispatched(explanation: Explanation, capabilities: Sequence[Capability], address: str) -> str:
    unless = ", unless it has lost too many workers" if explanation.attempt > 1 else ""
    more = f", in attempt {explanation.attempt}" if explanation.attempt > 1 else ""
    more += _silence(explanation, f"the task begins again then{unless}")
    place = f"on worker {explanation.worker} for {explanation.running_seconds:.1f} s"
    if explanation.is_blocked:
        if not explanation.child_count:
            why = "no task that it has submitted is unfinished, so it may lack a value that is not in the storage"
            return f"it has been {place}, and waits to go on: {why}{more}"
        children = _counted(explanation.child_count, "task")
        return f"it has been {place}, and waits for {children} that it has submitted{_child(explanation)}{more}"
    if explanation.is_begun:
        return f"it has been running {place}{more}"
    more += _standstill(explanation)
    return f"it was sent to worker {explanation.worker}, and had not begun at the last report of that worker{more}"


def children_of(explanation: Explanation) -> list[tuple[TaskId, str]]:
    """Unfinished tasks that it has submitted, and their states, as far as the scheduler names them. (MON-56)"""
    names = (_CHILD_STATES[state] if state < len(_CHILD_STATES) else "" for state in explanation.child_states)
    return list(zip(map(TaskId, split_ids(explanation.children)), names, strict=False))


def _child(explanation: Explanation) -> str:
    named = children_of(explanation)
    if not named:
        return ""
    child, state = named[0]
    return f", such as {shown_task(child)}, which is {state or 'unfinished'}"


def _canceling(explanation: Explanation, capabilities: Sequence[Capability], address: str) -> str:
    return f"it is being canceled on worker {explanation.worker}{_silence(explanation, 'the task ends then')}"


def _silence(explanation: Explanation, then: str) -> str:
    """How long the worker has given no sign, and what follows when it is lost."""
    if explanation.silent_seconds < SILENT_SECONDS:
        return ""
    told = f"; this worker has been silent for {explanation.silent_seconds:.0f} s"
    if not explanation.lost_seconds:
        return told
    return f"{told}: it counts as lost in {explanation.lost_seconds:.0f} s at most, and {then}"


def _standstill(explanation: Explanation) -> str:
    """Returns for how long a worker that is not silent has ended nothing, and what follows. (SCH-96)"""
    if explanation.still_seconds < STILL_SECONDS or explanation.silent_seconds >= SILENT_SECONDS:
        return ""
    told = f"; this worker has ended nothing for {explanation.still_seconds:.0f} s"
    if explanation.able_count < 2:
        return f"{told}, and no other one that is connected can run the task"
    return f"{told}: the task goes to another one as soon as one that can run it ends tasks"


def _elsewhere(explanation: Explanation, capabilities: Sequence[Capability], address: str) -> str:
    return "the scheduler does not have this task: the task or its result is in flight"


#: As in GraphShape.
_CHILD_STATES = ("waiting", "queued", "dispatched", "canceling")
_BY_STATE = {"waiting": _waiting, "queued": _queued, "dispatched": _dispatched, "canceling": _canceling}


def _unread(explanation: Explanation) -> str:
    return (
        f"its client does not read its results: {explanation.unread_bytes / 2**20:,.0f} MiB of them wait at the "
        "scheduler, and no task of this client begins until it reads (is the program stopped, or its network slow?)"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
