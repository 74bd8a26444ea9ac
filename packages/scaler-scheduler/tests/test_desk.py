"""What watchers get, what questions cost, and that both are bounded for each monitor and in all (MON-18 to MON-22)."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.scheduler_story import peer

from scaler_protocol.codec import decode, encode
from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.codes import OVERLOADED
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import (
    ClusterStatus,
    Count,
    DumpRequest,
    Error,
    Explain,
    GraphShapes,
    Message,
    SnapshotRequest,
    StorageStatus,
    TaskLog,
    TaskSamples,
    Watch,
)
from scaler_scheduler import desk, watchers
from scaler_scheduler.desk import Allowance, Desk, Question, Questions
from scaler_scheduler.publishing import StorageFigures
from scaler_scheduler.watchers import GRAPHS, LOGS, STATUS, TASKS, Watchers

LARGE = ClusterStatus(task_counts=(Count("x" * 60_000, 1),) * 5)


class Wire:
    """What was sent to each peer, and what of it is not acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[PeerId, list[Message]] = defaultdict(list)
        self.kept: dict[PeerId, list[int]] = defaultdict(list)
        self.users: dict[PeerId, str] = {}
        self.watchers = Watchers(self.send, self.unacknowledged, lambda peer_id: self.users.get(peer_id, ""))

    def send(self, peer_id: PeerId, message: Message | Encoded) -> int:
        assert isinstance(message, Encoded)
        (envelope,) = message.frames(len(self.sent[peer_id]) + 1, 0)
        self.sent[peer_id].append(decode(bytes(envelope), ()).message)
        self.kept[peer_id].append(len(envelope))
        return len(self.sent[peer_id])

    def unacknowledged(self, peer_id: PeerId) -> tuple[int, int]:
        return sum(self.kept[peer_id]), len(self.kept[peer_id])

    def acknowledge(self, peer_id: PeerId) -> None:
        self.kept[peer_id].clear()


def test_each_watcher_gets_its_topics_and_no_others() -> None:
    wire = Wire()
    assert not wire.watchers.watch(peer("a"), 1, Watch(("status", "tasks", "x-weather")))
    assert not wire.watchers.watch(peer("b"), 1, Watch(("graphs",)))
    assert not wire.watchers.watch(peer("c"), 1, Watch(("x-weather",)))
    assert wire.watchers.topics() == {STATUS, TASKS, GRAPHS} and len(wire.watchers) == 2
    for topic, message in ((STATUS, ClusterStatus()), (TASKS, TaskSamples()), (GRAPHS, GraphShapes())):
        wire.watchers.publish(topic, message)
    assert wire.sent == {peer("a"): [ClusterStatus(), TaskSamples()], peer("b"): [GraphShapes()]}
    wire.watchers.watch(peer("a"), 2, Watch())
    wire.watchers.lost(peer("b"))
    wire.watchers.lost(peer("nobody"))
    assert not wire.watchers.topics() and wire.watchers.publish(STATUS, ClusterStatus()) is None


def test_what_a_deaf_watcher_gets_is_bounded_and_others_miss_nothing() -> None:
    wire = Wire()
    for name in ("deaf", "well"):
        wire.watchers.watch(peer(name), 1, Watch((STATUS, LOGS)))
    for number in range(1000):
        wire.watchers.publish(STATUS, ClusterStatus(sequence=number))
        wire.acknowledge(peer("well"))
    assert len(wire.sent[peer("well")]) == 1000
    assert len(wire.sent[peer("deaf")]) == watchers.WINDOW_MESSAGES
    assert wire.watchers.left_out_count == 1000 - watchers.WINDOW_MESSAGES
    wire.acknowledge(peer("deaf"))
    wire.watchers.publish(STATUS, ClusterStatus(sequence=1000))
    assert wire.sent[peer("deaf")][-1] == ClusterStatus(sequence=1000), "the latest, and none of those before"
    for _ in range(1000):
        wire.watchers.publish(LOGS, TaskLog(TaskId(peer("t")), 1, "line"))
    assert wire.unacknowledged(peer("deaf"))[1] == watchers.WINDOW_LOGS


def test_large_publications_are_bounded_by_bytes_for_each_and_in_all() -> None:
    wire = Wire()
    many = [peer(str(number)) for number in range(watchers.WATCHERS.further)]
    size = len(encode(LARGE)[0])
    for peer_id in many:
        assert wire.watchers.watch(peer_id, 1, Watch((STATUS,))) is None
    for _ in range(50):
        wire.watchers.publish(STATUS, LARGE)
    kept = [wire.unacknowledged(peer_id)[0] for peer_id in many]
    assert max(kept) <= watchers.TOTAL_BYTES // len(many) + size, "more than its share, by one message"
    assert min(kept) > 0, "each gets something"


