"""ClientCore under events in any order: every task ends exactly once."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.client_core import HEADER, OTHER, Told, answered, call, completions, ended, lost, opened, task
from tests.support.client_graphs import GraphNode, graph_of

from scaler.client.core.actions import (
    Send,
)
from scaler.client.core.events import (
    FLUSH,
    TICKED,
    CancelRequested,
    Event,
    Left,
    StorageRestarted,
)
from scaler_protocol import codec, codes, columns
from scaler_protocol.ids import GraphId, TaskId
from scaler_protocol.messages import (
    Cancel,
    Submit,
    TaskError,
    TaskHeader,
)

# ---------------------------------------------------------------- any order of events


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: every task ends exactly once, and everything is derivable."""

    @initialize()
    def start(self) -> None:
        self.told = Told()
        self.count = 0
        self.unfinished: set[TaskId] = set()
        self.at_scheduler: list[TaskId] = []
        #: of these, those whose Cancel was sent, and those whose Cancel was answered since they were submitted
        self.asked: set[TaskId] = set()
        self.answered: set[TaskId] = set()
        self.is_open = True

    def _apply(self, event: Event) -> None:
        actions = self.told(event)
        for task_id in completions(actions):
            assert task_id in self.unfinished, "ends once"
            self.unfinished.remove(task_id)
        for action in actions:
            if isinstance(action, Send) and isinstance(action.message, Submit):
                self._note_sent([TaskId(task_id) for task_id in columns.split_ids(action.message.ids)])
            elif isinstance(action, Send) and isinstance(action.message, Cancel):
                self.asked.update(map(TaskId, columns.split_ids(action.message.ids)))

    def _note_sent(self, ids: list[TaskId]) -> None:
        for task_id in ids:
            if task_id in self.at_scheduler:
                assert task_id in self.answered, "sent again in one session only when it has ended there"
            else:
                self.at_scheduler.append(task_id)
        self.answered.difference_update(ids)
        self.asked.difference_update(ids)

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), is_other=st.booleans())
    def submit(self, sizes: list[int], is_other: bool) -> None:
        for size in sizes:
            names = [f"t{self.count + index}" for index in range(size)]
            self.count += size
            self.unfinished.update(map(task, names))
            self._apply(call(*names, header=OTHER if is_other else HEADER))

    @rule(data=st.data(), size=st.integers(1, 5))
    def submit_graph(self, data: st.DataObject, size: int) -> None:
        header = TaskHeader(graph_id=GraphId(f"g{self.count}".encode().ljust(16, b".")))
        nodes: list[GraphNode] = []
        for index in range(size):
            one = call(f"t{self.count + index}", header=header)
            needs = (data.draw(st.sampled_from(nodes)).submission.ids[0],) if nodes else ()
            is_wanted = index == size - 1 or data.draw(st.booleans())
            nodes.append(GraphNode(one, needs, is_wanted))
            if is_wanted:
                self.unfinished.add(one.ids[0])
        self.count += size
        self._apply(graph_of(header.graph_id, nodes, batch_tasks=data.draw(st.integers(1, 5))))

    @rule()
    def flush(self) -> None:
        self._apply(FLUSH)

    @precondition(lambda self: self.is_open and self.at_scheduler)
    @rule(data=st.data(), status=st.sampled_from([0, 0, 0, codes.STATUS_FAILED, codes.STATUS_CANCELED]))
    def end(self, data: st.DataObject, status: int) -> None:
        task_id = data.draw(st.sampled_from(self.at_scheduler))
        self._apply(ended(task_id.rstrip(b".").decode(), status))

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self._apply(CancelRequested((data.draw(st.sampled_from(sorted(self.unfinished))),)))

    @precondition(lambda self: self.is_open and self.at_scheduler)
    @rule(data=st.data(), outcome=st.integers(0, 2))
    def answer(self, data: st.DataObject, outcome: int) -> None:
        task_id = data.draw(st.sampled_from(self.at_scheduler))
        if task_id in self.asked:
            self.answered.add(task_id)
        self._apply(answered(outcome, task_id.rstrip(b".").decode()))

    @precondition(lambda self: self.is_open and self.asked)
    @rule(outcome=st.integers(0, 2))
    def answer_all(self, outcome: int) -> None:
        """What was asked for, as a scheduler does it."""
        ids, self.asked = sorted(self.asked), set()
        self.answered.update(ids)
        self._apply(answered(outcome, *[task_id.rstrip(b".").decode() for task_id in ids]))

    @rule()
    def restart_storage(self) -> None:
        self._apply(StorageRestarted())

    @precondition(lambda self: self.is_open and self.at_scheduler)
    @rule(data=st.data())
    def miss_a_value(self, data: st.DataObject) -> None:
        error = codec.encode_task_error(TaskError(code=codes.NO_SUCH_OBJECT))
        name = data.draw(st.sampled_from(self.at_scheduler)).rstrip(b".").decode()
        self._apply(ended(name, codes.STATUS_REFUSED, codes.KIND_INLINE, error))

    @precondition(lambda self: self.is_open)
    @rule(
        code=st.sampled_from([codes.SHUTTING_DOWN, codes.LEASE_EXPIRED, codes.SESSION_REPLACED]),
        silent_seconds=st.sampled_from([0.0, 20.0, 60.0, 100.0]),
    )
    def lose(self, code: int, silent_seconds: float) -> None:
        self.is_open = False
        self.at_scheduler = []
        self.asked, self.answered = set(), set()
        self._apply(lost(code, silent_seconds=silent_seconds))

    @precondition(lambda self: not self.is_open)
    @rule()
    def open(self) -> None:
        self.is_open = True
        self._apply(opened())

    @rule(seconds=st.sampled_from([0.1, 1.0, 35.0, 61.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.told.now += seconds
        self._apply(TICKED)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        pending = self.told.core._table.pending
        assert self.unfinished == set(pending)

    def teardown(self) -> None:
        self._apply(Left())
        assert not self.unfinished
        assert self.told.core.is_idle and self.told.core.next_deadline() is None


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
