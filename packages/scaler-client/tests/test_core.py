"""ClientCore: events in, exact actions out, everything derivable derived again after each."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scaler.client.core import invariants
from scaler.client.core.actions import (
    Action,
    AnswerShutdown,
    Complete,
    Print,
    Redial,
    Release,
    Send,
    StoreAgain,
)
from scaler.client.core.core import CANCEL_ANSWER_SECONDS, ClientCore
from scaler.client.core.events import (
    FLUSH,
    TICKED,
    CancelRequested,
    Cleared,
    Event,
    GraphSubmitted,
    Left,
    ShutdownRequested,
    Submitted,
)
from scaler.client.core.records import Outcomes, Submission
from scaler.client.core.states import IllegalMove, Move, State, after
from scaler_protocol import codes, columns
from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Hello,
    Limits,
    Results,
    Shutdown,
    ShutdownReply,
    Submit,
    TaskError,
    TaskHeader,
    TaskLog,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received, Rejected

SERVER = PeerId(b"server".ljust(16, b"."))
HELLO = Hello(1, 1, codes.ROLE_CLIENT, PeerId(b"client".ljust(16, b".")))
HEADER = TaskHeader()
OTHER = TaskHeader(priority=1)
FUNCTION = ObjectId(b"function".ljust(16, b"."))
FUNCTION_2 = ObjectId(b"function 2".ljust(16, b"."))
OBJECT = ObjectId(b"object".ljust(16, b"."))
GRAPH = GraphId(b"graph".ljust(16, b"."))
TIMEOUT = 60.0


def task(name: object) -> TaskId:
    return TaskId(str(name).encode().ljust(16, b"."))


class Waiter:
    """A collector that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Outcomes] = []

    def complete(self, outcomes: Outcomes) -> None:
        self.told.append(outcomes)


def call(
    *names: object,
    header: TaskHeader = HEADER,
    function: ObjectId = FUNCTION,
    collector: Waiter | None = None,
    owner: object = None,
    objects: tuple[ObjectId, ...] = (),
) -> Submission:
    datas = [str(name).encode() for name in names]
    return Submission(
        header=header,
        function=function,
        ids=tuple(task(name) for name in names),
        payload=b"".join(datas),
        part_sizes=tuple(map(len, datas)),
        collector=collector or Waiter(),
        owner=owner,
        objects=objects,
    )


def opened(limits: Limits | None = None) -> Opened:
    return Opened(SERVER, HELLO, Welcome(1, SERVER, 1, 1, limits=limits or Limits()))


def lost(code: int = codes.SHUTTING_DOWN, text: str = "", is_orderly: bool = False) -> Lost:
    return Lost(SERVER, code, text, is_orderly)


def succeeded(*names: object) -> Received:
    """Each task returns its own name."""
    datas = [str(name).encode() for name in names]
    ids = columns.join_ids(map(task, names))
    return Received(SERVER, 1, Results(ids, b"".join(datas), columns.join_u32([len(data) for data in datas])))


def ended(name: object, status: int, kind: int = codes.KIND_NONE, data: bytes = b"") -> Received:
    sizes = columns.join_u32([len(data)])
    return Received(SERVER, 1, Results(task(name), data, sizes, statuses=bytes((status,)), kinds=bytes((kind,))))


def answered(outcome: int, *names: object) -> Received:
    return Received(SERVER, 1, CancelReply(columns.join_ids(map(task, names)), bytes((outcome,)) * len(names)))


class Told:
    """A core under the invariants, and the clock."""

    def __init__(self, is_open: bool = True) -> None:
        self.core = ClientCore(timeout_seconds=TIMEOUT)
        self.now = 100.0
        if is_open:
            assert self(opened()) == []

    def __call__(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now)
        invariants.check(self.core)
        return actions

    def sent(self) -> list[Submit]:
        actions = self(FLUSH)
        messages = [action.message for action in actions if isinstance(action, Send)]
        assert len(messages) == len(actions)
        assert all(isinstance(message, Submit) for message in messages)
        return messages  # type: ignore[return-value]

    def submit(self, *submissions: Submission) -> None:
        for submission in submissions:
            assert self(Submitted(submission)) == []


