"""Heartbeats, silence and leases, as any dialer keeps them (chapter 04). Heartbeat 0.25 s, lease 3 s."""

from __future__ import annotations

import time

from scaler_conformance.case import cases_for
from scaler_conformance.play.host import Guest
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Result, write_results

case = cases_for("worker", "client", "manager", layer="timing")

calls = cases_for("client", layer="timing")
processes = cases_for("worker", "manager", layer="timing")
#: for dialers that send nothing by themselves
talkers = cases_for("client", "manager", layer="timing")
#: in two seconds; a dialer that does not wait between its Hellos sends thousands
MOST_HELLOS = 60


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


@case("HSK-16")
def the_timers_of_the_welcome_are_in_force(scene: Scene) -> None:
    """A heartbeat of 0.25 s, whatever it asked for: within two seconds of silence it has asked for a sign of life."""
    guest = scene.guest()
    before = len(guest.history)
    watch = scene.stopwatch()
    watch.until(lambda: len(guest.history) > before + 1, 2.0, "it did not show life twice", "HSK-16")


@calls("LIV-3", fresh=True)
def who_talks_all_the_time_asks_for_a_sign_of_life_too(scene: Scene) -> None:
    """Tasks are submitted all the time, and the scheduler says nothing."""
    guest = scene.guest()
    heartbeat, _ = timers_of(guest)
    guest.fence()
    before = len(guest.history)
    for number in range(16):
        scene.testee.submit("echo", b"%d" % number)
        scene.pump.for_seconds(heartbeat / 2)
    pings = sum(message.kind == "ping" for message in guest.history[before:])
    scene.check(pings >= 2, f"{pings} Pings came in 8 heartbeats in which it was told nothing")


@talkers("LIV-2", fresh=True)
def who_is_talked_to_all_the_time_shows_life_too(scene: Scene) -> None:
    """Something comes five times in each heartbeat, and nothing that wants an answer."""
    guest = scene.guest()
    heartbeat, _ = timers_of(guest)
    guest.fence()
    guest.inbox.clear()
    before = len(guest.history)
    for _ in range(50):
        guest.acknowledge()
        scene.pump.for_seconds(heartbeat / 5)
    said = len(guest.history) - before
    scene.check(said >= 3, f"{said} messages came in 10 heartbeats in which it had nothing to say")


def _unhurried_client(scene: Scene) -> Guest:
    """It has nothing to say for a while, so that an acknowledgement is not due because time has passed."""
    scene.scheduler.timers = {"heartbeatSeconds": 20.0, "leaseSeconds": 60.0}
    scene.testee.ask("connect", scheduler=scene.scheduler.address, heartbeat=20.0, lease=60.0)
    guest = scene.scheduler.guest("client")
    guest.fence()
    return guest


def _turned_away(scene: Scene, answer: Message) -> int:
    """Its session is over, and each Hello from now on gets this answer. How many Hellos have come until now."""
    guest = scene.guest()
    guest.fence()
    scene.scheduler.answer_to_hello = answer
    known = len(scene.scheduler.hellos)
    guest.lose(CODES.NO_SESSION)
    return known


@processes("ERR-10", fresh=True)
def a_server_without_room_is_dialed_again(scene: Scene) -> None:
    host = scene.scheduler
    known = _turned_away(scene, Message("reject", {"code": CODES.OVERLOADED, "text": "there is no room now"}))
    watch = scene.stopwatch()
    watch.until(lambda: len(host.hellos) >= known + 3, 6.0, "it did not dial again after Reject OVERLOADED", "ERR-10")
    scene.check(len(host.hellos) - known < MOST_HELLOS, "it did not wait between its Hellos", "HSK-20")
    host.answer_to_hello = None
    known = len(host.guests)
    watch.until(lambda: len(host.guests) > known, 9.0, "it had no session when there was room again", "ERR-10")


@calls("SES-4", fresh=True)
def an_acknowledgement_comes_after_32_mebibytes(scene: Scene) -> None:
    guest = _unhurried_client(scene)
    target = guest.sent_seq + 1
    for _ in range(9):
        guest.send_batch("results", write_results([Result(new_id(), value=bytes(60_000)) for _ in range(64)]))
    watch = scene.stopwatch()
    watch.until(lambda: guest.acknowledged_seq >= target, 5.0, "34 MB came in, and no ack followed", "SES-4")


@case("HSK-20", fresh=True)
def who_is_sent_away_does_not_come_back_at_once(scene: Scene) -> None:
    """Every Hello is answered with an Error after which it may dial again."""
    scene.pump.watch = lambda: None  # it may end
    known = _turned_away(scene, Message("error", {"code": CODES.NO_SESSION, "fatal": True, "text": "not now"}))
    scene.pump.for_seconds(2.0)
    said = len(scene.scheduler.hellos) - known
    scene.check(said <= MOST_HELLOS, f"it said {said} Hellos in 2 s, each of which was sent away")


