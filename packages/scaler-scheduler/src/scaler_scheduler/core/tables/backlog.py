"""Work on very many tasks, in slices: no message and no lost peer stops the scheduler for long.

Theory of operation. To forget a client with a million queued tasks, to cancel them, or to end all that depend on one
that failed takes seconds. During one turn the scheduler does at most `TURN_STEPS` of such work and goes on in the next
turn; in between it reads, answers and places as always. Work is started with `start` and done at once as far as the
turn allows, so that all but the largest is over when `start` returns.

All work belongs to a client or to a worker. What belongs to one of them is done in the order in which it was started,
and its further messages wait behind it, so that no message overtakes another. Work that is started by other
work of the same owner goes before the rest of that work, but after its present slice: so what follows from the end of a
task is told before the next thing, and nothing here calls itself, however deep parents and children are nested.

Messages whose work is not over are bounded: of a peer that has sent too much of them, or of all when there is too much
in total, the session takes no more until enough is worked off (`Intake`).

As long as work for a client is left, the queued tasks of that client are held: none is given to a worker, because it
may be among those that are to end. (CAN-11)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import NamedTuple

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Message
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.intake import intake
from scaler_scheduler.core.tables.ready import ReadyQueue

Job = Iterator[int]
"""Each `next` does a part of the work and returns how many steps it took."""
Owner = "Client | Worker"

TURN_STEPS = 4_000
"""Of all jobs together in one turn. A step takes about a microsecond."""

SHARE_STEPS = 1_000
"""Owners take turns after about so many."""

SLICE_TASKS = 128
"""A job looks at so many tasks at once."""


def weight_of(message: Message) -> int:
    """Bytes, about."""
    values = (getattr(message, field.name) for field in fields(message))
    return 1_000 + sum(len(value) for value in values if isinstance(value, (bytes, memoryview)))


UNITS_AT_ONCE = 4_096
"""Tasks and dependencies of a batch that is accepted in one go."""

STEPS_PER_TASK = 10
"""Of a task that is looked at by itself."""


class Entry(NamedTuple):
    job: Job
    size: int  #: bytes of the message that it works off, if it is one


class Backlog:
    def __init__(self, ready: ReadyQueue, unread: Callable[[PeerId], int]) -> None:
        self._ready = ready
        #: no empty queues. Public, because looking into it must not cost a call for each message
        self.jobs: dict[Client | Worker, deque[Entry]] = {}
        #: clients whose queued tasks are held: all and only those with jobs, but while jobs are being done
        self._held: dict[Client, None] = {}
        #: bytes of the messages that are not worked off, and of answers that are not read
        self.pressure = intake(unread)
        #: simulations and tests take smaller ones
        self.turn_steps = TURN_STEPS
        self.slice_tasks = SLICE_TASKS
        self.units_at_once = UNITS_AT_ONCE
        self._left = TURN_STEPS
        #: whose work is being done, and how much the present slice has started for the same owner
        self._at_work_for: Client | Worker | None = None
        self._started_count = 0

    def __bool__(self) -> bool:
        return bool(self.jobs)

    def __contains__(self, owner: Client | Worker) -> bool:
        return owner in self.jobs

    def clients(self) -> Iterator[Client]:
        return (owner for owner in self.jobs if not isinstance(owner, Worker))

    def workers(self) -> Iterator[Worker]:
        """Also those that have left."""
        return (owner for owner in self.jobs if isinstance(owner, Worker))

    def start(self, owner: Client | Worker, job: Job, size: int = 0, *, is_first: bool = False) -> None:
        """Do this as far as the turn allows, behind all that was started for the same owner, or before: a batch waits
        until what its tasks follow from is over."""
        if size:
            self.pressure.hold(owner.peer_id, size)
        entries = self.jobs.setdefault(owner, deque())
        if owner is self._at_work_for:
            entries.insert(self._started_count, Entry(job, size))
            self._started_count += 1
            return
        entries.insert(0 if is_first else len(entries), Entry(job, size))
        if self._at_work_for is None:
            self._work()

    def go_on(self) -> None:
        """Once in each turn, before tasks are placed. What arrives until the next time is of the next turn."""
        if self.jobs:
            self._work()
        self._left = self.turn_steps

    def _work(self) -> None:
        while self.jobs and self._left > 0:
            owner, entries = next(iter(self.jobs.items()))
            self.jobs[owner] = self.jobs.pop(owner)  # the last in line, from now on
            self._at_work_for = owner
            share = SHARE_STEPS
            while entries and share > 0 and self._left > 0:
                share -= self._do_slice(owner, entries)
            self._at_work_for = None
            if not entries:
                del self.jobs[owner]
                self._release(owner)
        for client in self.clients():
            if client not in self._held:
                self._held[client] = None
                self._ready.hold(client)

    def _do_slice(self, owner: Client | Worker, entries: deque[Entry]) -> int:
        entry = entries[0]
        self._started_count = 0
        steps = next(entry.job, None)
        if steps is None:
            entries.remove(entry)  # behind what it has started
            if entry.size:
                self.pressure.drop(owner.peer_id, entry.size)
            return 0
        self._left -= steps
        return steps

    def _release(self, owner: Client | Worker) -> None:
        if not isinstance(owner, Worker) and owner in self._held:
            del self._held[owner]
            self._ready.release(owner)

    def check(self) -> None:
        """Re-derive what is counted along the way."""
        held: Counter[PeerId] = Counter()
        for owner, entries in self.jobs.items():
            assert entries, "no empty queues"
            held[owner.peer_id] += sum(entry.size for entry in entries)
        self.pressure.check(+held)
