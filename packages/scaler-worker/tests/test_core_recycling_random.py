"""Random orders of events at a worker that replaces its processors, by tasks and by memory. (WRK-44 to WRK-47)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from scaler_protocol.codes import STATUS_TIMED_OUT
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Results
from scaler_protocol.running.kept import most_kept_bytes
from scaler_worker.core import events, recycling
from scaler_worker.core.actions import GiveBackKept, HandOver, StopProcessor

from .test_core_random import AgentMachine, ModelProcessor

LIMIT = 1 << 30
SOFT = int(recycling.SOFT_SHARE * LIMIT)
KEPT = most_kept_bytes(LIMIT)
MOST_TASKS = 7


class RecyclingMachine(AgentMachine):
    """Each processor has memory, which tasks take and leave; the shell reads it when the core says so."""

    SETTINGS = replace(
        AgentMachine.SETTINGS, memory_bytes=LIMIT, tasks_per_processor=MOST_TASKS, task_timeout_seconds=0.0
    )

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}  #: of each processor, without what it keeps
        self.kept: dict[int, int] = {}
        self.wanted: set[int] = set()  #: those that were told to give that back, and have not done so
        self.handed_counts: dict[int, int] = {}
        self.over: set[TaskId] = set()  #: tasks that were the first of a processor that had too much
        self.timed: set[TaskId] = set()  #: tasks with a timeout of their own
        super().__init__()

    def handle(self, event: events.Event) -> None:
        super().handle(event)
        if list(self.core.to_read(self.now)):
            # What ended in this round has made a reading useful that was not due before. The shell comes back at once.
            super().handle(events.RoundEnded())

    def read_memory(self) -> list[Any]:
        actions: list[Any] = []
        for processor in self.core.to_read(self.now):
            used_bytes, kept_bytes = self.memory.get(processor.number, 50 << 20), self.kept.get(processor.number, 0)
            if used_bytes >= LIMIT and processor.first is not None:
                self.over.add(processor.first.id)
            read = events.MemoryRead(processor.number, used_bytes + kept_bytes, kept_bytes)
            told = self.core.handle(read, self.now)
            self.wanted.update(action.processor for action in told if isinstance(action, GiveBackKept))
            if kept_bytes and used_bytes + kept_bytes >= SOFT:
                assert processor.number in self.wanted, "near the limit it is told to give back what it keeps"
            actions += told
        assert not self.core.to_read(self.now), "one reading of each is enough"
        return actions

    @rule(
        data=st.data(),
        used_bytes=st.sampled_from([50 << 20, SOFT - 1, SOFT, LIMIT - 1, LIMIT, 3 * LIMIT]),
        kept_bytes=st.sampled_from([None, 0, 1, KEPT]),
    )
    def take_memory(self, data: st.DataObject, used_bytes: int, kept_bytes: int | None) -> None:
        """Its task and what it keeps; None: as much as before. What is wanted back it keeps until `give_back`, as in a
        task that handles no signal."""
        chosen = self.choose(data, lambda model: model.is_ready)
        if chosen is not None:
            self.memory[chosen[0]] = used_bytes
            if kept_bytes is not None:
                self.kept[chosen[0]] = kept_bytes
            self.handle(events.RoundEnded())

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        chosen = self.choose(data, lambda model: model.is_ready)
        if chosen is not None and chosen[0] in self.wanted:
            self.wanted.discard(chosen[0])
            self.kept.pop(chosen[0], None)
            self.handle(events.RoundEnded())

    def on_hand_over(self, action: HandOver) -> None:
        super().on_hand_over(action)
        self.timed.update(task.id for task in action.tasks if task.header.timeout_seconds)
        model = self.processors[action.processor]
        has_begun = len(model.tasks) > len(action.tasks)
        used_bytes = self.core.tables.processors[action.processor].memory_bytes
        is_new = not self.core.tables.processors[action.processor].ended_count
        assert has_begun or is_new or used_bytes < SOFT

    def perform(self, action: Any) -> None:
        if isinstance(action, GiveBackKept):
            return
        if isinstance(action, StopProcessor):
            model = self.processors[action.processor]
            assert not model.tasks and not model.is_blocked, "only between two tasks"
        super().perform(action)

    def on_message(self, message: Any) -> None:
        super().on_message(message)
        if isinstance(message, Results) and message.statuses:
            for task_id, status in zip(split_ids(message.ids), message.statuses, strict=True):
                assert status != STATUS_TIMED_OUT or task_id in self.over | self.timed, (
                    "only over a limit, and never for values that we keep"
                )

    def finish_one(self, number: int, model: ModelProcessor) -> None:
        self.memory.pop(number, None)
        super().finish_one(number, model)

    @rule(seconds=st.sampled_from([0.0001, 0.001, 0.004]))
    def wait_a_moment(self, seconds: float) -> None:
        self.now += seconds
        self.handle(events.RoundEnded())

    @invariant()
    def none_has_more_tasks_than_it_may(self) -> None:
        for processor in self.core.tables.processors.values():
            assert processor.ended_count + len(processor.slice) <= MOST_TASKS

    @invariant()
    def memory_is_read_in_time(self) -> None:
        """However fast it is filled, a processor that is not idle is read before it can be far over its limit."""
        deadline = self.core.next_deadline()
        for processor in self.core.tables.processors.values():
            if processor.slice and processor.state.name != "STOPPING" and processor.memory_at > 0:
                headroom = max(LIMIT - processor.memory_bytes, 0) / recycling.FILL_BYTES_PER_SECOND
                assert deadline is not None
                assert deadline <= processor.memory_at + max(headroom, recycling.SHORTEST_SECONDS) + 1e-9


RecyclingMachine.TestCase.settings = AgentMachine.TestCase.settings
TestRecycling = RecyclingMachine.TestCase
