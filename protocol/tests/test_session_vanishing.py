"""Which silence is that of a whole host (LIV-15, LIV-16, LIV-19)."""

from __future__ import annotations

import math
import socket
import sys

import pytest

from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.ids import RoutingId, new_peer_id, new_routing_id
from scaler_protocol.messages import Hello, Welcome
from scaler_protocol.session.channel import Channel
from scaler_protocol.session.server_session import ServerSession
from scaler_protocol.session.vanishing import LineFacts, VanishedHosts
from scaler_protocol.transport import tcp


def session_of(role: int = ROLE_WORKER) -> ServerSession:
    hello, welcome = Hello(1, 1, role, new_peer_id()), Welcome(1, new_peer_id(), 1, 1)
    return ServerSession(hello, welcome, Channel(encode), None, None, new_routing_id(), 0.0)


def gone_at(facts: list[LineFacts | None]) -> float | None:
    """When the session is declared lost, with these facts at 2.5 s of silence and every tenth of a second after that,
    the last of them again and again. None: not within a minute."""
    hosts, session = VanishedHosts(5.0, frozenset({ROLE_WORKER})), session_of()
    hosts.watch(session)
    for step in range(600):
        now = 2.5 + step / 10
        if session in hosts.take_due(now) and hosts.is_gone(session, facts[min(step, len(facts) - 1)], now):
            return round(now, 1)
    return None


def silence(asked_at: list[float], *, round_trip: float = 0.001, until: float = 30.0) -> list[LineFacts | None]:
    steps = [2.5 + step / 10 for step in range(int((until - 2.5) * 10))]
    return [LineFacts(now, sum(at <= now for at in asked_at), round_trip) for now in steps]


EACH_SECOND = [float(second) for second in range(1, 30)]


def test_a_host_that_answers_nothing_is_gone_after_the_time() -> None:
    assert gone_at(silence(EACH_SECOND)) == pytest.approx(5.0, abs=0.11)


def test_a_question_must_have_been_put_late() -> None:
    """As of a system that waits twice as long each time: what it asked before may have met a cut of 3 s."""
    assert gone_at(silence([0.2, 0.6, 1.4, 3.0, 6.2])) == pytest.approx(6.4, abs=0.21)


def test_the_answer_is_given_time_by_the_round_trip_of_the_connection() -> None:
    assert gone_at(silence(EACH_SECOND, round_trip=0.6)) == pytest.approx(4.0 + 4 * 0.6, abs=0.21)


def test_few_questions_prove_nothing() -> None:
    assert gone_at(silence([4.5, 9.0])) is None


def test_an_answer_begins_anew() -> None:
    until_answer, after = silence(EACH_SECOND, until=4.6), LineFacts(0.1, 0, 0.001)
    assert gone_at([*until_answer, after]) is None


def test_without_facts_only_the_lease_counts() -> None:
    assert gone_at([None]) is None


def test_only_workers_are_watched_and_none_without_a_time() -> None:
    for hosts, role in ((VanishedHosts(5.0, frozenset({ROLE_WORKER})), ROLE_CLIENT), (VanishedHosts(), ROLE_WORKER)):
        hosts.watch(session_of(role))
        assert hosts.take_due(1e9) == [] and hosts.fresh == []


def test_of_a_session_that_moves_or_ends_nothing_is_left() -> None:
    hosts, session = VanishedHosts(5.0, frozenset({ROLE_WORKER})), session_of()
    for number in range(100):
        session.attach(new_routing_id(), float(number))
        hosts.watch(session)
    assert hosts.take_due(101.0) == []
    assert hosts.take_due(102.0) == [session], "of its last socket only"
    assert not hosts.is_gone(session, LineFacts(4.0, 4, 0.001), 102.0)
    session.is_over = True
    assert hosts.take_due(1e9) == []
    assert not hosts._heap and not hosts._doubts and not hosts._signs._hosts


class Hosts:
    """The system of a scheduler with a worker on each of these hosts. It asks each second, and so hears of a host each
    second, unless this host is silent."""

    def __init__(self, *names: str) -> None:
        self._vanished = VanishedHosts(5.0, frozenset({ROLE_WORKER}))
        self._names = {session_of(): name for name in names}
        self._by_routing = {session.routing_id: name for session, name in self._names.items()}
        for session in self._names:
            self._vanished.watch(session)
        self._vanished.look_at_fresh(self)
        self.silent_since: dict[str, float] = {}
        self.now = 0.0

    def ask_often(self, routing_id: RoutingId) -> None: ...

    def host_of(self, routing_id: RoutingId) -> str:
        return self._by_routing[routing_id]

    def facts_of(self, routing_id: RoutingId) -> LineFacts:
        since = self.silent_since.get(self._by_routing[routing_id], math.floor(self.now))
        return LineFacts(self.now - since, int(self.now - since), 0.001)

    def gone_until(self, end: float) -> list[tuple[float, str]]:
        """Those that are declared lost, and when."""
        gone = []
        while self.now < end:
            self._vanished.look_for_signs(self, self.now)
            for session in self._vanished.take_due(self.now):
                assert session.routing_id is not None
                if self._vanished.is_gone(session, self.facts_of(session.routing_id), self.now):
                    gone.append((round(self.now, 1), self._names[session]))
            self.now += 0.1
        return gone


