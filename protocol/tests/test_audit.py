"""The audit has a bounded line for each Hello that opened a session or was refused, and for each session whose ticket
admits it no more, and no secret in it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tests.support.session_sides import ONE
from tests.support.session_words import HELLO, SERVER_ID

from scaler_protocol import codes
from scaler_protocol.codec import Envelope
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Identity, Keyring
from scaler_protocol.keys.tickets import ticket_id
from scaler_protocol.messages import Hello
from scaler_protocol.process.audit import Audit
from scaler_protocol.process.line_budget import BURST_LINES
from scaler_protocol.session import SessionServer
from scaler_protocol.session.admission import SAME_USER, Admission, Proof

KEYRING, FOREIGN = Keyring([b"k" * 32]), Keyring([b"f" * 32])
HOLDER = b"\x01" * 32
PROOF = Proof(HOLDER, host="10.0.0.7")
ID = ticket_id(HOLDER)
CLIENT = Identity("ana", frozenset({codes.ROLE_CLIENT}), False, HOLDER)


class Lines:
    def __init__(self, caplog: pytest.LogCaptureFixture, keyring: Keyring | None = KEYRING) -> None:
        caplog.set_level(logging.DEBUG)
        self._caplog = caplog
        self._now = 0.0
        self.wall_now = 1000.0
        self.core = SessionServer(
            server_id=SERVER_ID,
            role_name="scheduler",
            allowed_roles={codes.ROLE_CLIENT, codes.ROLE_WORKER},
            admission=Admission(keyring, lambda: self.wall_now, audit=Audit("Scheduler").note),
        )

    def of(self, hello: Hello, proof: Proof = PROOF) -> list[tuple[str, str]]:
        self._caplog.clear()
        self._now += 1.0  # Hellos of one socket are limited each second
        self.core.begin(self._now)
        self.core.receive(ONE, Envelope(0, 0, hello), 100, self._now, proof)
        return self._written()

    def review(self) -> list[tuple[str, str]]:
        self._caplog.clear()
        self.core.review()
        return self._written()

    def _written(self) -> list[tuple[str, str]]:
        self.core.take_events()
        records = [record for record in self._caplog.records if record.name == "scaler.audit"]
        return [(record.levelname, record.getMessage()) for record in records]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


def shown(identity: Identity = CLIENT, keyring: Keyring = KEYRING) -> Hello:
    return replace(HELLO, credential=keyring.ticket(identity))


def test_an_opened_session_is_told_with_its_user_host_and_ticket(lines: Lines) -> None:
    assert lines.of(shown()) == [("INFO", f"Scheduler: admitted client from 10.0.0.7, user ana, ticket {ID}")]
    assert lines.of(shown()) == [], "the same Hello once more opens nothing"


def test_an_operator_is_told_from_other_users(lines: Lines) -> None:
    ((_, text),) = lines.of(shown(replace(CLIENT, is_operator=True)))
    assert f"user ana, operator, ticket {ID}" in text


@pytest.mark.parametrize(
    ("hello", "claimed", "why"),
    [
        (HELLO, "no ticket", "the Hello has no ticket"),
        (replace(HELLO, credential=b"x" * 99), "no readable ticket", "the ticket has version"),
        (shown(keyring=FOREIGN), f"claimed user ana, ticket {ID}", "not this cluster's"),
        (shown(replace(CLIENT, expires=999.0)), f"claimed user ana, ticket {ID}", "has expired"),
        (shown(replace(CLIENT, roles=frozenset({codes.ROLE_WORKER}))), "claimed user ana", "is for worker"),
        (shown(replace(CLIENT, holder=b"\x02" * 32)), "claimed user ana", "belongs to another holder"),
    ],
)
def test_a_refused_hello_is_told_with_what_it_claimed_and_why(
    lines: Lines, hello: Hello, claimed: str, why: str
) -> None:
    ((level, text),) = lines.of(hello)
    assert level == "WARNING"
    assert text.startswith(f"Scheduler: refused a Hello as client from 10.0.0.7, {claimed}"), text
    assert why in text and text.endswith("(UNAUTHORIZED)")


def test_a_session_whose_ticket_has_expired_is_told_with_its_id(lines: Lines) -> None:
    lines.of(shown(replace(CLIENT, expires=2000.0)))
    assert lines.review() == []
    lines.wall_now = 2000.0
    why = "the ticket of ana has expired: ask the operator for a new one (scaler_key derive)"
    assert lines.review() == [("WARNING", f"Scheduler: ended the session of a client, user ana, ticket {ID}: {why}")]
    assert lines.review() == []


def test_a_session_whose_ticket_was_revoked_is_told(lines: Lines) -> None:
    lines.of(shown())
    lines.core.admission.use(Keyring([b"k" * 32], revoked=frozenset({ID})))
    ((level, text),) = lines.review()
    why = f"the ticket {ID} was revoked: ask the operator for a new one"
    assert (level, text) == ("WARNING", f"Scheduler: ended the session of a client, user ana, ticket {ID}: {why}")
    ((level, text),) = lines.of(shown())
    assert level == "WARNING" and f"claimed user ana, ticket {ID}: the ticket {ID} was revoked" in text


def test_no_line_holds_what_opens_a_session(lines: Lines) -> None:
    for hello in (shown(keyring=FOREIGN), shown()):
        ((_, text),) = lines.of(hello)
        for secret in (hello.credential, hello.credential[-16:], HOLDER):
            assert secret.hex() not in text and repr(secret)[2:-1] not in text


def test_processes_of_the_servers_own_user_are_lines_for_debugging(lines: Lines) -> None:
    ((level, text),) = lines.of(HELLO, SAME_USER)
    assert level == "DEBUG" and "from this host" in text and "no ticket on the local lane" in text


def test_a_refusal_of_the_moment_is_a_line_for_debugging(lines: Lines) -> None:
    lines.core.refuse_newcomers()
    ((level, text),) = lines.of(shown())
    assert level == "DEBUG" and text.endswith("(SHUTTING_DOWN)")


def test_without_keys_a_session_is_a_line_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    ((level, text),) = Lines(caplog, None).of(HELLO)
    assert level == "DEBUG" and text == "Scheduler: admitted client from 10.0.0.7, no keys"


def test_a_flood_of_refusals_is_bounded_and_hides_no_session(
    lines: Lines, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler_protocol.process.audit.time.monotonic", lambda: 0.0)
    written = sum(len(lines.of(replace(HELLO, peer_id=new_peer_id()))) for _ in range(BURST_LINES + 213))
    assert written == BURST_LINES
    assert len(lines.of(shown())) == 1
    monkeypatch.setattr("scaler_protocol.process.audit.time.monotonic", lambda: 60.0)
    lines.of(replace(HELLO, peer_id=PeerId(b"\x77" * 16)))
    assert "Scheduler, audit of refused Hellos: 213 lines about peers were left out" in caplog.text
