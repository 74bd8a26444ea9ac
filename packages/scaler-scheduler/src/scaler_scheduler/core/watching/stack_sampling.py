"""Where the time of tasks goes, from the workers to monitors (MON-45 to MON-48).

The scheduler hands on what workers tell, as bytes. The watcher that shows trees of calls merges them. A worker samples
only for some seconds after it was asked, so sampling ends with the last watcher, and with the scheduler. When there are
very many workers, some sample at a time, and those that have not for longest come next (LIM-29).
"""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import SampleStacks, StackBlock, StackSamples, WorkerStatus
from scaler_protocol.stack_trees import function_ids
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

FEATURE_STACK_SAMPLES = "stack-samples"

WORKERS_AT_ONCE = 64
SECONDS = 10.0
"""For so long a worker samples after it was asked."""
RENEW_SECONDS = 4.0
"""So long before the end it is asked again, if it is its turn. Publications come more often than that."""
BYTES_PER_HEARTBEAT = 512 * 1024
"""Of all workers together."""
WORKER_BYTES = 32 * 1024
LATE_SECONDS = 6.0
"""What a worker has sampled comes with a WorkerStatus, when its time may be over."""
KEPT_BYTES = 2 * BYTES_PER_HEARTBEAT
"""No peer may fill our memory between two publications."""


class StackSampler:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._is_wanted = False
        self._blocks: list[tuple[float, PeerId, str, bytes, list[ObjectId]]] = []
        self._kept_bytes = 0

    def want(self, is_wanted: bool, now: float) -> None:
        """Called now and then: whether a monitor watches, and which workers there are, changes."""
        is_wanted = is_wanted and self._tables.policy.shows_texts
        if not is_wanted and not self._is_wanted:
            return
        self._is_wanted = is_wanted
        if is_wanted:
            self._ask_those_whose_turn_it_is(now)
            return
        self._blocks, self._kept_bytes = [], 0
        for worker in self._able():
            if worker.samples_until > now:
                self._tables.tell(worker.peer_id, SampleStacks())
            worker.samples_until = 0.0

    def _ask_those_whose_turn_it_is(self, now: float) -> None:
        able = self._able()
        others = [worker for worker in able if worker.samples_until <= now + RENEW_SECONDS]
        room = WORKERS_AT_ONCE - (len(able) - len(others))
        byte_limit = min(WORKER_BYTES, BYTES_PER_HEARTBEAT // max(1, min(WORKERS_AT_ONCE, len(able))))
        for worker in nsmallest(room, others, key=lambda one: one.samples_until):
            worker.samples_until, worker.stack_bytes = now + SECONDS, byte_limit
            self._tables.tell(worker.peer_id, SampleStacks(SECONDS, byte_limit))

    def _able(self) -> list[Worker]:
        return [worker for worker in self._tables.workers.values() if worker.may_sample_stacks]

    def take(self, worker: Worker, status: WorkerStatus) -> WorkerStatus:
        """The status without its samples; they wait here for the next publication. A worker is foreign: what it was not
        asked for, or what is no tree, or too much, is dropped. (MON-48)"""
        trees = status.stack_samples
        was_asked = self._is_wanted and worker.samples_until > 0
        is_in_time = was_asked and worker.heard_at < worker.samples_until + LATE_SECONDS
        if is_in_time and len(trees) <= worker.stack_bytes and self._kept_bytes + len(trees) <= KEPT_BYTES:
            try:
                functions = function_ids(trees)
            except ValueError:
                functions = []
            if functions:
                shown_id = self._tables.display.of(worker.peer_id)
                self._blocks.append((worker.heard_at, shown_id, worker.name, trees, functions))
                self._kept_bytes += len(trees)
        return replace(status, stack_samples=b"")

    def publication(self, now: float) -> StackSamples:
        taken, self._blocks, self._kept_bytes = self._blocks, [], 0
        able = self._able()
        return StackSamples(
            blocks=tuple(StackBlock(peer_id, name, max(0.0, now - at), trees) for at, peer_id, name, trees, _ in taken),
            function_names=self._tables.function_names.of_all(
                sorted({function for *_, functions in taken for function in functions})
            ),
            is_hidden=not self._tables.policy.shows_texts,
            sampled_count=sum(worker.samples_until > now for worker in able),
            able_count=len(able),
            worker_count=len(self._tables.workers),
        )
