"""Two schedulers of one cluster (SCH-80 to SCH-83, SCH-88 to SCH-90, HSK-40, HSK-42, LIV-18). The suite plays the other
one. A scheduler that can be no standby may leave the variant `standby` out; the cases without it hold for all.

Each case has a process of its own: which of the two serves changes once.
"""

from __future__ import annotations

from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.host import Guest
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ClientPeer
from scaler_conformance.play.scheduler import SchedulerHost
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES

from .scheduler_presenting import Past

case = cases_for("scheduler")
timing = cases_for("scheduler", layer="timing")
hostile = cases_for("scheduler", layer="hostile")

STANDBY = "standby"
LOWEST, HIGHEST = b"\x00" * 15 + b"\x01", b"\xff" * 16
#: How soon a standby serves that may, beyond what the machine takes.
SERVES_SECONDS = 0.5
#: Within which something happens that has no bound of its own.
SOON_SECONDS = 5.0
PAUSE_SECONDS = 0.03
OFFER = {"name": "worker", "credit": 1, "nestedReserve": 0, "capabilities": []}


class Pair:
    """The scheduler under test, which waits, and the other one, which the suite plays."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.other: SchedulerHost = scene.scheduler
        self.link = self.session()

    def session(self) -> Guest:
        """That of the scheduler under test with the other one."""
        return self.other.guest("scheduler", SOON_SECONDS, "SCH-80")

    @property
    def lease_seconds(self) -> float:
        """Which the two have agreed on."""
        return min(float(self.link.hello["timers"]["leaseSeconds"]) or 60.0, self.other.timers["leaseSeconds"])

    def renew(self, *, is_standby: bool = False, server_id: bytes = b"") -> None:
        """The other one has been started again."""
        self.other.is_standby = is_standby
        self.other.server_id = server_id or new_id()
        self.link.lose(CODES.NO_SESSION)
        self.link = self.session()

    def leave(self) -> None:
        """The other one ends in good order, and is not to be found any more."""
        self.other.deaf_to = frozenset({"scheduler"})
        self.link.bye(CODES.SHUTTING_DOWN)

    def come_back(self, generation: int, server_id: bytes = b"") -> Guest:
        """It serves."""
        self.other.generation, self.other.server_id = generation, server_id or new_id()
        self.other.is_standby, self.other.deaf_to = False, frozenset()
        return self.session()

    def until_it_serves(self, seconds: float, clause: str = "SCH-88") -> ClientPeer:
        """The first client that is let in."""
        scene = self.scene
        watch = scene.stopwatch()
        peer = scene.client(is_open=False)
        while True:
            peer.incarnation += 1
            peer.dial()
            answer = peer.expect("welcome", "reject", clause="HSK-10")
            if answer.kind == "welcome":
                return peer
            scene.equal(answer["isStandby"], True, "isStandby of the Reject", "HSK-40")
            if watch.seconds > watch.latest(seconds):
                watch.must_be_undisturbed()
                raise Breach(f"it does not serve {watch.seconds:.2f} s after it might", clause)
            scene.pump.until(lambda: False, PAUSE_SECONDS)

    def waits(self, seconds: float, clause: str) -> None:
        """It lets no client in for so long."""
        scene = self.scene
        watch = scene.stopwatch()
        while watch.seconds < seconds:
            peer = scene.client(is_open=False)
            peer.dial()
            answer = peer.expect("welcome", "reject", clause="HSK-10")
            scene.equal(answer.kind, "reject", "the answer to a client's Hello", clause)
            scene.pump.until(lambda: False, 10 * PAUSE_SECONDS)

    def serves(self, client: ClientPeer, clause: str) -> None:
        worker = self.scene.worker(credit=1)
        client.submit(1)
        self.scene.settle(client, worker)
        worker.expect_dispatch(1, clause, "it serves")


def other_scheduler(scene: Scene, generation: int, server_id: bytes = b"", **hello: Any) -> Dialer:
    """One that serves, and dials the scheduler under test."""
    return scene.peer("scheduler", servingGeneration=generation, lastServerId=server_id or new_id(), **hello)


def has_ended(scene: Scene, client: ClientPeer, clause: str = "SCH-82") -> None:
    """All its sessions are over, and it lets no client in. Its process may have ended."""
    scene.pump.watch = lambda: None
    client.expect("bye", "error", clause=clause, seconds=SOON_SECONDS, what="the end of its session")
    storage = scene.storage
    is_over = scene.pump.until(lambda: not any(guest.is_open for guest in storage.guests), SOON_SECONDS)
    scene.check(is_over, "its session with the storage goes on", clause)
    late = scene.client(is_open=False)
    late.dial()
    scene.pump.until(lambda: bool(late.inbox), 1.0)
    welcomes = [message for message in late.inbox if message.kind == "welcome"]
    scene.check(not welcomes, "a client was let in after another scheduler has followed", clause)


def taken_over(scene: Scene) -> tuple[Pair, ClientPeer]:
    """A standby that serves since the other one has left, and a client of it."""
    pair = Pair(scene)
    pair.leave()
    client = pair.until_it_serves(SOON_SECONDS)
    scene.storage_session()
    return pair, client


# ---------------------------------------------------------------- a standby that waits


@case("HSK-40", "SCH-80", variant=STANDBY, fresh=True)
def a_standby_sends_dialers_on(scene: Scene) -> None:
    Pair(scene)
    for role in ("client", "worker", "manager"):
        peer = scene.peer(role, is_open=False)
        peer.dial(worker=OFFER) if role == "worker" else peer.dial()
        reject = peer.expect_reject(CODES.OVERLOADED, "HSK-40")
        scene.equal(reject["isStandby"], True, f"isStandby of the Reject to a {role}", "HSK-40")
        scene.check(bool(reject["text"].strip()), "the Reject has no text", "HSK-40")


@case("MON-30", variant=STANDBY, fresh=True)
def a_monitor_sees_that_it_is_a_standby(scene: Scene) -> None:
    pair = Pair(scene)
    watcher = scene.monitor("status")
    scene.equal(watcher.welcome["isStandby"], True, "isStandby of the Welcome", "MON-30")
    scene.pump.until(lambda: bool(watcher.of("status")), SOON_SECONDS)
    (first, *_) = watcher.of("status")
    scene.equal(first["standbyOf"], pair.other.address, "standbyOf", "MON-30")


@case("SCH-82", "LIV-18", variant=STANDBY, fresh=True)
def its_hello_says_that_it_waits(scene: Scene) -> None:
    hello = Pair(scene).link.hello
    own = scene.peer("monitor").welcome["serverId"]
    scene.equal(hello["lastServerId"], own, "lastServerId of its Hello to the other one", "SCH-82")
    scene.equal(hello["servingGeneration"], 0, "servingGeneration of one that waits", "SCH-82")
    scene.check(hello["timers"]["leaseSeconds"] > 0, "it proposes no lease", "LIV-18")


@case("SCH-80", variant=STANDBY, fresh=True)
def it_waits_as_long_as_the_other_one_serves(scene: Scene) -> None:
    pair = Pair(scene)
    pair.waits(2 * pair.lease_seconds, "SCH-80")


@case("SCH-90", variant=STANDBY, fresh=True)
def it_leaves_the_storage_alone(scene: Scene) -> None:
    pair = Pair(scene)
    pair.waits(pair.lease_seconds, "SCH-80")
    scene.equal([guest.name for guest in scene.storage.guests], [], "its sessions with the storage", "SCH-90")
    pair.leave()
    pair.until_it_serves(SOON_SECONDS)
    scene.storage_session()


@case("SCH-80", variant=STANDBY, fresh=True)
def of_two_that_wait_the_one_with_the_higher_id_goes_on_waiting(scene: Scene) -> None:
    pair = Pair(scene)
    pair.renew(is_standby=True, server_id=LOWEST)
    pair.waits(2 * pair.lease_seconds, "SCH-80")


@case("SCH-80", "SCH-81", variant=STANDBY, fresh=True)
def of_two_that_wait_the_one_with_the_lower_id_serves(scene: Scene) -> None:
    pair = Pair(scene)
    pair.renew(is_standby=True, server_id=HIGHEST)
    client = pair.until_it_serves(SOON_SECONDS, "SCH-80")
    scene.check(client.welcome["generation"] > pair.other.generation, "its generation is not above", "SCH-81")


@case("SCH-80", variant=STANDBY, fresh=True)
def one_that_was_started_again_goes_on_serving(scene: Scene) -> None:
    """The session is lost, and the next one begins within the lease."""
    pair = Pair(scene)
    pair.renew()
    pair.waits(2 * pair.lease_seconds, "SCH-80")


@case("SCH-89", variant=STANDBY, fresh=True)
def a_standby_ends_with_the_cluster(scene: Scene) -> None:
    pair = Pair(scene)
    scene.pump.watch = lambda: None
    pair.link.send("shutdown", graceSeconds=0.0)
    pair.leave()
    has_ended = scene.pump.until(lambda: not scene.subject.is_running, SOON_SECONDS)
    scene.check(has_ended, f"it has not ended {SOON_SECONDS:g} s after the Shutdown", "SCH-89")


# ---------------------------------------------------------------- a standby that serves


@timing("SCH-80", "SCH-81", "SCH-88", variant=STANDBY, fresh=True)
def it_serves_when_the_other_one_is_silent_for_the_lease(scene: Scene) -> None:
    pair = Pair(scene)
    pair.waits(pair.lease_seconds, "SCH-80")
    pair.other.is_silent = True
    watch = scene.stopwatch()
    watch.began_at = pair.link.last_sent_at
    client = pair.until_it_serves(pair.lease_seconds + SERVES_SECONDS)
    watch.not_before(pair.lease_seconds, "it serves", "SCH-80")
    scene.check(client.welcome["generation"] > pair.other.generation, "its generation is not above", "SCH-81")
    pair.serves(client, "SCH-88")


@timing("SCH-88", "SCH-81", variant=STANDBY, fresh=True)
def it_serves_when_the_other_one_says_goodbye(scene: Scene) -> None:
    pair = Pair(scene)
    pair.leave()
    client = pair.until_it_serves(SERVES_SECONDS)
    scene.check(client.welcome["generation"] > pair.other.generation, "its generation is not above", "SCH-81")
    scene.equal(client.welcome["isStandby"], False, "isStandby of the Welcome", "SCH-80")
    pair.serves(client, "SCH-88")


@case("SCH-82", variant=STANDBY, fresh=True)
def it_ends_when_the_other_one_serves_with_a_higher_generation(scene: Scene) -> None:
    pair, client = taken_over(scene)
    link = pair.come_back(client.welcome["generation"] + 1)
    scene.equal(link.hello["servingGeneration"], client.welcome["generation"], "servingGeneration", "SCH-82")
    has_ended(scene, client)


@case("SCH-82", variant=STANDBY, fresh=True)
def it_ends_when_the_other_one_has_the_higher_id(scene: Scene) -> None:
    """And the same generation."""
    pair, client = taken_over(scene)
    pair.come_back(client.welcome["generation"], HIGHEST)
    has_ended(scene, client)


@case("SCH-82", variant=STANDBY, fresh=True)
def it_goes_on_beside_a_lower_rank(scene: Scene) -> None:
    """A lower generation, and with its own generation a lower id."""
    pair, client = taken_over(scene)
    link = pair.come_back(client.welcome["generation"] - 1)
    link.fence()
    link.lose(CODES.NO_SESSION)
    pair.come_back(client.welcome["generation"], LOWEST).fence()
    client.fence()
    pair.serves(client, "SCH-82")


# ---------------------------------------------------------------- any scheduler that serves


@case("SCH-82", fresh=True)
def a_scheduler_that_was_followed_ends(scene: Scene) -> None:
    """It learns that by a session that the other one begins."""
    client = scene.client()
    scene.storage_session()
    other_scheduler(scene, client.welcome["generation"] + 1)
    has_ended(scene, client)


@case("SCH-82", fresh=True)
def a_standby_or_a_lower_rank_ends_no_scheduler(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=1)
    own = client.welcome["generation"]
    for generation, server_id in ((0, HIGHEST), (max(own - 1, 0), HIGHEST), (own, LOWEST)):
        other_scheduler(scene, generation, server_id).fence()
    client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-82", "no scheduler has followed")


@case("HSK-42", fresh=True)
def its_standbys_are_told_of_a_shutdown(scene: Scene) -> None:
    client, standby = scene.client(), other_scheduler(scene, 0)
    scene.pump.watch = lambda: None
    client.send("shutdown", graceSeconds=0.0)
    client.expect("shutdownReply", clause="SCH-24")
    standby.expect("shutdown", clause="HSK-42", seconds=SOON_SECONDS)


@hostile("SCH-82", fresh=True)
def a_peer_that_lies_about_its_rank_ends_no_scheduler(scene: Scene) -> None:
    """It has no operator's ticket, or does not say which scheduler it is."""
    client, worker = scene.client(), scene.worker(credit=1)
    nameless = scene.peer("scheduler", is_open=False)
    nameless.dial(servingGeneration=2**64 - 1, lastServerId=b"")
    nameless.expect("welcome", "reject", clause="HSK-10")
    key = scene.pump.key
    if key is not None:
        liar = scene.peer("scheduler", is_open=False)
        liar.shown = key.pass_for(new_id() + new_id(), [CODES.ROLE_SCHEDULER], is_operator=False)
        liar.dial(servingGeneration=2**64 - 1, lastServerId=HIGHEST)
        liar.expect("welcome", "reject", clause="HSK-10")
    client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-82", "no scheduler has followed")


@case("SCH-83", fresh=True)
def a_presented_task_whose_value_was_refused_runs_again(scene: Scene) -> None:
    """The scheduler before has released what its client owned under the name that it had there."""
    past = Past(scene)
    worker, client = past.worker(credit=1), past.client()
    (task,) = client.submit(1)
    client.fence()
    past.holds(worker, task, worker_count=1)
    worker.fence()
    worker.finish(task, status=CODES.STATUS_FAILED, code=CODES.OWNER_GONE, credit=2)
    scene.settle(worker, client)
    scene.equal(client.results(), [], "what the client is told", "SCH-83")
    (again,) = worker.expect_dispatch(1, "SCH-83", "its value was refused")
    scene.equal(again.id, task.id, "the task", "SCH-83")
    scene.check(again.attempt > task.attempt, "the attempt is the same", "SCH-83")
    worker.finish(again, value=b"at last")
    scene.settle(worker, client)
    scene.equal(client.result_of(task, "SCH-83").value, b"at last", "the value")
