"""Events of the cluster in the scheduler's log: those of which lines about peers do not tell all (MON-36)."""

from __future__ import annotations

import logging

from scaler_protocol.process.line_budget import LineBudget
from scaler_scheduler.core.notes.cluster_events import (
    CONTROL,
    LIMIT_REACHED,
    MANAGER_TROUBLE,
    PROCESSOR_DIED,
    SCHEDULER_RECOVERED,
    SCHEDULER_RESTARTED,
    STORAGE_SPILLING,
    STORAGE_TROUBLE,
    WORKER_DRAINING,
    WORKER_LOST,
    WORKER_TROUBLE,
    ClusterEvents,
)

LEVELS = {
    MANAGER_TROUBLE: logging.WARNING,
    STORAGE_TROUBLE: logging.WARNING,
    STORAGE_SPILLING: logging.WARNING,
    LIMIT_REACHED: logging.WARNING,
    WORKER_DRAINING: logging.INFO,
    WORKER_LOST: logging.WARNING,
    WORKER_TROUBLE: logging.WARNING,
    PROCESSOR_DIED: logging.WARNING,
    CONTROL: logging.INFO,
    SCHEDULER_RESTARTED: logging.WARNING,
    SCHEDULER_RECOVERED: logging.INFO,
}


class EventLog:
    def __init__(self, events: ClusterEvents, lines: LineBudget) -> None:
        self._events = events
        self._lines = lines
        self._number = 0  #: the last event that was looked at

    def look(self, now: float) -> None:
        """Log what has come since the last time, once, and no more lines than others may cause."""
        new_count = self._events.count - self._number
        if not new_count:
            return
        self._number = self._events.count
        for event in self._events.last(now, new_count):
            level = LEVELS.get(event.kind)
            if event.kind == WORKER_LOST and not event.task_count:
                continue  # the line about the peer tells all there is
            if level is not None and self._lines.admits(now):
                about = ": ".join(filter(None, (event.kind.replace("_", " "), event.subject, event.text)))
                logging.log(level, "Scheduler: %s", about)
