"""Leases and answers in time (chapter 04), with timers as short as the specification allows."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler", "storage", layer="timing")
SHORT = {"heartbeatSeconds": 0.1, "leaseSeconds": 0.6}


def silent(scene: Scene, **timers: float) -> Dialer:
    peer = scene.peer(timers={**SHORT, **timers})
    peer.shows_life = peer.answers_pings = peer.acknowledges = False
    return peer


@case("LIV-11", "LIV-5", "HSK-16")
def a_silent_peer_is_lost_when_its_lease_expires(scene: Scene) -> None:
    talking = scene.peer(timers=SHORT)
    watch = scene.stopwatch()  # the server's own begins with the Hello, before its Welcome is here
    peer = silent(scene)
    timers = peer.welcome["timers"]

    def is_told() -> bool:
        return any(message.kind == "error" for message in peer.inbox)

    latest = timers["leaseSeconds"] + timers["heartbeatSeconds"]
    watch.until(is_told, latest, "a silent peer was not told LEASE_EXPIRED", "LIV-11")
    watch.not_before(timers["leaseSeconds"], "a silent peer was declared lost", "LIV-5")
    peer.expect_error(CODES.LEASE_EXPIRED, fatal=True, clause="LIV-11")
    talking.fence(clause="LIV-5")
    talking.expect_nothing("a peer that talks is not lost", "LIV-5")


@case("HSK-16")
def everybody_has_the_timers_of_his_own_welcome(scene: Scene) -> None:
    """Two are silent; the one with the short lease is lost, and the other is not."""
    patient, hasty = silent(scene, leaseSeconds=20.0), silent(scene)
    hasty.expect_error(CODES.LEASE_EXPIRED, seconds=3.0, clause="HSK-16")
    patient.fence(clause="HSK-16")
    patient.expect_nothing("its lease is 20 s", "HSK-16")


@case("LIV-5", "HSK-16")
def a_peer_that_says_anything_lives(scene: Scene) -> None:
    """A little oftener than the lease, of one Pongs that nobody asked for, of the other what has no number."""
    speaking, nodding = silent(scene), silent(scene)
    lease = nodding.welcome["timers"]["leaseSeconds"]
    watch = scene.stopwatch()
    while watch.seconds < 3 * lease:
        speaking.send("pong", nonce=1)
        nodding.acknowledge()
        scene.pump.for_seconds(lease / 3)
        for peer in (speaking, nodding):
            for error in peer.take("error"):
                watch.must_be_undisturbed()
                scene.fail(f"after {watch.seconds:.2f} s {peer.name} was told {scene.transcript.describe(error)}")


@case("LIV-5", "SES-7", seconds=30.0)
def a_session_that_is_resumed_has_its_lease_again(scene: Scene) -> None:
    """It was given up on one socket for a gap, goes on with another, and is then silent for half its lease."""
    peer = silent(scene, leaseSeconds=6.0)
    peer.send("ping", seq=3, nonce=7)
    peer.expect_error(CODES.SEQUENCE_GAP, clause="SES-5")
    peer.resume()
    scene.pump.until(lambda: bool(peer.inbox), 3.0)
    peer.expect_nothing("its lease is 6 s, and it was silent for 3")
    peer.fence(clause="LIV-5")


@case("LIV-11", "SES-11")
def an_expired_session_is_not_resumed(scene: Scene) -> None:
    peer = silent(scene)
    peer.expect_error(CODES.LEASE_EXPIRED, seconds=3.0, clause="LIV-11")
    peer.acknowledges = True
    welcome = peer.resume()
    scene.equal(welcome["resumed"], False, "resumed after the lease has expired", "SES-11")
    peer.fence(clause="SES-11")


@case("LIV-9", "LIV-4")
def a_ping_is_answered_at_once(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    for _ in range(50):
        watch = scene.stopwatch()
        peer.fence(clause="LIV-9")
        watch.not_after(0.5, "a Pong came")


@case("LIV-6", "LIV-5")
def who_hangs_up_may_come_back_within_the_grace(scene: Scene) -> None:
    """A server may shorten the lease of a peer without a connection, to no less than two heartbeats."""
    peer = scene.peer(timers={"heartbeatSeconds": 0.5, "leaseSeconds": 30.0})
    peer.fence()
    heartbeat = peer.welcome["timers"]["heartbeatSeconds"]
    line = peer.line
    assert line is not None
    scene.transcript.note(peer.name, "its connection breaks")
    line.close()
    peer.lines.remove(line)
    peer.is_open = False
    peer.pump.for_seconds(heartbeat)
    watch = scene.stopwatch()
    welcome = peer.resume()
    if not welcome["resumed"]:
        watch.must_be_undisturbed()
        scene.fail("a peer that came back after one heartbeat was not resumed", "LIV-6")
    peer.fence()
