"""Work on very many tasks, in slices: no message and no lost peer stops the scheduler for long.

Theory of operation. To forget a client with a million queued tasks, or to cancel them, takes seconds. During one turn
the scheduler does at most `TURN_STEPS` of such work and goes on in the next turn; in between it reads, answers and
places as always. Work is started with `start` and done at once as far as the turn allows, so that all but the largest
is over when `start` returns.

As long as work for a client is left, the queued tasks of that client are held: none is given to a worker, because it
may be among those that are to end. (CAN-11)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaler_scheduler.core.ready import ReadyQueue

if TYPE_CHECKING:
    from scaler_scheduler.core.tables import Client

Job = Iterator[int]
"""Each `next` does a part of the work and returns how many steps it took."""

TURN_STEPS = 4_000
"""Of all jobs together in one turn. A step takes about a microsecond."""

SHARE_STEPS = 500
"""Clients take turns after about so many."""

SLICE_TASKS = 256
"""A job looks at so many tasks at once."""


class Backlog:
    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        #: all and only the clients whose queued tasks are held; no empty queues
        self._jobs: dict[Client, deque[Job]] = {}
        #: simulations and tests take smaller ones
        self.turn_steps = TURN_STEPS
        self.slice_tasks = SLICE_TASKS
        self._left = TURN_STEPS

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, client: Client) -> bool:
        return client in self._jobs

    def clients(self) -> Iterator[Client]:
        return iter(self._jobs)

    def start(self, client: Client, job: Job) -> None:
        """Do this now, as far as the turn allows. Work for one client is done in the order in which it was started."""
        jobs = self._jobs.get(client)
        if jobs is None:
            if self._does(job, self._left):
                return
            jobs = self._jobs[client] = deque()
            self._ready.hold(client)
        jobs.append(job)

    def go_on(self) -> None:
        """Once in each turn, before tasks are placed."""
        while self._jobs and self._left > 0:
            client, jobs = next(iter(self._jobs.items()))
            self._jobs[client] = self._jobs.pop(client)  # the last in line, from now on
            if self._does(jobs[0], SHARE_STEPS):
                jobs.popleft()
            if not jobs:
                del self._jobs[client]
                self._ready.release(client)

    def begin_turn(self) -> None:
        self._left = self.turn_steps

    def _does(self, job: Job, share: int) -> bool:
        """False: there is more to be done."""
        if self._left <= 0:
            return False
        for steps in job:
            self._left -= steps
            share -= steps
            if share <= 0 or self._left <= 0:
                return False
        return True
