"""Heartbeats, silence and leases, as any dialer keeps them (chapter 04). Heartbeat 0.25 s, lease 3 s."""

from __future__ import annotations

import time

from scaler_conformance.case import cases_for
from scaler_conformance.play.host import Guest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("worker", "client", "manager", layer="timing")


def timers_of(guest: Guest) -> tuple[float, float]:
    timers = guest.host.timers
    return timers["heartbeatSeconds"], timers["leaseSeconds"]


@case("LIV-2", "LIV-3", "HSK-16")
def it_shows_life_every_heartbeat(scene: Scene) -> None:
    """The server says nothing at all: it is asked, and never left without a word for long."""
    guest = scene.guest()
    heartbeat, _ = timers_of(guest)
    guest.fence()
    watch = scene.stopwatch()
    heard, longest, pings = time.monotonic(), 0.0, 0
    before = len(guest.history)
    while watch.seconds < 12 * heartbeat:
        scene.pump.turn(0.02)
        longest = max(longest, time.monotonic() - max(heard, guest.heard_at))
        heard = guest.heard_at
    pings = sum(message.kind == "ping" for message in guest.history[before:])
    if longest > watch.latest(2 * heartbeat):
        watch.must_be_undisturbed()
        scene.fail(f"nothing came for {longest:.2f} s, and the heartbeat is {heartbeat:g} s", "LIV-2")
    scene.check(pings >= 2, f"{pings} Pings came in 12 heartbeats", "LIV-3")
    scene.check(pings <= 48, f"{pings} Pings came in 12 heartbeats: more than one in each time without an answer")


@case("LIV-9", "WRK-21")
def a_ping_is_answered_at_once(scene: Scene) -> None:
    guest = scene.guest()
    for _ in range(20):
        watch = scene.stopwatch()
        guest.fence(clause="LIV-9")
        if watch.seconds > watch.latest(0.5):
            watch.must_be_undisturbed()
            scene.fail(f"a Pong took {watch.seconds:.2f} s")


@case("LIV-7", "SES-6", fresh=True, seconds=30.0)
def silence_makes_it_redial(scene: Scene) -> None:
    guest = scene.guest()
    _, lease = timers_of(guest)
    guest.fence()
    host = scene.scheduler
    host.is_silent = True
    watch = scene.stopwatch()

    def has_redialed() -> bool:
        return any(message.kind == "hello" for _, message in host.unheard)

    watch.until(has_redialed, 0.75 * lease, "it did not dial again while the server was silent", "LIV-7")
    hello = next(message for _, message in host.unheard if message.kind == "hello")
    scene.equal(hello["resume"]["sessionId"], guest.session_id, "resume.sessionId", "SES-6")
    news = {routing_id for routing_id, message in host.unheard if message.kind == "hello"}
    early = [m.kind for routing_id, m in host.unheard if routing_id in news and m.kind not in ("hello", "bye")]
    scene.equal(early, [], "what came on the further socket before the Welcome", "HSK-1")
    host.is_silent = False


@case("HSK-22", "HSK-21", "HSK-1", "HSK-20", fresh=True, seconds=40.0)
def a_hello_without_an_answer_is_said_again_with_a_higher_incarnation(scene: Scene) -> None:
    """Its session is over for good: then it begins anew, and nobody answers its Hellos."""
    guest = scene.guest()
    guest.fence()
    host = scene.scheduler
    host.is_silent = True
    guest.is_gone, guest.is_open = True, False
    guest.send_message(Message("error", {"code": CODES.NO_SESSION, "fatal": True, "text": "redial"}))
    scene.pump.watch = lambda: None
    scene.pump.until(lambda: len(_hellos(scene)) >= 3, 12.0)
    hellos = _hellos(scene)
    scene.check(len(hellos) >= 1, "it did not dial again", "SES-6")
    plain: dict[bytes, list[int]] = {}
    for hello in hellos:
        if not hello["resume"]["sessionId"]:
            plain.setdefault(hello["peerId"], [hello["incarnation"]]).append(hello["incarnation"])
    for numbers in plain.values():
        scene.equal(numbers[1:], sorted(set(numbers)), "the incarnations of Hellos without resume, in order", "HSK-22")


def _hellos(scene: Scene) -> list[Message]:
    return [message for _, message in scene.scheduler.unheard if message.kind == "hello"]


@case("LIV-12", "SES-11", fresh=True, seconds=40.0)
def a_session_that_cannot_be_resumed_is_lost_after_the_lease(scene: Scene) -> None:
    """No server answers for longer than the lease; then one does, that would still resume the old session."""
    guest = scene.guest()
    _, lease = timers_of(guest)
    guest.fence()
    host = scene.scheduler
    host.is_silent = True
    scene.pump.watch = lambda: None
    scene.pump.for_seconds(lease * 1.5 + 0.5)
    host.is_silent = False
    known = len(host.hellos)
    scene.pump.until(lambda: len(host.hellos) > known, 10.0)
    for hello in host.hellos[known:]:
        asked = hello["resume"]["sessionId"]
        scene.check(asked != guest.session_id, "it resumes a session that it had to consider lost", "LIV-12")
