"""Which of two schedulers serves, of what they tell one another and of time alone (SCH-80 to SCH-83, LIV-18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, Software, Welcome
from scaler_protocol.process import UsageError
from scaler_protocol.session import Lost, Opened, Rejected
from scaler_scheduler.config import Config, parse
from scaler_scheduler.core.succession.succession import Duty, Succession
from scaler_scheduler.standby import HELLOS_PER_SECOND, Retries, Standby

LOW, HIGH = PeerId(b"a" * 16), PeerId(b"b" * 16)
LEASE = 5.0


def waiting(server_id: PeerId = LOW) -> Succession:
    succession = Succession(server_id, LEASE, waits=True)
    succession.begin(100.0)
    return succession


def serving(server_id: PeerId = LOW) -> Succession:
    return Succession(server_id, LEASE, waits=False)


def from_other(serving_generation: int, server_id: PeerId = HIGH) -> Hello:
    return Hello(
        1, 1, codes.ROLE_SCHEDULER, new_peer_id(), last_server_id=server_id, serving_generation=serving_generation
    )


def test_a_standby_that_finds_no_other_serves_after_the_lease() -> None:
    succession = waiting()
    succession.tick(104.9)
    assert succession.is_waiting
    succession.tick(105.0)
    assert succession.duty is Duty.SERVING and succession.seen_generation == 0


def test_a_standby_waits_as_long_as_the_other_serves() -> None:  # SCH-80
    succession = waiting()
    succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    succession.tick(1e9)
    assert succession.is_waiting and succession.is_linked


def test_it_serves_when_the_other_is_silent_for_the_lease() -> None:  # SCH-80, SCH-81
    succession = waiting()
    succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    succession.lost(200.0, is_silent=True)
    assert succession.duty is Duty.SERVING and succession.seen_generation == 7


def test_it_serves_at_once_after_a_goodbye() -> None:
    succession = waiting()
    succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    succession.told_goodbye()
    assert succession.duty is Duty.SERVING


def test_one_that_was_restarted_may_come_back() -> None:
    succession = waiting()
    succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    succession.lost(200.0, is_silent=False)
    succession.tick(204.9)
    assert succession.is_waiting
    succession.opened(PeerId(b"c" * 16), 1, is_standby=False, own_generation=1)
    succession.tick(1e9)
    assert succession.is_waiting and succession.seen_generation == 7


@pytest.mark.parametrize("own", [LOW, HIGH])
def test_of_two_that_wait_exactly_one_serves_at_once(own: PeerId) -> None:  # SCH-80
    succession = waiting(own)
    succession.opened(HIGH if own == LOW else LOW, 1, is_standby=True, own_generation=1)
    assert succession.is_waiting is (own == HIGH)


@pytest.mark.parametrize(
    ("theirs", "ours", "own", "ends"),
    [(8, 7, LOW, True), (7, 8, LOW, False), (7, 7, LOW, True), (7, 7, HIGH, False)],
)
def test_of_two_that_serve_the_lower_rank_ends(theirs: int, ours: int, own: PeerId, ends: bool) -> None:  # SCH-82
    """Whichever of the two learns of the other first, and by whichever session."""
    other = HIGH if own == LOW else LOW
    by_its_session, by_ours = serving(own), serving(own)
    by_its_session.met(from_other(theirs, other), own_generation=ours)
    by_ours.opened(other, theirs, is_standby=False, own_generation=ours)
    assert (by_its_session.duty is Duty.FOLLOWED) is (by_ours.duty is Duty.FOLLOWED) is ends


def test_a_standby_is_no_reason_to_end() -> None:
    succession = serving()
    succession.met(from_other(0), own_generation=1)
    succession.opened(HIGH, 9, is_standby=True, own_generation=1)
    succession.told_goodbye()
    succession.lost(1.0, is_silent=True)
    succession.told_to_end()
    succession.tick(1e9)
    assert succession.duty is Duty.SERVING


def test_the_end_of_the_cluster_ends_a_standby() -> None:  # HSK-42
    succession = waiting()
    succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    succession.told_to_end()
    succession.told_goodbye()
    assert succession.duty is Duty.ENDED


# ---------------------------------------------------------------- options

STORAGE = ("-osa", "tcp://10.0.0.3:2346")


def parsed(*options: str) -> Config:
    return parse(["tcp://10.0.0.1:2345", *options])


def test_what_a_standby_is_told() -> None:
    config = parsed(*STORAGE, "--standby-of", "tcp://10.0.0.2:2345", "--standby-lease-seconds", "0.5")
    assert (config.standby_of, config.standby_lease_seconds) == ("tcp://10.0.0.2:2345", 0.5)
    assert parsed().standby_lease_seconds == 5.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--standby-of", "tcp://10.0.0.2:2345"), "name the storage of both schedulers to both"),
        ((*STORAGE, "--standby-of", "tcp://10.0.0.1:2345"), "is this scheduler's own address: name the other"),
        ((*STORAGE, "--standby-of", "10.0.0.2:2345"), "--standby-of: address '10.0.0.2:2345' does not begin with tcp"),
        ((*STORAGE, "--standby-of", "tcp://10.0.0.2:2345,tcp://10.0.0.3:2345"), "is a list of addresses, and one is"),
    ],
)
def test_what_no_standby_can_be_made_of(options: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(*options)
    assert words in str(caught.value)


@pytest.mark.parametrize("seconds", ["0.49", "0", "-1", "nan", "inf", "soon"])
def test_a_lease_that_a_scheduler_at_work_could_miss(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*STORAGE, "--standby-of", "tcp://10.0.0.2:2345", "--standby-lease-seconds", seconds)
    told = capsys.readouterr().err
    assert ("give 0.5 or more" in told) is (seconds == "0.49") and "--standby-lease-seconds" in told


# ---------------------------------------------------------------- the shell


class Changes:
    def __init__(self, waits: bool) -> None:
        self.count = 0
        other = "tcp://127.0.0.1:1" if waits else ""
        self.standby = Standby(LOW, other, LEASE, Software("scheduler"), lambda: 3, self.note)

    def note(self) -> None:
        self.count += 1


WELCOME = Welcome(1, LOW, 1, 1)


def test_without_an_operators_ticket_no_scheduler_ends_another() -> None:  # SCH-82
    changes = Changes(waits=False)
    roles = frozenset({codes.ROLE_SCHEDULER})
    guest = Identity("ana", roles, is_operator=False, holder=b"h" * 32, expires=0.0)
    hello = from_other(99)
    changes.standby.on_peer(Opened(hello.peer_id, hello, WELCOME, guest))
    assert changes.count == 0 and len(changes.standby.standbys) == 1, "it is shown all the same"
    changes.standby.on_peer(Lost(hello.peer_id, 0, "", True))
    assert not changes.standby.standbys
    changes.standby.on_peer(Opened(hello.peer_id, hello, WELCOME, replace(guest, is_operator=True)))
    assert changes.count == 1 and changes.standby.succession.duty is Duty.FOLLOWED


@pytest.mark.parametrize(
    ("role", "is_let_in"),
    [
        (codes.ROLE_CLIENT, False),
        (codes.ROLE_WORKER, False),
        (codes.ROLE_MANAGER, False),
        (codes.ROLE_MONITOR, True),
        (codes.ROLE_SCHEDULER, True),
    ],
)
def test_whom_a_standby_turns_away(role: int, is_let_in: bool) -> None:  # HSK-40
    if role == codes.ROLE_MONITOR:
        sent_on = Hello(1, 1, role, new_peer_id(), features=("serving",))
        assert Changes(waits=True).standby.turned_away(sent_on) is not None
    hello = Hello(1, 1, role, new_peer_id(), last_server_id=new_peer_id())
    reject = Changes(waits=True).standby.turned_away(hello)
    assert (reject is None) is is_let_in
    if reject is not None:
        assert reject.code == codes.OVERLOADED and reject.is_standby and 0 < reject.retry_seconds < 1
        assert "standby of tcp://127.0.0.1:1" in reject.text
    assert Changes(waits=False).standby.turned_away(hello) is None


OPERATOR = Identity("ana", frozenset({codes.ROLE_SCHEDULER}), is_operator=True, holder=b"h" * 32, expires=0.0)


def joined(standby: Standby, hello: Hello, identity: Identity = OPERATOR) -> None:
    assert standby.turned_away(hello) is None
    standby.on_peer(Opened(hello.peer_id, hello, WELCOME, identity))


def test_a_scheduler_has_one_standby() -> None:
    """Two would both serve when it is gone, and not know of each other."""
    standby = Changes(waits=False).standby
    first, second = from_other(0, HIGH), from_other(0, PeerId(b"c" * 16))
    joined(standby, first)
    joined(standby, replace(first, incarnation=2))
    reject = standby.turned_away(second)
    assert reject is not None and reject.code == codes.BAD_ROLE and "has a standby already" in reject.text
    assert standby.turned_away(replace(second, serving_generation=5)) is None, "one that serves has to be met"
    standby.on_peer(Lost(first.peer_id, 0, "", True))
    joined(standby, second)


def test_a_guest_takes_no_standbys_place() -> None:
    standby = Changes(waits=False).standby
    joined(standby, from_other(0, HIGH), replace(OPERATOR, is_operator=False))
    assert standby.turned_away(from_other(0, PeerId(b"c" * 16))) is None


def test_a_standby_has_no_standby() -> None:
    standby = Changes(waits=True).standby
    assert standby.turned_away(from_other(0, PeerId(b"c" * 16))) is None, "it may be the other of the two"
    standby.succession.opened(HIGH, 7, is_standby=False, own_generation=1)
    reject = standby.turned_away(from_other(0, PeerId(b"c" * 16)))
    assert reject is not None and "itself a standby of tcp://127.0.0.1:1: name the one that serves" in reject.text
    assert standby.turned_away(from_other(0, HIGH)) is None


def test_one_that_is_refused_asks_again_for_a_while_and_does_not_serve() -> None:
    """The place may be that of its own former life."""
    changes = Changes(waits=True)
    standby = changes.standby
    standby.succession.begin(100.0)
    refused = Rejected(codes.BAD_ROLE, "it has a standby already, one on n1, and can have one")
    for now in (100.1, 104.0, 108.0, 110.0):
        standby.on_link([refused], now)
        standby.tick(now)
        assert standby.failure is None and standby.is_waiting
    standby.on_link([refused], 110.2)
    assert standby.failure is not None and "it has a standby already, one on n1" in str(standby.failure)
    assert changes.count == 1


@pytest.mark.parametrize("code", [codes.VERSION_MISMATCH, codes.UNAUTHORIZED])
def test_what_a_person_has_to_mend_ends_it_at_once(code: int) -> None:
    changes = Changes(waits=True)
    changes.standby.on_link([Rejected(code, "the scheduler speaks version 2, and this one version 1")], 100.0)
    assert "no standby of tcp://127.0.0.1:1 can be had: the scheduler speaks version 2" in str(changes.standby.failure)


@pytest.mark.parametrize(
    ("own", "told", "is_warned"),
    [
        ("tcp://s:1", "tcp://s:1", False),
        ("tcp://s:1", "tcp://t:1", True),
        ("", "tcp://t:1", False),
        ("tcp://s:1", "", False),
    ],
)
def test_two_storages_are_a_warning(own: str, told: str, is_warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    standby = Standby(LOW, "tcp://h:1", LEASE, Software("scheduler"), lambda: 3, lambda: None, own)
    with caplog.at_level("WARNING"):
        standby.on_link([Opened(HIGH, from_other(0), replace(WELCOME, storage_address=told))], 100.0)
    assert ("both need the same one" in caplog.text) is is_warned


@pytest.mark.parametrize("waits", [True, False])
def test_a_scheduler_that_takes_this_one_for_a_storage_is_told(waits: bool) -> None:
    """It does not name itself, as one does that follows. (SCH-82)"""
    reject = Changes(waits=waits).standby.turned_away(Hello(1, 1, codes.ROLE_SCHEDULER, new_peer_id()))
    assert reject is not None and reject.code == codes.BAD_ROLE
    assert "does not talk to a scheduler as to its object storage: check the address" in reject.text


def test_the_more_dial_the_longer_they_wait() -> None:  # HSK-41
    retries = Retries()
    for number in range(10 * HELLOS_PER_SECOND):
        retries.note(number / HELLOS_PER_SECOND / 2)
    assert 0.25 < retries.seconds <= 8.0
