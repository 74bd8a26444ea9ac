"""What has happened to the cluster as a whole, for people (MON-36): the last of it, with names."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from scaler_protocol.messages import ClusterEvent, Software
from scaler_protocol.records import dataclass

EVENTS_KEPT = 1_000
EVENTS_SHOWN = 32
"""In a ClusterStatus, though watchers were told of all of them already."""
SUBJECT_CHARACTERS, TEXT_CHARACTERS = 100, 300

WORKER_JOINED, WORKER_LEFT, WORKER_LOST = "worker_joined", "worker_left", "worker_lost"
WORKER_DRAINING, WORKER_TROUBLE, PROCESSOR_DIED = "worker_draining", "worker_trouble", "processor_died"
MANAGER_JOINED, MANAGER_LEFT, MANAGER_TROUBLE = "manager_joined", "manager_left", "manager_trouble"
CLIENT_LOST, LIMIT_REACHED, CONTROL = "client_lost", "limit_reached", "control"
SCHEDULER_STARTED, SCHEDULER_TOOK_OVER = "scheduler_started", "scheduler_took_over"
SCHEDULER_RESTARTED, SCHEDULER_RECOVERED = "scheduler_restarted", "scheduler_recovered"
STORAGE_CONNECTED, STORAGE_LOST, STORAGE_TROUBLE = "storage_connected", "storage_lost", "storage_trouble"
STORAGE_SPILLING = "storage_spilling"
LIMIT_SECONDS = 60.0
"""A limit that is reached again and again is told of once in this time."""
DEATHS_SECONDS = 60.0
"""The first processor of a worker that dies is told of at once, further ones of this time together."""


def place_of(software: Software) -> str:
    """Where a peer runs, as people are told."""
    return f"{software.language or 'a process'} on {software.host}" if software.host else ""


@dataclass(slots=True)
class _Deaths:
    """Further processors of one worker, since its last event of that kind."""

    until: float
    count: int = 0
    task_count: int = 0
    last: str = ""


class ClusterEvents:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.count = 0
        self._events: deque[tuple[float, ClusterEvent]] = deque(maxlen=EVENTS_KEPT)
        self._limits: dict[str, float] = {}
        self._lost_at: dict[str, float] = {}  #: by the names of workers, those that were lost last
        self._deaths: dict[str, _Deaths] = {}  #: by the names of workers; the next one that is due stands first
        self.look_at = math.inf  #: then `settle` has something to tell

    def note(self, kind: str, subject: str = "", text: str = "", task_count: int = 0) -> None:
        self.count += 1
        line = " ".join(text.split())[:TEXT_CHARACTERS]
        event = ClusterEvent(self.count, 0.0, kind, subject[:SUBJECT_CHARACTERS], line, task_count)
        self._events.append((self._now(), event))

    def note_gone(self, worker: str, text: str, task_count: int, *, is_orderly: bool) -> None:
        self.note(WORKER_LEFT if is_orderly else WORKER_LOST, worker, text, task_count)
        self._lost_at.pop(worker, None)
        if is_orderly:
            return
        self._lost_at[worker] = self._now()
        if len(self._lost_at) > EVENTS_KEPT:
            del self._lost_at[next(iter(self._lost_at))]

    def note_joined(self, worker: str, place: str) -> None:
        """Also whether it is one that was lost. It may be the same process, or one that took its place."""
        lost_at = self._lost_at.pop(worker, None)
        again = "" if lost_at is None else f"it is there again, {self._now() - lost_at:,.0f} s after it was lost"
        self.note(WORKER_JOINED, worker, "; ".join(filter(None, (place, again))))

    def note_death(self, worker: str, text: str, task_count: int) -> None:
        """Notes that a processor of this worker has died with a task, and so many tasks run again for it. An event at
        once if it is the first for a minute; `settle` tells of the others: a program that crashes kills thousands."""
        deaths = self._deaths.get(worker)
        if deaths is not None:
            deaths.count += 1
            deaths.task_count += task_count
            deaths.last = text
        elif len(self._deaths) < EVENTS_KEPT:
            self._await_deaths(worker)
            self.note(PROCESSOR_DIED, worker, text, task_count)

    def _await_deaths(self, worker: str) -> None:
        self._deaths[worker] = _Deaths(self._now() + DEATHS_SECONDS)
        self.look_at = min(self.look_at, self._now() + DEATHS_SECONDS)

    def settle(self, now: float) -> None:
        """Tells of the processors that have died since the last event about their worker."""
        while self._deaths and (first := next(iter(self._deaths.items())))[1].until <= now:
            worker, deaths = first
            del self._deaths[worker]
            if deaths.count:
                what = f"{deaths.count:,} more died" if deaths.count > 1 else "another one died"
                text = f"{what} within {DEATHS_SECONDS:.0f} s; the last: {deaths.last}"
                self.note(PROCESSOR_DIED, worker, text, deaths.task_count)
                self._await_deaths(worker)
        self.look_at = next((deaths.until for deaths in self._deaths.values()), math.inf)

    def note_limit(self, name: str, text: str) -> None:
        """`name`: one of a few, of ours."""
        if self._now() >= self._limits.get(name, 0.0):
            self._limits[name] = self._now() + LIMIT_SECONDS
            self.note(LIMIT_REACHED, name, text)

    def since(self, number: int, now: float) -> tuple[ClusterEvent, ...]:
        """All that have come after this one and are kept, and no fewer than the last 32."""
        return self.last(now, max(EVENTS_SHOWN, self.count - number))

    def last(self, now: float, most: int = EVENTS_KEPT) -> tuple[ClusterEvent, ...]:
        """The oldest first."""
        shown = islice(self._events, max(0, len(self._events) - most), None)
        return tuple(replace(event, age_seconds=max(0.0, now - at)) for at, event in shown)
