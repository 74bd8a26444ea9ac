"""A hostile server: the scheduler that the suite plays does one named illegal thing to whoever dials.

The dialer refuses it as its clause says. Then it goes on: in the same session, or in a next one where this one is over.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler_conformance.case import cases_for
from scaler_conformance.play import damage
from scaler_conformance.play.host import Guest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

from .dialer_session import redials

case = cases_for("worker", "client", "manager", layer="hostile")

#: A manager waits some seconds before it dials again.
BACK_SECONDS = 15.0

#: What is sent in the place of a Ping, and what to call that.
Variant = tuple[str, Callable[[list[bytes]], list[bytes]]]


def is_refused(scene: Scene, clause: str, *variants: Variant, code: int = CODES.BAD_ENVELOPE) -> None:
    """Each is answered with an Error of this code, and whoever sent it is still worked with."""
    scene.guest()
    for what, changed in variants:
        guest = present(scene)
        guest.fence()
        ping = encode(Message("ping", {"nonce": 1}, guest.next_seq(), guest.received_seq))
        guest.raw(changed(ping), what)
        guest.expect_error(code, clause=clause)
        guest.is_gone = not guest.is_open
    present(scene).fence()


def present(scene: Scene) -> Guest:
    """Its session, or the next one after that was broken off."""
    return scene.scheduler.guest(scene.role, BACK_SECONDS, "SES-11")


@case("FRM-7", "FRM-8", fresh=True, seconds=40.0)
def an_envelope_of_too_many_segments(scene: Scene) -> None:
    is_refused(
        scene,
        "FRM-7",
        ("Ping with 64 more segments, which are empty", lambda ping: [damage.with_segments(ping[0], 64)]),
        ("Ping with 100 more segments, which are empty", lambda ping: [damage.with_segments(ping[0], 100)]),
    )


@case("FRM-6", "FRM-8", fresh=True, seconds=40.0)
def bytes_behind_the_last_segment(scene: Scene) -> None:
    is_refused(
        scene,
        "FRM-6",
        ("Ping and a byte more in its frame", lambda ping: [ping[0] + b"x"]),
        ("Ping and a word more in its frame", lambda ping: [ping[0] + bytes(8)]),
    )


@case("FRM-8", "SES-13", fresh=True, seconds=60.0)
def an_envelope_cut_short(scene: Scene) -> None:
    is_refused(
        scene,
        "FRM-8",
        ("the first 4 bytes of a Ping", lambda ping: [ping[0][:4]]),
        ("the first word of a Ping", lambda ping: [ping[0][:8]]),
        ("Ping without its last word", lambda ping: [ping[0][:-8]]),
    )


@case("FRM-2", fresh=True, seconds=40.0)
def a_frame_that_is_promised_and_does_not_come(scene: Scene) -> None:
    promising = ("Ping that promises a payload frame", lambda ping: damage.promising(ping, 1))
    is_refused(scene, "FRM-2", promising, code=CODES.BAD_FRAMING)


@case("ERR-4", "ERR-5", fresh=True)
def five_hundred_errors(scene: Scene) -> None:
    guest = scene.guest()
    for number in range(500):
        guest.send("error", code=number, refSeq=number, text="no")
    guest.fence()
    for error in guest.take("error"):
        scene.fail(f"an Error was answered {scene.transcript.describe(error)}")


@case("SES-10", "HSK-17", fresh=True)
def the_welcome_comes_again(scene: Scene) -> None:
    """A Hello may be answered twice when it was on its way twice."""
    guest = scene.guest()
    guest.fence()
    known = len(scene.scheduler.hellos)
    for _ in range(20):
        scene.scheduler.welcome_again(guest)
    guest.fence()
    scene.equal(len(scene.scheduler.hellos), known, "the count of Hellos after a Welcome that came again")


@case("SES-9", "SES-6", "SES-18", fresh=True, seconds=60.0)
def a_server_that_loses_messages_again_and_again(scene: Scene) -> None:
    """Four times in a row a number is left out, with a message that arrives in between."""
    guest = scene.guest()
    for _ in range(4):
        guest.fence()
        guest.send_message(Message("ping", {"nonce": 1}, guest.sent_seq + 2, guest.received_seq))
        hello = redials(scene, guest, "SES-9", BACK_SECONDS)
        scene.equal(hello["resume"]["sessionId"], guest.session_id, "resume.sessionId", "SES-6")
    guest.fence(clause="SES-18")
