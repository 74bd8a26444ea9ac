"""Why a task is where it is: a plain query for people, nothing is changed (SCH-33 to SCH-35)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import islice

from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Explain, Explanation
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.records import accounts_of, record_of
from scaler_scheduler.core.placing.lending import BLOCKED
from scaler_scheduler.core.scaling.controller import Scaler
from scaler_scheduler.core.tables.ready import ReadyClass
from scaler_scheduler.core.tables.tables import Tables
from scaler_scheduler.core.watching.shapes import state_of

HEAD_BYTES = 8
"""Of a task's id: its source and what is random. The rest is a number. (MON-43)"""
LOOKED_WORKERS = 20_000
"""In one turn, for so many workers of more urgent lines it is looked up whether they are able. Further lines are not
counted among what is ahead of a task."""
CHILDREN_SHOWN = 100
LOOKED_BATCHES = 20_000
"""A task is looked for in so many batches by its short form, which takes some 10 ms."""


class Explainer:
    """Questions are answered when all that arrived with them was handled: a task that can be placed is."""

    def __init__(self, tables: Tables, scaler: Scaler) -> None:
        self._tables = tables
        self._scaler = scaler
        self.questions: list[tuple[Client, Explain]] = []

    def ask(self, client: Client, question: Explain) -> None:
        self.questions.append((client, question))

    def settle(self, now: float) -> None:
        questions, self.questions = self.questions, []
        lines = Lines(self._tables)
        for client, question in questions:
            if not client.is_gone:
                self._tables.answer(client, explanation(self._tables, self._scaler, client, question, now, lines))


class Lines:
    """Those that wait, for all questions of one turn: there may be thousands (SCH-49)."""

    def __init__(self, tables: Tables) -> None:
        self.queue = tables.ready
        self.looks_left = LOOKED_WORKERS

    @cached_property
    def waiting(self) -> list[ReadyClass]:
        """Not looked for when the questions are about tasks of workers alone."""
        return self.queue.waiting()

    @cached_property
    def hopeless(self) -> dict[Client, ReadyClass]:
        """For each client with such tasks the most urgent line that no connected worker can take."""
        found: dict[Client, ReadyClass] = {}
        for ready in self.waiting:
            if not ready.index.members:
                for client in ready.clients:
                    found.setdefault(client, ready)
        return found


def explanation(
    tables: Tables, scaler: Scaler, client: Client | None, question: Explain, now: float, lines: Lines
) -> Explanation:
    """Without a client: of the tasks of all. (MON-15)"""
    if question.task_source:
        task_id = _found(tables, client, question)
    else:
        task_id = question.task_id or _hopeless(lines, client)
    answer = Explanation(question.request_id, task_id or TaskId(b""), worker_count=len(tables.workers))
    if not task_id or task_id not in tables.where:
        return _with_end(tables, answer, question, now) if client is None else answer
    chunk = tables.chunk_of(task_id)
    if client is not None and chunk.client is not client:
        return answer
    able = _able(tables, chunk)
    answer = replace(
        answer,
        able_count=len(able),
        starting_count=scaler.starting_count(chunk.combination.key.requirement),
        attempt=tables.attempt(task_id),
        capabilities=chunk.header.capabilities,
        code_tag=chunk.header.code_tag,
        has_code_set=bool(chunk.header.code_set),
        code_tags=_code_tags(tables) if chunk.header.code_tag else (),
        unread_bytes=0 if chunk.client.window is None else chunk.client.window.waiting_bytes,
        user=chunk.client.user,
        child_count=len(tables.children.get(task_id, ())),
        function_name=tables.function_names.of(chunk.function_id(chunk.index_of[task_id])),
    )
    if client is None:
        answer = _with_record(tables, answer, chunk, now)
    place = tables.where[task_id]
    if isinstance(place, Worker):
        return _held(tables, answer, place, now)
    waiting = tables.dependencies.waiting.get(task_id)
    if waiting is not None:
        return replace(answer, state=State.WAITING.value, dependency_count=waiting.missing)
    if chunk.client in tables.presentation.recovering_clients:
        answer = replace(answer, recovery_seconds=max(0.001, tables.presentation.recovering_until - now))
    ahead_count = _ahead(lines, chunk, task_id, able)
    return replace(answer, state=State.QUEUED.value, ahead_count=ahead_count, trouble=_trouble(able))


def _with_record(tables: Tables, answer: Explanation, chunk: Chunk, now: float) -> Explanation:
    """For monitors: whose the task is, since when, and what it has to do with others. (MON-55, MON-56, MON-62)"""
    task_id = answer.task_id
    accounts = accounts_of(tables.lost_workers.get(task_id, ()), tables.deaths.get(task_id))
    is_held = isinstance(tables.where[task_id], Worker)
    record = record_of(tables.display, chunk, task_id, answer.attempt, now, is_dispatched=is_held, accounts=accounts)
    children = tuple(islice(tables.children.get(task_id, ()), CHILDREN_SHOWN))
    states = bytes(state_of(tables, child) for child in children)
    return replace(answer, record=record, children=b"".join(children), child_states=states)


