"""Dialers with several addresses: how lists are read, and how servers are dialed in turn (HSK-39 to HSK-41)."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest
from tests.support.endpoints import PATIENCE_SECONDS, Bench, bench_on, crash
from tests.support.session_sides import Dialer

from scaler_protocol import codes
from scaler_protocol.addresses import AddressError, check_resolvable, parse_address, parse_addresses
from scaler_protocol.messages import Hello, Reject, Timers
from scaler_protocol.session import Lost, Opened, Rejected
from scaler_protocol.session.backoff import Backoff
from scaler_protocol.session.dialer_states import State
from scaler_protocol.transport import RouterEndpoint

STANDBY = Reject(codes.OVERLOADED, 1, 1, "this scheduler is a standby", is_standby=True, retry_seconds=0.2)
SHUTTING_DOWN = Reject(codes.SHUTTING_DOWN, 1, 1, "this scheduler is shutting down")


# ---------------------------------------------------------------- lists


def test_a_list_is_read_in_its_order() -> None:
    both = (parse_address("tcp://b:1"), parse_address("tcp://a:2"))
    assert parse_addresses("tcp://b:1,tcp://a:2") == both
    assert parse_addresses(" tcp://b:1 , tcp://a:2 ") == both
    assert parse_addresses("tcp://b:1") == both[:1]


@pytest.mark.skipif(sys.platform == "win32", reason="no ipc on Windows")
def test_a_comma_in_a_path_makes_no_list() -> None:
    assert [place.path for place in parse_addresses("ipc:///run/a,b")] == ["/run/a,b"]
    assert [place.path for place in parse_addresses("ipc:///run/a,ipc:///run/b")] == ["/run/a", "/run/b"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tcp://a:1,,tcp://b:1", "leave out the comma"),
        ("tcp://a:1,", "leave out the comma"),
        ("tcp://a:1,tcp://b:1,", "leave out the comma"),
        ("tcp://a:1,tcp://a:1", "names tcp://a:1 twice"),
        ("tcp://a:1,b:2", "'b:2' does not begin with tcp://"),
        ("tcp://a:1,tcp://b", "'tcp://b' has no port"),
        ("tcp://a:1,tcp://*:2", "can be listened on but not connected to"),
        (",".join(f"tcp://a:{port}" for port in range(1, 10)), "at most 8 addresses and this one has 9"),
        ("", "does not begin with tcp://"),
    ],
)
def test_a_wrong_list_is_one_readable_sentence(text: str, part: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_addresses(text)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_a_list_where_one_address_is_wanted() -> None:
    with pytest.raises(AddressError, match="is a list of addresses, and one is wanted here"):
        parse_address("tcp://a:1,tcp://b:1")


def test_one_known_host_of_a_list_is_enough() -> None:
    check_resolvable("tcp://no-such-host.invalid:1,tcp://127.0.0.1:1")
    with pytest.raises(AddressError, match="no-such-host"):
        check_resolvable("tcp://no-such-host.invalid:1,tcp://nor-this.invalid:1")


# ---------------------------------------------------------------- waits


def test_a_pause_comes_after_a_round_of_all_addresses() -> None:
    backoff = Backoff(b"", Timers())  # type: ignore[arg-type]
    backoff.address_count = 3
    pauses = []
    for _ in range(9):
        pauses.append(backoff.pause_seconds())
        backoff.failed()
    assert pauses[:3] == [0.0, 0.0, 0.0], "each address once"
    assert [bool(pause) for pause in pauses[3:]] == [True, False, False] * 2
    assert pauses[3] < pauses[6]


@pytest.mark.parametrize("lease", [0.5, 5.0, 60.0])
def test_a_server_that_is_far_away_is_found_however_short_the_lease_is(lease: float) -> None:
    backoff = Backoff(b"", Timers(lease / 5, lease))  # type: ignore[arg-type]
    for _ in range(10):
        assert backoff.answer_seconds(is_resuming=True) <= max(0.25, lease / 4), "several fit into the lease"
        backoff.failed()
    assert 4.0 <= backoff.answer_seconds() <= 8.0


def test_a_standby_says_how_long_pauses_are() -> None:
    backoff = Backoff(b"", Timers())  # type: ignore[arg-type]
    backoff.address_count = 2
    for _ in range(20):
        assert backoff.heed(STANDBY)
        backoff.failed()
    assert backoff.pause_seconds() == 0.2 and backoff.answer_seconds() == 0.5
    assert backoff.heed(Reject(codes.OVERLOADED, 1, 1, "full")) and backoff.pause_seconds() == 2.0
    for seconds in (float("nan"), float("inf"), -1.0, 1e9):
        backoff.heed(Reject(codes.OVERLOADED, 1, 1, "", is_standby=True, retry_seconds=seconds))
        assert backoff.pause_seconds() == 2.0, "what cannot be is not obeyed"


def test_a_server_that_has_accepted_the_connection_is_given_more_time() -> None:  # HSK-41
    """It may be far away. One that never answers is left all the same, so that the others are dialed too."""
    dialer = Dialer()
    dialer.core.backoff.address_count = 2
    dialer.round()
    waits = []
    for _ in range(6):
        dialer.say(STANDBY)
        while dialer.core.state is not State.DIALING:
            dialer.now = dialer.core.next_deadline() or dialer.now
            dialer.round()
        dialed_at = dialer.now
        dialer.core.reached(dialer.now)
        dialer.now = dialer.core.next_deadline() or dialer.now
        waits.append(dialer.now - dialed_at)
        dialer.round()
        while dialer.core.state is not State.DIALING:
            dialer.now = dialer.core.next_deadline() or dialer.now
            dialer.round()
    assert waits == sorted(waits) and waits[0] <= 0.5 and waits[-1] >= 3.0


def test_a_server_that_shuts_down_is_no_end_where_there_is_another() -> None:  # HSK-12
    alone = Dialer()
    alone.round()
    alone.say(SHUTTING_DOWN)
    assert [type(event) for event in alone.round()] == [Rejected]
    dialer = Dialer()
    dialer.core.backoff.address_count = 2
    dialer.round()
    dialer.say(SHUTTING_DOWN)
    assert dialer.round() == [] and dialer.core.generation == 2, "the next one is dialed at once"


# ---------------------------------------------------------------- sockets


@pytest.fixture(params=["lane", "zeromq"])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from bench_on(request.param, monkeypatch)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test says which server is dialed: one that is slow to answer, on a slow machine, is not passed over."""
    monkeypatch.setattr("scaler_protocol.session.backoff._FIRST_ANSWER_OF_SEVERAL", PATIENCE_SECONDS)
    monkeypatch.setattr("scaler_protocol.session.backoff._FIRST_ANSWER_SECONDS", PATIENCE_SECONDS)