@calls("HSK-12", fresh=True)
def who_is_rejected_does_not_dial_again(scene: Scene) -> None:
    text = "this server has no clients any more"
    known = _turned_away(scene, Message("reject", {"code": CODES.BAD_ROLE, "text": text}))
    scene.pump.for_seconds(3.0)
    said = len(scene.scheduler.hellos) - known
    scene.check(said <= 2, f"it said {said} Hellos, and was rejected each time")


@calls("HSK-32", fresh=True)
def who_is_not_authorized_does_not_dial_again(scene: Scene) -> None:
    """It may read its key file again, which is the same, and dial once more."""
    scene.needs(scene.arena.key_file is not None, "keys are optional, and the manifest does not say `keys = true`")
    text = "the ticket has expired"
    known = _turned_away(scene, Message("reject", {"code": CODES.UNAUTHORIZED, "text": text}))
    scene.pump.for_seconds(3.0)
    said = len(scene.scheduler.hellos) - known
    scene.check(said <= 2, f"it said {said} Hellos, and was answered UNAUTHORIZED each time")


@calls("SES-4", fresh=True)
def an_acknowledgement_comes_although_nothing_is_to_be_said(scene: Scene) -> None:
    guest = _unhurried_client(scene)
    target = guest.sent_seq + 1
    for nonce in range(64):
        guest.send("pong", nonce=nonce)
    watch = scene.stopwatch()
    watch.until(lambda: guest.acknowledged_seq >= target, 5.0, "64 messages came in, and no ack followed", "SES-4")


@case("LIV-9", "WRK-21")
def a_ping_is_answered_at_once(scene: Scene) -> None:
    guest = scene.guest()
    for _ in range(20):
        watch = scene.stopwatch()
        guest.fence(clause="LIV-9")
        watch.not_after(0.5, "a Pong came")


@case("LIV-7", "SES-6", "HSK-1", fresh=True, seconds=30.0)
def silence_makes_it_redial(scene: Scene) -> None:
    guest = scene.guest()
    _, lease = timers_of(guest)
    guest.fence()
    host = scene.scheduler
    host.is_silent = True
    watch = scene.stopwatch()
    watch.until(lambda: bool(host.unheard_hellos), 0.75 * lease, "it did not dial again in the silence", "LIV-7")
    scene.equal(host.unheard_hellos[0]["resume"]["sessionId"], guest.session_id, "resume.sessionId", "SES-6")
    news = {routing_id for routing_id, message in host.unheard if message.kind == "hello"}
    early = [m.kind for routing_id, m in host.unheard if routing_id in news and m.kind not in ("hello", "bye")]
    scene.equal(early, [], "what came on the further socket before the Welcome", "HSK-1")
    host.is_silent = False


@case("SES-20", fresh=True, seconds=40.0)
def a_session_that_breaks_at_every_resume_is_given_up(scene: Scene) -> None:
    """Whoever asks for it has it again, and loses it before anything is said. Five times are enough."""
    guest = scene.guest()
    guest.fence()
    host = scene.scheduler
    host.breaks_resumes = True
    scene.pump.watch = lambda: None  # it may end
    known = len(host.hellos)
    guest.end(CODES.SEQUENCE_GAP)

    def asked() -> list[bool]:
        return [hello["resume"]["sessionId"] == guest.session_id for hello in host.hellos[known:]]

    # A sixth Hello may be what shows that the fifth resume has brought nothing.
    scene.pump.until(lambda: len(asked()) > 6 or not all(asked()) or not scene.subject.is_running, 12.0)
    scene.check(sum(asked()) >= 1, "it did not dial again", "SES-6")
    scene.check(sum(asked()) <= 6, f"it asked {sum(asked())} times for a session that broke at every resume")


@case("HSK-22", "HSK-21", "HSK-1", "HSK-20", fresh=True, seconds=40.0)
def a_hello_without_an_answer_is_said_again_with_a_higher_incarnation(scene: Scene) -> None:
    """Its session is over for good: then it begins anew, and nobody answers its Hellos."""
    guest = scene.guest()
    guest.fence()
    host = scene.scheduler
    host.is_silent = True
    guest.lose(CODES.NO_SESSION)
    scene.pump.watch = lambda: None
    scene.pump.until(lambda: any(len(numbers) > 1 for numbers in _incarnations(scene, guest).values()), 15.0)
    scene.check(len(scene.scheduler.unheard_hellos) >= 1, "it did not dial again", "SES-6")
    for numbers in _incarnations(scene, guest).values():
        scene.equal(numbers, sorted(set(numbers)), "the incarnations of Hellos without resume, in order", "HSK-22")


def _incarnations(scene: Scene, guest: Guest) -> dict[bytes, list[int]]:
    """By peerId, of all its Hellos that asked for no resume."""
    plain = {guest.peer_id: [int(guest.hello["incarnation"])]}
    for hello in scene.scheduler.unheard_hellos:
        if not hello["resume"]["sessionId"]:
            plain.setdefault(hello["peerId"], []).append(hello["incarnation"])
    return plain


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