def test_watchers_beyond_the_limit_are_refused_and_may_change_their_topics() -> None:
    wire = Wire()
    for number in range(watchers.WATCHERS.further):
        assert wire.watchers.watch(peer(str(number)), 1, Watch((STATUS,))) is None
    refusal = wire.watchers.watch(peer("late"), 9, Watch((STATUS,)))
    assert isinstance(refusal, Error) and (refusal.code, refusal.ref_seq, refusal.fatal) == (OVERLOADED, 9, False)
    assert wire.watchers.watch(peer("0"), 2, Watch((TASKS,))) is None
    assert wire.watchers.watch(peer("0"), 3, Watch()) is None
    assert wire.watchers.watch(peer("late"), 10, Watch((STATUS,))) is None


def test_watchers_of_one_user_leave_room_for_those_of_others() -> None:
    """(MON-19, LIM-30)"""
    wire, (first, further) = Wire(), watchers.WATCHERS

    def accepted(user: str, count: int) -> int:
        names = [peer(f"{user}{number}") for number in range(count)]
        wire.users.update(dict.fromkeys(names, user))
        return sum(wire.watchers.watch(name, 1, Watch((STATUS,))) is None for name in names)

    assert accepted("ana", first + further + 10) == first + further
    assert accepted("bo", first + 1) == first
    wire.watchers.lost(peer("ana0"))
    assert accepted("bo", first + 2) == first + 1


def test_the_limit_of_watchers_is_an_event() -> None:
    wire, core, router = Wire(), Mock(), Mock()
    router.unacknowledged.return_value = (0, 0)
    served = Desk(core, router, wire.watchers, Mock(), Mock(), Mock())
    for number in range(watchers.WATCHERS.further):
        served.asked(peer(str(number)), 1, Watch((STATUS,)))
    assert not core.note.called
    served.asked(peer("late"), 1, Watch((STATUS,)))
    ((kind, subject, text, _),) = (call.args for call in core.note.call_args_list)
    assert (kind, subject) == ("limit_reached", "watchers") and f"{watchers.WATCHERS.further} others watch" in text


# ---------------------------------------------------------------- questions


