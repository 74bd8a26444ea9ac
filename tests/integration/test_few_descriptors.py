"""Servers that may open few files: peers that take all that there are hurt no other (FRM-17, FRM-19, LIM-32).

As with `ulimit -n 300`, the soft limit is the hard one, so that there is nothing to raise."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from functools import partial

import psutil
import pytest
import zmq

from scaler import Client
from scaler_protocol.codec import decode, encode
from scaler_protocol.codes import OVERLOADED, ROLE_CLIENT
from scaler_protocol.ids import new_peer_id, new_routing_id
from scaler_protocol.keys import Keyring, pass_of
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import ticket_text
from scaler_protocol.messages import Hello, Reject
from scaler_protocol.transport.curve import dial_with
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage, until

SERVERS = ("scheduler", "storage")
DESCRIPTORS = 300
SHORT, ENOUGH = "new peers cannot connect", "new peers can connect again"
LARGE = bytes(2_000_000)
"""Travels through the storage."""


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, 1, descriptors=DESCRIPTORS)


@pytest.fixture
def keyring(cluster: RealCluster) -> Keyring:
    found = cluster.keys.find_keyring()
    assert found is not None
    return found


def server_of(cluster: RealCluster, name: str) -> tuple[Command, str]:
    """And its address."""
    if name == "storage":
        return cluster.storage, cluster.storage_address
    return cluster.scheduler, cluster.address


@pytest.fixture(params=SERVERS)
def attacked(cluster: RealCluster, request: pytest.FixtureRequest) -> tuple[Command, str]:
    """One of the two servers, and its address."""
    return server_of(cluster, request.param)


def is_served(client: Client) -> bool:
    """A small call, and one whose argument is stored."""
    return [future.result(WAIT) for future in (client.submit(abs, -1), client.submit(len, LARGE))] == [1, len(LARGE)]


def count_of(sentence: str, command: Command) -> int:
    return sum(sentence in line for line in (*command.lines, *command.error_lines))


class Crowd:
    """Peers that keep their sessions for longer than the test takes, each of a user with a ticket."""

    def __init__(self, keyring: Keyring, attacked: tuple[Command, str], opened: ExitStack) -> None:
        self._keyring = keyring
        self._command, self._address = attacked
        self._opened = opened
        self._context = opened.enter_context(zmq.Context())

    def is_short(self) -> bool:
        return count_of(SHORT, self._command) > 0

    def take(self, user: str) -> None:
        """All that this user gets. One peer comes after the other, because some of a crowd are closed as strangers
        before their Hello is read."""
        shown = pass_of(self._keyring.derive(user, frozenset({ROLE_CLIENT})), "test")
        while not self.is_short():
            peer = self._opened.enter_context(self._context.socket(zmq.DEALER))
            peer.setsockopt(zmq.LINGER, 0)
            peer.setsockopt(zmq.ROUTING_ID, new_routing_id())
            dial_with(peer, shown)
            peer.connect(self._address)
            peer.send_multipart(encode(Hello(1, 1, ROLE_CLIENT, new_peer_id(), credential=shown.ticket)))
            until(partial(self._is_answered, peer), "it is answered, or there is no room")
            if peer.poll(0):
                envelope, *payload = peer.recv_multipart()
                answer = decode(envelope, payload).message
                if isinstance(answer, Reject):
                    assert answer.code == OVERLOADED
                    return

    def _is_answered(self, peer: zmq.Socket[bytes]) -> bool:
        return bool(peer.poll(0)) or self.is_short()


def test_idle_strangers_take_no_place_of_a_newcomer(cluster: RealCluster, attacked: tuple[Command, str]) -> None:
    """They are twice as many as there are descriptors: the oldest are closed (FRM-17)."""
    command, address = attacked
    host, port = address.removeprefix("tcp://").split(":")
    with Client(cluster.address) as bystander:
        assert is_served(bystander)
        crowd = [socket.create_connection((host, int(port))) for _ in range(2 * DESCRIPTORS)]
        assert is_served(bystander)
        with Client(cluster.address) as newcomer:
            assert is_served(newcomer)
        for stranger in crowd:
            stranger.close()
        assert is_served(bystander)
    assert count_of(SHORT, command) <= 1
    cluster.stop()


def test_a_user_that_takes_all_sessions_leaves_descriptors_for_others(
    cluster: RealCluster, attacked: tuple[Command, str], keyring: Keyring
) -> None:
    """What a user gets beyond the first sessions of each is bounded by the descriptors, too (LIM-32)."""
    file = str(cluster.stage.directory / "bo.key")
    replace_file(file, ticket_text(keyring.derive("bo", frozenset({ROLE_CLIENT}))).encode())
    with ExitStack() as opened:
        crowd = Crowd(keyring, attacked, opened)
        crowd.take("ana")
        for _ in range(3):
            with Client(cluster.address, key_file=file) as newcomer:
                assert is_served(newcomer)
        assert not crowd.is_short()


def test_peers_that_take_all_descriptors_shut_out_newcomers_only(
    cluster: RealCluster, attacked: tuple[Command, str], keyring: Keyring
) -> None:
    """Of many users, each of which is let in. Their sessions are right, so none is closed. The log says so once, and
    once more when there is room (FRM-19)."""
    command, _ = attacked
    with Client(cluster.address) as bystander:
        assert is_served(bystander)
        with ExitStack() as opened:
            crowd, users = Crowd(keyring, attacked, opened), 0
            while not crowd.is_short():
                crowd.take(f"user-{(users := users + 1)}")
            assert users > 1
            for _ in range(10):
                assert is_served(bystander)
        command.wait_for(ENOUGH)
        assert is_served(bystander)
        with Client(cluster.address) as newcomer:
            assert is_served(newcomer)
    assert (count_of(SHORT, command), count_of(ENOUGH, command)) == (1, 1)
    cluster.stop()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("insecure", [False, True])
def test_a_server_without_descriptors_from_its_first_second_on_serves_its_sessions(
    stage: Stage, server: str, insecure: bool
) -> None:
    """Whatever a server does for the first time then, such as to try its own fence, needs no file (FRM-19)."""
    cluster = RealCluster(stage, 1, insecure=insecure)
    command, address = server_of(cluster, server)
    process = psutil.Process(command.process.pid)
    with Client(cluster.address, insecure=insecure) as client, ExitStack() as opened:
        assert client.submit(abs, -1).result(WAIT) == 1
        usual = process.rlimit(psutil.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
        process.rlimit(psutil.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), usual[1]))
        for _ in range(5):
            assert is_served(client)
            assert len(client.submit(bytes, len(LARGE)).result(WAIT)) == len(LARGE)
        command.wait_for(SHORT)
        host, port = address.removeprefix("tcp://").split(":")
        for _ in range(100):
            opened.enter_context(socket.create_connection((host, int(port))))
        assert is_served(client)
        process.rlimit(psutil.RLIMIT_NOFILE, usual)
        command.wait_for(ENOUGH)
        with Client(cluster.address, insecure=insecure) as newcomer:
            assert is_served(newcomer)