class Second:
    """A server that turns all away until it `serves`."""

    def __init__(self, bench: Bench) -> None:
        self.serves = False
        self.turned_count = 0
        self.endpoint: RouterEndpoint = bench.server(turned_away=self._answer)

    def _answer(self, hello: Hello) -> Reject | None:
        self.turned_count += not self.serves
        return None if self.serves else STANDBY


def test_a_server_that_is_not_there_is_passed_over(bench: Bench) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        server = bench.server()
        dialer = bench.dialer(f"{dead},{server.address}")
        bench.open(dialer)
    assert dialer.address == server.address and dialer.addresses == f"{server.address},{dead}"


def test_the_next_server_is_found_when_the_first_has_died(bench: Bench) -> None:
    first, second = bench.server(), Second(bench)
    dialer = bench.dialer(f"{first.address},{second.endpoint.address}")
    bench.open(dialer)
    assert dialer.address == first.address
    crash(first)
    bench.endpoints.remove(first)
    bench.until(lambda: second.turned_count >= 2, "the standby to be asked again and again")
    assert bench.kinds(dialer) == ["Opened"], "no session is lost while none serves"
    second.serves = True
    bench.until(lambda: len(bench.events[dialer]) >= 3, "the session with the second")
    opened, lost, again = bench.events[dialer]
    assert isinstance(opened, Opened) and isinstance(lost, Lost) and isinstance(again, Opened)
    assert again.peer_id != opened.peer_id and dialer.address == second.endpoint.address


def test_a_standby_is_left_for_the_server_that_serves(bench: Bench) -> None:
    first, second = bench.server(), Second(bench)
    dialer = bench.dialer(f"{second.endpoint.address},{first.address}")
    bench.open(dialer)
    assert dialer.address == first.address and second.turned_count >= 1


def test_a_dialer_with_the_address_of_the_standby_alone_waits_until_it_serves(bench: Bench) -> None:
    """So does one that knows nothing of standbys: it dials again after OVERLOADED. (ERR-10)"""
    second = Second(bench)
    dialer = bench.dialer(second.endpoint.address)
    bench.until(lambda: second.turned_count >= 2, "the standby to be asked again")
    assert dialer.waits_because == STANDBY.text
    second.serves = True
    bench.open(dialer)


def test_a_server_that_accepts_connections_and_is_mute_is_left_each_time(bench: Bench) -> None:
    """As one that is stopped: its system accepts connections for it."""
    second = Second(bench)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        dialer = bench.dialer(f"tcp://127.0.0.1:{mute.getsockname()[1]},{second.endpoint.address}")
        bench.until(lambda: second.turned_count >= 2, "the standby to be dialed again and again")
        second.serves = True
        bench.open(dialer)
    assert dialer.address == second.endpoint.address


def test_a_session_stays_with_its_server_over_a_broken_connection(bench: Bench, patient: None) -> None:
    first, second = bench.server(), Second(bench)
    second.serves = True
    dialer = bench.dialer(f"{first.address},{second.endpoint.address}")
    bench.open(dialer)
    dialer._dialer.disconnected(0.0)
    bench.ask(dialer, 1)
    assert dialer.address == first.address and bench.kinds(second.endpoint) == []