def _with_end(tables: Tables, answer: Explanation, question: Explain, now: float) -> Explanation:
    """For monitors: of a task that has ended, how. (MON-57)"""
    asked, source, end = question.task_id, question.task_source, _end_of(question)
    if not source and not asked:
        return answer
    record = tables.history.ended(
        (lambda one: one.startswith(source) and one.endswith(end)) if source else asked.__eq__, now
    )
    if record is None:
        return answer
    name = tables.function_names.of(record.function_id)
    return replace(answer, task_id=record.task_id, function_name=name, record=record)


def _held(tables: Tables, answer: Explanation, worker: Worker, now: float) -> Explanation:
    """What the worker last said of its processors tells whether the task runs: nothing is noted for each task."""
    state = State.CANCELING if answer.task_id in tables.canceling else State.DISPATCHED
    silent_seconds = max(0.0, now - worker.heard_at)
    # Not zero, which is "not known". (SCH-94)
    lost_seconds = max(0.001, worker.lease_seconds - silent_seconds)
    answer = replace(answer, state=state.value, worker=worker.name, silent_seconds=silent_seconds)
    answer = replace(answer, lost_seconds=lost_seconds)
    answer = replace(answer, still_seconds=worker.still_seconds(now))
    for processor in worker.status.processors:
        if processor.task_id == answer.task_id:
            seconds = processor.running_seconds + max(0.0, now - worker.status_at)
            is_blocked = processor.state == BLOCKED
            return replace(answer, is_begun=True, running_seconds=seconds, is_blocked=is_blocked)
    return answer


def _code_tags(tables: Tables) -> tuple[str, ...]:
    """What the workers that are connected read, each once: a few versions of a language, however many workers."""
    return tuple(sorted({tag for worker in tables.workers.values() for tag in worker.code_tags}))


def _able(tables: Tables, chunk: Chunk) -> dict[Worker, None]:
    requirement = chunk.combination.key.requirement
    return {worker: None for worker in tables.workers.values() if worker.can_ever_run(requirement)}


def _trouble(able: dict[Worker, None]) -> str:
    """The first of them that says why it takes no tasks (WRK-65)."""
    return next((f"{worker.name}: {worker.status.trouble}" for worker in able if worker.status.trouble), "")


def _ahead(lines: Lines, chunk: Chunk, task_id: TaskId, able: dict[Worker, None]) -> int:
    """More urgent tasks that some of the same workers could take, and the client's own of the same class before it."""
    key = chunk.combination.key
    own = lines.queue.classes.get(key)
    count = own.ahead_of(chunk, chunk.index_of[task_id]) if own is not None and own.count else 0
    for ready in lines.waiting:
        if ready.urgency >= key.urgency or lines.looks_left <= 0:
            break
        if not ready.key.is_before(key):
            continue
        lines.looks_left -= 1 + min(len(able), len(ready.index.members))
        if not able or not ready.index.members.keys().isdisjoint(able.keys()):
            count += ready.count
    return count


def _found(tables: Tables, client: Client | None, question: Explain) -> TaskId | None:
    """The unfinished task with this short form that was submitted last. (MON-43)"""
    end = _end_of(question)
    left = LOOKED_BATCHES
    for owner in list(tables.clients.values()) if client is None else [client]:
        for chunk in islice(reversed(owner.chunks), left):
            left -= 1
            task_id = _found_in(chunk.batch.ids, question.task_source, end)
            if task_id is not None and task_id in tables.where and tables.chunk_of(task_id).client is owner:
                return task_id
    return None


def _end_of(question: Explain) -> bytes:
    return question.task_number.to_bytes(ID_BYTES - HEAD_BYTES, "little")


def _found_in(ids: bytes, source: bytes, end: bytes) -> TaskId | None:
    """Searched as bytes: a batch may have very many ids."""
    at = ids.find(end)
    while at >= 0:
        begin = at - HEAD_BYTES
        if at % ID_BYTES == HEAD_BYTES and ids.startswith(source, begin):
            return TaskId(ids[begin : begin + ID_BYTES])
        at = ids.find(end, at + 1)
    return None


def _hopeless(lines: Lines, client: Client | None) -> TaskId | None:
    """The first queued task of this client, or of any, that no connected worker could ever take."""
    owner = client or next(iter(lines.hopeless), None)
    ready = None if owner is None else lines.hopeless.get(owner)
    return None if owner is None or ready is None else ready.first_of(owner)
