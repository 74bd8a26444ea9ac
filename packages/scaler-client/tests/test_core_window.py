"""What the core sends at once: messages that fit the session, and no more than the window has room for. (CLI-4, CLI-16)

A peer that checks every message against the limits of its session, and acknowledges in its own time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.client_core import FUNCTION, HEADER, OTHER, Told, Waiter, call, completions, lost, opened, task
from tests.support.client_graphs import GraphNode, graph_of

from scaler.client.core import outbox
from scaler.client.core.actions import Send
from scaler.client.core.batching import BATCH_BYTES, bounds_of
from scaler.client.core.events import CancelRequested, Flush, GraphSubmitted, Named, Numbered
from scaler.client.core.records import GraphBatch, Submission
from scaler_protocol import codec, codes, columns
from scaler_protocol.columns import split_ids, split_u16, split_u32
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import Cancel, Limits, Message, NameFunctions, Submit, TaskHeader
from scaler_protocol.session import Complained

FLOORS = Limits(inline_bytes=1024, payload_frame_bytes=8 << 20, batch_tasks=1, envelope_bytes=64 * 1024)


def many(count: int, size: int, first: int = 0, header: TaskHeader = HEADER) -> Submission:
    """As `map` makes them."""
    ids = tuple(task(number) for number in range(first, first + count))
    return Submission(header, FUNCTION, ids, bytes(size) * count, (size,) * count, Waiter())


class Scheduler:
    """Takes what is sent, and fails the test when a message breaks a limit."""

    def __init__(self, told: Told, limits: Limits) -> None:
        self.told = told
        self.limits = limits
        self.unacknowledged: list[int] = []
        self.messages: list[Message] = []

    def flush(self) -> list[Message]:
        actions = self.told(Flush(sum(self.unacknowledged), len(self.unacknowledged)))
        messages = [action.message for action in actions if isinstance(action, Send)]
        for message in messages:
            self.unacknowledged.append(self.checked(message))
        self.messages += messages
        return messages

    def checked(self, message: Message) -> int:
        frames = codec.encode(message, 1, 1)
        assert len(frames[0]) <= self.limits.envelope_bytes
        if isinstance(message, Submit):
            assert len(message.ids) // 16 <= self.limits.batch_tasks
            assert len(message.payload) <= self.limits.payload_frame_bytes
        # What it cannot decode, because its columns do not agree, raises here.
        decoded = codec.decode(bytes(frames[0]), [bytes(one) for one in frames[1:]], self.limits).message
        assert type(decoded) is type(message)
        return sum(map(len, frames))

    def drain(self) -> None:
        """Acknowledge and flush until nothing is left."""
        while self.flush():
            self.unacknowledged.clear()
        assert not self.told.core.has_queued

    def tasks(self) -> list[bytes]:
        return [one for message in self.messages if isinstance(message, Submit) for one in split_ids(message.ids)]


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    return Limits(
        payload_frame_bytes=draw(st.sampled_from([64, 1000, 8 << 20])),  # below the floor: small numbers find more
        batch_tasks=draw(st.sampled_from([1, 2, 7, 100, 65_536])),
        envelope_bytes=draw(st.sampled_from([700, 2048, 64 * 1024, 4 << 20])),
    )


@settings(deadline=None, max_examples=150)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60), st.booleans()), min_size=1, max_size=8),
    limits=st.lists(some_limits(), min_size=1, max_size=3),
    flushes=st.integers(0, 3),
)
def test_every_batch_fits_the_session_it_is_sent_in(
    shapes: list[tuple[int, int, bool]], limits: list[Limits], flushes: int
) -> None:
    """By its sum, its largest and its count, also after sessions with other limits. Nothing is lost or sent twice."""
    told = Told(is_open=False)
    first = 0
    for count, size, is_other in shapes:
        told.submit(many(count, size, first, OTHER if is_other else HEADER))
        first += count
    for index, each in enumerate(limits):
        told(opened(each))
        scheduler = Scheduler(told, each)
        if index < len(limits) - 1:
            for _ in range(flushes):
                scheduler.flush()
            told(lost())
        else:
            scheduler.drain()
            tasks = scheduler.tasks()
            assert sorted(tasks) == sorted(task(number) for number in range(first))


def chain(size: int, payload_bytes: int, batch_tasks: int) -> tuple[list[TaskId], GraphSubmitted]:
    header = TaskHeader(graph_id=GraphId(b"g".ljust(16, b".")), call_format=codes.CALL_RAW)
    nodes: list[GraphNode] = []
    for number in range(size):
        before = (nodes[-1].submission.ids[0],) if nodes else ()
        one = call(f"n{number}", header=header)
        data = bytes([number % 256]) * payload_bytes
        one = one._replace(
            payload=data + b"".join(before),
            part_sizes=(len(data), *(16 for _ in before)),
            part_counts=(1 + len(before),),
            part_kinds=bytes([codes.KIND_INLINE, *(codes.KIND_TASK for _ in before)]),
        )
        nodes.append(GraphNode(one, before, is_wanted=number % 5 == 0 or number == size - 1))
    graph = graph_of(header.graph_id, nodes, batch_tasks=batch_tasks)
    return [node.submission.ids[0] for node in nodes], replace(graph, batches=_with_functions(graph.batches))


def _with_functions(batches: tuple[GraphBatch, ...]) -> tuple[GraphBatch, ...]:
    """Task n of the graph calls function n % 3."""
    made = []
    begin = 0
    for batch in batches:
        count = len(batch.message.ids) // 16
        indexes = columns.join_u16([number % 3 for number in range(begin, begin + count)])
        functions = b"".join(bytes([number]) * 16 for number in range(3))
        made.append(batch._replace(message=replace(batch.message, functions=functions, function_indexes=indexes)))
        begin += count
    return tuple(made)


@settings(deadline=None, max_examples=100)
@given(
    size=st.integers(1, 60),
    payload_bytes=st.integers(0, 40),
    batch_tasks=st.integers(1, 50),
    limits=st.lists(some_limits(), min_size=1, max_size=2),
)
def test_a_graph_is_cut_anew_for_a_session_with_smaller_limits(
    size: int, payload_bytes: int, batch_tasks: int, limits: list[Limits]
) -> None:
    told = Told(is_open=False)
    ids, graph = chain(size, payload_bytes, batch_tasks)
    told(graph)
    for each in limits:
        told(opened(each))
        scheduler = Scheduler(told, each)
        scheduler.flush()
        if each is limits[-1]:
            scheduler.drain()
        else:
            told(lost())
    sent = [message for message in scheduler.messages if isinstance(message, Submit)]
    assert scheduler.tasks() == ids, "in order: each after what it depends on"
    assert [message.is_graph_sealed for message in sent] == [False] * (len(sent) - 1) + [True]
    seen = b""
    for message in sent:
        functions = split_ids(message.functions)
        places = split_u16(message.function_indexes) or (0,) * len(split_ids(message.ids))
        seen += b"".join(functions[place][:1] for place in places)
    assert seen == bytes(number % 3 for number in range(size)), "each calls its own function"
    assert sum(sum(split_u32(message.part_sizes)) for message in sent) == sum(len(one.payload) for one in sent)


def test_three_thousand_values_of_sixty_kilobytes_leave_in_batches_of_a_few_mebibytes() -> None:
    told = Told()
    told.submit(many(2_048, 60_000))
    scheduler = Scheduler(told, Limits())
    scheduler.drain()
    assert max(len(message.payload) for message in scheduler.messages if isinstance(message, Submit)) <= BATCH_BYTES
    assert len(scheduler.tasks()) == 2_048


def test_a_piece_of_an_entry_is_not_a_copy() -> None:
    told = Told()
    submission = many(2_048, 60_000)
    told.submit(submission)
    for message in Scheduler(told, Limits()).flush():
        assert isinstance(message, Submit) and isinstance(message.payload, memoryview)
        assert message.payload.obj is submission.payload


def test_what_piled_up_leaves_as_far_as_it_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "WINDOW_BYTES", 1000)
    monkeypatch.setattr("scaler.client.core.core.WINDOW_BYTES", 1000)
    told = Told(is_open=False)
    for number in range(100):
        told.submit(many(1, 100, number, TaskHeader(priority=number)))
    told(opened())
    scheduler = Scheduler(told, Limits())
    lives = 0
    while told.core.has_queued:
        assert scheduler.flush(), "an empty window never keeps what waits"
        while scheduler.flush():
            pass
        assert sum(scheduler.unacknowledged) < 2_000, "the window, and one message more"
        scheduler.unacknowledged.clear()
        lives += 1
    assert lives >= 10
    assert len(scheduler.tasks()) == 100


def test_what_is_resubmitted_keeps_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once left all at once, and our own side ended the session for it, for ever."""
    monkeypatch.setattr("scaler.client.core.core.WINDOW_BYTES", 10_000)
    told = Told()
    for number in range(300):
        told.submit(many(1, 100, number, TaskHeader(priority=number)))
        Scheduler(told, Limits()).flush()
    told(lost())
    told(opened())
    scheduler = Scheduler(told, Limits())
    scheduler.flush()
    assert sum(scheduler.unacknowledged) < 2 * 10_000
    scheduler.unacknowledged.clear()
    scheduler.drain()
    assert sorted(scheduler.tasks()) == sorted(task(number) for number in range(300))