def test_a_host_is_gone_while_another_is_heard() -> None:
    hosts = Hosts("one", "two")
    hosts.silent_since = {"one": 10.0}
    ((at, name),) = hosts.gone_until(60.0)
    assert name == "one" and at == pytest.approx(15.0, abs=0.21)


def test_no_host_is_gone_while_none_is_heard() -> None:
    """The network of the scheduler is down. Afterwards each host has time for a sign."""
    hosts = Hosts("one", "two", "three")
    hosts.silent_since = {"one": 10.0, "two": 10.3, "three": 10.9}
    assert hosts.gone_until(40.0) == []
    del hosts.silent_since["two"]
    assert hosts.gone_until(43.0) == [], "the others have been silent for 33 s"
    del hosts.silent_since["three"]
    ((at, name),) = hosts.gone_until(60.0)
    assert name == "one" and 43.5 < at < 47.0


def test_two_failures_of_the_network_in_a_row_take_no_host() -> None:
    hosts = Hosts("one", "two")
    hosts.silent_since = {"one": 10.0, "two": 10.0}
    assert hosts.gone_until(20.0) == []
    hosts.silent_since = {"one": 10.0}  # its system has not asked again yet
    assert hosts.gone_until(20.9) == []
    hosts.silent_since = {"one": 10.0, "two": 20.9}
    assert hosts.gone_until(24.0) == []
    hosts.silent_since = {}
    assert hosts.gone_until(60.0) == []


@pytest.mark.parametrize(
    "names", [("one",), ("one", "one"), ("one", "")], ids=["one worker", "one host", "and our own"]
)
def test_a_host_without_another_to_tell_by_is_gone_after_the_time(names: tuple[str, ...]) -> None:
    hosts = Hosts(*names)
    hosts.silent_since = {"one": 10.0}
    found = hosts.gone_until(60.0)
    assert len(found) == names.count("one") and found[0][0] == pytest.approx(15.0, abs=0.21)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no facts")
def test_what_the_system_tells() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            tcp.ask_often(other)
            other.sendall(b"question")
            assert one.recv(8) == b"question"
            facts = tcp.facts_of(other)
            assert facts is not None
            assert facts.silent_seconds < 5.0 and facts.asked_count == 0 and 0.0 < facts.round_trip_seconds < 1.0
            assert other.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1
            assert tcp.host_of(other) == "", "this host itself"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), source_address=("127.0.0.2", 0)),
    ):
        other, _ = server.accept()
        with other:
            assert tcp.host_of(other) == "127.0.0.2"
    pair = socket.socketpair()
    with pair[0], pair[1]:
        tcp.ask_often(pair[0])
        assert tcp.facts_of(pair[0]) is None and tcp.host_of(pair[0]) == ""


def test_a_silent_host_is_suspected_until_it_gives_a_sign() -> None:
    """(LIV-17)"""
    told: list[bool] = []
    hosts = VanishedHosts(5.0, frozenset({ROLE_WORKER}), lambda peer_id, is_suspected: told.append(is_suspected))
    session = session_of()
    hosts.watch(session)
    for now, facts, expected in (
        (2.5, LineFacts(2.4, 2, 0.001), []),
        (2.7, LineFacts(2.6, 1, 0.001), []),
        (2.8, LineFacts(2.7, 2, 0.001), [True]),
        (2.9, LineFacts(2.8, 2, 0.001), [True]),
        (3.0, LineFacts(0.1, 0, 0.001), [True, False]),
        (6.0, LineFacts(4.0, 4, 0.001), [True, False, True]),
        (6.1, None, [True, False, True, False]),
    ):
        assert not hosts.is_gone(session, facts, now)
        assert told == expected


def test_a_worker_that_is_heard_is_suspected_no_longer() -> None:
    told: list[bool] = []
    hosts = VanishedHosts(5.0, frozenset({ROLE_WORKER}), lambda peer_id, is_suspected: told.append(is_suspected))
    session = session_of()
    hosts.watch(session)
    assert hosts.take_due(3.0) == [session] and not hosts.is_gone(session, LineFacts(3.0, 3, 0.001), 3.0)
    session.heard_at = 3.05
    assert hosts.take_due(3.2) == [] and told == [True, False]