class Asked:
    """Each answer takes some processor time; a peer in `full` has no room for any."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.seconds = seconds
        self.clock = 0.0
        self.answers: list[tuple[PeerId, Question]] = []
        self.full: set[PeerId] = set()
        self.awaited_until = 0.0
        self.questions = Questions(
            self._answer, self._has_room, Allowance(), lambda: self.awaited_until, lambda: self.clock
        )

    def _answer(self, peer_id: PeerId, question: Question, now: float) -> None:
        self.clock += self.seconds
        self.answers.append((peer_id, question))

    def _has_room(self, peer_id: PeerId) -> bool:
        return peer_id not in self.full

    def ask(self, name: str, *questions: Question) -> list[Error]:
        return [found for one in questions if (found := self.questions.ask(peer(name), 5, one)) is not None]

    def settle_until(self, end: float, step: float) -> None:
        now = 0.0
        while now < end:
            now += step
            self.questions.settle(now)

    def named(self) -> list[PeerId]:
        return [peer_id for peer_id, _ in self.answers]


def test_monitors_are_answered_in_turn_and_each_in_its_order() -> None:
    asked = Asked(0.0001)
    assert not asked.ask("a", Explain(1), DumpRequest(2), SnapshotRequest(3)) and not asked.ask("b", Explain(4))
    assert asked.questions.is_busy_with(peer("a")) and not asked.questions.is_busy_with(peer("c"))
    asked.questions.settle(1.0)
    assert asked.named() == [peer("a"), peer("b"), peer("a"), peer("a")]
    assert [one for peer_id, one in asked.answers if peer_id == peer("a")] == [
        Explain(1), DumpRequest(2), SnapshotRequest(3),
    ]  # fmt: skip
    assert not asked.questions.is_busy_with(peer("a")) and asked.questions.next_deadline() is None


def test_one_that_asks_without_end_is_refused_and_delays_no_other_monitor() -> None:
    asked = Asked()
    flood = asked.ask("flood", *(Explain(number) for number in range(1000)))
    assert len(flood) == 1000 - desk.PENDING_LIMIT and {one.code for one in flood} == {OVERLOADED}
    asked.ask("calm", Explain(1))
    asked.questions.settle(1.0)
    assert asked.named()[:2] == [peer("flood"), peer("calm")]


def test_questions_in_all_are_bounded() -> None:
    asked = Asked()
    refused = sum(len(asked.ask(str(number), Explain(1), Explain(2))) for number in range(3_000))
    assert refused == 6_000 - desk.PENDING_TOTAL
    for number in range(3_000):
        asked.questions.lost(peer(str(number)))
    assert not asked.ask("late", Explain(1)), "those that left are not counted any more"


@pytest.mark.parametrize("seconds", [0.0001, 0.003, 0.05])
def test_what_questions_cost_is_a_share_of_the_time(seconds: float) -> None:
    asked = Asked(seconds)
    now = 0.0
    while now < 30.0:
        asked.ask("flood", *(Explain(number) for number in range(50)))
        asked.questions.settle(now)
        now += 0.01
    most = desk.BURST_SECONDS + desk.COST_SHARE * 30.0 + seconds
    assert 0.5 * most < asked.clock <= 1.01 * most


def test_no_turn_is_long() -> None:
    asked = Asked(0.001)
    asked.ask("a", *(Explain(number) for number in range(60)))
    asked.questions.settle(1.0)
    assert asked.clock <= desk.TURN_SECONDS + 2 * asked.seconds
    deadline = asked.questions.next_deadline()
    assert deadline is not None and deadline <= 1.0, "the rest is due in the next turn"


def test_answers_wait_for_acknowledgements_without_a_busy_loop() -> None:
    asked = Asked()
    asked.full = {peer("deaf")}
    asked.ask("deaf", Explain(1))
    asked.questions.settle(1.0)
    deadline = asked.questions.next_deadline()
    assert not asked.answers and deadline is not None and deadline > 1.0
    asked.ask("well", Explain(2))
    asked.questions.settle(1.0)
    assert asked.named() == [peer("well")]
    asked.full.clear()
    asked.questions.settle(deadline)
    assert asked.named() == [peer("well"), peer("deaf")] and asked.questions.next_deadline() is None


def test_a_short_allowance_wakes_by_itself() -> None:
    asked = Asked(0.5)
    asked.ask("a", Explain(1), Explain(2))
    asked.questions.settle(1.0)
    deadline = asked.questions.next_deadline()
    assert len(asked.answers) == 1 and deadline is not None and deadline > 1.0
    asked.questions.settle(deadline + 0.001)
    assert len(asked.answers) == 2


def test_a_dump_does_not_keep_other_questions_waiting() -> None:
    asked = Asked(0.5)
    asked.ask("a", DumpRequest(1))
    asked.questions.settle(1.0)
    asked.seconds = 0.001
    asked.ask("a", Explain(2))
    asked.questions.settle(1.1)
    assert len(asked.answers) == 2


def test_a_question_waits_for_what_its_answer_is_made_of_and_not_for_ever() -> None:
    asked = Asked()
    asked.awaited_until = 1.25
    asked.ask("one", SnapshotRequest(1))
    asked.questions.settle(1.0)
    assert not asked.answers and asked.questions.next_deadline() == 1.25
    asked.questions.settle(1.25)
    assert len(asked.answers) == 1, "the storage has not answered in time"
    asked.awaited_until = 3.0
    asked.ask("one", SnapshotRequest(2))
    asked.questions.settle(2.0)
    asked.awaited_until = 0.0
    asked.questions.hurry()
    assert asked.questions.next_deadline() == 0.0
    asked.questions.settle(2.1)
    assert len(asked.answers) == 2


def test_the_storage_is_asked_at_a_bounded_rate() -> None:
    sent: list[object] = []
    storage: Any = SimpleNamespace(is_open=True, send=sent.append)
    owned: Any = SimpleNamespace(request=lambda: "request", told=lambda status: status)
    figures = StorageFigures(storage, owned)
    for now in (10.0, 10.01, 10.09):
        figures.refresh(now)
    assert len(sent) == 1 and figures.awaited_until == 10.25
    figures.told(StorageStatus(1, object_count=3))
    assert figures.awaited_until == 0.0 and figures.status.object_count == 3
    figures.refresh(11.0)
    assert len(sent) == 2 and figures.awaited_until == 11.25
    storage.is_open = False
    figures.told(StorageStatus(2))
    figures.refresh(20.0)
    assert len(sent) == 2 and figures.awaited_until == 0.0, "nothing is awaited of a storage that is not there"
