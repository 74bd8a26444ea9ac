"""Where a running task is in its code: the question goes on to its worker, and the answer comes back (SCH-93, MON-42).

A client may ask about its own tasks, a monitor about all tasks if the operator lets monitors see texts. Questions that
are on their way are bounded for each peer and in all, and each has an answer after some seconds, whatever its
worker does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from scaler_protocol.codes import (
    STACK_NO_ANSWER,
    STACK_NOT_ALLOWED,
    STACK_NOT_RUNNING,
    STACK_NOT_SUPPORTED,
    STACK_TAKEN,
    STACK_TOO_MANY,
    STACK_UNKNOWN,
)
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import StackReply, StackRequest
from scaler_scheduler.core.actions import Send
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import ANSWER_BYTES, Tables

FEATURE_STACKS = "stacks"
ANSWER_SECONDS = 5.0
"""For the worker, which gives its processor two of them."""
PEER_LIMIT = 8
TOTAL_LIMIT = 256
TEXT_BYTES = 64 * 1024
PROCESS_CHARACTERS = 500


class _Question(NamedTuple):
    asker: PeerId
    is_client: bool
    request: StackRequest
    worker: Worker
    until: float


class Stacks:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: those that a worker has not answered, by the number that the worker was told
        self.questions: dict[int, _Question] = {}
        self._counts: Counter[PeerId] = Counter()
        self._numbers = count(1)

    def of_client(self, client: Client, request: StackRequest) -> None:
        sent = self.ask(client.peer_id, request, client, self._tables.history.now)
        if isinstance(sent.message, StackReply):
            self._tell(client.peer_id, is_client=True, answer=sent.message)
        else:
            self._tables.tell(*sent)

    def ask(self, asker: PeerId, request: StackRequest, client: Client | None, now: float) -> Send:
        """The question to the worker, or the answer. Without a client: of a monitor. (MON-42)"""
        tables, task_id = self._tables, request.task_id
        refusal = self._refusal(asker, request, client)
        if refusal is not None:
            return Send(asker, refusal)
        worker = tables.where[task_id]
        assert isinstance(worker, Worker)
        number = next(self._numbers)
        self.questions[number] = _Question(asker, client is not None, request, worker, now + ANSWER_SECONDS)
        self._counts[asker] += 1
        return Send(worker.peer_id, StackRequest(number, task_id))

    def _refusal(self, asker: PeerId, request: StackRequest, client: Client | None) -> StackReply | None:
        """Why no worker is asked."""
        tables, task_id = self._tables, request.task_id
        reply = StackReply(request.request_id, task_id, STACK_UNKNOWN)
        if client is None and not tables.policy.shows_texts:
            return replace(reply, outcome=STACK_NOT_ALLOWED)
        if task_id not in tables.where or (client is not None and tables.chunk_of(task_id).client is not client):
            return reply
        place = tables.where[task_id]
        if not isinstance(place, Worker):
            state = State.WAITING if task_id in tables.dependencies.waiting else State.QUEUED
            return replace(reply, outcome=STACK_NOT_RUNNING, state=state.value)
        reply = replace(reply, worker=place.name, state=self._state_of(task_id))
        if not place.may_stack:
            return replace(reply, outcome=STACK_NOT_SUPPORTED)
        if self._counts[asker] >= PEER_LIMIT or len(self.questions) >= TOTAL_LIMIT:
            return replace(reply, outcome=STACK_TOO_MANY)
        return None

    def answered(self, worker: Worker, reply: StackReply) -> None:
        """Of a worker, so it is foreign: only what it was asked, and no more than fits."""
        question = self.questions.get(reply.request_id)
        if question is None or question.worker is not worker:
            return
        is_taken = reply.outcome == STACK_TAKEN
        known = reply.outcome in (STACK_TAKEN, STACK_NOT_RUNNING, STACK_TOO_MANY)
        answer = StackReply(
            question.request.request_id,
            question.request.task_id,
            reply.outcome if known else STACK_NO_ANSWER,
            _cut(reply.text) if is_taken else "",
            reply.process[:PROCESS_CHARACTERS],
            worker.name,
            self._state_of(question.request.task_id),
            reply.is_blocked,
            max(0.0, reply.running_seconds),
        )
        self._close(reply.request_id, question, answer)

    def settle(self, now: float) -> None:
        """Only called while a question is on its way."""
        for number, question in list(self.questions.items()):
            if question.worker.is_gone or now >= question.until:
                lost = "its worker was lost meanwhile" if question.worker.is_gone else "its worker has not answered"
                request, name = question.request, question.worker.name
                state = self._state_of(request.task_id)
                answer = StackReply(
                    request.request_id, request.task_id, STACK_NO_ANSWER, process=lost, worker=name, state=state
                )
                self._close(number, question, answer)

    def lost(self, peer_id: PeerId) -> None:
        """No answer is of use to it."""
        if self._counts.pop(peer_id, 0):
            for number in [number for number, question in self.questions.items() if question.asker == peer_id]:
                del self.questions[number]

    def next_deadline(self) -> float | None:
        return min((question.until for question in self.questions.values()), default=None)

    def _close(self, number: int, question: _Question, answer: StackReply) -> None:
        del self.questions[number]
        self._counts[question.asker] -= 1
        if not self._counts[question.asker]:
            del self._counts[question.asker]
        self._tell(question.asker, is_client=question.is_client, answer=answer)

    def _tell(self, asker: PeerId, *, is_client: bool, answer: StackReply) -> None:
        """What a client does not read is charged to it. (LIM-16) A monitor asks no more than it reads. (MON-22)"""
        self._tables.tell(asker, answer)
        if is_client:
            self._tables.backlog.pressure.answered(asker, ANSWER_BYTES + len(answer.text))

    def _state_of(self, task_id: TaskId) -> str:
        if task_id not in self._tables.where:
            return ""
        state = State.CANCELING if task_id in self._tables.canceling else State.DISPATCHED
        return state.value


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= TEXT_BYTES else data[:TEXT_BYTES].decode("utf-8", "ignore")
