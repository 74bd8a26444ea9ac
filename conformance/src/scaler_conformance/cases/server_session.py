"""The numbered conversation, as any server keeps it (chapter 03)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer, Line
from scaler_conformance.play.samples import samples
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("scheduler", "storage")


def line_of(peer: Dialer) -> Line:
    assert peer.line is not None
    return peer.line


@case("SES-1", "SES-3", "SES-2")
def numbers_rise_by_one_and_acknowledge_what_has_come(scene: Scene) -> None:
    """The laws are checked with every message; this makes many of them."""
    peer = scene.peer()
    for nonce in range(40):
        peer.send("ping", nonce=1000 + nonce)
    peer.fence()
    scene.equal(len(scene.transcript.pong_nonces(peer.name)), 40, "the count of Pongs", "LIV-4")


@case("SES-4")
def an_acknowledgement_comes_after_64_messages(scene: Scene) -> None:
    """Messages that need no answer: the server has to acknowledge by itself."""
    peer = scene.peer()
    peer.fence()
    before = peer.acknowledged_seq
    peer.shows_life = False  # a Pong would bring the ack as well
    for nonce in range(64):
        peer.send("pong", nonce=nonce)
    peer.pump.until(lambda: peer.acknowledged_seq > before, 2.0)
    scene.check(peer.acknowledged_seq > before, "64 messages came in, and no ack followed within 2 s")


@case("SES-4", "SES-3")
def a_pong_acknowledges_everything_up_to_its_ping(scene: Scene) -> None:
    peer = scene.peer()
    for nonce in range(3):
        peer.send("pong", nonce=nonce)
    seq = peer.sent_seq + 1
    pong = peer.fence()
    scene.equal(pong.ack, seq, "the ack of the Pong", "SES-4")


@case("SES-10", "SES-2")
def a_message_that_comes_twice_counts_once(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    seq = peer.send("ping", nonce=77)
    for again in (seq, seq, 1):
        peer.send_message(Message("ping", {"nonce": 77}, again, peer.received_seq))
    peer.fence()
    count = scene.transcript.pong_nonces(peer.name).count(77)
    scene.equal(count, 1, "the count of Pongs for a Ping that was sent four times with one number", "SES-10")
    peer.expect_nothing("a message that was there already is dropped without an error")


@case("SES-5")
def a_gap_is_told_and_nothing_more_is_accepted_there(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    peer.send_message(Message("ping", {"nonce": 5}, peer.sent_seq + 2, peer.received_seq))
    peer.expect_error(CODES.SEQUENCE_GAP, fatal=True)
    seq = peer.sent_seq + 1
    peer.send_message(Message("ping", {"nonce": 6}, seq, peer.received_seq))
    peer.expect_error(CODES.NO_SESSION, clause="SES-5")
    welcome = peer.resume()
    scene.equal(welcome["resumed"], True, "resumed after a gap: the session is kept", "SES-5")
    scene.equal(welcome["receivedSeq"], peer.sent_seq, "receivedSeq: nothing after the gap counts", "SES-5")
    peer.fence(clause="SES-5")


@case("SES-7", "SES-11")
def a_session_is_resumed_where_it_was(scene: Scene) -> None:
    peer = scene.peer()
    for _ in range(3):
        peer.fence()
    before = dict(peer.welcome)
    welcome = peer.resume()
    scene.equal(welcome["resumed"], True, "resumed", "SES-7")
    for name in ("sessionId", "serverId", "version", "limits", "timers", "features"):
        scene.equal(welcome[name], before[name], f"{name} of the resumed session", "SES-7")
    scene.equal(welcome["receivedSeq"], peer.sent_seq, "receivedSeq", "SES-7")
    peer.fence(clause="SES-18")


@case("SES-18", "SES-8")
def what_the_dialer_lacks_is_sent_again_in_order(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    peer.acknowledge()
    had = peer.received_seq
    for nonce in (501, 502, 503):
        peer.send_message(Message("ping", {"nonce": nonce}, peer.next_seq(), had))
    peer.pump.until(lambda: peer.received_seq >= had + 3, 5.0)
    peer.received_seq = had  # as if these three had been lost
    before = len(scene.transcript.pong_nonces(peer.name))
    welcome = peer.resume()
    scene.equal(welcome["resumed"], True, "resumed", "SES-7")
    peer.send("ping", nonce=504)
    peer.pump.until(lambda: peer.received_seq >= had + 4, 5.0)
    nonces = scene.transcript.pong_nonces(peer.name)[before:]
    scene.equal(nonces, [501, 502, 503, 504], "the Pongs after the resume", "SES-18")


@case("SES-18", "SES-8")
def it_is_sent_again_after_every_resume_until_it_is_acknowledged(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    peer.acknowledge()
    had = peer.received_seq
    peer.send_message(Message("ping", {"nonce": 600}, peer.next_seq(), had))
    for _ in range(3):
        peer.pump.until(lambda: peer.received_seq > had, 5.0)
        scene.check(peer.received_seq > had, "a message that was never acknowledged was not sent again", "SES-8")
        peer.received_seq = had
        peer.resume()
        peer.about = "SES-8"
    peer.pump.until(lambda: peer.received_seq > had, 5.0)
    scene.check(peer.received_seq > had, "a message that was never acknowledged was not sent again", "SES-8")


@case("SES-17", "HSK-9")
def the_old_socket_of_a_resumed_session_has_none(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    old = line_of(peer)
    peer.resume()
    peer.about = "SES-17"
    peer.transcript.note(peer.name, "sends a Ping on the socket that it has left")
    old.send(encode(Message("ping", {"nonce": 9}, peer.sent_seq + 1, peer.received_seq)))
    old.expect_error(CODES.NO_SESSION, "SES-17")
    peer.fence(clause="SES-17")
    peer.expect_nothing("what comes on the old socket does not touch the session", "SES-17")


@case("SES-11")
def a_session_that_is_not_there_begins_anew(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    peer.dial(resume={"sessionId": 987_654_321, "receivedSeq": 12})
    welcome = peer.expect_welcome("SES-11")
    scene.equal(welcome["resumed"], False, "resumed", "SES-11")
    scene.equal(welcome["receivedSeq"], 0, "receivedSeq", "SES-11")
    scene.check(welcome["sessionId"] not in (0, 987_654_321), f"sessionId is {welcome['sessionId']}", "SES-11")
    peer.fence(clause="SES-1")


@case("SES-19")
def sessions_have_numbers_of_their_own(scene: Scene) -> None:
    peers = [scene.peer() for _ in range(5)]
    numbers = [peer.welcome["sessionId"] for peer in peers]
    peers[0].leave()
    numbers.append(scene.peer().welcome["sessionId"])
    scene.check(0 not in numbers, "a sessionId is zero")
    scene.check(len(set(numbers)) == len(numbers), f"sessions share a number: {numbers}")


@case("SES-12", "SES-21")
def a_hello_that_neither_resumes_nor_repeats_replaces(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    old, session = line_of(peer), peer.welcome["sessionId"]
    peer.is_open = False
    peer.incarnation += 1
    peer.about = "SES-12"
    peer.dial()
    welcome = peer.expect_welcome("SES-12")
    scene.check(welcome["sessionId"] != session, "the session is the old one", "SES-12")
    scene.equal(welcome["resumed"], False, "resumed", "SES-12")
    error = old.expect_error(CODES.SESSION_REPLACED, "SES-21")
    scene.equal(error["fatal"], True, "fatal of SESSION_REPLACED", "SES-21")
    peer.fence(clause="SES-12")


@case("SES-15")
def an_impossible_acknowledgement_ends_the_session(scene: Scene) -> None:
    for kind, beyond in (("ping", 1), ("ping", 1000), ("acknowledge", 1), ("acknowledge", 1000)):
        peer = scene.peer()
        peer.fence()
        seq = peer.next_seq() if kind == "ping" else 0
        body = {"nonce": 1} if kind == "ping" else {}
        peer.send_message(Message(kind, body, seq, peer.received_seq + beyond))
        peer.expect_error(CODES.BAD_ENVELOPE, fatal=True)


@case("SES-23", "SES-1")
def a_message_without_the_number_it_needs_is_refused(scene: Scene) -> None:
    """And one with a number that stands outside the sequence."""
    peer = scene.peer()
    peer.fence()
    peer.send_message(Message("ping", {"nonce": 7}, 0, peer.received_seq))
    peer.expect_error(CODES.BAD_ENVELOPE, ref_seq=0, fatal=False)
    seq = peer.next_seq()
    frames = encode(Message("acknowledge", {}, seq, peer.received_seq))
    peer.refused(frames, f"#{seq}   Acknowledge with a number", CODES.BAD_ENVELOPE, ref_seq=seq)
    scene.check(7 not in scene.transcript.pong_nonces(peer.name), "a Ping without a number got a Pong", "SES-23")


@case("SES-16")
def a_refused_message_counts_as_received(scene: Scene) -> None:
    peer = scene.peer()
    kind = "results" if scene.role == "storage" else "put"
    sample = samples()[kind]
    seq = peer.send(kind, payload=sample.payload[0], **sample.body)
    peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq)
    welcome = peer.resume()
    scene.equal(welcome["receivedSeq"], seq, "receivedSeq after a refused message", "SES-16")
    peer.fence(clause="SES-16")


@case("SES-13", "FRM-8")
def what_has_no_readable_number_ends_the_session(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    session = peer.welcome["sessionId"]
    peer.raw([b"\xff" * 64], "64 bytes of noise")
    error = peer.expect_error(CODES.BAD_ENVELOPE, fatal=True, ref_seq=0)
    scene.equal(error.seq, 0, "seq of a fatal Error", "ERR-9")
    peer.is_open = False
    peer.dial(resume={"sessionId": session, "receivedSeq": peer.received_seq})
    answer = peer.expect("welcome", "reject", clause="SES-13")
    is_resumed = answer.kind == "welcome" and answer["resumed"]
    scene.check(not is_resumed, "a session that an unreadable message has ended was resumed")


@case("ERR-9", "SES-18", "ERR-1")
def a_refusal_is_sent_again_after_a_resume(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    peer.acknowledge()
    had = peer.received_seq
    seq = peer.next_seq()
    kind = "results" if scene.role == "storage" else "put"
    sample = samples()[kind]
    peer.send_message(Message(kind, sample.body, seq, had, sample.payload))
    first = peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False)
    scene.equal(first.seq, had + 1, "seq of an Error that is not fatal", "ERR-9")
    peer.received_seq = had
    peer.resume()
    again = peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, clause="ERR-9")
    scene.equal(again.seq, first.seq, "seq of the Error that is sent again", "ERR-9")
    peer.fence()


@case("LIM-8")
def a_peer_that_dials_too_often_is_told_to_come_later(scene: Scene) -> None:
    """On one socket, which takes less time than to open many."""
    peer = scene.peer()
    peer.fence()
    resume = {"sessionId": peer.welcome["sessionId"], "receivedSeq": peer.received_seq}
    for number in range(300):
        peer.say_hello(resume=resume, features=[f"x-{number}"])
    scene.pump.for_seconds(0.5)
    refused = {reject["code"] for reject in peer.take("reject")}
    scene.equal(refused, {CODES.OVERLOADED}, "the codes of Rejects, of 300 resumes at once", "LIM-8")
    scene.pump.for_seconds(1.0)
    peer.inbox.clear()
    welcome = peer.resume()
    scene.equal(welcome["resumed"], True, "resumed, a second later", "LIM-8")
    peer.fence()


@case("SES-26", "HSK-17")
def a_hello_that_is_said_without_end_is_not_answered_without_end(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    for _ in range(2_000):
        peer.say_hello()
    peer.fence()
    answers = len(peer.take("welcome"))
    scene.check(answers < 2_000, f"{answers} Welcomes to 2,000 Hellos of one socket", "SES-26")
