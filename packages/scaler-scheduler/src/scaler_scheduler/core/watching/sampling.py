"""Samples of tasks, from the workers to those who watch (MON-10, MON-11).

Rows are joined as bytes: a task that is shown costs the scheduler some nanoseconds, one that is not nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scaler_protocol.codec.checks import SAMPLE_BYTES
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.messages import SampleBlock, SampleTasks, TaskSamples, WorkerStatus
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.encoded_size import (
    BLOCK_BYTES,
    EVENT_BYTES,
    NAME_BYTES,
    last_that_fit,
    size_of_block,
    size_of_event,
    size_of_name,
)
from scaler_scheduler.core.tables.tables import Tables
from scaler_scheduler.core.watching.stack_sampling import StackSampler

SAMPLES_PER_SECOND = 2_000
"""Of all workers together: more than a screen can show, and some hundred kilobytes a second for each watcher."""
HEARTBEAT_SECONDS = 2.0
"""How often a WorkerStatus comes, about."""
WORKER_LIMIT = 1_000
BLOCKS_LIMIT = 4_096
"""No peer may fill our memory between two publications."""


class Sampler:
    def __init__(self, tables: Tables, stacks: StackSampler) -> None:
        self._tables = tables
        self._stacks = stacks
        self.is_wanted = False
        self._blocks: list[tuple[float, PeerId, str, int, bytes]] = []

    def want(self, is_wanted: bool) -> None:
        """Called now and then: whether a monitor watches, and how many workers share the samples, changes."""
        if not is_wanted and not self.is_wanted:
            return
        self.is_wanted = is_wanted
        self._blocks = self._blocks if is_wanted else []
        limit = self._fair_limit() if is_wanted else 0
        for worker in self._tables.workers.values():
            if worker.may_sample and _differs(worker.sample_limit, limit):
                worker.sample_limit = limit
                self._tables.tell(worker.peer_id, SampleTasks(limit))

    def _fair_limit(self) -> int:
        share = SAMPLES_PER_SECOND * HEARTBEAT_SECONDS / max(1, len(self._tables.workers))
        return max(1, min(WORKER_LIMIT, int(share)))

    def take(self, worker: Worker, status: WorkerStatus) -> WorkerStatus:
        """The status without its samples; they wait here for the next publication."""
        if status.stack_samples:
            status = self._stacks.take(worker, status)
        if self.is_wanted and len(self._blocks) < BLOCKS_LIMIT:
            rows = status.samples[: SAMPLE_BYTES * worker.sample_limit]
            shown_id = self._tables.display.of(worker.peer_id)
            self._blocks.append((worker.heard_at, shown_id, worker.name, status.ended_count, rows))
        return replace(status, ended_count=0, samples=b"")

    def publication(self, now: float) -> TaskSamples:
        taken, self._blocks = self._blocks, []
        blocks = _that_fit(
            SampleBlock(peer_id, name, max(0.0, now - at), count, rows) for at, peer_id, name, count, rows in taken
        )
        failures, failed_count = self._tables.history.new_failures(now)
        return self._with_names(TaskSamples(blocks=blocks, failures=failures, failed_count=failed_count))

    def history(self, now: float) -> TaskSamples:
        """What is kept of before, for a monitor that has just come. (MON-34)"""
        history = self._tables.history
        failures = history.all_failures(now)
        kept = TaskSamples(
            blocks=_that_fit(history.blocks(now)),
            failures=failures,
            failed_count=len(failures),
            is_history=True,
            events=last_that_fit(self._tables.events.last(now), size_of_event, EVENT_BYTES),
        )
        return self._with_names(kept)

    def _with_names(self, samples: TaskSamples) -> TaskSamples:
        functions: set[bytes] = {one.function_id for one in samples.failures}
        for block in samples.blocks:
            rows = block.samples
            functions.update(rows[at + ID_BYTES : at + 2 * ID_BYTES] for at in range(0, len(rows), SAMPLE_BYTES))
        names = self._tables.function_names.of_all(sorted(functions))
        return replace(samples, function_names=last_that_fit(names, size_of_name, NAME_BYTES))


def _that_fit(blocks: Iterable[SampleBlock]) -> tuple[SampleBlock, ...]:
    """The oldest lose their rows where there is no room for all, and keep their counts."""
    found: list[SampleBlock] = []
    left = BLOCK_BYTES
    for block in reversed(tuple(blocks)):
        shown = block if size_of_block(block) <= left else replace(block, samples=b"")
        left -= size_of_block(shown)
        if left < 0:
            break
        found.append(shown)
    return tuple(reversed(found))


def _differs(told: int, limit: int) -> bool:
    """Worth a message: a monitor begins or stops watching, or the number of workers is another than it was."""
    return told != limit and (not told or not limit or not 0.5 <= told / limit <= 2)