def test_messages_count_as_well_as_bytes() -> None:
    told = Told(is_open=False)
    told(opened(FLOORS))
    told.submit(many(1_000, 1))
    scheduler = Scheduler(told, FLOORS)
    assert len(scheduler.flush()) == outbox.WINDOW_MESSAGES
    assert scheduler.flush() == []
    # So a refusal always finds which tasks it is about.
    told(_numbered(scheduler))
    ended = completions(told(Complained(opened().peer_id, codes.BAD_BATCH, 1, "", "")))
    assert len(ended) == 1


def _numbered(scheduler: Scheduler) -> Numbered:
    for seq, message in enumerate(scheduler.messages, start=2):
        assert isinstance(message, Submit)
        scheduler.told(Numbered(seq, message.ids))
    first = scheduler.messages[0]
    assert isinstance(first, Submit)
    return Numbered(1, first.ids)


def test_headers_and_graphs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task does not wait until a gigabyte with another header has left."""
    told = Told()
    told.submit(*[many(100, 60_000, 1_000 * number) for number in range(1, 10)])
    told.submit(call("urgent", header=OTHER))
    _, graph = chain(10, 10, 5)
    told(graph)
    first = [message for message in Scheduler(told, Limits()).flush()[:3] if isinstance(message, Submit)]
    assert [message.header.priority for message in first] == [0, 0, 1]
    assert first[1].header.graph_id


def test_a_graph_that_is_canceled_in_the_middle_is_sealed_all_the_same() -> None:
    """Else the scheduler would keep what has ended of it until the client leaves. (SCH-18)"""
    told = Told()
    ids, graph = chain(1_000, 10, 1)
    told(graph)
    scheduler = Scheduler(told, Limits())
    scheduler.flush()
    sent = len(scheduler.tasks())
    assert sent < 1_000
    told(CancelRequested((ids[0],)))
    canceled = b"".join(message.ids for message in told.gathered())
    assert len(canceled) == 16 * sent
    scheduler.unacknowledged.clear()
    scheduler.drain()
    assert scheduler.tasks() == ids
    later = b"".join(message.ids for message in scheduler.messages if isinstance(message, Cancel))
    assert split_ids(canceled + later) == tuple(ids), "each is canceled once"
    assert [m.is_graph_sealed for m in scheduler.messages if isinstance(m, Submit)][-1]


def test_a_graph_that_was_not_sent_at_all_is_not_sent_for_being_canceled() -> None:
    told = Told()
    ids, graph = chain(10, 10, 3)
    told(graph)
    assert len(completions(told(CancelRequested((ids[0],))))) == 3
    assert Scheduler(told, Limits()).flush() == []


def test_cancels_and_names_are_cut_as_well() -> None:
    limits = replace(FLOORS, batch_tasks=65_536)
    told = Told(is_open=False)
    told(opened(limits))
    for number in range(500):
        told(Named(ObjectId(number.to_bytes(16, "little")), "ü" * 200))
    told.submit(many(5_000, 1))
    scheduler = Scheduler(told, limits)
    scheduler.drain()
    names = [name for message in scheduler.messages if isinstance(message, NameFunctions) for name in message.names]
    assert len(names) == 500
    told(CancelRequested(tuple(task(number) for number in range(5_000))))
    canceled = told.gathered()
    for message in canceled:
        scheduler.checked(message)
    assert sum(len(message.ids) for message in canceled) == 16 * 5_000


def test_a_task_that_no_message_of_this_session_can_carry_ends_alone() -> None:
    """It fitted the scheduler before. It must not take others with it, nor come again for ever."""
    limits = replace(FLOORS, batch_tasks=65_536)
    told = Told()
    wide = call("wide")._replace(payload=bytes(20_000), part_sizes=(1,) * 20_000, part_counts=(20_000,))
    told.submit(call("a"), wide, call("b"))
    assert len(told.sent()) == 1
    told(lost())
    told(opened(limits))
    scheduler = Scheduler(told, limits)
    actions = told(Flush())
    assert completions(actions) == {task("wide"): codes.STATUS_REFUSED}
    sent = [action.message for action in actions if isinstance(action, Send)]
    for message in sent:
        scheduler.checked(message)
    assert sorted(one for message in sent if isinstance(message, Submit) for one in split_ids(message.ids)) == [
        task("a"),
        task("b"),
    ]


def test_what_ended_while_it_waited_for_the_window_is_not_sent() -> None:
    told = Told()
    told.submit(*[many(1, 60_000, number) for number in range(1_300)])
    scheduler = Scheduler(told, Limits())
    scheduler.flush()
    waiting = [task(number) for number in range(1_300) if task(number) not in set(scheduler.tasks())]
    assert waiting
    assert set(completions(told(CancelRequested(tuple(waiting[::2]))))) == set(waiting[::2])
    scheduler.unacknowledged.clear()
    scheduler.drain()
    assert set(scheduler.tasks()).isdisjoint(waiting[::2])
    assert len(scheduler.tasks()) == 1_300 - len(waiting[::2])


def test_submitted_while_open_and_much_is_waiting_it_waits_too() -> None:
    told = Told()
    told(many(1, 10))
    assert told(Flush(unacknowledged_bytes=outbox.WINDOW_BYTES)) == []
    assert len(told(Flush())) == 1


def test_bounds_leave_half_an_envelope_for_what_is_not_a_column() -> None:
    assert bounds_of(Limits()).column_bytes * 2 == Limits().envelope_bytes
    assert columns.join_ids([b"x" * 16]) and bounds_of(FLOORS).ids == 2_048
