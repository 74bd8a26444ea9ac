"""The clients that live are named to the storage again and again, and never in a hurry (SCH-58, OWN-20)."""

from __future__ import annotations

from scaler_protocol.columns import split_ids
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, Limits, LiveOwners, Message, Welcome
from scaler_protocol.session import Lost, Opened
from scaler_scheduler.core import Policy, SchedulerCore, SendToStorage, Settled, StorageOpened, StorageReplied
from scaler_scheduler.core.peers.live_owners import IDS_IN_A_PART

GRACE = 30.0
SMALLEST_ENVELOPE = 64 * 1024


class Story:
    def __init__(self) -> None:
        self.core = SchedulerCore(Policy(owner_grace_seconds=GRACE))
        self.now = 100.0
        self.replies: list[int] = []

    def joins(self, number: int) -> PeerId:
        client_id = PeerId(number.to_bytes(16, "big"))
        welcome = Welcome(1, PeerId(b"scheduler".ljust(16)), 1, 1, limits=Limits(100, 2**20, 2**20, 2**20))
        self.core.handle(Opened(client_id, Hello(1, 1, 1, client_id), welcome), self.now)
        return client_id

    def leaves(self, client_id: PeerId) -> None:
        self.core.handle(Lost(client_id, 205, "silence", False), self.now)

    def storage_opens(self, *, takes_live_owners: bool = True) -> None:
        self.core.handle(StorageOpened(takes_live_owners), self.now)

    def answers(self) -> None:
        for request_id in self.replies:
            self.core.handle(StorageReplied(request_id), self.now)
        self.replies.clear()

    def settle(self, seconds: float = 0.0) -> list[LiveOwners]:
        """What is named after so long."""
        self.now += seconds
        messages: list[Message] = [
            action.message for action in self.core.handle(Settled(), self.now) if isinstance(action, SendToStorage)
        ]
        parts = [message for message in messages if isinstance(message, LiveOwners)]
        self.replies += [part.request_id for part in parts]
        return parts

    def named(self, seconds: float = 0.0) -> set[PeerId] | None:
        parts = self.settle(seconds)
        return {PeerId(one) for part in parts for one in split_ids(part.ids)} if parts else None


def test_clients_are_named_at_once_and_then_once_in_each_lease() -> None:
    story = Story()
    one, other = story.joins(1), story.joins(2)
    assert story.named() is None, "there is no storage"
    story.storage_opens()
    assert story.named() == {one, other}
    story.answers()
    story.leaves(other)
    assert story.named(GRACE - 0.1) is None
    assert story.core.next_deadline() == 100.0 + GRACE
    third = story.joins(3)
    assert story.named(0.2) == {one, third}


def test_a_naming_of_no_client_is_a_naming() -> None:
    story = Story()
    story.storage_opens()
    assert story.settle() == [LiveOwners(1, b"", 0, 0)]


def test_a_naming_waits_for_the_answer_to_the_one_before() -> None:
    story = Story()
    story.joins(1)
    story.storage_opens()
    story.settle()
    assert story.named(10 * GRACE) is None
    assert story.core.next_deadline() is None, "there is nothing to wake up for"
    story.answers()
    assert story.named() is not None


def test_a_storage_that_comes_back_is_told_at_once() -> None:
    story = Story()
    one = story.joins(1)
    story.storage_opens()
    story.settle()
    story.storage_opens()
    assert story.named() == {one}, "the answer to the first will never come"


def test_a_storage_without_the_feature_is_told_nothing() -> None:
    story = Story()
    story.joins(1)
    story.storage_opens(takes_live_owners=False)
    assert story.named(2 * GRACE) is None and story.core.next_deadline() is None


def test_many_clients_are_named_in_parts_that_fit_every_envelope() -> None:
    story = Story()
    clients = {story.joins(number) for number in range(2 * IDS_IN_A_PART + 1)}
    story.storage_opens()
    parts = story.settle()
    assert [part.offset for part in parts] == [0, IDS_IN_A_PART, 2 * IDS_IN_A_PART]
    assert {part.total_count for part in parts} == {len(clients)}
    assert all(len(part.ids) <= SMALLEST_ENVELOPE - 1024 for part in parts)
    assert {PeerId(one) for part in parts for one in split_ids(part.ids)} == clients
    story.replies.pop()
    story.answers()
    assert story.named(GRACE) is None, "one part is not answered"
