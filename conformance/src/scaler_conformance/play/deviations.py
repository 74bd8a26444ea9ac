"""What a hostile peer does: each deviation is one named illegal act in an otherwise legal conversation.

An act returns when the deviant has been answered as the specification says, or when what it did is known to have been
handled. It raises Breach when the answer is not one of the legal ones.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, encode, write_results, write_tasks
from scaler_conformance.wire.batches import Result

from . import damage
from .dialer import Dialer
from .ids import new_id
from .samples import samples

if TYPE_CHECKING:
    from scaler_conformance.scene import Scene

SERVERS = ("scheduler", "storage")
#: The largest envelope of a Hello. (LIM-20)
HELLO_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Deviation:
    name: str
    clause: str
    act: Callable[[Scene], None]
    roles: tuple[str, ...]


ALL: list[Deviation] = []


def deviation(clause: str, *roles: str) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    def register(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
        ALL.append(Deviation(act.__name__.replace("_", " "), clause, act, roles or SERVERS))
        return act

    return register


def is_told(peer: Dialer, clause: str, *codes: int) -> Message:
    """An Error of one of these codes comes, fatal or not."""
    return peer.expect_error(*codes, clause=clause)


# ---------------------------------------------------------------- below the schema


@deviation("FRM-8")
def noise_instead_of_an_envelope(scene: Scene) -> None:
    for size in (1, 7, 8, 9, 64, 4096, 1 << 20):
        peer = scene.peer()
        peer.raw([secrets.token_bytes(size)], f"{size} random bytes")
        is_told(peer, "FRM-8", CODES.BAD_ENVELOPE)


@deviation("FRM-8")
def an_envelope_cut_short_at_every_word(scene: Scene) -> None:
    whole = encode(Message("cancel" if scene.role == "scheduler" else "release", _listing(scene), 1, 0))[0]
    for count in range(8, len(whole), 8):
        peer = scene.peer()
        peer.raw([whole[:-count]], f"an envelope without its last {count} bytes")
        is_told(peer, "FRM-8", CODES.BAD_ENVELOPE)
        peer.close()


def _listing(scene: Scene) -> dict[str, Any]:
    return {"ids": new_id() * 2} if scene.role == "scheduler" else {"requestId": 1, "owner": new_id(), "ids": new_id()}


@deviation("FRM-8")
def every_bit_of_a_message_turned_over(scene: Scene) -> None:
    """Each variant is refused, ends the session, or is a legal message: any of these, and nobody else notices."""
    kind, body = (
        ("cancel", _listing(scene)) if scene.role == "scheduler" else ("get", {"requestId": 1, "objectId": new_id()})
    )
    whole = encode(Message(kind, body, 1, 0))[0]
    for at in range(0, 8 * len(whole), 5):
        peer = scene.peer()
        peer.checks_laws = False
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        peer.raw([bytes(changed)], f"a {kind} with bit {at} turned over")
        _is_settled(peer)
        peer.close()


def _is_settled(peer: Dialer) -> None:
    """A Pong, or an Error that ends the session: either way the server has handled what came before."""
    peer.send_message(Message("ping", {"nonce": 99}, 2, 0))

    def is_handled() -> bool:
        return bool(peer.inbox) or peer.has_pong(99)

    if not peer.pump.until(is_handled, 5.0):
        raise Breach("neither an Error nor a Pong came", "FRM-8")


@deviation("FRM-2")
def too_many_frames(scene: Scene) -> None:
    for count in (2, 6, 1000):
        peer = scene.peer()
        frames = encode(Message("ping", {"nonce": 1}, peer.next_seq(), 0))
        peer.raw([*frames, *[b"x"] * count], f"Ping and {count} frames")
        is_told(peer, "FRM-2", CODES.BAD_FRAMING)
        peer.close()


@deviation("FRM-2")
def empty_frames_only(scene: Scene) -> None:
    for count in (1, 2, 3):
        peer = scene.peer()
        peer.raw([b""] * count, f"{count} empty frames")
        is_told(peer, "FRM-2", CODES.BAD_ENVELOPE, CODES.BAD_FRAMING)


@deviation("FRM-4")
def an_envelope_of_five_mebibytes(scene: Scene) -> None:
    peer = scene.peer()
    peer.raw([bytes(5 << 20)], "an envelope of 5 MiB of zeros")
    is_told(peer, "FRM-4", CODES.TOO_LARGE, CODES.BAD_ENVELOPE)


@deviation("ERR-2")
def members_of_the_union_that_nobody_knows(scene: Scene) -> None:
    peer = scene.peer()
    for tag in (60, 1000, 65_535):
        seq = peer.next_seq()
        frames = damage.with_tag(encode(Message("ping", {"nonce": 1}, seq, peer.received_seq)), tag)
        peer.refused(frames, f"#{seq}   union member {tag}", CODES.UNKNOWN_MESSAGE, ref_seq=seq, clause="ERR-2")


@deviation("FRM-8")
def lists_that_claim_more_than_is_there(scene: Scene) -> None:
    """Pointers with huge counts, in the place of an honest one: 48 bytes that claim a gigabyte (LIM-4)."""
    whole = encode(Message("ping", {"nonce": 1}, 1, 0))[0]
    for pointer in (0xFFFFFFF2_00000001, 0x7FFFFFFF_00000001, 0x00000007_FFFFFFFD, 0x0000FFFF_00000000):
        peer = scene.peer()
        changed = whole[:40] + struct.pack("<Q", pointer) + whole[48:]
        peer.raw([changed], f"Ping whose member is the pointer {pointer:016x}")
        peer.checks_laws = False
        _is_settled(peer)
        peer.close()


@deviation("LIM-10")
def a_list_of_structs_without_words(scene: Scene) -> None:
    """Eight bytes that claim two hundred capabilities, for which two hundred words would have to be there."""
    peer = scene.peer(is_open=False)
    peer.connect()
    hello = peer.hello(worker={"name": "w", "capabilities": [{}]})
    peer.raw(damage.emptied(encode(Message("hello", hello)), 200), "a Hello with 200 capabilities that have no words")
    is_told(peer, "LIM-10", CODES.BAD_ENVELOPE)


@deviation("LIM-9", "scheduler")
def lists_that_are_longer_than_any_that_is_needed(scene: Scene) -> None:
    manager = scene.peer("manager")
    seq = manager.next_seq()
    units = [{"unitId": f"u{number}", "state": 1} for number in range(4_097)]
    frames = encode(Message("managerStatus", {"maxWorkers": 1, "units": units}, seq, manager.received_seq))
    manager.refused(frames, f"#{seq}   4,097 units", CODES.BAD_ENVELOPE, ref_seq=seq, clause="LIM-9")
    client = scene.client()
    seq = client.next_seq()
    names = {"ids": secrets.token_bytes(16 * 10_001), "names": ["f"] * 10_001}
    frames = encode(Message("nameFunctions", names, seq, client.received_seq))
    client.refused(frames, f"#{seq}   10,001 names", CODES.BAD_ENVELOPE, ref_seq=seq, clause="LIM-9")


# ---------------------------------------------------------------- sessions


@deviation("HSK-9")
def messages_before_any_hello(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    peer.connect()
    for number in range(5):
        peer.send_message(Message("ping", {"nonce": number}, number + 1))
    is_told(peer, "HSK-9", CODES.NO_SESSION)


@deviation("HSK-10")
def a_hundred_hellos_on_one_socket(scene: Scene) -> None:
    peer = scene.peer()
    for _ in range(100):
        peer.say_hello()
    peer.fence()
    peer.inbox.clear()


@deviation("HSK-10")
def hellos_that_differ_on_one_socket(scene: Scene) -> None:
    peer = scene.peer(is_open=False)
    peer.checks_laws = False
    peer.connect()
    for number in range(1, 30):
        peer.say_hello(incarnation=number, features=[f"x-{number}"] * number)
    answered = scene.pump.until(lambda: len(peer.inbox) >= 29, 5.0)
    if not answered:
        raise Breach(f"29 Hellos had {len(peer.inbox)} answers", "HSK-10")


@deviation("HSK-10")
def a_hello_as_large_as_it_may_be(scene: Scene) -> None:
    """Its features are more than a server has to take (LIM-9)."""
    peer = scene.peer(is_open=False)
    features = [f"x-{number}" for number in range(2_000)]
    near = len(encode(Message("hello", peer.hello(features=features, software={"name": "n" * 20_000})))[0])
    peer.dial(features=features, software={"name": "n" * (20_000 + HELLO_BYTES - near)})
    peer.expect("welcome", "reject", "error", clause="HSK-10")


@deviation("SES-5")
def numbers_from_the_future_and_the_past(scene: Scene) -> None:
    for seq in (2, 1 << 40, (1 << 64) - 1):
        peer = scene.peer()
        peer.send_message(Message("ping", {"nonce": 1}, seq))
        is_told(peer, "SES-5", CODES.SEQUENCE_GAP)
    peer = scene.peer()
    peer.send_message(Message("ping", {"nonce": 1}, 0))
    peer.fence()
    peer.inbox.clear()


@deviation("SES-15")
def acknowledgements_of_what_was_never_sent(scene: Scene) -> None:
    peer = scene.peer()
    peer.send_message(Message("acknowledge", {}, 0, (1 << 64) - 1))
    is_told(peer, "SES-15", CODES.BAD_ENVELOPE)


@deviation("HSK-23")
def the_session_of_another_resumed(scene: Scene) -> None:
    victim = scene.peer()
    victim.fence()
    thief = scene.peer(is_open=False)
    thief.dial(resume={"sessionId": victim.welcome["sessionId"], "receivedSeq": 0})
    answer = thief.expect("welcome", "reject", clause="SES-7")
    if answer.kind == "welcome" and answer["resumed"]:
        raise Breach("the session of another peer was resumed", "SES-7")
    victim.fence(clause="SES-7")


@deviation("SES-7")
def a_resume_from_the_future(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    session = peer.welcome["sessionId"]
    peer.is_open = False
    peer.dial(resume={"sessionId": session, "receivedSeq": 1 << 50})
    answer = peer.expect("welcome", "reject", clause="HSK-10")
    if answer.kind == "welcome" and answer["resumed"]:
        raise Breach("a resume was accepted whose receivedSeq cannot be true", "SES-7")


@deviation("ERR-4")
def nothing_but_errors(scene: Scene) -> None:
    peer = scene.peer()
    for number in range(500):
        peer.send("error", code=number, refSeq=number, text="no")
    peer.fence()
    peer.expect_nothing("an Error gets no answer", "ERR-4")


@deviation("SES-4")
def ten_thousand_small_messages(scene: Scene) -> None:
    peer = scene.peer()
    for number in range(10_000):
        peer.send("pong", nonce=number)
    peer.fence(20.0)


@deviation("HSK-13")
def everything_it_may_not_say(scene: Scene) -> None:
    peer = scene.peer("monitor")
    for kind in ("put", "submit", "results", "releaseOwner", "credit", "shutdown"):
        sample = samples()[kind]
        payload = sample.payload[0] if sample.payload else None
        seq = peer.send(kind, payload=payload, **sample.body)
        peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, clause="HSK-13")
    peer.fence()


@deviation("FRM-9")
def a_session_left_in_the_middle_of_a_sentence(scene: Scene) -> None:
    """Twenty peers that say Hello, ask for something, and hang up without Bye."""
    for _ in range(20):
        peer = scene.peer()
        kind = "cancel" if scene.role == "scheduler" else "get"
        body = {"isAll": True} if kind == "cancel" else {"requestId": 1, "objectId": new_id(), "waitSeconds": 60.0}
        peer.send(kind, **body)
        peer.close()


# ---------------------------------------------------------------- a scheduler's clients and workers


@deviation("BAT-2", "scheduler")
def a_batch_that_lies_about_its_columns(scene: Scene) -> None:
    client = scene.client()
    good = write_tasks(client.new_tasks(3), {"callFormat": 2})
    for columns in (
        {"ids": good["ids"][:32]},
        {"partSizes": b"\xff" * 12},
        {"payload": b""},
        {"partCounts": b"\xff" * 6},
    ):
        seq = client.send_batch("submit", {**good, **columns})
        client.expect_error(CODES.BAD_BATCH, CODES.TOO_LARGE, ref_seq=seq, fatal=False, clause="BAT-2")
    client.fence()
    client.expect_nothing("each batch is refused once", "ERR-1")


@deviation("SCH-6", "scheduler")
def results_of_tasks_that_were_never_given(scene: Scene) -> None:
    worker = scene.worker(credit=0)
    for size in (1, 100, 5000):
        worker.send_batch("results", write_results([Result(new_id(), value=b"forged") for _ in range(size)]))
    worker.fence()
    worker.expect_nothing("results that nobody waits for are dropped", "SCH-6")


@deviation("CAN-1", "scheduler")
def replies_logs_and_returns_of_unknown_tasks(scene: Scene) -> None:
    worker = scene.worker(credit=0)
    worker.answer_cancel((new_id(), 0), (new_id(), 99))
    worker.send("returned", ids=new_id() + new_id(), isRecallAnswer=True)
    worker.send("returned", ids=b"", isRecallAnswer=True)
    worker.send("taskLog", taskId=new_id(), stream=3, text="t" * 60_000)
    worker.credit(4_294_967_295, 4_294_967_295)
    worker.credit(0)
    worker.fence()
    worker.inbox.clear()


@deviation("FRM-9", "scheduler")
def a_worker_that_takes_a_task_and_vanishes(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=1, capabilities={"deviant": -1})
    client.submit(1, capabilities=[{"name": "deviant", "amount": -1}])
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-25")
    worker.close()


@deviation("CAN-1", "scheduler")
def a_cancel_of_fifty_thousand_unknown_tasks(scene: Scene) -> None:
    client = scene.client()
    ids = secrets.token_bytes(16 * 50_000)
    client.send("cancel", ids=ids)
    client.fence(15.0)
    told = sum(len(reply["ids"]) // 16 for reply in client.take("cancelReply"))
    if told != 50_000:
        raise Breach(f"50000 ids were canceled and {told} were answered", "CAN-1")


# ---------------------------------------------------------------- a storage's requesters


@deviation("STO-5", "storage")
def uploads_that_claim_everything(scene: Scene) -> None:
    peer = scene.requester()
    for total in ((1 << 64) - 1, 1 << 50):
        request = peer.put(new_id(), b"x", total=total)
        peer.expect_code(request, CODES.OK, CODES.STORAGE_FULL, clause="STO-12")
    peer.expect_code(peer.put(new_id(), b"x", offset=(1 << 64) - 1, total=5), CODES.BAD_CHUNK, clause="STO-5")
    peer.fence()


@deviation("STO-8", "storage")
def a_thousand_uploads_that_are_never_finished(scene: Scene) -> None:
    peer = scene.requester()
    for _ in range(1000):
        peer.put(new_id(), b"half", total=8)
    peer.fence(15.0)
    peer.inbox.clear()


@deviation("STO-7", "storage")
def a_thousand_gets_that_wait(scene: Scene) -> None:
    peer = scene.requester()
    for _ in range(1000):
        peer.get(new_id(), wait=3600.0)
    peer.fence(15.0)
    peer.expect_nothing("nothing of it exists", "STO-7")
