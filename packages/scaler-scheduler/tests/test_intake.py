"""A client that causes answers and reads none is held back; a client that reads is not (SES-35, LIM-16)."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scheduler_story import FUNCTION, WELCOME, peer

from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import GraphId, PeerId, TaskId, task_id_source
from scaler_protocol.messages import Cancel, Explain, Hello, Message, Submit, TaskHeader
from scaler_protocol.session import Opened, Received
from scaler_protocol.session.events import Lost
from scaler_scheduler.core import FEATURE_RESULT_WINDOW, Policy, SchedulerCore, Send, Settled, invariants
from scaler_scheduler.core.tables.intake import ALL_ANSWERS_BYTES, ANSWERS_BYTES, LEAST_ANSWERS_BYTES, intake

MIB = 1 << 20
_new_ids = task_id_source()


class Sessions:
    """A core, and what its clients have been sent and have not acknowledged, in bytes on the wire."""

    def __init__(self) -> None:
        self.kept: dict[PeerId, int] = {}
        self.core = SchedulerCore(Policy(), lambda peer_id: self.kept.get(peer_id, 0))

    def join(self, name: str, window: int = 0) -> None:
        hello = Hello(1, 1, ROLE_CLIENT, peer(name), features=(FEATURE_RESULT_WINDOW,), result_window_bytes=window)
        self.kept[peer(name)] = 0
        self.core.handle(Opened(peer(name), hello, WELCOME), 0.0)

    def offers(self, name: str, message: Message) -> bool:
        """Whether it was taken."""
        size = sum(map(len, encode(message, 1, 0)))
        if self.core.gate.is_strained and not self.core.gate.admits(peer(name), size):
            return False
        self.core.handle(Received(peer(name), 1, message), 0.0)
        self.settle()
        return True

    def settle(self) -> None:
        while True:
            for action in self.core.handle(Settled(), 0.0):
                if isinstance(action, Send) and action.peer_id in self.kept:
                    self.kept[action.peer_id] += sum(map(len, encode(action.message, 1, 0)))
            if not self.core.tables.backlog:
                return

    def reads(self, name: str) -> None:
        self.kept[peer(name)] = 0
        self.settle()

    def all_kept(self) -> int:
        waiting = sum(client.window.waiting_bytes for client in self.core.tables.clients.values() if client.window)
        return waiting + sum(self.kept.values())


def plain(count: int) -> Submit:
    return Submit(TaskHeader(), FUNCTION, b"".join(_new_ids(count)), b"x" * count, join_u32([1] * count))


def chain(count: int) -> Submit:
    ids = list(_new_ids(count))
    counts = join_u16([0] + [1] * (count - 1))
    sizes = join_u32([1] * count)
    header = TaskHeader(graph_id=GraphId(ids[0]))
    needs = b"".join(ids[:-1])
    return Submit(header, FUNCTION, b"".join(ids), b"x" * count, sizes, dependency_counts=counts, dependencies=needs)


def submit_and_cancel_all(chance: random.Random) -> list[Message]:
    return [plain(chance.choice((1, 100, 2_000))), Cancel(b"", is_all=True)]


def cancel_by_name(chance: random.Random) -> list[Message]:
    batch = plain(1_000)
    return [batch, Cancel(batch.ids)]


def cancel_what_is_not_there(chance: random.Random) -> list[Message]:
    return [Cancel(b"".join(_new_ids(2_000)))]


def cancel_the_head_of_a_chain(chance: random.Random) -> list[Message]:
    batch = chain(1_000)
    return [batch, Cancel(batch.ids[:16])]


def explain(chance: random.Random) -> list[Message]:
    return [Explain(1, TaskId(b"\1" * 16))] * 500


def submit_what_is_refused(chance: random.Random) -> list[Message]:
    (one,) = _new_ids(1)
    return [Submit(TaskHeader(client=peer("other")), FUNCTION, one, b"x", join_u32([1]))] * 500


@pytest.mark.parametrize("window", (1, 0), ids=("narrow", "wide"))
@pytest.mark.parametrize(
    "attack",
    (
        submit_and_cancel_all,
        cancel_by_name,
        cancel_what_is_not_there,
        cancel_the_head_of_a_chain,
        explain,
        submit_what_is_refused,
    ),
)
def test_clients_that_read_nothing_are_held_back(attack, window: int) -> None:  # type: ignore[no-untyped-def]
    """Smaller bounds, so that the test is fast; the real ones are as many times more."""
    sessions, chance, refused, taken = Sessions(), random.Random(1), 0, 0
    pressure = sessions.core.tables.backlog.pressure
    pressure.answers.most_bytes, pressure.answers.all_most_bytes = MIB // 4, MIB
    for name in "abcdef":
        sessions.join(name, window)
    for _ in range(60):
        for name in "abcdef":
            for message in attack(chance):
                was_taken = sessions.offers(name, message)
                taken, refused = taken + was_taken, refused + (not was_taken)
    assert taken and refused > taken // 100, (taken, refused)
    assert sessions.all_kept() <= 4 * MIB, "six times the bound of one, one message more, and rows at their weight"
    sessions.join("z")
    batch = plain(1_000)
    assert sessions.offers("z", batch) and sessions.offers("z", Cancel(batch.ids)), "others are not held back"
    invariants.check(sessions.core)
    for name in "abcdef":
        for _ in range(100):
            sessions.reads(name)
        sessions.reads(name)
        assert sessions.offers(name, plain(1)), "a client that has read goes on"
    for name in "abcdefz":
        sessions.core.handle(Lost(peer(name), 0, "", True), 0.0)
    sessions.settle()
    assert not pressure.is_strained and not pressure.answers.total


def test_a_client_that_reads_is_never_held_back() -> None:
    """Twice as many cancels as the bound has room for, each acknowledged after the next one."""
    sessions = Sessions()
    sessions.join("a")
    count, batches = 20_000, 2 * ANSWERS_BYTES // (20_000 * 40)
    for _ in range(batches):
        batch = plain(count)
        assert sessions.offers("a", batch)
        sessions.reads("a")
        assert sessions.offers("a", Cancel(batch.ids))
    assert sessions.core.tables.backlog.pressure.answers.total <= ANSWERS_BYTES


def test_a_slow_reader_of_results_may_send() -> None:
    """What workers have worked for is not charged: the window bounds it. (SCH-46)"""
    sessions = Sessions()
    sessions.join("a")
    sessions.kept[peer("a")] = 64 * MIB
    batch = plain(10_000)
    assert (
        sessions.offers("a", batch)
        and sessions.offers("a", Cancel(batch.ids[:16_000]))
        and sessions.offers("a", plain(1))
    )
    assert not sessions.core.gate.is_strained


_answer = st.tuples(st.integers(0, 5), st.sampled_from((1, 1_000, MIB, 5 * MIB)), st.integers(0, 10 * MIB))


@settings(max_examples=200, deadline=None)
@given(st.lists(_answer, max_size=80))
def test_each_is_charged_with_no_more_than_it_leaves_unread(steps: list[tuple[int, int, int]]) -> None:
    kept: dict[PeerId, deque[int]] = {}
    gate = intake(lambda peer_id: sum(kept.get(peer_id, ())))
    for number, size, read in steps:
        peer_id = PeerId(bytes([number + 1]) * 16)
        own, total = sum(kept.get(peer_id, ())), sum(map(sum, kept.values()))
        if not gate.is_strained or gate.admits(peer_id, 1):
            assert own <= ANSWERS_BYTES and (total <= ALL_ANSWERS_BYTES or own <= LEAST_ANSWERS_BYTES)
            gate.answered(peer_id, size)
            kept.setdefault(peer_id, deque()).append(size)
        else:
            assert own > LEAST_ANSWERS_BYTES, "held back for a reason"
            assert own > ANSWERS_BYTES or gate.answers.total > ALL_ANSWERS_BYTES
        while read > 0 and kept.get(peer_id):
            read -= kept[peer_id].popleft()
        gate.check({})
    for peer_id in list(kept):
        gate.forget(peer_id)
    gate.check({})
    assert not gate.is_strained and not gate.answers.total
