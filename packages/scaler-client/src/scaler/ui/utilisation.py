"""What the time of the workers was used for: worker-seconds, from one status to the next. No socket, no clock."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import NO_PEER, ClusterStatus, WorkerEntry

GAP_SECONDS = 30.0
"""Statuses that are further apart say nothing about what was between them."""
SILENT_SECONDS = 5.0
STARTING, _, RUNNING, BLOCKED, _ = range(5)  #: states of a processor, as in ProcessorStatus
#: in the order in which they are shown
USES = ("ran", "blocked", "starting", "silent", "queued", "unable", "waiting", "nothing")


class Utilisation:
    """Each second of each worker counts once, for what it was used; an idle one for why it was idle."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(USES, 0.0)
        self.cpu_seconds = 0.0
        self.watched_seconds = 0.0
        self._server: PeerId = NO_PEER
        self._at = 0.0

    def take(self, status: ClusterStatus, at: float) -> None:
        """`at`: when it came, in seconds of the epoch. What a status says holds since the one before."""
        passed = at - self._at
        is_next = status.server_id == self._server and 0 < passed <= GAP_SECONDS
        self._server, self._at = status.server_id, at
        if not is_next:
            return
        self.watched_seconds += passed
        idle = _why_idle(status)
        for worker in status.workers:
            self.seconds[_use(worker, idle)] += passed
            self.cpu_seconds += passed * sum(one.cpu for one in worker.status.processors)

    def told(self) -> dict[str, float]:
        """Worker-seconds by use, rounded, and the processor time in them."""
        rounded = {use: round(seconds, 3) for use, seconds in self.seconds.items()}
        return {**rounded, "cpu": round(self.cpu_seconds, 3), "watched": round(self.watched_seconds, 3)}


def _use(worker: WorkerEntry, idle: str) -> str:
    """A worker runs one task at a time; one whose task waits for tasks of its own runs another one meanwhile."""
    if worker.silent_seconds > SILENT_SECONDS:
        return "silent"
    states = {one.state for one in worker.status.processors}
    if RUNNING in states:
        return "ran"
    if BLOCKED in states:
        return "blocked"
    return "starting" if states == {STARTING} else idle


def _why_idle(status: ClusterStatus) -> str:
    """Why a worker that is idle has no task: the first of these that is so."""
    counts = {one.name: one.value for one in status.task_counts}
    if counts.get("queued"):
        is_able = any(one.task_count and one.able_count for one in status.waiting_classes)
        return "queued" if is_able or not status.waiting_classes else "unable"
    return "waiting" if counts.get("waiting") else "nothing"