def names_in(submit: Submit) -> list[str]:
    return [one.rstrip(b".").decode() for one in columns.split_ids(submit.ids)]


def completions(actions: list[Action]) -> dict[TaskId, int]:
    """Task -> status, of everything that was completed."""
    found: dict[TaskId, int] = {}
    for action in actions:
        if isinstance(action, Complete):
            statuses = action.outcomes.statuses or bytes(len(action.outcomes.ids))
            for task_id, status in zip(action.outcomes.ids, statuses, strict=True):
                assert task_id not in found, "each task is told exactly once"
                found[task_id] = status
    return found


# ---------------------------------------------------------------- submitting


def test_one_call_leaves_as_one_small_message() -> None:
    told = Told()
    told.submit(call("a"))
    assert told.sent() == [Submit(HEADER, FUNCTION, task("a"), b"a", columns.join_u32([1]))]
    assert told(FLUSH) == []


def test_what_piles_up_with_equal_headers_leaves_together() -> None:
    told = Told()
    told.submit(call("a"), call("b", header=OTHER), call("c", function=FUNCTION_2), call("d", "e"))
    first, second = told.sent()
    assert (names_in(first), names_in(second)) == (["a", "c", "d", "e"], ["b"])
    assert first.functions == FUNCTION + FUNCTION_2
    assert first.function_indexes == columns.join_u16([0, 1, 0, 0])
    assert first.payload == b"acde"
    assert first.part_sizes == columns.join_u32([1, 1, 1, 1])


def test_equal_headers_need_not_be_the_same_object() -> None:
    told = Told()
    told.submit(call("a", header=TaskHeader(priority=7)), call("b"), call("c", header=TaskHeader(priority=7)))
    assert [names_in(message) for message in told.sent()] == [["a", "c"], ["b"]]


def test_batches_keep_to_the_limits_of_the_session() -> None:
    told = Told(is_open=False)
    told(opened(Limits(batch_tasks=2, payload_frame_bytes=4)))
    told.submit(*[call(name) for name in ("a", "b", "c", "dddd", "e")])
    assert [names_in(message) for message in told.sent()] == [["a", "b"], ["c"], ["dddd"], ["e"]]


def test_mixed_shapes_share_a_batch() -> None:
    told = Told()
    two_parts = call("b")._replace(
        payload=b"x" + OBJECT, part_sizes=(1, 16), part_counts=(2,), part_kinds=bytes((0, codes.KIND_OBJECT))
    )
    told.submit(call("a"), two_parts, call("c", "d"))
    (message,) = told.sent()
    assert message.part_counts == columns.join_u16([1, 2, 1, 1])
    assert message.part_kinds == bytes((0, 0, codes.KIND_OBJECT, 0, 0))
    assert message.part_sizes == columns.join_u32([1, 1, 16, 1, 1])


# ---------------------------------------------------------------- results


def test_results_find_their_collectors() -> None:
    told, one, many = Told(), Waiter(), Waiter()
    told.submit(call("a", collector=one), call("b", "c", collector=many))
    told.sent()
    assert told(succeeded("b", "a")) == [
        Complete(many, Outcomes((task("b"),), sizes=(1,), payload=b"b")),
        Complete(one, Outcomes((task("a"),), sizes=(1,), payload=b"a")),
    ]
    assert told(succeeded("c")) == [Complete(many, Outcomes((task("c"),), sizes=(1,), payload=b"c"))]
    assert told.core.is_idle


def test_a_result_that_comes_twice_is_told_once() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    assert len(told(succeeded("a"))) == 1
    assert told(succeeded("a")) == []
    assert told.core.dropped_count == 1


def test_the_object_of_a_result_nobody_waits_for_is_released() -> None:
    told = Told()
    assert told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT)) == [Release((OBJECT,))]


def test_argument_objects_are_released_when_the_last_of_their_tasks_has_ended() -> None:
    told = Told()
    told.submit(call("a", "b", objects=(OBJECT,)))
    told.sent()
    assert [type(action) for action in told(succeeded("a"))] == [Complete]
    assert told(succeeded("b"))[-1] == Release((OBJECT,))


