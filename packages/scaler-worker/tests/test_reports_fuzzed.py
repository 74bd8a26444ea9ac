"""Whatever bytes come from a processor: its tasks end, and what goes on to the scheduler is what a scheduler takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.holder_story import ids, results
from tests.support.worker_story import Story
from tests.support.worker_tasks import begin, hold

from scaler_protocol import codec
from scaler_protocol.codes import BAD_BATCH, STATUS_PROCESSOR_DIED
from scaler_protocol.columns import split_ids
from scaler_protocol.messages import Error, Results, Returned, SampleTasks
from scaler_protocol.process import EXIT_BROKEN
from scaler_worker.channel import HEAD, HEADS, channel_pair, pack_report
from scaler_worker.code import Code
from scaler_worker.core.actions import Finish, KillProcessor, Send
from scaler_worker.core.events import ProcessorExited
from scaler_worker.core.run_times import FUNCTION_ROW
from scaler_worker.links import ProcessorLink


class Chain:
    """A processor's bytes on their way: its link, the agent's core, and the checks of a scheduler's session."""

    def __init__(self) -> None:
        self.story = Story().start()
        self.story.receive(SampleTasks(100))
        self.story.learn()
        self.agent_end, self.processor_end = channel_pair()
        self.link = ProcessorLink(1, 0, self.agent_end, Code())
        self.ended: list[bytes] = []

    def dispatch(self, *names: int) -> None:
        self.take(self.story.dispatch(*names))

    def write(self, data: bytes) -> None:
        self.processor_end.sendall(data)
        for event in self.link.read():
            self.take(self.story.step(event))
        if self.link.is_closed:
            self.exit()

    def exit(self) -> None:
        if 1 in self.story.core.tables.processors:
            self.take(self.story.step(ProcessorExited(1, -9)))

    def take(self, actions: Any) -> None:
        for action in actions:
            assert not isinstance(action, Finish)
            if not isinstance(action, Send):
                continue
            envelope, *payload = codec.encode(action.message)
            codec.decode(bytes(envelope), payload)  # raises what a scheduler would complain of
            if isinstance(action.message, Results | Returned):
                self.ended += split_ids(action.message.ids)

    def close(self) -> None:
        self.agent_end.close()
        self.processor_end.close()


@pytest.mark.parametrize(
    "head",
    [
        {"profile": b"short"},
        {"status": 99},
        {"value_kind": 9},
        {"value_kind": 1},
        {"value_kind": 2},
        {"status": 4},
        {"profile": bytes(25)},
    ],
)
def test_a_report_that_none_writes_ends_its_task(head: dict[str, Any]) -> None:
    story = Story().start()
    agent_end, processor_end = channel_pair()
    link = ProcessorLink(1, 0, agent_end, Code())
    story.dispatch(1)
    processor_end.sendall(pack_report(1, story.number(), b"value", **head))
    actions = [action for event in link.read() for action in story.step(event)]
    assert KillProcessor(1) in actions
    assert results(story.step(ProcessorExited(1, -9))) == {1: STATUS_PROCESSOR_DIED}
    agent_end.close()
    processor_end.close()


NUMBERS = st.one_of(st.integers(0, 12), st.sampled_from([2**31, 2**32, 2**63, 2**64 - 1]))
LEGAL = st.builds(
    lambda head, number, amount, value: pack_report(
        head[0], number, value, head[1], head[2], amount, bytes(head[3])
    ),
    st.sampled_from(sorted(HEADS.values())),
    NUMBERS,
    NUMBERS,
    st.one_of(st.binary(max_size=40), st.binary(min_size=16, max_size=16)),
)  # fmt: skip
SMALL = st.integers(0, 255)
FRAMES = st.one_of(
    LEGAL,
    st.builds(
        lambda length, kind, status, value_kind, profile, number, amount, rest: (
            HEAD.pack(length, kind, status, value_kind, profile, number, amount) + rest
        ),
        st.one_of(st.integers(0, 64), st.integers(0, 2**32 - 1)), SMALL, SMALL, SMALL, SMALL, NUMBERS, NUMBERS,
        st.binary(max_size=64),
    ),
    st.binary(max_size=64),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAMES, min_size=1, max_size=8), st.booleans())
def test_whatever_a_processor_writes_its_tasks_end(frames: list[bytes], is_slice: bool) -> None:
    chain = Chain()
    count = 5 if is_slice else 1
    chain.dispatch(*range(1, count + 1))
    for frame in frames:
        if 1 in chain.story.core.tables.processors:
            chain.write(frame)
    tables = chain.story.core.tables
    functions, _ = tables.run_times.take()
    assert len(functions) % FUNCTION_ROW.size == 0
    assert tables.sampler is not None
    tables.sampler.take(chain.story.now)
    chain.exit()
    for number, processor in list(tables.processors.items()):
        if processor.slice:  # another one that a blocked task has lent its place to
            chain.take(chain.story.step(ProcessorExited(number, -9)))
    dispatched, queued = set(split_ids(ids(*range(1, count + 1)))), {task.id for task in tables.queue}
    assert not any(processor.slice for processor in tables.processors.values())
    assert queued | set(chain.ended) >= dispatched and not queued & set(chain.ended), "each has ended, or waits"
    assert len(chain.ended) == len(set(chain.ended)), "each ends once"
    chain.close()


def test_a_worker_whose_message_was_refused_ends_its_session(cluster: Any, worker: Any, running_path: str) -> None:
    """Checks that the session ends. What was in the message is lost, and only the end of the session decides all tasks
    that the worker holds."""
    begin(cluster, hold, running_path)
    cluster.send(Error(BAD_BATCH, 1, False, "columns disagree", "BAT-2"))
    assert worker.wait_exit("the worker to end") == EXIT_BROKEN
    cluster.wait_until(lambda: cluster.lost, "its session to end")
