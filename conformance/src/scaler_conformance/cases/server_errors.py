"""How any server refuses (chapters 01, 11 and 16)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play import damage
from scaler_conformance.play.samples import samples
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("scheduler", "storage")


@case("ERR-2")
def an_unknown_kind_is_refused_and_the_session_goes_on(scene: Scene) -> None:
    peer = scene.peer()
    for tag in (200, 9_999, 65_535):
        seq = peer.next_seq()
        frames = damage.with_tag(encode(Message("ping", {"nonce": 1}, seq, peer.received_seq)), tag)
        error = peer.refused(
            frames, f"#{seq}   a message of the unknown kind {tag}", CODES.UNKNOWN_MESSAGE, ref_seq=seq
        )
        scene.check(bool(error["text"]), "the text of the Error is empty", "ERR-1")


@case("ERR-4")
def an_error_is_not_answered_with_an_error(scene: Scene) -> None:
    peer = scene.peer()
    for body in (
        {"code": CODES.BAD_BATCH, "refSeq": 1, "text": "no"},
        {"code": 61_234, "refSeq": 99_999, "text": ""},
        {"code": 0, "refSeq": 0},
    ):
        peer.send("error", **body)
    peer.fence(clause="ERR-4")
    peer.expect_nothing("an Error gets no answer")


@case("ERR-5")
def an_error_with_an_unknown_code_goes_by_fatal_alone(scene: Scene) -> None:
    peer = scene.peer()
    peer.send("error", code=61_234, refSeq=1, text="not fatal")
    peer.fence(clause="ERR-5")
    peer.send_message(Message("error", {"code": 61_234, "fatal": True, "text": "fatal"}))
    peer.is_open = False
    peer.send_message(Message("ping", {"nonce": 1}, peer.sent_seq + 1, peer.received_seq))
    peer.expect_error(CODES.NO_SESSION, clause="ERR-5")


@case("ERR-6", "SES-13")
def nothing_is_accepted_after_a_fatal_error(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    peer.raw([b""], "an empty frame")
    peer.expect_error(CODES.BAD_ENVELOPE, fatal=True, clause="ERR-6")
    peer.send_message(Message("ping", {"nonce": 8}, peer.sent_seq + 1, peer.received_seq))
    answer = peer.expect("error", "pong", clause="ERR-6")
    scene.check(answer.kind == "error", "a Ping after the fatal Error got its Pong", "ERR-6")
    scene.equal(answer["code"], CODES.NO_SESSION, "the code that answers", "HSK-9")
    peer.incarnation += 1
    peer.inbox.clear()
    peer.is_open = False
    peer.say_hello()
    peer.expect_welcome("ERR-6")
    peer.fence(clause="ERR-6")


@case("ERR-8", "ERR-1")
def a_refusal_says_what_to_do_and_names_a_clause(scene: Scene) -> None:
    peer = scene.peer()
    kind = "results" if scene.role == "storage" else "put"
    sample = samples()[kind]
    seq = peer.send(kind, payload=sample.payload[0], **sample.body)
    error = peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False, clause="ERR-8")
    scene.check(bool(error["text"].strip()), "the text of the Error is empty", "ERR-1")


@case("FRM-2")
def a_wrong_count_of_frames_is_refused(scene: Scene) -> None:
    peer = scene.peer()
    ping = ("ping", {"nonce": 1})
    for extra in (1, 2, 5):
        seq = peer.next_seq()
        frames = [*encode(Message(*ping, seq, peer.received_seq)), *[b"x"] * extra]
        peer.refused(
            frames, f"#{seq}   Ping with {extra} frames that it does not tell of", CODES.BAD_FRAMING, ref_seq=seq
        )
    seq = peer.next_seq()
    frames = encode(Message(*ping, seq, peer.received_seq), payload_frames=1)
    peer.refused(frames, f"#{seq}   Ping that promises a frame", CODES.BAD_FRAMING, ref_seq=seq)
    seq = peer.next_seq()
    frames = encode(Message(*ping, seq, peer.received_seq, (b"x",)))
    peer.refused(frames, f"#{seq}   Ping with a payload frame", CODES.BAD_FRAMING, ref_seq=seq)


@case("FRM-2")
def a_batch_or_chunk_without_its_payload_is_refused(scene: Scene) -> None:
    peer = scene.peer("client")
    sample = samples()["submit" if scene.role == "scheduler" else "put"]
    for payload in ((), (b"a", b"b")):
        seq = peer.next_seq()
        frames = encode(Message(sample.kind, sample.body, seq, peer.received_seq, payload))
        text = f"#{seq}   {sample.kind} with {len(payload)} payload frames"
        peer.refused(frames, text, CODES.BAD_FRAMING, ref_seq=seq)


@case("FRM-4")
def an_envelope_above_the_limit_is_refused(scene: Scene) -> None:
    """One of exactly the limit is accepted, one with a further id is not."""
    kind = "cancel" if scene.role == "scheduler" else "release"

    def of(count: int, seq: int = 1, ack: int = 0) -> list[bytes]:
        body = {"ids": b"i" * 16 * count} | ({"owner": b"o" * 16, "requestId": 1} if kind == "release" else {})
        return encode(Message(kind, body, seq, ack))

    limit = len(of(4_200)[0])
    peer = scene.peer(limits={"envelopeBytes": limit})
    peer.raw(of(4_200, peer.next_seq()), f"#1   {kind} in an envelope of {limit} bytes, as agreed")
    peer.expect("cancelReply", "objectReply", clause="FRM-4")
    frames = of(4_201, peer.next_seq(), peer.received_seq)
    peer.raw(frames, f"#2   {kind} in an envelope of {len(frames[0])} bytes, {limit} were agreed")
    peer.expect_error(CODES.TOO_LARGE, fatal=True)


@case("FRM-5")
def a_payload_frame_above_the_limit_is_refused(scene: Scene) -> None:
    peer = scene.peer("client", limits={"payloadFrameBytes": 8 << 20})
    sample = samples()["submit" if scene.role == "scheduler" else "put"]
    seq = peer.next_seq()
    frames = encode(Message(sample.kind, sample.body, seq, peer.received_seq, (bytes((8 << 20) + 1),)))
    text = f"#{seq}   {sample.kind} with a payload of 8 MiB and a byte, 8 MiB were agreed"
    peer.refused(frames, text, CODES.TOO_LARGE, ref_seq=seq)


@case("FRM-13", "FRM-5")
def a_frame_as_large_as_the_limit_does_not_break_the_connection(scene: Scene) -> None:
    """MAXMSGSIZE would close it without a word. What the server says to such a frame is open."""
    peer = scene.peer("client")
    size = peer.welcome["limits"]["payloadFrameBytes"]
    sample = samples()["submit" if scene.role == "scheduler" else "put"]
    seq = peer.next_seq()
    peer.raw(
        encode(Message(sample.kind, sample.body, seq, peer.received_seq, (bytes(size),))),
        f"#{seq}   {sample.kind} with a payload of exactly the limit, {size} bytes",
    )
    peer.fence(15.0, clause="FRM-13")
    for error in peer.take("error"):
        scene.check(error["code"] != CODES.TOO_LARGE or scene.role == "scheduler", "TOO_LARGE at the limit", "FRM-5")


@case("FRM-10")
def a_known_routing_id_may_come_on_a_new_connection(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    assert peer.line is not None
    identity = peer.line.identity
    scene.transcript.note(peer.name, "its connection breaks; another one comes with the same routing id")
    peer.connect(identity)
    peer.fence(clause="FRM-10")


@case("EVO-2", "HSK-2")
def unknown_fields_are_ignored(scene: Scene) -> None:
    """A newer peer's structs are longer: its Hello and Ping have words that nobody knows yet."""
    peer = scene.peer(is_open=False)
    peer.connect()
    frames = damage.grown(encode(Message("hello", peer.hello())))
    peer.raw(frames, "#–   Hello of a newer version, with fields that this one does not know")
    peer.expect_welcome("HSK-2")
    seq = peer.next_seq()
    frames = damage.grown(encode(Message("ping", {"nonce": 4_321}, seq, peer.received_seq)))
    peer.raw(frames, f"#{seq}   Ping with fields that this version does not know")
    peer.fence(clause="EVO-2")
    peer.expect_nothing("unknown fields are ignored")
