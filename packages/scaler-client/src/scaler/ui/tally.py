"""Sums for counters of Prometheus that no scheduler publishes: of shares of a core, and of events. No socket, no clock.

A status has the share of a core since the status before. The sum of these shares, each times the seconds since the
status before, is processor time: `rate()` of it is right over any window. The sums begin with this process.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import NO_PEER, ClusterEvent, ClusterStatus, WorkerEntry

GAP_SECONDS = 60.0
"""Two statuses that are further apart say nothing about what was between them."""
EVENT_KINDS = (
    "worker_joined", "worker_left", "worker_lost", "worker_draining", "worker_trouble", "processor_died",
    "manager_joined", "manager_left", "manager_trouble", "scheduler_started", "scheduler_restarted",
    "scheduler_recovered", "scheduler_took_over", "storage_connected", "storage_lost", "storage_trouble",
    "storage_spilling", "client_lost", "limit_reached", "control",
)  # fmt: skip
"""Series that are there from the beginning, because an increase from nothing cannot be seen; others are "other"."""
OTHER = "other"


class Tally:
    def __init__(self) -> None:
        self.started_at = 0.0  #: of the present scheduler, in seconds of the epoch; the same as long as it runs
        self.at = 0.0  #: when the last status came
        self.scheduler_cpu_seconds = 0.0
        #: of the workers in the last status, by their identity
        self.worker_cpu_seconds: dict[PeerId, float] = {}
        self.events = dict.fromkeys((*EVENT_KINDS, OTHER), 0)
        self.rerun_tasks = dict.fromkeys((*EVENT_KINDS, OTHER), 0)
        self._server: PeerId = NO_PEER
        self._uptime_seconds = 0.0
        self._event_number = 0

    def take(self, status: ClusterStatus, at: float) -> None:
        """`at`: when it came, in seconds of the epoch."""
        passed = status.uptime_seconds - self._uptime_seconds
        if status.server_id != self._server:
            self._begin(status, at)
            passed = 0.0
        elif passed <= 0:
            return  # an answer that a publication has overtaken
        self.at = at
        self._uptime_seconds = status.uptime_seconds
        seconds = passed if passed <= GAP_SECONDS else 0.0
        self.scheduler_cpu_seconds += seconds * max(0.0, status.cpu)
        before = self.worker_cpu_seconds
        self.worker_cpu_seconds = {
            one.peer_id: before.get(one.peer_id, 0.0) + seconds * max(0.0, cores_of(one)) for one in status.workers
        }
        self._count(status.events, status.event_count)

    def _begin(self, status: ClusterStatus, at: float) -> None:
        """Of the first scheduler, what was before counts as told already; of its successors nothing does."""
        self._event_number = 0 if self._server else status.event_count
        self._server = status.server_id
        self.started_at = at - status.uptime_seconds

    def _count(self, events: Sequence[ClusterEvent], event_count: int) -> None:
        """Those that were not listed, as their numbers show, are "other"."""
        for event in events:
            if event.number <= self._event_number:
                continue
            self.events[OTHER] += event.number - self._event_number - 1
            self._event_number = event.number
            kind = event.kind if event.kind in self.events else OTHER
            self.events[kind] += 1
            self.rerun_tasks[kind] += event.task_count
        self.events[OTHER] += max(0, event_count - self._event_number)
        self._event_number = max(self._event_number, event_count)


def cores_of(entry: WorkerEntry) -> float:
    """How many cores the agent and its processors use."""
    return entry.status.agent_cpu + sum(one.cpu for one in entry.status.processors)
