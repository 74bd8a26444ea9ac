"""Which of two schedulers serves, of what they tell one another and of time alone (SCH-80 to SCH-83, LIV-18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, Software, Welcome
from scaler_protocol.session import Lost, Opened
from scaler_scheduler.core.succession import Duty, Succession
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
