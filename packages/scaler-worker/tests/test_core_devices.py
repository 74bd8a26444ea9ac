"""Each task has the GPUs that it needs to itself, and they are free again however it ends."""

from __future__ import annotations

from tests.support.worker_story import Story, handed

from scaler_protocol.ids import GRANT_BYTES
from scaler_protocol.messages import Capability
from scaler_worker.core import Settings
from scaler_worker.core.actions import HandOver, KillProcessor, StartProcessor
from scaler_worker.core.events import ProcessorBroken, ProcessorExited, ProcessorReady

from .test_core_random import AgentMachine

IDS = ("4", "5", "6", "7")


def gpu(amount: int) -> dict[str, tuple[Capability, ...]]:
    return {"capabilities": (Capability("gpu", amount),)}


class GpuStory(Story):
    def run(self, name: int, **header: object) -> tuple[str, ...]:
        """A task begins; what it sees."""
        actions = self.dispatch(name, **header)
        if not handed(actions):
            (started,) = [one.processor for one in actions if isinstance(one, StartProcessor)]
            actions = self.step(ProcessorReady(started, started))
        (self.last,) = [one.processor for one in actions if isinstance(one, HandOver)]
        return self.processor(self.last).gpus


class GpuMachine(AgentMachine):
    """Any order of anything, with tasks that need GPUs and others."""

    SETTINGS = Settings(
        "w", lambda error: b"error", 50, 6, 2, task_timeout_seconds=30.0, suspends_hard=True, gpus=("0", "1", "2")
    )
    GPU_AMOUNTS = (0, 1, 2, -1)


GpuMachine.TestCase.settings = AgentMachine.TestCase.settings
TestGpus = GpuMachine.TestCase


def test_a_task_sees_as_many_gpus_as_it_needs() -> None:
    one = GpuStory(gpus=IDS).start()
    assert one.run(1, **gpu(2)) == ("4", "5")
    one.end(1, 1)
    assert one.run(2) == ()
    one.end(one.last, 2)
    assert one.run(3, **gpu(-1)) == IDS
    one.end(one.last, 3)
    assert one.run(4, **gpu(2)) == ("4", "5") and one.last == 1, "in the processor that has them"


def test_gpus_are_told_once() -> None:
    one = GpuStory(gpus=IDS).start()
    first = one.dispatch(1, **gpu(1))
    one.end(1, 1)
    second = one.dispatch(2, **gpu(1))
    assert [action.gpus for action in (*first, *second) if isinstance(action, HandOver)] == [("4",), None]
    other = Story().start()
    assert [action.gpus for action in other.dispatch(1, **gpu(1)) if isinstance(action, HandOver)] == [None]


def test_tasks_at_once_share_no_gpu() -> None:
    """A task that waits keeps its GPUs while others are free."""
    one = GpuStory(gpus=IDS).start()
    assert one.run(1, **gpu(2)) == ("4", "5")
    one.block(1, 2)
    assert one.run(2, depth=1, **gpu(1)) == ("6",)
    one.block(2, 3)
    assert one.run(3, depth=2, **gpu(1)) == ("7",)


def test_a_child_gets_what_its_waiting_parent_lends() -> None:
    one = GpuStory(gpus=IDS[:1]).start()
    assert one.run(1, **gpu(1)) == ("4",)
    one.block(1, 2)
    assert one.run(2, depth=1, **gpu(1)) == ("4",)


def test_gpus_of_a_waiting_stranger_are_the_last_to_be_taken() -> None:
    one = GpuStory(gpus=IDS[:2]).start()
    stranger, own = (name + bytes(GRANT_BYTES) for name in (b"stranger", b"own"))
    assert one.run(1, owner_grant=stranger, **gpu(1)) == ("4",)
    one.block(1, 2)
    assert one.run(2, owner_grant=own, depth=1, **gpu(1)) == ("5",)
    one.block(2, 3)
    assert one.run(3, owner_grant=own, depth=2, **gpu(1)) == ("5",)


def test_a_task_of_a_killed_process_leaves_its_gpus_when_the_process_has_exited() -> None:
    one = GpuStory(gpus=IDS[:1]).start()
    one.run(1, **gpu(1))
    assert KillProcessor(1) in one.step(ProcessorBroken(1, "wrote nonsense"))
    assert not handed(one.dispatch(2, **gpu(1)))
    assert not handed(one.step(ProcessorReady(2, 2))), "the process may still have memory of the GPU"
    actions = one.step(ProcessorExited(1, -9))
    assert handed(actions) == {2: [2]} and one.processor(2).gpus == ("4",)


def test_a_slice_has_tasks_that_need_as_many() -> None:
    one = GpuStory(gpus=IDS).start()
    one.learn()
    one.dispatch(1, 2, **gpu(1))
    one.dispatch(3, **gpu(2))
    one.dispatch(4, 5, **gpu(1))
    (started,) = [number for number in one.core.tables.processors if number > 1]
    assert handed(one.step(ProcessorReady(started, started))) == {started: [1, 2]}
