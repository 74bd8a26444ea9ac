"""Why a task is where it is: a plain query for people, nothing is changed (SCH-33 to SCH-35)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Explain, Explanation
from scaler_scheduler.core.chunk import Chunk
from scaler_scheduler.core.lending import BLOCKED
from scaler_scheduler.core.ready import Requirement
from scaler_scheduler.core.scaling.controller import Scaler
from scaler_scheduler.core.states import State
from scaler_scheduler.core.tables import Client, Tables
from scaler_scheduler.core.workers import Worker

HEAD_BYTES = 8
"""Of a task's id: its source and what is random. The rest is a number. (MON-43)"""
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
        for client, question in questions:
            if not client.is_gone:
                self._tables.answer(client, explanation(self._tables, self._scaler, client, question, now))


def explanation(tables: Tables, scaler: Scaler, client: Client | None, question: Explain, now: float) -> Explanation:
    """Without a client: of the tasks of all. (MON-15)"""
    if question.task_source:
        task_id = _found(tables, client, question)
    else:
        task_id = question.task_id or _hopeless(tables, client)
    answer = Explanation(question.request_id, task_id or TaskId(b""), worker_count=len(tables.workers))
    if not task_id or task_id not in tables.where:
        return answer
    chunk = tables.chunk_of(task_id)
    if client is not None and chunk.client is not client:
        return answer
    able = _able(tables, chunk)
    answer = replace(
        answer,
        able_count=len(able),
        starting_count=scaler.starting_count(tables.ready.key(chunk.header).requirement),
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
    place = tables.where[task_id]
    if isinstance(place, Worker):
        return _held(tables, answer, place, now)
    waiting = tables.dependencies.waiting.get(task_id)
    if waiting is not None:
        return replace(answer, state=State.WAITING.value, dependency_count=waiting.missing)
    if chunk.client in tables.presentation.recovering_clients:
        answer = replace(answer, recovery_seconds=max(0.001, tables.presentation.recovering_until - now))
    return replace(answer, state=State.QUEUED.value, ahead_count=_ahead(tables, chunk, task_id, able))


def _held(tables: Tables, answer: Explanation, worker: Worker, now: float) -> Explanation:
    """What the worker last said of its processors tells whether the task runs: nothing is noted for each task."""
    state = State.CANCELING if answer.task_id in tables.canceling else State.DISPATCHED
    silent_seconds = max(0.0, now - worker.heard_at)
    # Not zero, which is "not known". (SCH-94)
    lost_seconds = max(0.001, worker.lease_seconds - silent_seconds)
    answer = replace(answer, state=state.value, worker=worker.name, silent_seconds=silent_seconds)
    answer = replace(answer, lost_seconds=lost_seconds)
    for processor in worker.status.processors:
        if processor.task_id == answer.task_id:
            seconds = processor.running_seconds + max(0.0, now - worker.status_at)
            is_blocked = processor.state == BLOCKED
            return replace(answer, is_begun=True, running_seconds=seconds, is_blocked=is_blocked)
    return answer


def _code_tags(tables: Tables) -> tuple[str, ...]:
    """What the workers that are connected read, each once: a few versions of a language, however many workers."""
    return tuple(sorted({tag for worker in tables.workers.values() for tag in worker.code_tags}))


def _able(tables: Tables, chunk: Chunk) -> list[Worker]:
    requirement = tables.ready.key(chunk.header).requirement
    return [worker for worker in tables.workers.values() if worker.can_ever_run(requirement)]


def _ahead(tables: Tables, chunk: Chunk, task_id: TaskId, able: list[Worker]) -> int:
    """More urgent tasks that some of the same workers could take, and the client's own of the same class before it."""
    own = tables.ready.key(chunk.header)
    count = 0
    for ready in tables.ready.by_urgency():
        if ready.key == own:
            count += ready.ahead_of(chunk, chunk.index_of[task_id])
        elif ready.key.urgency < own.urgency and (not able or _shares(able, ready.key.requirement)):
            count += ready.count
    return count


def _shares(able: list[Worker], requirement: Requirement) -> bool:
    return any(worker.can_ever_run(requirement) for worker in able)


def _found(tables: Tables, client: Client | None, question: Explain) -> TaskId | None:
    """The unfinished task with this short form that was submitted last. (MON-43)"""
    end = question.task_number.to_bytes(ID_BYTES - HEAD_BYTES, "little")
    left = LOOKED_BATCHES
    for owner in list(tables.clients.values()) if client is None else [client]:
        for chunk in islice(reversed(owner.chunks), left):
            left -= 1
            task_id = _found_in(chunk.batch.ids, question.task_source, end)
            if task_id is not None and task_id in tables.where and tables.chunk_of(task_id).client is owner:
                return task_id
    return None


def _found_in(ids: bytes, source: bytes, end: bytes) -> TaskId | None:
    """Searched as bytes: a batch may have very many ids."""
    at = ids.find(end)
    while at >= 0:
        begin = at - HEAD_BYTES
        if at % ID_BYTES == HEAD_BYTES and ids.startswith(source, begin):
            return TaskId(ids[begin : begin + ID_BYTES])
        at = ids.find(end, at + 1)
    return None


def _hopeless(tables: Tables, client: Client | None) -> TaskId | None:
    """The first queued task of this client, or of any, that no connected worker could ever take."""
    owners = list(tables.clients.values()) if client is None else [client]
    for ready in tables.ready.by_urgency():
        if not _shares(list(tables.workers.values()), ready.key.requirement):
            for owner in owners:
                first = ready.first_of(owner)
                if first is not None:
                    return first
    return None
