"""How any dialer meets a server and keeps its session (chapters 02 to 04 and 11)."""

from __future__ import annotations

from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play import damage
from scaler_conformance.play.host import Guest
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("worker", "client", "manager")
#: of those who are sent columns of ids
batches = cases_for("worker", "client")
workers, managers = cases_for("worker"), cases_for("manager")
REDIAL_SECONDS = 10.0
HELLO_BYTES = 65_536


def redials(scene: Scene, guest: Guest, clause: str, seconds: float = REDIAL_SECONDS) -> Message:
    """It says Hello on a further socket; that Hello, for there may be others behind it."""
    known = len(scene.scheduler.hellos)
    scene.pump.until(lambda: len(scene.scheduler.hellos) > known, seconds)
    scene.check(len(scene.scheduler.hellos) > known, f"it did not dial again within {seconds:g} s", clause)
    return scene.scheduler.hellos[known]


@case("HSK-1", "SES-1", "FRM-1")
def the_first_message_is_a_hello(scene: Scene) -> None:
    guest = scene.guest()
    hello = guest.hello
    scene.equal((hello.seq, hello.ack), (0, 0), "seq and ack of the Hello", "SES-1")
    host = scene.scheduler
    silent = [message.kind for routing_id, message in host.strangers if routing_id not in host.routing_ids]
    scene.equal(silent, [], "messages from sockets that had said no Hello")
    guest.fence()


@case("HSK-4", "HSK-1")
def the_hello_says_who_it_is(scene: Scene) -> None:
    hello = scene.guest().hello
    scene.equal(len(hello["peerId"]), 16, "the length of peerId")
    scene.check(len(set(hello["peerId"])) > 4, f"peerId is {hello['peerId'].hex()}, which is not random")
    scene.check(hello["versionMin"] <= 1 <= hello["versionMax"], "version 1 is not in its range", "HSK-1")


@case("FRM-3")
def every_socket_has_a_routing_id_of_its_own(scene: Scene) -> None:
    guest = scene.guest()
    first = guest.routing_id
    scene.equal(len(first), 16, "the length of the routing id")
    scene.check(first[0] != 0, "the routing id begins with zero")
    scene.check(first != guest.peer_id, "the routing id is the peerId: it names a socket, not a peer")
    _lose_connection(guest)
    redials(scene, guest, "SES-9")
    second = scene.scheduler.routing_ids[-1]
    scene.equal(len(second), 16, "the length of the routing id")
    scene.check(second != first, "another socket has the same routing id")


def _lose_connection(guest: Guest) -> None:
    """As if messages had been lost: the next one has a number too high, and is not kept."""
    seq = guest.sent_seq + 2
    guest.send_message(Message("ping", {"nonce": 1}, seq, guest.received_seq))


@case("LIM-2", "LIV-1")
def what_it_offers_is_within_the_bounds(scene: Scene) -> None:
    limits = scene.guest().hello["limits"]
    floors = {"inlineBytes": 1024, "payloadFrameBytes": 8 << 20, "batchTasks": 1, "envelopeBytes": 65_536}
    for name, floor in floors.items():
        offered = limits[name]
        scene.check(offered == 0 or offered >= floor, f"limits.{name} is {offered}, below the floor {floor}", "LIM-2")


@case("LIM-20")
def its_hello_is_one_that_a_server_has_to_read(scene: Scene) -> None:
    size = len(encode(scene.guest().hello)[0])
    scene.check(size <= HELLO_BYTES, f"its Hello has {size} bytes and {HELLO_BYTES} are allowed", "LIM-20")


@case("LIV-4", "SES-1", "SES-3")
def every_ping_has_one_pong(scene: Scene) -> None:
    guest = scene.guest()
    for nonce in (0, 7, 1 << 40, 7):
        guest.send("ping", nonce=nonce)
    guest.fence()
    scene.equal(scene.transcript.pong_nonces(guest.name), [0, 7, 1 << 40, 7], "the nonces of the Pongs")


@case("SES-2", "LIV-4")
def messages_are_handed_on_once_and_in_order(scene: Scene) -> None:
    guest = scene.guest()
    nonces = [1_000 + number for number in range(40)]
    for nonce in nonces:
        guest.send("ping", nonce=nonce)
    guest.fence()
    scene.equal(scene.transcript.pong_nonces(guest.name), nonces, "the nonces of the Pongs")


