"""Peers that take as much as they can of a server, while a bystander works: memory stays bounded, and it is served."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from scaler_protocol import codes
from scaler_protocol.codec import encode
from scaler_protocol.ids import new_object_id
from scaler_protocol.messages import Get, Hello, Put, Resume, Welcome
from tests.support.bystander import unharmed
from tests.support.clusters import RealCluster
from tests.support.hostile import raw_peer
from tests.support.processes import Stage

GROWTH_BYTES = 64 * 1024 * 1024
VALUE = os.urandom(60_000)


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1, insecure=True)  # with keys a stranger cannot say Hello
    with unharmed(cluster, GROWTH_BYTES) as bystander:
        cluster.bystander = bystander  # type: ignore[attr-defined]
        yield cluster


def growth(process_id: int, before: int) -> int:
    return int(psutil.Process(process_id).memory_info().rss) - before


def test_idle_connections_hurt_nobody(cluster: RealCluster) -> None:
    """More than may be without a session: the oldest are closed."""
    for port in (cluster.port, cluster.port + 1):
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(1_200)]
        cluster.bystander.is_served()  # type: ignore[attr-defined]
        crowd[0].settimeout(5.0)  # it is not the 10 seconds that end it
        try:
            while crowd[0].recv(4096):
                pass
        except ConnectionResetError:
            pass
        cluster.bystander.is_served()  # type: ignore[attr-defined]
        for one in crowd:
            one.close()


def test_a_hello_without_end_is_not_answered_without_end(cluster: RealCluster) -> None:
    before = psutil.Process(cluster.scheduler.pid).memory_info().rss
    with raw_peer(cluster.address) as peer:
        again = encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=peer.peer_id))
        for _ in range(30_000):
            peer.send(*again)
        cluster.bystander.is_served()  # type: ignore[attr-defined]
        assert growth(cluster.scheduler.pid, before) < GROWTH_BYTES


def test_what_is_asked_for_and_never_read_costs_little(cluster: RealCluster) -> None:
    """Two sessions ask for 90 MiB each, and acknowledge nothing; then one of them is resumed time and again."""
    before = psutil.Process(cluster.storage.pid).memory_info().rss
    with raw_peer(cluster.storage_address) as one, raw_peer(cluster.storage_address) as two:
        for peer in (one, two):
            hello = Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=peer.peer_id)
            peer.send(*encode(hello))
            welcome = peer.answer()
            assert isinstance(welcome, Welcome)
            identifier = new_object_id()
            peer.send(*encode(Put(1, identifier, peer.peer_id, len(VALUE), 0, VALUE), seq=1))
            for seq in range(2, 1_500):
                peer.send(*encode(Get(seq, identifier, 0, 0, 0.0), seq=seq))
        cluster.bystander.is_served()  # type: ignore[attr-defined]
        assert growth(cluster.storage.pid, before) < GROWTH_BYTES
        for _ in range(25):
            with raw_peer(cluster.storage_address) as other:
                other.send(*encode(replace(hello, resume=Resume(welcome.session_id, 0))))
                again = other.answer()
                assert isinstance(again, Welcome) and again.resumed
        cluster.bystander.is_served()  # type: ignore[attr-defined]
        assert growth(cluster.storage.pid, before) < GROWTH_BYTES