def test_printed_text_is_passed_on() -> None:
    assert Told()(Received(SERVER, 1, TaskLog(task("a"), 1, "hello\n"))) == [Print(1, "hello\n")]


# ---------------------------------------------------------------- canceling


def test_what_nobody_knows_of_is_canceled_at_once() -> None:
    told = Told()
    told.submit(call("a"), call("b"))
    assert completions(told(CancelRequested((task("a"),)))) == {task("a"): codes.STATUS_CANCELED}
    assert [names_in(message) for message in told.sent()] == [["b"]]


def test_what_is_sent_is_canceled_by_the_answer() -> None:
    told = Told()
    told.submit(call("a", "b"))
    told.sent()
    assert told(CancelRequested((task("a"),), 2.0)) == [Send(Cancel(task("a"), grace_seconds=2.0))]
    assert told(CancelRequested((task("a"),))) == [], "asked once is asked"
    assert completions(told(answered(codes.CANCEL_CANCELED, "a"))) == {task("a"): codes.STATUS_CANCELED}
    assert told(ended("a", codes.STATUS_CANCELED)) == []


def test_or_by_the_result_that_says_so() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(ended("a", codes.STATUS_CANCELED))) == {task("a"): codes.STATUS_CANCELED}
    assert told(answered(codes.CANCEL_CANCELED, "a")) == []


def test_too_late_leaves_the_task_to_its_result() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert told(answered(codes.CANCEL_TOO_LATE, "a")) == []
    assert completions(told(succeeded("a"))) == {task("a"): codes.STATUS_SUCCESS}


@pytest.mark.parametrize("outcome", [codes.CANCEL_UNKNOWN, 99])
def test_unknown_and_unheard_of_answers_end_the_task(outcome: int) -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(answered(outcome, "a"))) == {task("a"): codes.STATUS_CANCELED}


def test_a_cancel_without_answer_ends_by_itself() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),), 1.0))
    told.now += 1.0 + CANCEL_ANSWER_SECONDS
    assert told.core.next_deadline() == told.now
    assert completions(told(TICKED)) == {task("a"): codes.STATUS_CANCELED}
    assert told.core.next_deadline() is None


def test_clear_ends_the_tasks_of_one_owner() -> None:
    told, me, other = Told(), object(), object()
    told.submit(call("a", owner=me), call("b", owner=other))
    told.sent()
    told.submit(call("c", owner=me))
    actions = told(Cleared(me))
    assert completions(actions) == {task("c"): codes.STATUS_CANCELED}
    assert actions[-1] == Send(Cancel(task("a"), grace_seconds=1.0))


# ---------------------------------------------------------------- sessions that end


def test_a_successor_gets_what_is_unfinished_under_the_same_ids() -> None:
    told = Told()
    told.submit(call("a", "b", "c"), call("d"))
    first = told.sent()
    told(succeeded("b"))
    assert told(lost()) == [Redial()]
    assert told(FLUSH) == []
    assert told(opened()) == [StoreAgain((FUNCTION,))]
    (again,) = told.sent()
    assert names_in(first[0]) == ["a", "b", "c", "d"]
    assert names_in(again) == ["a", "c", "d"]
    assert again.payload == b"acd"
    assert completions(told(succeeded("a", "c", "d"))) == {task(name): 0 for name in "acd"}
    assert told.core.is_idle