@case("SES-10", "SES-2")
def a_message_that_comes_twice_counts_once(scene: Scene) -> None:
    guest = scene.guest()
    seq = guest.send("ping", nonce=77)
    known = len(scene.scheduler.hellos)
    for again in (seq, seq, 1):
        guest.send_message(Message("ping", {"nonce": 77}, again, guest.received_seq))
    guest.fence()
    scene.equal(len(scene.scheduler.hellos), known, "the count of Hellos: a message that came before is no gap")
    scene.equal(scene.transcript.pong_nonces(guest.name).count(77), 1, "the count of Pongs for one Ping")


@case("SES-4")
def an_acknowledgement_comes_after_64_messages(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    target = guest.sent_seq + 1
    for nonce in range(64):
        guest.send("pong", nonce=nonce)
    scene.pump.until(lambda: guest.acknowledged_seq >= target, 2.0)
    scene.check(guest.acknowledged_seq >= target, "64 messages came in, and no ack followed within 2 s")


@case("SES-9", "SES-6", "HSK-4")
def a_gap_makes_it_redial_and_resume(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    sent = guest.sent_seq
    _lose_connection(guest)
    hello = redials(scene, guest, "SES-9")
    scene.check(hello["resume"]["sessionId"] != 0, "it begins a new session instead of resuming", "SES-9")
    scene.equal(hello["peerId"], guest.peer_id, "peerId of the Hello on the further socket", "HSK-4")
    scene.equal(hello["resume"]["sessionId"], guest.session_id, "resume.sessionId", "SES-6")
    scene.equal(hello["resume"]["receivedSeq"], sent, "resume.receivedSeq: nothing after the gap counts", "SES-6")
    guest.fence(clause="SES-18")


@case("SES-6", "SES-18")
def sequence_gap_and_no_session_make_it_resume(scene: Scene) -> None:
    guest = scene.guest()
    for code in (CODES.SEQUENCE_GAP, CODES.NO_SESSION):
        guest.fence()
        guest.end(code)
        hello = redials(scene, guest, "SES-6")
        scene.equal(hello["resume"]["sessionId"], guest.session_id, "resume.sessionId")
        guest.fence(clause="SES-18")


@case("SES-6", "SES-11", fresh=True)
def an_expired_lease_makes_it_ask_for_its_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    guest.lose(CODES.LEASE_EXPIRED)
    hello = redials(scene, guest, "SES-11")
    scene.equal(hello["resume"]["sessionId"], guest.session_id, "resume.sessionId")


@case("SES-18", "SES-8", "SES-2")
def what_the_server_lacks_is_sent_again(scene: Scene) -> None:
    """The server claims to have lost the last three messages, and never acknowledged them."""
    guest = scene.guest()
    guest.fence()
    guest.acknowledges = False
    acknowledged = guest.received_seq
    for nonce in (901, 902, 903):
        guest.send_message(Message("ping", {"nonce": nonce}, guest.next_seq(), acknowledged))
    scene.pump.until(lambda: scene.transcript.pong_nonces(guest.name)[-3:] == [901, 902, 903], 5.0)
    before = len(scene.transcript.pong_nonces(guest.name))
    scene.scheduler.forgets = guest.received_seq - acknowledged
    guest.acknowledges = True
    guest.end(CODES.SEQUENCE_GAP, ack=acknowledged)
    redials(scene, guest, "SES-6")
    guest.fence(clause="SES-18")
    again = scene.transcript.pong_nonces(guest.name)[before:]
    scene.equal([nonce for nonce in again if nonce > 900], [901, 902, 903], "the Pongs that were sent again")


@case("SES-8", "SES-18", fresh=True)
def what_was_never_acknowledged_is_sent_again_at_every_resume(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    guest.acknowledges, guest.about = False, "SES-8"
    acknowledged = guest.received_seq
    guest.send_message(Message("ping", {"nonce": 901}, guest.next_seq(), acknowledged))
    for round_number in range(1, 4):

        def came_again(count: int = round_number) -> bool:
            return scene.transcript.pong_nonces(guest.name).count(901) >= count

        scene.pump.until(came_again, REDIAL_SECONDS)
        scene.check(came_again(), f"a Pong was acknowledged never, and did not come after resume {round_number - 1}")
        scene.scheduler.forgets = guest.received_seq - acknowledged
        guest.end(CODES.SEQUENCE_GAP, ack=acknowledged)


@case("SES-16", fresh=True)
def what_is_refused_counts_as_received(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    seq = guest.next_seq()
    frames = damage.with_tag(encode(Message("ping", {"nonce": 1}, seq, guest.received_seq)), 300)
    guest.raw(frames, f"#{seq}   a message of the unknown kind 300")
    guest.expect("error", clause="ERR-2")
    guest.fence(clause="SES-16")


@case("ERR-2", "ERR-1", "ERR-8", "ERR-9", "SES-16")
def an_unknown_kind_is_refused_and_the_session_goes_on(scene: Scene) -> None:
    guest = scene.guest()
    for tag in (300, 65_535):
        seq = guest.next_seq()
        frames = damage.with_tag(encode(Message("ping", {"nonce": 1}, seq, guest.received_seq)), tag)
        guest.raw(frames, f"#{seq}   a message of the unknown kind {tag}")
        guest.expect_error(CODES.UNKNOWN_MESSAGE, ref_seq=seq, fatal=False)
        guest.fence(clause="ERR-2")


@case("HSK-28", "ERR-9", "SES-16")
def what_a_dialer_may_not_receive_is_refused(scene: Scene) -> None:
    """Messages that are in order, and for dialers of other roles."""
    guest = scene.guest()
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "client": ("recall", {"ids": new_id()}),
        "worker": ("explanation", {"requestId": 1}),
        "manager": ("recall", {"ids": new_id()}),
    }
    kind, body = others[scene.role]
    for message, fields in ((kind, body), ("snapshotRequest", {"requestId": 7})):
        seq = guest.send(message, **fields)
        guest.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False)
        guest.fence(clause="HSK-28")


@case("FRM-2", "SES-16")
def a_wrong_count_of_frames_is_refused(scene: Scene) -> None:
    guest = scene.guest()
    for extra in (1, 2, 4):
        seq = guest.next_seq()
        frames = [*encode(Message("ping", {"nonce": 1}, seq, guest.received_seq)), *[b"x"] * extra]
        guest.raw(frames, f"#{seq}   Ping with {extra} frames that it does not tell of")
        guest.expect_error(CODES.BAD_FRAMING, ref_seq=seq, fatal=False)
    guest.fence()


@batches("FRM-8", "SES-16")
def an_id_of_another_length_is_refused(scene: Scene) -> None:
    guest = scene.guest()
    kind = "recall" if guest.role == "worker" else "cancelReply"
    seq = guest.next_seq()
    guest.raw(encode(Message(kind, {"ids": b"short"}, seq, guest.received_seq)), f"#{seq}   {kind} with half an id")
    guest.expect_error(CODES.BAD_ENVELOPE, CODES.BAD_BATCH, ref_seq=seq, fatal=False)
    guest.fence()


@case("EVO-2", "HSK-2")
def unknown_fields_are_ignored(scene: Scene) -> None:
    guest = scene.guest()
    seq = guest.next_seq()
    frames = damage.grown(encode(Message("ping", {"nonce": 4_321}, seq, guest.received_seq)))
    guest.raw(frames, f"#{seq}   Ping with fields that this version does not know")
    guest.fence(clause="EVO-2")
    scene.check(4_321 in scene.transcript.pong_nonces(guest.name), "the Ping of a newer version got no Pong", "EVO-2")


@case("ERR-4", "ERR-5")
def an_error_is_not_answered_with_an_error(scene: Scene) -> None:
    guest = scene.guest()
    for code in (CODES.UNKNOWN_TASK, 61_234, 0):
        guest.send("error", code=code, refSeq=0, text="no")
    guest.fence(clause="ERR-5")
    for error in guest.take("error"):
        scene.fail(f"an Error was answered {scene.transcript.describe(error)}")


@case("SES-23", "ERR-9")
def a_message_without_the_number_it_needs_is_refused(scene: Scene) -> None:
    guest = scene.guest()
    guest.send_message(Message("ping", {"nonce": 7}, 0, guest.received_seq))
    guest.expect_error(CODES.BAD_ENVELOPE, ref_seq=0, fatal=False)
    seq = guest.send("acknowledge")
    guest.expect_error(CODES.BAD_ENVELOPE, ref_seq=seq, fatal=False)
    guest.fence()
    scene.check(7 not in scene.transcript.pong_nonces(guest.name), "a Ping without a number got a Pong")


@case("SES-15", "ERR-6", fresh=True)
def an_impossible_acknowledgement_ends_the_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    guest.checks_laws = False
    routing_id = guest.routing_id
    seq = guest.next_seq()
    guest.send_message(Message("ping", {"nonce": 5}, seq, guest.received_seq + 1000))
    guest.expect_error(CODES.BAD_ENVELOPE, fatal=True)
    scene.pump.watch = lambda: None  # it may end
    guest.raw(encode(Message("ping", {"nonce": 6}, seq, guest.received_seq)), f"#{seq}   Ping after its fatal Error")
    scene.pump.for_seconds(0.5)
    said = scene.scheduler.stray(routing_id)
    scene.check("pong" not in said, "a Ping was answered after a fatal Error on that socket", "ERR-6")


@case("SES-13", "FRM-8", "FRM-9", fresh=True)
def what_has_no_readable_number_ends_the_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    guest.raw([b"\xff" * 64], "64 bytes of noise")
    guest.expect_error(CODES.BAD_ENVELOPE, fatal=True, ref_seq=0)


@case("FRM-4", fresh=True)
def an_envelope_above_the_limit_is_refused(scene: Scene) -> None:
    guest = scene.guest()
    seq = guest.next_seq()
    large = Message("error", {"code": 54_321, "text": "x" * (5 << 20)}, seq, guest.received_seq)
    guest.raw(encode(large), f"#{seq}   an Error with a text of 5 MiB")
    guest.expect_error(CODES.TOO_LARGE)


@case("SES-24", fresh=True)
def a_resume_that_cannot_be_is_a_lost_session(scene: Scene) -> None:
    """The server claims to have received more than was ever sent."""
    guest = scene.guest()
    guest.fence()
    guest.received_seq += 1000
    guest.end(CODES.SEQUENCE_GAP, ack=guest.sent_seq)
    _is_given_up(scene, guest)


@case("SES-24", fresh=True)
def a_resume_with_less_than_was_acknowledged_is_a_lost_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    guest.acknowledge()
    guest.fence()
    scene.scheduler.forgets = guest.received_seq
    guest.end(CODES.SEQUENCE_GAP, ack=guest.received_seq)
    _is_given_up(scene, guest)


def _is_given_up(scene: Scene, guest: Guest) -> None:
    """It asks for the session once more, is told what cannot be, and does not go on in it."""
    guest.checks_laws = False
    known = len(scene.scheduler.hellos)
    scene.pump.watch = lambda: None
    scene.pump.until(lambda: len(scene.scheduler.hellos) > known, REDIAL_SECONDS)
    heard = len(guest.history)
    scene.pump.until(lambda: len(scene.scheduler.hellos) > known + 1, 2.0)
    again = [hello for hello in scene.scheduler.hellos[known + 1 :] if hello["resume"]["sessionId"] == guest.session_id]
    scene.equal(len(again), 0, "the count of Hellos that ask for the impossible session once more")
    after = [message.kind for message in guest.history[heard:] if message.kind not in ("error", "bye")]
    scene.equal(after, [], "what it said in that session after the Welcome, Error and Bye aside")


@case("SES-11", "SES-1", "SES-6", fresh=True, seconds=30.0)
def a_session_that_the_server_has_forgotten_begins_anew(scene: Scene) -> None:
    """The Welcome says `resumed` false, and names another session: numbers begin with 1."""
    guest = scene.guest()
    guest.fence()
    known = len(scene.scheduler.guests)
    guest.lose(CODES.NO_SESSION)
    scene.pump.until(lambda: len(scene.scheduler.guests) > known, REDIAL_SECONDS)
    scene.check(len(scene.scheduler.guests) > known, "it did not dial again", "SES-6")
    again = scene.scheduler.guests[known]  # a quick client has left it for the next one by now
    again.about = "SES-11"
    if scene.role == "client":  # it begins again under another peerId (CLI-8)
        again.expect("bye", seconds=REDIAL_SECONDS)
    else:
        again.fence()


@workers("WRK-25", fresh=True)
def a_worker_that_has_lost_its_session_dials_for_another(scene: Scene) -> None:
    _dials_or_ends(scene, "WRK-25")


@managers("MGR-18", fresh=True)
def a_manager_that_has_lost_its_session_dials_for_another(scene: Scene) -> None:
    _dials_or_ends(scene, "MGR-18")


def _dials_or_ends(scene: Scene, clause: str) -> None:
    """The session is over for good: there is nothing to resume."""
    guest = scene.guest()
    guest.fence()
    known = len(scene.scheduler.hellos)
    scene.pump.watch = lambda: None  # it may end
    guest.lose(CODES.OVERLOADED)

    def does_one() -> bool:
        return len(scene.scheduler.hellos) > known or not scene.subject.is_running

    scene.pump.until(does_one, REDIAL_SECONDS)
    scene.check(does_one(), f"it neither dialed again nor ended within {REDIAL_SECONDS:g} s", clause)


@case("HSK-27", fresh=True)
def a_welcome_of_another_version_opens_no_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    host = scene.scheduler
    host.version = guest.hello["versionMax"] + 1
    known = len(host.guests)
    guest.lose(CODES.NO_SESSION)
    redials(scene, guest, "SES-6")
    scene.pump.watch = lambda: None  # it may end
    scene.pump.for_seconds(1.5)
    said = [message.kind for other in host.guests[known:] for message in other.history]
    offered = f"what it said after a Welcome of version {host.version}, Error and Bye aside"
    scene.equal([kind for kind in said if kind not in ("error", "bye")], [], offered)


@case("ERR-5", fresh=True)
def a_fatal_error_of_an_unknown_code_ends_the_session(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    scene.pump.watch = lambda: None  # it may end
    known = len(scene.scheduler.hellos)
    guest.end(61_234)  # a reason of a later version
    guest.is_open = False
    routing_id = guest.routing_id
    scene.pump.for_seconds(1.5)
    said = scene.scheduler.stray(routing_id)
    scene.equal([kind for kind in said if kind not in ("acknowledge", "bye")], [], "what it said in that session")
    resumed = [m for m in scene.scheduler.hellos[known:] if m["resume"]["sessionId"] == guest.session_id]
    scene.equal(len(resumed), 0, "the count of Hellos that ask for that session once more")


@case("HSK-26", "HSK-1", fresh=True)
def what_comes_before_the_welcome_is_not_answered(scene: Scene) -> None:
    """A Ping and a kind that nobody knows, instead of a Welcome. It may give up on that socket, and say nothing."""
    guest = scene.guest()
    guest.fence()
    host = scene.scheduler
    host.noise_before_welcome = [
        encode(Message("ping", {"nonce": 66}, 1)),
        damage.with_tag(encode(Message("ping", {"nonce": 67}, 2)), 9_999),
    ]
    scene.pump.watch = lambda: None
    host.is_silent = True
    _lose_connection(guest)
    has_redialed = scene.pump.until(lambda: bool(host.unheard_hellos), REDIAL_SECONDS)
    scene.check(has_redialed, "it did not dial again", "SES-9")
    scene.pump.for_seconds(0.5)
    fresh = {routing_id for routing_id, message in host.unheard if message.kind == "hello"}
    said = [message.kind for routing_id, message in host.unheard if routing_id in fresh and message.kind != "hello"]
    scene.equal(said, [], "what it said on the further socket before the Welcome, Hello aside")


@case("SES-22", fresh=True)
def who_was_replaced_does_not_come_back(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    known = len(scene.scheduler.hellos)
    scene.pump.watch = lambda: None  # it may end
    guest.end(CODES.SESSION_REPLACED)
    guest.is_open = False
    scene.pump.for_seconds(2.0)
    again = [hello for hello in scene.scheduler.hellos[known:] if hello["peerId"] == guest.peer_id]
    scene.equal(len(again), 0, "the count of Hellos under the peerId that was replaced")


@case("LIV-8", "LIV-13", fresh=True)
def nothing_comes_after_a_bye_of_the_server(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    routing_id = guest.routing_id
    scene.pump.watch = lambda: None  # it may end
    guest.send("bye", code=CODES.SHUTTING_DOWN)
    guest.is_open = False
    scene.pump.for_seconds(1.0)
    after = scene.scheduler.stray(routing_id)
    told = [kind for kind in after if kind != "acknowledge"]
    scene.equal(told, [], "what came after the Bye, acknowledgements aside", "LIV-13")
    scene.check(len(after) <= 1, f"{len(after)} Acknowledges came after the Bye", "LIV-13")


@case("LIV-14", "LIV-8", fresh=True)
def who_leaves_says_bye(scene: Scene) -> None:
    guest = scene.guest()
    guest.fence()
    scene.pump.watch = lambda: None
    if scene.role == "client":
        scene.testee.tell("close")
    else:
        scene.subject.process.terminate()
    guest.expect("bye", seconds=10.0, clause="LIV-14")
    scene.pump.for_seconds(0.2)
    after = scene.scheduler.stray(guest.routing_id)
    scene.equal([kind for kind in after if kind != "acknowledge"], [], "what came after its own Bye", "LIV-8")
