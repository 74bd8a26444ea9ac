"""Owners that no scheduler names any more are released, and none that lives is (OWN-17 to OWN-19)."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, LiveOwners, ObjectReply, Put, Welcome
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import ALLOWED_MESSAGES, CoreLimits, Send, StorageCore, Tick, invariants
from scaler_storage.core.namings import Namings

from .conftest import Story, oid, peer


def name(story: Story, *owners: str, by: str = "s1", offset: int = 0, total: int | None = None) -> int:
    """The code of the answer, to one part of a naming."""
    ids = b"".join(map(peer, owners))
    part = LiveOwners(story._number(), ids, offset, len(owners) if total is None else total)
    ((to, (_, request_id, code)),) = [*story.request(by, part), *story.later(0)]  # type: ignore[misc]
    assert (to, request_id) == (by, story.last_request), "each part is answered"
    return code


def owners(story: Story) -> set[bytes]:
    while story.core.departures:
        story.later(0)
    return {owner.rstrip(b".") for owner in story.core.objects.owned}


@pytest.fixture
def left_behind(story: Story) -> Story:
    """Workers have stored results for c1, which lives, and for c2 and c3, which no scheduler names."""
    for owner in ("c1", "c2", "c3"):
        story.put("w1", f"of {owner}", b"ab", owner=owner)
    return story


def test_an_owner_that_is_left_out_twice_is_released(left_behind):
    assert name(left_behind, "c1") == codes.OK
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}, "once is not enough"
    assert name(left_behind, "c1", "c3") == codes.OK
    assert owners(left_behind) == {b"c1", b"c3"}
    assert left_behind.put("w1", "late", b"x", owner="c2") == [("w1", ("reply", 6, codes.OWNER_GONE))]
    name(left_behind, "c1")
    assert owners(left_behind) == {b"c1", b"c3"}, "c3 was named in between"


def test_an_owner_that_has_begun_between_two_namings_stays(left_behind):
    name(left_behind, "c1")
    left_behind.put("w1", "new", b"ab", owner="c4")
    name(left_behind, "c1")
    assert owners(left_behind) == {b"c1", b"c4"}


def test_a_naming_of_nobody(left_behind):
    assert name(left_behind) == codes.OK == name(left_behind)
    assert owners(left_behind) == set()


def test_a_naming_in_parts(left_behind):
    for _ in range(2):
        assert name(left_behind, "c1", total=3) == codes.OK
        assert name(left_behind, "c9", offset=1, total=3) == codes.OK
        assert owners(left_behind) == {b"c1", b"c2", b"c3"}, "it is not whole"
        assert name(left_behind, "c2", offset=2, total=3) == codes.OK
    assert owners(left_behind) == {b"c1", b"c2"}


@pytest.mark.parametrize(
    "part",
    [
        ((), {"total": 2}),
        (("c2",), {"offset": 2, "total": 3}),
        (("c2",), {"offset": 1, "total": 4}),
        (("c2", "c3", "c4"), {"offset": 1, "total": 3}),
    ],
    ids=["empty", "gap", "other-total", "too-many"],
)
def test_a_part_that_does_not_fit_ends_its_naming(left_behind, part):
    names, keywords = part
    name(left_behind)
    name(left_behind, "c1", total=3)
    assert name(left_behind, *names, **keywords) == codes.BAD_CHUNK
    assert name(left_behind, "c2", "c3", offset=1, total=3) == codes.BAD_CHUNK, "what follows means nothing"
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}
    name(left_behind, "c1", "c3")
    assert owners(left_behind) == {b"c1", b"c3"}, "the last whole naming counts"


def test_a_naming_ends_with_its_session(left_behind):
    name(left_behind)
    left_behind.lose("s1")
    left_behind.open("s1", codes.ROLE_SCHEDULER)
    name(left_behind)
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}, "the first of this session"
    name(left_behind, total=1)
    left_behind.lose("s1")
    left_behind.open("s1", codes.ROLE_SCHEDULER)
    assert name(left_behind, "c1", offset=0, total=1) == codes.OK
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}


def test_a_client_that_stores_something_itself_lives_as_long_as_its_session(left_behind):
    left_behind.put("c1", "own", b"ab", owner="c2")
    left_behind.duplicate("c1", "of c3", "copy", owner="c3")
    for _ in range(3):
        name(left_behind)
    assert owners(left_behind) == {b"c2", b"c3"}, "and no scheduler has to know of it"
    left_behind.release("c1", "own", "of c2", owner="c2")
    left_behind.put("w1", "result", b"ab", owner="c2")
    for _ in range(2):
        name(left_behind)
    assert owners(left_behind) == {b"c2", b"c3"}, "also when it had nothing for a while"
    left_behind.lose("c1")
    name(left_behind)
    name(left_behind)
    assert owners(left_behind) == set()


def test_no_scheduler_decides_about_clients_of_another(left_behind):
    left_behind.open("s2", codes.ROLE_SCHEDULER)
    for _ in range(3):
        name(left_behind, "c1")
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}, "s2 has not said which clients it has"
    name(left_behind, "c2", by="s2")
    for _ in range(2):
        name(left_behind, "c1")
    assert owners(left_behind) == {b"c1", b"c2"}
    left_behind.lose("s2")
    for _ in range(2):
        name(left_behind, "c1")
    assert owners(left_behind) == {b"c1"}


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, owners=3, named_owners=5, naming_schedulers=1)])
def test_bounds(left_behind):
    assert name(left_behind, "a", "b", "c", "d") == codes.TOO_MANY
    assert name(left_behind, "a", "b", "c") == codes.OK
    assert name(left_behind, "a", total=2) == codes.TOO_MANY, "3 named, 2 suspects"
    assert owners(left_behind) == {b"c1", b"c2", b"c3"}
    left_behind.open("s2", codes.ROLE_SCHEDULER)
    assert name(left_behind, by="s2") == codes.TOO_MANY


def test_only_schedulers_name_owners():
    assert {role for role, messages in ALLOWED_MESSAGES.items() if LiveOwners in messages} == {codes.ROLE_SCHEDULER}


def test_no_turn_is_long_however_many_owners_there_are():
    core = StorageCore()
    core.handle(Opened(peer("s1"), Hello(1, 1, 3, peer("s1")), Welcome(1, peer("storage"), 1, 1)), 0.0)
    for number in range(20_000):
        put = Put(1, oid(str(number)), PeerId(number.to_bytes(16, "big")), 1, 0, b"x")
        core.handle(Received(peer("s1"), 1, put), 0.0)
        core.handle(Tick(), 0.0)
    turns = 0
    for request_id in (1, 2):
        actions = core.handle(Received(peer("s1"), 1, LiveOwners(request_id, b"", 0, 0)), 0.0)
        while core.work.jobs or core.departures:
            turns += 1
            assert len(actions) <= 2 * core.limits.turn_releases
            actions = core.handle(Tick(), 0.0)
    assert not core.objects.objects and turns > 20_000 / core.limits.turn_releases


# ---------------------------------------------------------------- a law


class Cluster:
    """Clients join and vanish, schedulers are restarted, and what they say is on its way for any time.

    A client stores only after its scheduler has let it in, and a scheduler waits for the answer to its last naming.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.core = StorageCore()
        self.clients: set[PeerId] = set()
        self.objects = 0
        self.life = 0
        self.to_storage: deque[LiveOwners] = deque()
        self.to_scheduler: deque[int] = deque()
        self.handle(Opened(peer("w"), Hello(1, 1, 2, peer("w")), Welcome(1, peer("storage"), 1, 1)))
        self.restart()

    def handle(self, event):
        for action in (*self.core.handle(event, 0.0), *self.core.handle(Tick(), 0.0)):
            if isinstance(action, Send) and action.peer_id == self.scheduler:
                assert isinstance(action.message, ObjectReply) and not action.message.code
                self.to_scheduler.append(action.message.request_id)
        invariants.check(self.core)

    def restart(self):
        if self.life:
            self.handle(Lost(self.scheduler, 205, "crashed", False))
        self.life += 1
        self.clients.clear()
        self.to_storage.clear()
        self.to_scheduler.clear()
        self.unanswered = 0
        self.scheduler = peer(f"s{self.life}")
        self.handle(Opened(self.scheduler, Hello(1, 1, 3, self.scheduler), Welcome(1, peer("storage"), 1, 1)))

    def join(self):
        self.clients.add(PeerId(self.rng.randbytes(16)))

    def vanish(self):
        if self.clients:
            self.clients.remove(self.rng.choice(sorted(self.clients)))

    def store(self):
        if self.clients:
            self.objects += 1
            put = Put(0, oid(str(self.objects)), self.rng.choice(sorted(self.clients)), 1, 0, b"x")
            self.handle(Received(peer("w"), 1, put))

    def name(self):
        if self.unanswered:
            return
        ids = sorted(self.clients)
        size = self.rng.randint(1, 3)
        for at in range(0, max(1, len(ids)), size):
            self.to_storage.append(LiveOwners(at + 1, b"".join(ids[at : at + size]), at, len(ids)))
            self.unanswered += 1

    def arrive(self):
        if self.to_storage:
            self.handle(Received(self.scheduler, 1, self.to_storage.popleft()))

    def answer(self):
        if self.to_scheduler:
            self.to_scheduler.popleft()
            self.unanswered -= 1

    def settle(self):
        for _ in range(2):
            self.name()
            while self.unanswered:
                self.arrive()
                self.answer()