def test_what_was_being_canceled_is_not_sent_again() -> None:
    told = Told()
    told.submit(call("a"), call("b"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(lost())) == {task("a"): codes.STATUS_CANCELED}
    told(opened())
    assert [names_in(message) for message in told.sent()] == [["b"]]


def test_when_nobody_comes_back_everything_fails() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(lost())
    told.submit(call("b"))
    assert told.core.next_deadline() == told.now + TIMEOUT
    told.now += TIMEOUT
    actions = told(TICKED)
    assert completions(actions) == {task("a"): codes.STATUS_FAILED, task("b"): codes.STATUS_FAILED}
    (first, *_) = [action for action in actions if isinstance(action, Complete)]
    assert first.outcomes.error == TaskError(codes.LEASE_EXPIRED, message="the scheduler has not come back within 60 s")


def test_an_expired_lease_fails_everything_now() -> None:
    """The session layer has waited for the whole lease already."""
    told = Told()
    told.submit(call("a"))
    told.sent()
    assert completions(told(lost(codes.LEASE_EXPIRED))) == {task("a"): codes.STATUS_FAILED}
    assert told.core.next_deadline() is None
    assert told(opened()) == [], "and the client can be used again"


def test_after_a_rejection_the_next_submission_dials_again() -> None:
    told = Told()
    told.submit(call("a"))
    told(lost())
    assert completions(told(Rejected(codes.VERSION_MISMATCH, "too old"))) == {task("a"): codes.STATUS_FAILED}
    assert told(Submitted(call("b"))) == [Redial()]
    assert told(Submitted(call("c"))) == []
    told(opened())
    assert [names_in(message) for message in told.sent()] == [["b", "c"]]


def test_leaving_cancels_what_is_pending_and_failing_fails_it() -> None:
    for event, status in ((Left(), codes.STATUS_CANCELED), (Left("broken"), codes.STATUS_FAILED)):
        told = Told()
        told.submit(call("a"))
        told.sent()
        told.submit(call("b"))
        assert completions(told(event)) == {task("a"): status, task("b"): status}


def test_shutdown_is_answered() -> None:
    told = Told()
    assert told(ShutdownRequested(3.0)) == [Send(Shutdown(3.0))]
    assert told(Received(SERVER, 1, ShutdownReply(False, "protected"))) == [AnswerShutdown(False, "protected")]
    assert told(Received(SERVER, 1, ShutdownReply(False, "again"))) == []


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_goodbye_is_an_answer_to_shutdown(is_orderly: bool) -> None:
    told = Told()
    told(ShutdownRequested())
    assert told(lost(text="bye", is_orderly=is_orderly)) == [Redial(), AnswerShutdown(is_orderly, "bye")]


# ---------------------------------------------------------------- graphs


def graph(*nodes: tuple[str, str, bool], objects: tuple[ObjectId, ...] = ()) -> GraphSubmitted:
    """(name, names it depends on, is wanted)"""
    header = TaskHeader(graph_id=GRAPH)
    submissions = []
    for name, needs, is_wanted in nodes:
        one = call(name, header=header)._replace(dependencies=tuple(map(task, needs)))
        submissions.append(one if is_wanted else one._replace(collector=None))
    return GraphSubmitted(GRAPH, tuple(submissions), objects)


def test_a_graph_leaves_in_order_with_its_dependencies() -> None:
    told = Told()
    assert told(graph(("a", "", False), ("b", "a", False), ("c", "ab", True))) == []
    (message,) = told.sent()
    assert names_in(message) == ["a", "b", "c"]
    assert message.header.graph_id == GRAPH
    assert message.dependency_counts == columns.join_u16([0, 1, 2])
    assert message.dependencies == task("a") + task("a") + task("b")
    assert message.task_flags == bytes((1, 1, 0))
    assert message.is_graph_sealed


def test_a_graph_in_several_batches_is_sealed_by_the_last() -> None:
    told = Told(is_open=False)
    told(opened(Limits(batch_tasks=2)))
    told(graph(("a", "", False), ("b", "a", False), ("c", "ab", True)))
    assert [message.is_graph_sealed for message in told.sent()] == [False, True]


def test_a_graph_ends_with_its_wanted_tasks() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", True), ("c", "a", True), objects=(OBJECT,)))
    told.sent()
    assert completions(told(succeeded("b"))) == {task("b"): 0}
    assert told(succeeded("c"))[-1] == Release((OBJECT,))
    assert told.core.is_idle


def test_the_rest_of_a_failed_graph_is_canceled() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "", True)))
    told.sent()
    actions = told(ended("b", codes.STATUS_FAILED))
    assert actions[-1] == Send(Cancel(task("a")))
    assert told.core.is_idle


