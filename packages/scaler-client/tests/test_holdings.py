"""What is kept of stored objects: bounded, and counted right, whatever comes in which order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.client_core import call, task

from scaler.client.core.records import Definition, Graph, GraphBatch
from scaler.client.objects.holdings import Holdings
from scaler_protocol import columns
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import Submit, TaskHeader

MOST_BYTES, MOST_FILES = 1_000, 3


class File:
    def __init__(self, size: int) -> None:
        self.size = size

    def content(self) -> bytes:
        return bytes(self.size)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.holdings = Holdings(MOST_BYTES, MOST_FILES)
        self.count = 0
        self.known: list[ObjectId] = []
        self.arguments: list[ObjectId] = []

    def _new(self) -> ObjectId:
        self.count += 1
        self.known.append(ObjectId(self.count.to_bytes(16, "little")))
        return self.known[-1]

    @rule(size=st.integers(0, 700), is_constant=st.booleans(), is_shared=st.booleans(), is_answered=st.booleans())
    def put(self, size: int, is_constant: bool, is_shared: bool, is_answered: bool) -> None:
        object_id = self._new()
        self.arguments.append(object_id)
        self.holdings.add(object_id, [bytes(size) if is_constant else bytearray(size)])
        assert self.holdings.lose([object_id]) == [], "it is still on its way"
        if is_answered:
            self.holdings.stored(object_id, File(size) if is_shared else None)

    @precondition(lambda self: self.arguments)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A task that took some of these has a large result; then its arguments go."""
        taken = tuple(data.draw(st.lists(st.sampled_from(self.arguments), max_size=3, unique=True)))
        result = self._new()
        self.holdings.add_results([(task(result), result)], call("t", objects=taken))
        self.holdings.remove(taken)

    @rule(size=st.integers(0, 700), count=st.integers(1, 3))
    def end_of_a_batch(self, size: int, count: int) -> None:
        """Some tasks of one message have large results, which come one by one or together."""
        results = [(task(one), one) for one in (self._new() for _ in range(count))]
        batch = call("t")._replace(ids=tuple(one for one, _ in results), payload=bytes(size))
        self.holdings.add_results(results[:1], batch)
        self.holdings.add_results(results[1:], batch)

    @rule()
    def count_again(self) -> None:
        before = self.holdings.kept_bytes
        self.holdings.count_again()
        assert self.holdings.kept_bytes == before

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(self.known), max_size=4))
        self.holdings.remove(gone)
        assert not any(map(self.holdings.is_lost, gone))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        lost = self.holdings.lose(data.draw(st.lists(st.sampled_from(self.known), max_size=4, unique=True)))
        assert all(map(self.holdings.is_lost, lost)) and not any(map(self.holdings.is_there, lost))
        assert {one for one, _ in self.holdings.lost_calls()} <= set(self.known)

    @invariant()
    def is_bounded_and_counted(self) -> None:
        self.holdings.check()
        every = dict(self.holdings.all())
        assert self.holdings.kept_bytes <= MOST_BYTES
        alive = {id(one.call.submission.payload): one.call.submission.payload for one in every.values() if one.call}
        assert sum(map(len, alive.values())) <= self.holdings.kept_bytes, "what is kept alive is counted whole"
        assert sum(one.file is not None for one in every.values()) <= MOST_FILES

    def teardown(self) -> None:
        self.holdings.remove(self.known)
        self.holdings.check()
        assert self.holdings.kept_bytes == 0, "all that was counted is given back"


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_a_graph_is_kept_once_for_all_of_its_results() -> None:
    holdings = Holdings(kept_bytes=1_000, kept_files=0)
    argument = ObjectId(b"argument".ljust(16, b"."))
    holdings.add(argument, [bytes(100)])
    message = Submit(TaskHeader(), bytes(16), bytes(16), bytes(500), columns.join_u32([500]))
    definition = Definition(Graph(GraphId(bytes(16)), (GraphBatch(message),), objects=(argument,)))
    results = [(TaskId(bytes([number]) * 16), ObjectId(bytes([100 + number]) * 16)) for number in range(3)]
    for result in results:
        holdings.add_results([result], definition)
        holdings.check()
    holdings.remove((argument,))
    assert holdings.kept_bytes == definition.size + 100, "its argument comes back with it"
    call = holdings.call_of(results[0][1])
    assert call is not None and call.arguments[argument].can_return
    assert sorted(holdings.results_of(definition)) == sorted(object_id for _, object_id in results)
    for _, object_id in results:
        holdings.remove((object_id,))
        holdings.check()
    assert (holdings.kept_bytes, definition.holders) == (0, 0)
    large = Definition(Graph(GraphId(bytes(16)), (GraphBatch(replace(message, payload=bytes(2_000))),)))
    holdings.add_results(results, large)
    assert holdings.call_of(results[0][1]) is None, "more than is kept"
    holdings.check()
