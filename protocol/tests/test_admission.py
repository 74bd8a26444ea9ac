"""Whose a session is, in the pure session server: generated Hellos of several identities never touch another's session.
(HSK-30, HSK-31, SES-30 to SES-32, SEC-20)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.session_sides import ONE, THREE, TWO
from tests.support.session_words import HELLO, SERVER_ID, decoded

from scaler_protocol import codes
from scaler_protocol.codec import Envelope
from scaler_protocol.ids import PeerId, RoutingId, TaskId
from scaler_protocol.keys import ALL_ROLES, Identity, Keyring, local_identity
from scaler_protocol.keys.tickets import ticket_id
from scaler_protocol.messages import CancelReply, Error, Hello, Message, Reject, Resume, Welcome
from scaler_protocol.session import Lost, Opened, SessionServer
from scaler_protocol.session.admission import NO_PROOF, SAME_USER, Admission, Proof
from scaler_protocol.session.bounds import Quota
from scaler_protocol.session.invariants import check_server

KEY, OLD_KEY = b"k" * 32, b"o" * 32
KEYRING = Keyring([KEY])
HOLDERS = [bytes([number]) * 32 for number in (1, 2, 3)]
PEERS = [PeerId(bytes([0x50 + number]) * 16) for number in range(2)]
SOCKETS = [ONE, TWO, THREE]


def ticket(holder: bytes, roles: frozenset[int] = ALL_ROLES, *, key: bytes = KEY, **changes: object) -> bytes:
    identity = replace(Identity("ana", roles, False, holder), **changes)  # type: ignore[arg-type]
    return Keyring([key]).ticket(identity)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Server:
    def __init__(self, keyring: Keyring | None = KEYRING, **options: Any) -> None:
        self.clock = Clock()
        self.now = 0.0
        self.core = SessionServer(
            server_id=SERVER_ID,
            role_name="scheduler",
            allowed_roles={codes.ROLE_CLIENT, codes.ROLE_WORKER},
            admission=Admission(keyring, self.clock),
            **options,
        )

    def say(self, routing_id: RoutingId, hello: Hello, proof: Proof = NO_PROOF) -> Message:
        self.now += 1.0  # many refusals within a second are met with silence
        self.core.begin(self.now)
        self.core.receive(routing_id, Envelope(0, 0, hello), 100, self.now, proof)
        check_server(self.core)
        self.events = self.core.take_events()
        said = [decoded(frames).message for _, frames in self.core.take_transmissions()]
        (answer,) = [message for message in said if isinstance(message, (Welcome, Reject))]
        return answer

    def show(self, holder: bytes, routing_id: RoutingId = ONE, **changes: object) -> Message:
        hello = replace(HELLO, credential=ticket(holder), **changes)  # type: ignore[arg-type]
        return self.say(routing_id, hello, Proof(holder))

    def review(self) -> list[tuple[RoutingId, Message]]:
        self.core.review()
        check_server(self.core)
        return [(routing_id, decoded(frames).message) for routing_id, frames in self.core.take_transmissions()]


def refused(answer: Message, *words: str) -> None:
    assert isinstance(answer, Reject) and answer.code == codes.UNAUTHORIZED, answer
    assert all(word in answer.text for word in words), answer.text


def test_a_session_knows_whose_it_is() -> None:
    server = Server()
    assert isinstance(server.show(HOLDERS[0]), Welcome)
    (opened,) = server.events
    assert isinstance(opened, Opened)
    assert opened.identity == Identity("ana", ALL_ROLES, False, HOLDERS[0])


def test_without_keys_there_is_no_identity_and_no_ticket() -> None:
    server = Server(None)
    assert isinstance(server.say(ONE, HELLO), Welcome)
    (opened,) = server.events
    assert isinstance(opened, Opened) and opened.identity is None
    refused(server.say(TWO, replace(HELLO, peer_id=PEERS[0], credential=ticket(HOLDERS[0]))), "--insecure")


def test_what_is_not_admitted_is_told_what_to_do() -> None:
    server = Server()
    own = Proof(HOLDERS[0])
    refused(server.say(ONE, HELLO, own), "no ticket")
    refused(server.say(ONE, replace(HELLO, credential=b"x" * 1024), own))
    refused(server.say(ONE, replace(HELLO, credential=ticket(HOLDERS[0], key=OLD_KEY)), own), "not this cluster's")
    refused(server.say(ONE, replace(HELLO, credential=ticket(HOLDERS[1])), own), "holder")
    refused(
        server.say(ONE, replace(HELLO, credential=ticket(HOLDERS[0], frozenset({codes.ROLE_WORKER}))), own), "worker"
    )
    refused(server.say(ONE, replace(HELLO, credential=ticket(HOLDERS[0], expires=999_999.0)), own), "expired")
    refused(server.say(ONE, replace(HELLO, credential=ticket(HOLDERS[0])), NO_PROOF), "holder")
    assert server.events == [] and not server.core.carries(ONE)


def test_a_ticket_is_judged_after_what_is_older_than_tickets() -> None:
    """A dialer of another version has to learn that, and not that its ticket is of no use. (HSK-3 to HSK-5)"""
    server = Server()
    answer = server.say(ONE, replace(HELLO, version_min=7, version_max=8))
    assert isinstance(answer, Reject) and answer.code == codes.VERSION_MISMATCH
    answer = server.say(ONE, replace(HELLO, role=codes.ROLE_MONITOR))
    assert isinstance(answer, Reject) and answer.code == codes.BAD_ROLE


def test_a_user_with_all_sessions_leaves_room_for_the_others() -> None:  # LIM-7, LIM-31
    server = Server(sessions=Quota(first=2, further=3))
    sockets = (RoutingId(bytes([number]) * 16) for number in range(1, 256))

    def dials(user: str) -> Message:
        socket = next(sockets)
        credential = ticket(HOLDERS[0], user=user)
        return server.say(socket, replace(HELLO, peer_id=PeerId(socket), credential=credential), Proof(HOLDERS[0]))

    def opened(user: str, count: int) -> list[bool]:
        return [isinstance(dials(user), Welcome) for _ in range(count)]

    assert opened("ana", 6) == [True] * 5 + [False]
    assert opened("bo", 3) == [True, True, False]
    full = dials("ana")
    assert isinstance(full, Reject) and full.code == codes.OVERLOADED and "7 sessions" in full.text
    assert server.core.full_count == 3
    server.core.disconnect(PeerId(bytes([1]) * 16), codes.OK, "done")
    assert opened("bo", 2) == [True, False], "ana has one less of those that all users share"
    assert opened("cy", 2) == [True, True]


def test_on_the_lane_the_kernel_is_enough_and_a_ticket_is_judged_all_the_same() -> None:
    server = Server()
    assert isinstance(server.say(ONE, HELLO, SAME_USER), Welcome)
    (opened,) = server.events
    assert isinstance(opened, Opened) and opened.identity == local_identity()
    shown = replace(HELLO, peer_id=PEERS[0], credential=ticket(HOLDERS[0]))
    assert isinstance(server.say(TWO, shown, SAME_USER), Welcome)
    (opened,) = server.events
    assert isinstance(opened, Opened) and opened.identity is not None and opened.identity.holder == HOLDERS[0]
    wrong = replace(HELLO, peer_id=PEERS[1], credential=ticket(HOLDERS[0], key=OLD_KEY))
    refused(server.say(THREE, wrong, SAME_USER), "not this cluster's")


def test_the_ticket_of_a_worker_does_for_the_clients_in_its_tasks() -> None:
    """A task submits children with what its worker has. (HSK-30)"""
    server = Server()
    shown = replace(HELLO, credential=ticket(HOLDERS[0], frozenset({codes.ROLE_WORKER})))
    refused(server.say(ONE, shown, Proof(HOLDERS[0])), "worker")
    nested = replace(shown, parent_task=TaskId(b"t" * 16))
    assert isinstance(server.say(ONE, nested, Proof(HOLDERS[0])), Welcome)
    other = replace(nested, peer_id=PEERS[0], credential=ticket(HOLDERS[0], frozenset({codes.ROLE_MONITOR})))
    refused(server.say(TWO, other, Proof(HOLDERS[0])), "monitor")


def test_a_session_with_the_ticket_of_a_worker_outlives_the_task_in_which_it_began() -> None:
    """Its process runs one task after the other, with one connection for all."""
    server, tasks = Server(), {True: TaskId(b"t" * 16), False: TaskId(b"e" * 16)}
    server.core.admission = Admission(KEYRING, server.clock, lambda hello, identity: hello.parent_task == tasks[True])
    worker = frozenset({codes.ROLE_WORKER})
    shown = replace(HELLO, credential=ticket(HOLDERS[0], worker, expires=1_000_010.0), parent_task=tasks[True])
    welcome = server.say(ONE, shown, Proof(HOLDERS[0]))
    assert isinstance(welcome, Welcome)
    tasks[True] = TaskId(b"n" * 16)
    resume = Resume(welcome.session_id, 0)
    answer = server.say(TWO, replace(shown, resume=resume), Proof(HOLDERS[0]))
    assert isinstance(answer, Welcome) and answer.session_id == welcome.session_id
    refused(server.say(THREE, replace(shown, peer_id=PEERS[0]), Proof(HOLDERS[0])), "worker")
    other = replace(shown, credential=ticket(HOLDERS[1], worker), resume=resume)
    refused(server.say(THREE, other, Proof(HOLDERS[1])), "worker")
    server.clock.now = 1_000_010.0
    assert [error.code for _, error in server.review() if isinstance(error, Error)] == [codes.UNAUTHORIZED], "expired"


def test_an_exact_repetition_by_another_holder_is_refused() -> None:
    """A peer that has read a Hello in flight, and has a ticket of its own, gets no Welcome of that session. (HSK-17)"""
    server = Server()
    assert isinstance(server.show(HOLDERS[0]), Welcome)
    hello = replace(HELLO, credential=ticket(HOLDERS[0]))
    refused(server.say(ONE, hello, Proof(HOLDERS[1])), "holder")
    assert isinstance(server.say(ONE, hello, Proof(HOLDERS[0])), Welcome)


def test_a_renewed_ticket_goes_on_with_the_session_and_other_rights_do_not() -> None:
    server = Server()
    first = replace(HELLO, credential=ticket(HOLDERS[0], expires=1_000_010.0))
    welcome = server.say(ONE, first, Proof(HOLDERS[0]))
    assert isinstance(welcome, Welcome)
    renewed = replace(HELLO, credential=ticket(HOLDERS[0], expires=1_000_020.0), resume=Resume(welcome.session_id, 0))
    answer = server.say(TWO, renewed, Proof(HOLDERS[0]))
    assert isinstance(answer, Welcome) and answer.session_id == welcome.session_id
    operator = replace(renewed, credential=ticket(HOLDERS[0], is_operator=True))
    refused(server.say(THREE, operator, Proof(HOLDERS[0])))
    server.clock.now = 1_000_015.0
    assert server.review() == [], "the renewed ticket counts"
    server.clock.now = 1_000_020.0
    ((socket, error),) = server.review()
    assert socket == TWO and isinstance(error, Error) and error.fatal and error.code == codes.UNAUTHORIZED
    (lost,) = server.core.take_events()
    assert isinstance(lost, Lost) and lost.code == codes.UNAUTHORIZED


def test_a_removed_key_ends_its_sessions_and_no_others() -> None:
    server = Server(Keyring([KEY, OLD_KEY]))
    old = replace(HELLO, credential=ticket(HOLDERS[0], key=OLD_KEY))
    new = replace(HELLO, peer_id=PEERS[0], credential=ticket(HOLDERS[1]))
    assert isinstance(server.say(ONE, old, Proof(HOLDERS[0])), Welcome)
    assert isinstance(server.say(TWO, new, Proof(HOLDERS[1])), Welcome)
    assert isinstance(server.say(THREE, replace(HELLO, peer_id=PEERS[1]), SAME_USER), Welcome)
    assert server.review() == []
    server.core.admission.use(Keyring([KEY]))
    ((socket, error),) = server.review()
    assert socket == ONE and isinstance(error, Error) and error.code == codes.UNAUTHORIZED
    assert server.review() == []
    refused(server.say(ONE, old, Proof(HOLDERS[0])), "not this cluster's")


def test_a_revoked_ticket_ends_its_session_and_no_others() -> None:
    """Also on the local lane, where a ticket that is shown is judged. (SEC-20)"""
    server = Server()
    hellos = [
        replace(HELLO, peer_id=peer_id, credential=ticket(holder))
        for peer_id, holder in zip(PEERS, HOLDERS[:2], strict=True)
    ]
    on_lane = replace(HELLO, credential=ticket(HOLDERS[0]))
    assert isinstance(server.say(ONE, hellos[0], Proof(HOLDERS[0])), Welcome)
    assert isinstance(server.say(TWO, hellos[1], Proof(HOLDERS[1])), Welcome)
    assert isinstance(server.say(THREE, on_lane, SAME_USER), Welcome)
    server.core.admission.use(Keyring([KEY], revoked=frozenset({ticket_id(HOLDERS[0])})))
    ended = server.review()
    said = f"the ticket {ticket_id(HOLDERS[0])} was revoked: ask the operator for a new one"
    assert {socket for socket, _ in ended} == {ONE, THREE}
    assert all(
        isinstance(error, Error) and (error.code, error.text) == (codes.UNAUTHORIZED, said) for _, error in ended
    )
    assert server.review() == []
    refused(server.say(ONE, hellos[0], Proof(HOLDERS[0])), said)
    refused(server.say(ONE, on_lane, SAME_USER), said)
    server.core.admission.use(KEYRING)
    assert isinstance(server.say(ONE, hellos[0], Proof(HOLDERS[0])), Welcome), "it was taken out of the list again"


def test_a_revoked_worker_is_no_client_in_a_task_either() -> None:
    server = Server(Keyring([KEY], revoked=frozenset({ticket_id(HOLDERS[0])})))
    nested = replace(
        HELLO, credential=ticket(HOLDERS[0], frozenset({codes.ROLE_WORKER})), parent_task=TaskId(b"t" * 16)
    )
    refused(server.say(ONE, nested, Proof(HOLDERS[0])), "was revoked")


HELLOS = st.tuples(
    st.sampled_from(SOCKETS),
    st.sampled_from(PEERS),
    st.sampled_from(HOLDERS),  # whose connection it is
    st.sampled_from([None, *HOLDERS]),  # whose ticket is shown
    st.integers(0, 3),  # incarnation
    st.sampled_from(["none", "this", "other"]),  # what is to be resumed
    st.integers(0, 2),  # received
)


Step = tuple[RoutingId, PeerId, bytes, bytes | None, int, str, int]


@given(st.lists(HELLOS, min_size=1, max_size=25))
def test_no_hello_of_another_identity_touches_a_session(steps: list[Step]) -> None:
    """The law: what a Hello changes, it changes for its own holder alone; everything of others is as before."""
    server = Server()
    core = server.core
    for socket, peer, holder, shown, incarnation, resume, received in steps:
        before = {
            owner: (session, session.routing_id, session.welcome, session.channel.acknowledged_seq)
            for owner, session in core._by_peer.items()
        }
        current = core._by_peer.get(peer)
        number = 0 if current is None or resume == "none" else current.session_id + (resume == "other")
        hello = replace(
            HELLO,
            peer_id=peer,
            incarnation=incarnation,
            credential=b"" if shown is None else ticket(shown),
            resume=Resume(number, received),
        )
        answer = server.say(socket, hello, Proof(holder))
        owns = current is None or (current.identity is not None and current.identity.holder == holder)
        assert isinstance(answer, Reject) or (shown == holder and owns)
        for owner, (session, *was) in before.items():
            assert session.identity is not None
            if owner == peer and session.identity.holder == holder == shown:
                continue
            assert core._by_peer[owner] is session
            assert was == [session.routing_id, session.welcome, session.channel.acknowledged_seq]
        for session in list(core._by_peer.values()):
            core.send(session.peer_id, CancelReply(b""))  # so that there is something to resume
        core.take_transmissions()
