"""A law of the memory guard: no task is ended for memory while what we keep could be given back, whatever ran before
it, and each task that has too much by itself is ended at that reading. (WRK-46)"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.worker_story import Story, handed

from scaler_protocol.running.kept import most_kept_bytes
from scaler_worker.core import recycling
from scaler_worker.core.actions import Action, GiveBackKept, KillProcessor, StartProcessor, StopProcessor
from scaler_worker.core.events import MemoryRead, ProcessorExited, ProcessorReady

LIMIT = 1 << 30
SOFT = int(recycling.SOFT_SHARE * LIMIT)
KEPT = most_kept_bytes(LIMIT)
BARE = 60 << 20


@dataclass(frozen=True)
class Moment:
    """What the kernel sees at one reading while a task runs."""

    own_bytes: int  #: the process without what it keeps
    used_values: int  #: bytes of values that the task asks for, and that are kept then
    handles_signals: bool


SIZES = st.sampled_from([BARE, SOFT - KEPT, SOFT - 1, SOFT, LIMIT - KEPT, LIMIT - 1, LIMIT, LIMIT + KEPT])
MOMENTS = st.builds(Moment, SIZES, st.sampled_from([0, 1, KEPT // 2, KEPT]), st.booleans())


@dataclass
class World:
    """The shell and its processors, of which the one with the task has memory."""

    story: Story = field(default_factory=lambda: Story(memory_bytes=LIMIT).start())
    kept: dict[int, int] = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)
    where: int = 0  #: the processor that was handed a task last

    def perform(self, actions: list[Action]) -> None:
        self.where = max(handed(actions), default=self.where)
        for action in actions:
            if isinstance(action, GiveBackKept):
                self.wanted.add(action.processor)
            elif isinstance(action, KillProcessor):
                self.killed.add(action.processor)
                self.perform(self.story.step(ProcessorExited(action.processor, -9)))
            elif isinstance(action, StopProcessor):
                self.perform(self.story.step(ProcessorExited(action.processor, 0)))
            elif isinstance(action, StartProcessor):
                self.perform(self.story.step(ProcessorReady(action.processor, 1000 + action.processor)))

    def read_idle(self) -> None:
        for processor in list(self.story.core.to_read(self.story.now)):
            kept = self.kept.get(processor.number, 0)
            self.perform(self.story.step(MemoryRead(processor.number, BARE + kept, kept)))

    def read(self, moment: Moment) -> None:
        """One reading of the processor that runs the task."""
        number = self.where
        self.kept[number] = min(KEPT, self.kept.get(number, 0) + moment.used_values)
        if moment.handles_signals and number in self.wanted:
            self.kept[number] = 0
            self.wanted.discard(number)
        kept = self.kept[number]
        self.perform(self.story.step(MemoryRead(number, moment.own_bytes + kept, kept), after=0.1))
        assert (number in self.killed) == (moment.own_bytes >= LIMIT), (moment, kept)
        if kept and moment.own_bytes + kept >= SOFT and number not in self.killed:
            assert number in self.wanted, "what is kept is wanted back near the limit"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(MOMENTS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_no_task_is_ended_while_what_we_keep_could_be_given_back(tasks: list[list[Moment]]) -> None:
    world = World()
    for name, moments in enumerate(tasks):
        world.read_idle()
        world.where = 0
        world.perform(world.story.dispatch(name))
        world.story.now += 0.1
        world.read_idle()
        number = world.where
        assert number, "an idle processor, or a new one, has the task"
        for moment in moments:
            if number not in world.killed:
                world.read(moment)
        if number not in world.killed:
            world.perform(world.story.end(number, name))
