"""Servers that may open few files: peers that take all that there are hurt no other (FRM-17, FRM-19).

As with `ulimit -n 200`, the soft limit is the hard one, so that there is nothing to raise."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
import zmq

from scaler import Client
from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import new_peer_id, new_routing_id
from scaler_protocol.messages import Hello
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage, until

DESCRIPTORS = 200
SHORT, ENOUGH = "new peers cannot connect", "new peers can connect again"
LARGE = bytes(2_000_000)
"""Travels through the storage."""


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    """With keys, a stranger cannot open a session."""
    return RealCluster(stage, 1, insecure=True, descriptors=DESCRIPTORS)


@pytest.fixture(params=["scheduler", "storage"])
def attacked(cluster: RealCluster, request: pytest.FixtureRequest) -> tuple[Command, str]:
    """One of the two servers, and its address."""
    if request.param == "storage":
        return cluster.storage, cluster.storage_address
    return cluster.scheduler, cluster.address


def is_served(client: Client) -> bool:
    """A small call, and one whose argument is stored."""
    return [future.result(WAIT) for future in (client.submit(abs, -1), client.submit(len, LARGE))] == [1, len(LARGE)]


def count_of(sentence: str, command: Command) -> int:
    return sum(sentence in line for line in (*command.lines, *command.error_lines))


def is_answered(peer: zmq.Socket[bytes], command: Command) -> bool:
    return bool(peer.poll(0)) or count_of(SHORT, command) > 0


@contextmanager
def all_taken(command: Command, address: str) -> Iterator[None]:
    """By peers that keep their sessions for longer than the test takes. One comes after the other, because some of a
    crowd are closed as strangers before their Hello is read."""
    with zmq.Context() as context, ExitStack() as peers:
        while not count_of(SHORT, command):
            peer = peers.enter_context(context.socket(zmq.DEALER))
            peer.setsockopt(zmq.LINGER, 0)
            peer.setsockopt(zmq.ROUTING_ID, new_routing_id())
            peer.connect(address)
            peer.send_multipart(encode(Hello(1, 1, ROLE_CLIENT, new_peer_id())))
            until(partial(is_answered, peer, command), "it is welcomed, or there is no room")
        yield


def test_idle_strangers_take_no_place_of_a_newcomer(cluster: RealCluster, attacked: tuple[Command, str]) -> None:
    """They are twice as many as there are descriptors: the oldest are closed (FRM-17)."""
    command, address = attacked
    host, port = address.removeprefix("tcp://").split(":")
    with Client(cluster.address, insecure=True) as bystander:
        assert is_served(bystander)
        crowd = [socket.create_connection((host, int(port))) for _ in range(2 * DESCRIPTORS)]
        assert is_served(bystander)
        with Client(cluster.address, insecure=True) as newcomer:
            assert is_served(newcomer)
        for stranger in crowd:
            stranger.close()
        assert is_served(bystander)
    assert count_of(SHORT, command) <= 1
    cluster.stop()


def test_peers_that_take_all_descriptors_shut_out_newcomers_only(
    cluster: RealCluster, attacked: tuple[Command, str]
) -> None:
    """Their sessions are right, so none is closed. The log says so once, and once more when there is room (FRM-19)."""
    command, address = attacked
    with Client(cluster.address, insecure=True) as bystander:
        assert is_served(bystander)
        with all_taken(command, address):
            for _ in range(10):
                assert is_served(bystander)
        command.wait_for(ENOUGH)
        assert is_served(bystander)
        with Client(cluster.address, insecure=True) as newcomer:
            assert is_served(newcomer)
    assert (count_of(SHORT, command), count_of(ENOUGH, command)) == (1, 1)
    cluster.stop()
