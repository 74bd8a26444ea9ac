"""Messages, PINGs of ZMTP and resets, from many connections: libzmq up to 4.3.5 aborted at its receiving mark (FRM-12).

libzmq receives faster than a server reads, and what it has received of a connection stays when that connection has
closed. So memory is bounded by whom it lets in, and newcomers are let in nevertheless (LIM-34).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from scaler import Client
from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import KeyOptions, Pass, pass_of
from scaler_protocol.messages import Hello, Ping
from tests.fuzz import sealed
from tests.fuzz.sealed import SealedWire
from tests.fuzz.wire import Wire
from tests.support.bystander import unharmed
from tests.support.clusters import RealCluster
from tests.support.endpoints import Bench
from tests.support.keyed import rejection
from tests.support.processes import WAIT, Stage, until

ROUNDS = 30
WIRES = 6
MESSAGES = 1_000
PING_EVERY = 25
PING = b"\x04PING\0\0" + b"context "
DESCRIPTOR_ROUNDS, DESCRIPTOR_WIRES, DESCRIPTOR_MESSAGES = 12, 50, 100
GROWTH_BYTES = 128 * 1024 * 1024

Dial = Callable[[int], Wire]


@pytest.fixture(scope="module", params=["insecure", "keys"])
def cluster(request: pytest.FixtureRequest, module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1, insecure=request.param == "insecure")
    with unharmed(cluster, GROWTH_BYTES) as bystander:
        cluster.bystander = bystander  # type: ignore[attr-defined]
        yield cluster
    for command in (cluster.scheduler, cluster.storage):
        assert command.process.poll() is None, command.text
        assert "Traceback" not in command.text and "Assertion" not in command.text
    cluster.stop()


def cluster_pass(cluster: RealCluster) -> Pass:
    shown = KeyOptions().find_pass(cluster.address, WAIT)
    assert shown is not None
    return shown


def flood(
    dial: Dial, port: int, hello: Callable[[], list[bytes]] | None, wires: int = WIRES, messages: int = MESSAGES
) -> None:
    """One round."""
    opened = [dial(port) for _ in range(wires)]
    ping = encode(Ping(1), seq=1)
    for wire in opened:
        if wire.is_closed:
            continue
        if hello is not None:
            wire.send(hello())
        said = []
        for number in range(messages):
            body = b"x" if hello is None else bytes(ping[0])
            said.append(wire.packed(body))
            if number % PING_EVERY == 0:
                said.append(wire.packed(PING, is_command=True))
        wire.say(b"".join(said))
    for wire in opened:
        wire.reset()


def growths(cluster: RealCluster, before: list[int]) -> list[int]:
    return [now - then for now, then in zip(residents(cluster), before, strict=True)]


def residents(cluster: RealCluster) -> list[int]:
    return [psutil.Process(command.pid).memory_info().rss for command in (cluster.scheduler, cluster.storage)]


@pytest.mark.skipif(not sealed.is_possible(), reason="pyzmq brings no libsodium here")
@pytest.mark.parametrize("has_session", [False, True], ids=["strangers", "sessions"])
def test_servers_live_and_stay_small(cluster: RealCluster, has_session: bool) -> None:
    shown = None if cluster.keys.insecure else cluster_pass(cluster)
    attack(cluster, dialed(shown, has_session), hello_of(shown) if has_session else None)


@pytest.mark.skipif(not sealed.is_possible(), reason="pyzmq brings no libsodium here")
@pytest.mark.parametrize("is_shown", [False, True], ids=["kept", "shown"])
def test_a_ticket_that_has_expired_ends_no_server(cluster: RealCluster, is_shown: bool) -> None:
    """Its holder still has the servers' public key and a pair of its own, which is all that CURVE's handshake needs. It
    says no Hello at all, or one that is refused."""
    if cluster.keys.insecure:
        pytest.skip("without keys there are no tickets")
    expired = expired_pass()
    bench = Bench()
    for address in (cluster.address, cluster.storage_address):
        assert "expired" in rejection(bench, bench.dialer(address, shown=expired)).text
    bench.close()
    attack(cluster, dialed(expired, has_pair=True), hello_of(expired) if is_shown else None)


@pytest.mark.skipif(not sealed.is_possible(), reason="pyzmq brings no libsodium here")
@pytest.mark.parametrize("has_session", [False, True], ids=["strangers", "sessions"])
def test_connections_that_are_reset_leave_no_descriptors(cluster: RealCluster, has_session: bool) -> None:
    """libzmq keeps what it has received of a connection that has closed, and with it the descriptor, until all is read.
    The kernel has long forgotten the connection. (LIM-34)"""
    shown = None if cluster.keys.insecure else cluster_pass(cluster)
    dial, hello = dialed(shown, has_session), hello_of(shown) if has_session else None
    servers = [psutil.Process(command.pid) for command in (cluster.scheduler, cluster.storage)]
    before = [server.num_fds() for server in servers]
    for _ in range(DESCRIPTOR_ROUNDS):
        for port in (cluster.port, cluster.port + 1):
            flood(dial, port, hello, wires=DESCRIPTOR_WIRES, messages=DESCRIPTOR_MESSAGES)
        growth = [server.num_fds() - then for server, then in zip(servers, before, strict=True)]
        assert max(growth) < 3 * DESCRIPTOR_WIRES, "as many as are open now and in the round before, and some"
    for server, then in zip(servers, before, strict=True):
        until(lambda server=server, then=then: server.num_fds() <= then + 2, "the descriptors are given back")


def expired_pass() -> Pass:
    """Returns what the holder has of a client's ticket that was good until an hour ago."""
    keyring = KeyOptions().find_keyring()
    assert keyring is not None
    return pass_of(keyring.derive("ana", frozenset({ROLE_CLIENT}), expires=time.time() - 3600), "ana.key")


def dialed(shown: Pass | None, has_pair: bool) -> Dial:
    """`has_pair`: the CURVE pair is that of the pass, and else of a stranger."""
    if shown is None:
        return Wire
    key, own = shown.server_keys[0], (shown.public_key, shown.secret_key)
    return lambda port: SealedWire(port, key, own if has_pair else None)


def hello_of(shown: Pass | None) -> Callable[[], list[bytes]]:
    ticket = b"" if shown is None else shown.ticket
    return lambda: [
        bytes(one) for one in encode(Hello(1, 1, role=ROLE_CLIENT, peer_id=new_peer_id(), credential=ticket))
    ]


def attack(cluster: RealCluster, dial: Dial, hello: Callable[[], list[bytes]] | None) -> None:
    before = residents(cluster)
    for number in range(ROUNDS):
        for port in (cluster.port, cluster.port + 1):
            flood(dial, port, hello)
        assert max(growths(cluster, before)) < GROWTH_BYTES
        for command in (cluster.scheduler, cluster.storage):
            assert command.process.poll() is None, f"ended in round {number}: {command.text}"
        if number % 10 == 0:
            cluster.bystander.is_served()  # type: ignore[attr-defined]
            with Client(cluster.address, insecure=cluster.keys.insecure) as newcomer:
                assert newcomer.submit(abs, -1).result(WAIT) == 1
