"""What is published to monitors: when, on which topic, and at what cost (MON).

Nothing is made for a topic that no session watches, and a publication is encoded once for all. What a publication costs
is measured, and the next one comes the later the more it was, so that a large cluster takes a bounded share of the
scheduler's time (MON-9).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ClusterStatus, Count, Software, StorageStatus, TaskLog, TaskSamples
from scaler_protocol.records import dataclass
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint
from scaler_scheduler.core import SchedulerCore
from scaler_scheduler.core.watching.owned import OwnedObjects
from scaler_scheduler.host_figures import HostFigures
from scaler_scheduler.watchers import GRAPHS, LOGS, STACKS, STATUS, TASKS, Watchers

COST_SHARE = 0.012
"""Of the scheduler's time, at most, for publications; what is not counted here, samples that come with the statuses of
workers and the sending of it all, is less than half as much again, so that all stays below two hundredths."""
LONGEST_SECONDS = 30.0
LOGS_PER_INTERVAL = 200
FRESH_SECONDS = 0.1
"""So old it may be in the answer to a question."""
UNWATCHED_SECONDS = 10.0
"""So often the storage is asked though no session watches: its limits are events, which a later watcher is told of."""
WAIT_SECONDS = 0.25
"""A question waits so long for a storage that does not answer."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What never changes of a scheduler."""

    server_id: PeerId
    software: Software
    storage_address: str
    status_seconds: float


class StorageFigures:
    """What the object storage told of itself last."""

    def __init__(self, storage: DealerEndpoint, owned: OwnedObjects) -> None:
        self._storage = storage
        self._owned = owned
        self._old_at = 0.0
        self.asked_at = 0.0
        self.status = StorageStatus(0)
        #: questions wait until then for the storage's answer
        self.awaited_until = 0.0

    def ask(self, now: float) -> None:
        if self._storage.is_open:
            self._old_at = now + FRESH_SECONDS
            self.asked_at = now
            self._storage.send(self._owned.request())

    def refresh(self, now: float) -> None:
        """The question that comes now is answered with what the storage says now, or has said a moment ago."""
        if now >= self._old_at and self._storage.is_open:
            self.awaited_until = now + WAIT_SECONDS
            self.ask(now)

    def told(self, status: StorageStatus) -> None:
        self.status = self._owned.told(status)
        self.awaited_until = 0.0