def test_canceling_one_node_cancels_the_graph() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", True), ("c", "a", True)))
    told.sent()
    assert told(CancelRequested((task("c"),))) == [Send(Cancel(task("a") + task("b") + task("c"), grace_seconds=1.0))]
    done = completions(told(answered(codes.CANCEL_CANCELED, "a", "b", "c")))
    assert done == {task("b"): codes.STATUS_CANCELED, task("c"): codes.STATUS_CANCELED}
    assert told.core.is_idle


def test_a_successor_gets_the_whole_graph() -> None:
    """The finished nodes too: their results are gone with the scheduler that kept them."""
    told = Told()
    told(graph(("a", "", True), ("b", "a", False), ("c", "b", True)))
    told.sent()
    told(succeeded("a"))
    told(lost())
    told(opened())
    (again,) = told.sent()
    assert names_in(again) == ["a", "b", "c"]
    assert again.task_flags == bytes((1, 1, 0)), "nobody wants the result of a twice"
    assert completions(told(succeeded("c"))) == {task("c"): 0}
    assert told.core.is_idle


def test_a_graph_that_ended_is_not_sent_though_it_waits() -> None:
    told = Told()
    told(graph(("a", "", True), ("b", "a", True)))
    told.sent()
    told(succeeded("a"))
    told(lost())
    assert completions(told(CancelRequested((task("b"),)))) == {task("b"): codes.STATUS_CANCELED}
    told(opened())
    assert told(FLUSH) == []


# ---------------------------------------------------------------- moves


def test_an_illegal_move_is_our_own_mistake() -> None:
    with pytest.raises(IllegalMove, match="ENDED cannot SEND"):
        after(State.ENDED, Move.SEND)


# ---------------------------------------------------------------- any order of events


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: every task ends exactly once, and everything is derivable."""

    @initialize()
    def start(self) -> None:
        self.told = Told()
        self.count = 0
        self.unfinished: set[TaskId] = set()
        self.at_scheduler: list[TaskId] = []
        self.is_open = True

    def _apply(self, event: Event) -> None:
        actions = self.told(event)
        for task_id in completions(actions):
            assert task_id in self.unfinished, "ends once"
            self.unfinished.remove(task_id)
        for action in actions:
            if isinstance(action, Send) and isinstance(action.message, Submit):
                for task_id in columns.split_ids(action.message.ids):
                    assert task_id not in self.at_scheduler, "sent once in each session"
                    self.at_scheduler.append(TaskId(task_id))

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), is_other=st.booleans())
    def submit(self, sizes: list[int], is_other: bool) -> None:
        for size in sizes:
            names = [f"t{self.count + index}" for index in range(size)]
            self.count += size
            self.unfinished.update(map(task, names))
            self._apply(Submitted(call(*names, header=OTHER if is_other else HEADER)))

    @rule(data=st.data(), size=st.integers(1, 5))
    def submit_graph(self, data: st.DataObject, size: int) -> None:
        header = TaskHeader(graph_id=GraphId(f"g{self.count}".encode().ljust(16, b".")))
        submissions: list[Submission] = []
        for index in range(size):
            one = call(f"t{self.count + index}", header=header)
            if submissions:
                one = one._replace(dependencies=(data.draw(st.sampled_from(submissions)).ids[0],))
            is_wanted = index == size - 1 or data.draw(st.booleans())
            submissions.append(one if is_wanted else one._replace(collector=None))
            if is_wanted:
                self.unfinished.add(one.ids[0])
        self.count += size
        self._apply(GraphSubmitted(header.graph_id, tuple(submissions)))

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
        self._apply(answered(outcome, data.draw(st.sampled_from(self.at_scheduler)).rstrip(b".").decode()))

    @precondition(lambda self: self.is_open)
    @rule(code=st.sampled_from([codes.SHUTTING_DOWN, codes.LEASE_EXPIRED, codes.SESSION_REPLACED]))
    def lose(self, code: int) -> None:
        self.is_open = False
        self.at_scheduler = []
        self._apply(lost(code))

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
        assert self.unfinished == {one for one, entry in pending.items() if not entry.is_unwanted}

    def teardown(self) -> None:
        self._apply(Left())
        assert not self.unfinished
        assert self.told.core.is_idle and self.told.core.next_deadline() is None


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
