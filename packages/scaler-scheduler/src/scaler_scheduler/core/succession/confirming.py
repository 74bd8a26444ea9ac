"""Workers are told which of their results are with the clients, so that they keep them no longer. (SCH-71, SCH-72)

Theory of operation. Nothing is noted for a single result. Once in a while, as long as results come, it is written down
how many Results messages of each worker have been worked off, and one turn later, when all that came of them has left,
how many messages each client has been sent. When all these clients have acknowledged as much, they have the results.

The same message tells how many workers there are (HSK-37). A successor of this scheduler needs to wait for no more than
so many, so a number that may be too small does harm: when workers come or go all are told at once that it is not known,
and the new number when it has been the same for a second.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Delivered
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

LOOK_SECONDS = 1.0
WAIT_SECONDS = 0.25
"""Between two looks at what clients have acknowledged."""


class Confirmer:
    def __init__(
        self, tables: Tables, tell_kept: Callable[[float], None], progress: Callable[[PeerId], tuple[int, int]]
    ) -> None:
        """`tell_kept`: clients are to have results that are kept for other tasks too (SCH-51)."""
        self._tables = tables
        self._tell_kept = tell_kept
        self._progress = progress
        #: when results are written down again
        self._next_at = 0.0
        #: nothing is to be done before, unless workers have come, gone, or presented what they hold
        self.due_at = -inf
        #: when there is something to settle, at the latest
        self.look_at = inf
        #: when acknowledgements are looked at; None while nothing is to be confirmed
        self._look_at: float | None = None
        #: what was worked off at the last look, until its clients have it
        self._counts: dict[Worker, int] = {}
        #: what clients had been sent by then; None before that has left
        self._marks: dict[Client, int] | None = None
        #: how many tasks had ended at the last look
        self._seen_count = 0
        #: as workers were told last; zero: not known
        self._worker_count = 0
        self._steady_at: float | None = None

    def settle(self, now: float) -> None:
        if self._look_at is None and not self._tables.presentation.has_news and now < self.look_at:
            counts = self._tables.counts
            if counts[State.SUCCESS] + counts[State.FAILED] == self._seen_count:
                return
        self._settle(now)
        self.look_at = min([at for at in (self._look_at, self._steady_at) if at is not None], default=inf)
        self.due_at = -inf if self._look_at is None else self.look_at
        if self._counts and self._marks is None:
            self.due_at = now

    def _settle(self, now: float) -> None:
        tables = self._tables
        if tables.presentation.has_changed_presenters:
            tables.presentation.has_changed_presenters = False
            self._steady_at = now + LOOK_SECONDS
            if self._worker_count:
                self._tell_count(0)
        elif self._steady_at is not None and now >= self._steady_at:
            self._steady_at = None
            self._tell_count(sum(worker.is_presenter for worker in tables.workers.values()))
        for worker in tables.presentation.has_presented:
            self._tell(worker)
        tables.presentation.has_presented.clear()
        if tables.presentation.has_other_results:
            tables.presentation.has_other_results = False
            self._seen_count = -1
        tables.presentation.has_news = False
        if self._look_at is None:
            if self._ended_count() != self._seen_count:
                self._look_at = now + LOOK_SECONDS
            return
        if self._counts and self._marks is None and not tables.backlog and not tables.delivery.slow:
            self._marks = {client: self._progress(client.peer_id)[0] for client in tables.clients.values()}
        if now >= self._look_at:
            self._look(now)

    def _ended_count(self) -> int:
        """Others than these are seldom reported by workers: their results are confirmed with the next."""
        return self._tables.counts[State.SUCCESS] + self._tables.counts[State.FAILED]

    def _look(self, now: float) -> None:
        tables = self._tables
        if self._marks is not None and self._are_acknowledged(self._marks):
            self._confirm()
        if not self._counts and now >= self._next_at and self._ended_count() != self._seen_count and not tables.backlog:
            self._tell_kept(now)
            self._next_at = now + LOOK_SECONDS
            self._seen_count = self._ended_count()
            self._counts = {
                worker: worker.results_count
                for worker in tables.workers.values()
                if worker.is_presenter and worker.results_count > worker.confirmed_count and self._is_told(worker)
            }
            self._marks = None
        is_waiting = bool(self._counts) or self._ended_count() != self._seen_count
        self._look_at = now + WAIT_SECONDS if is_waiting else None

    def _is_told(self, worker: Worker) -> bool:
        """Nothing that it has reported waits here for a client. (SCH-76)"""
        return worker not in self._tables.presentation.untold

    def _are_acknowledged(self, marks: dict[Client, int]) -> bool:
        return all(client.is_gone or self._progress(client.peer_id)[1] >= seq for client, seq in marks.items())

    def _confirm(self) -> None:
        for worker, count in self._counts.items():
            worker.confirmed_count = count
            self._tell(worker)
        self._counts, self._marks = {}, None

    def _tell_count(self, worker_count: int) -> None:
        self._worker_count = worker_count
        for worker in self._tables.workers.values():
            if worker.is_presenter and worker not in self._tables.presentation.expected:
                self._tell(worker)

    def _tell(self, worker: Worker) -> None:
        if self._tables.workers.get(worker.peer_id) is worker:
            self._tables.tell(worker.peer_id, Delivered(worker.confirmed_count, self._worker_count))