class Publisher:
    def __init__(
        self,
        identity: Identity,
        core: SchedulerCore,
        watchers: Watchers,
        router: RouterEndpoint,
        storage: DealerEndpoint,
        figures: StorageFigures,
        settle: Callable[[], None],
        standbys: Callable[[], tuple[str, tuple[str, ...]]] = lambda: ("", ()),
    ) -> None:
        self._standbys = standbys
        self._identity = identity
        self._core = core
        self._watchers = watchers
        self._router = router
        self._storage = storage
        self._figures = figures
        self._settle = settle
        self._host = HostFigures()
        self._started_at = time.monotonic()
        self._sequences = dict.fromkeys((STATUS, TASKS, GRAPHS, STACKS), 0)
        self._interval_seconds = identity.status_seconds
        self._due_at = 0.0
        self._logs_left = LOGS_PER_INTERVAL
        #: the last event that was published; each status tells of all since then
        self._told_event = 0
        #: the last that was made, as it was published or given
        self._status: Encoded | None = None
        self._old_at = 0.0

    def tick(self) -> None:
        """Every `status_seconds`; what comes sooner is published when it is due."""
        topics = self._watchers.topics()
        now = time.monotonic()
        self._core.watch(tasks=TASKS in topics, logs=LOGS in topics, graphs=GRAPHS in topics)
        self._core.stack_sampler.want(STACKS in topics, now)
        self._settle()
        self._logs_left = LOGS_PER_INTERVAL
        if STATUS not in topics:
            self._told_event = self._core.events.count  # no watcher counts them
        if now - self._figures.asked_at >= UNWATCHED_SECONDS:
            self._figures.ask(now)
        if not topics or now < self._due_at:
            return
        begun = time.thread_time()
        self._publish(topics, now)
        cost_seconds = time.thread_time() - begun
        self._interval_seconds = min(LONGEST_SECONDS, max(self._identity.status_seconds, cost_seconds / COST_SHARE))
        # A hair less: ticks are not exact, and one that comes early must not be passed over for a whole interval.
        self._due_at = now + 0.9 * self._interval_seconds
        self._figures.ask(now)

    def _publish(self, topics: frozenset[str], now: float) -> None:
        server_id = self._identity.server_id
        if STATUS in topics:
            self._publish_status(now)
        if TASKS in topics:
            samples = self._core.task_samples(now)
            uptime_seconds = now - self._started_at
            self._watchers.publish(
                TASKS,
                replace(samples, sequence=self._next(TASKS), server_id=server_id, uptime_seconds=uptime_seconds),
            )
        if GRAPHS in topics:
            shapes = self._core.graph_shapes()
            self._watchers.publish(GRAPHS, replace(shapes, sequence=self._next(GRAPHS), server_id=server_id))

        if STACKS in topics:
            stacks = self._core.stack_sampler.publication(now)
            uptime_seconds = now - self._started_at
            self._watchers.publish(
                STACKS,
                replace(stacks, sequence=self._next(STACKS), server_id=server_id, uptime_seconds=uptime_seconds),
            )

    def _publish_status(self, now: float) -> None:
        """It answers questions as well, for a while. If no watcher has room for it, the last one that was made does."""
        begun = time.thread_time()
        published = self._watchers.publish(STATUS, replace(self.status(now), sequence=self._next(STATUS)))
        if published is not None:
            self._status = published
            self._told_event = self._core.events.count
            self._old_at = now + (time.thread_time() - begun) / COST_SHARE

    def history(self, now: float) -> TaskSamples:
        """For one monitor. Its sequence is that of the last publication. (MON-34)"""
        sequence, uptime_seconds = self._sequences[TASKS], now - self._started_at
        samples = self._core.history(now)
        return replace(samples, sequence=sequence, server_id=self._identity.server_id, uptime_seconds=uptime_seconds)

    def publish_log(self, message: TaskLog) -> None:
        """A task that prints without end is not shown in full."""
        if self._logs_left > 0:
            self._logs_left -= 1
            self._watchers.publish(LOGS, message)

    def _next(self, topic: str) -> int:
        self._sequences[topic] += 1
        return self._sequences[topic]

    def snapshot(self, now: float, *, may_be_old: bool) -> Encoded:
        """The status that answers a SnapshotRequest. To send the last status again costs a hundredth of making one. So
        when requests are many (`may_be_old`), the last one is sent again for a while, which bounds the share of the
        time that goes into making them. (MON-3)"""
        if self._status is None or not may_be_old or now >= self._old_at:
            begun = time.thread_time()
            self._status = Encoded(self.status(now))
            self._old_at = now + (time.thread_time() - begun) / COST_SHARE
        return self._status

    def status(self, now: float) -> ClusterStatus:
        """All there is to see. Its sequence is that of the last publication. (MON-3)"""
        snapshot = self._core.snapshot(now, self._told_event)
        identity = self._identity
        host = self._host.read()
        standby_of, standbys = self._standbys()
        return replace(
            snapshot,
            sequence=self._sequences[STATUS],
            server_id=identity.server_id,
            uptime_seconds=now - self._started_at,
            cpu=host.cpu,
            rss_bytes=host.rss_bytes,
            host_free_bytes=host.host_free_bytes,
            object_count=self._figures.status.object_count,
            sent_counts=_counts(self._router.sent_counts),
            received_counts=_counts(self._router.received_counts),
            rejected_count=snapshot.rejected_count + self._router.rejected_count,
            interval_seconds=self._interval_seconds,
            software=identity.software,
            scheduler_address=self._router.address,
            storage_address=identity.storage_address,
            is_storage_connected=self._storage.is_open,
            storage=self._figures.status,
            watcher_count=len(self._watchers),
            left_out_count=self._watchers.left_out_count,
            standby_of=standby_of,
            standbys=standbys,
        )


def _counts(counts: dict[str, int]) -> tuple[Count, ...]:
    return tuple(Count(name, value) for name, value in sorted(counts.items()))
