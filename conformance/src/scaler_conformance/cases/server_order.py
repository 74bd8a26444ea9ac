"""What comes in a burst is handled in its order, and what it causes comes in order too (SES-2, SES-16, LIV-4)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import outcomes_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("scheduler", "storage")
BURST = 30


def asker(scene: Scene) -> Dialer:
    return scene.client() if scene.role == "scheduler" else scene.requester()


def ask(peer: Dialer) -> str:
    """Something that is answered at once; the kind of the answer."""
    if isinstance(peer, StoragePeer):
        peer.get(new_id())
        return "objectReply"
    peer.send("cancel", ids=new_id())
    return "cancelReply"


@case("LIV-4")
def a_pong_comes_after_the_answers_to_what_came_before_its_ping(scene: Scene) -> None:
    peer = asker(scene)
    for _ in range(BURST):
        kind = ask(peer)
        peer.send("ping", nonce=3)
    peer.fence()
    came = [
        event["kind"]
        for event in scene.transcript.events
        if event["peer"] == peer.name and event["dir"] == "receive" and event["kind"] in (kind, "pong")
    ]
    asked = answered = 0
    for each in came[: 2 * BURST]:
        answered += each == kind
        asked += each == "pong"
        scene.check(asked <= answered, f"Pong {asked} came when {answered} of the requests before it were answered")


@case("SES-2")
def a_burst_is_handled_in_the_order_of_its_numbers(scene: Scene) -> None:
    if scene.role == "scheduler":
        _submit_and_cancel(scene)
    else:
        _put_and_release(scene)


def _submit_and_cancel(scene: Scene) -> None:
    client = scene.client()
    tasks = client.new_tasks(BURST)
    for task in tasks:
        client.submit_batch([task])
        client.cancel(task)
    client.fence()
    outcomes = dict(pair for message in client.take("cancelReply") for pair in outcomes_of(message))
    for task in tasks:
        scene.equal(
            outcomes.get(task.id),
            CODES.CANCEL_CANCELED,
            f"the outcome for {scene.transcript.known(task.id)}, which was submitted just before,",
        )


def _put_and_release(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    requests = []
    for _ in range(BURST):
        requests += [(peer.put(identifier, b"value"), "there"), (peer.get(identifier), "there")]
        requests += [(peer.release(identifier), "there"), (peer.get(identifier), "gone")]
    peer.fence()
    for request, state in requests:
        answer = peer.reply(request)
        is_gone = answer.kind == "objectReply" and answer["code"] == CODES.NO_SUCH_OBJECT
        said = scene.transcript.describe(answer)
        scene.check(is_gone == (state == "gone"), f"request {request} found the object {state} and was told {said}")


@case("SES-16", "FRM-2")
def a_message_of_which_only_the_number_can_be_read_counts_as_received(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    seq = peer.next_seq()
    frames = encode(Message("ping", {"nonce": 1}, seq, peer.received_seq), payload_frames=1)
    peer.raw(frames, f"#{seq}   Ping that promises a frame")
    peer.expect_error(CODES.BAD_FRAMING, ref_seq=seq, fatal=False, clause="SES-16")
    welcome = peer.resume()
    scene.equal(welcome["receivedSeq"], seq, "receivedSeq after a message that was refused for its frames", "SES-16")
    peer.fence(clause="SES-16")