def run(seed):
    cluster = Cluster(seed)
    steps = [cluster.join, cluster.vanish, cluster.store, cluster.name, cluster.arrive, cluster.answer]
    for _ in range(400):
        cluster.rng.choices([*steps, cluster.restart], [3, 2, 6, 3, 6, 6, 0.2])[0]()
        gone = [client for client in cluster.clients if client in cluster.core.gone_owners]
        assert not gone, "it lives, and was released"
    cluster.settle()
    cluster.settle()
    assert cluster.core.objects.owned.keys() <= cluster.clients, "nothing will ever release what is left"


@pytest.mark.parametrize("seed", range(30))
def test_each_live_client_keeps_what_it_has_and_nothing_else_stays(seed):
    run(seed)


def test_one_naming_would_not_do(monkeypatch):
    close = Namings.close

    def at_once(self, peer_id, owned, is_present):
        self.by_peer[peer_id].suspects = set(owned)
        return close(self, peer_id, owned, is_present)

    monkeypatch.setattr(Namings, "close", at_once)
    with pytest.raises(AssertionError, match="it lives"):
        for seed in range(30):
            run(seed)


def test_a_scheduler_that_does_not_wait_for_the_answer_releases_live_clients(monkeypatch):
    """Why OWN-20 has it wait."""
    name = Cluster.name

    def hasty(self):
        self.unanswered = 0
        name(self)

    monkeypatch.setattr(Cluster, "name", hasty)
    with pytest.raises(AssertionError, match="it lives"):
        for seed in range(30):
            run(seed)
