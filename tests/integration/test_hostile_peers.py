"""Garbage on every port while a bystander works: that peer is told, a counter rises, and nobody else notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from scaler_protocol import codes
from scaler_protocol.codec import encode
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import Buffer, Cancel, Credit, Hello, Ping, Pong
from tests.support import hostile
from tests.support.bystander import unharmed
from tests.support.clusters import RealCluster
from tests.support.hostile import NOISES, RawPeer, make_noise, raw_peer
from tests.support.processes import WAIT, Stage

MEMORY_BYTES = 96 * 1024 * 1024
"""What all that is done here may leave in a server: less than the frames that were sent to it."""


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1, insecure=True)  # with keys no message of a stranger is read
    with unharmed(cluster, MEMORY_BYTES):
        yield cluster
    cluster.wait_until_empty()
    for command in (cluster.scheduler, cluster.storage, *cluster.workers):
        assert command.end() == 0
        assert "Traceback" not in command.text and "[ERROR]" not in command.text, command.text


@pytest.fixture
def rejected(cluster: RealCluster) -> Callable[[], int]:
    """How many messages the scheduler has refused since the test began."""
    before = cluster.snapshot().rejected_count
    return lambda: cluster.snapshot().rejected_count - before


@pytest.mark.parametrize("noise", NOISES)
def test_other_protocols_and_scanners(cluster: RealCluster, noise: str) -> None:
    for port in (cluster.port, cluster.port + 1, cluster.port + 2):
        make_noise(port, NOISES[noise])
    assert cluster.snapshot().workers and cluster.storage_status().object_count == 1


Frames = Sequence[Buffer]
#: name: what is said before any Hello, and with which code it is refused
BEFORE_HELLO: dict[str, tuple[Callable[[], Frames], int]] = {
    "random frames": (lambda: [hostile.NOISES["random"][:100]] * 2, codes.BAD_ENVELOPE),
    "an empty frame": (lambda: [b""], codes.BAD_ENVELOPE),
    "a few frames too many": (lambda: [b"x"] * 6, codes.BAD_FRAMING),
    "thousands of frames": (lambda: [b"x"] * 20_000, codes.BAD_FRAMING),
    "a message without a session": (lambda: encode(hostile.submit(new_peer_id()), seq=1), codes.NO_SESSION),
    "a short peer id": (lambda: encode(replace(hello(), peer_id=b"short")), codes.BAD_IDENTITY),  # type: ignore[arg-type]
    "an unknown role": (lambda: encode(replace(hello(), role=99)), codes.BAD_ROLE),
    "a newer version": (lambda: encode(replace(hello(), version_min=2, version_max=9)), codes.VERSION_MISMATCH),
    "an older version": (lambda: encode(replace(hello(), version_min=0, version_max=0)), codes.VERSION_MISMATCH),
}


def hello() -> Hello:
    return Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id())


@pytest.mark.parametrize("said", BEFORE_HELLO)
def test_before_a_session(cluster: RealCluster, rejected: Callable[[], int], said: str) -> None:
    make, code = BEFORE_HELLO[said]
    for address in (cluster.address, cluster.storage_address):
        with raw_peer(address) as peer:
            peer.send(*make())
            refusal = peer.refusal()
        assert refusal.code == code and len(refusal.text) > 20, refusal
    assert rejected() >= 1


def test_before_a_session_no_large_message_hurts(cluster: RealCluster) -> None:
    """It may be answered, or its connection be closed before it is whole: whichever comes first. (LIM-18)"""
    for address in (cluster.address, cluster.storage_address):
        with raw_peer(address) as peer, raw_peer(address) as other:
            peer.send(bytes(5 << 20))
            other.send(*encode(replace(hello(), role=99)))
            assert other.refusal().code == codes.BAD_ROLE


def test_a_routing_id_that_libzmq_has_chosen(cluster: RealCluster, rejected: Callable[[], int]) -> None:
    for address in (cluster.address, cluster.storage_address):
        with raw_peer(address, routing_id=b"") as peer:
            peer.send(*encode(hello()))
            refusal = peer.refusal()
        assert refusal.code == codes.BAD_IDENTITY and "set it before connecting" in refusal.text
    assert rejected() == 1


Say = Callable[[RawPeer], Frames]
#: name: what is said in a session, in which role, and with which code it is refused
TO_THE_SCHEDULER: dict[str, tuple[Say, int, int]] = {
    "a truncated batch": (lambda p: hostile.truncated(submit(p)), codes.ROLE_CLIENT, codes.BAD_ENVELOPE),
    "columns that disagree": (lambda p: hostile.disagreeing_columns(p.peer_id), codes.ROLE_CLIENT, codes.BAD_BATCH),
    "an id twice": (lambda p: doubled(p), codes.ROLE_CLIENT, codes.BAD_BATCH),
    "an unknown kind": (lambda p: hostile.unknown_member(), codes.ROLE_CLIENT, codes.UNKNOWN_MESSAGE),
    "an oversized payload": (lambda p: [submit(p)[0], bytes(65 << 20)], codes.ROLE_CLIENT, codes.TOO_LARGE),
    "results from a client": (lambda p: encode(hostile.results(), seq=1), codes.ROLE_CLIENT, codes.NOT_ALLOWED),
    "credit from a client": (lambda p: encode(Credit(1_000_000), seq=1), codes.ROLE_CLIENT, codes.NOT_ALLOWED),
    "tasks from a worker": (lambda p: submit(p), codes.ROLE_WORKER, codes.NOT_ALLOWED),
    "tasks from a monitor": (lambda p: submit(p), codes.ROLE_MONITOR, codes.NOT_ALLOWED),
    "tasks of another client": (lambda p: forged(), codes.ROLE_CLIENT, codes.BAD_BATCH),
    "a gap": (lambda p: encode(Ping(1), seq=9), codes.ROLE_CLIENT, codes.SEQUENCE_GAP),
    "acks of nothing": (lambda p: encode(Ping(1), seq=1, ack=70), codes.ROLE_WORKER, codes.BAD_ENVELOPE),
}
TO_THE_STORAGE: dict[str, tuple[Say, int, int]] = {
    "a chunk too long": (lambda p: hostile.overrunning_chunk(), codes.ROLE_CLIENT, codes.BAD_CHUNK),
    "an unknown kind": TO_THE_SCHEDULER["an unknown kind"],
    "tasks": (lambda p: submit(p), codes.ROLE_CLIENT, codes.NOT_ALLOWED),
    "an oversized payload": TO_THE_SCHEDULER["an oversized payload"],
    "a truncated put": (lambda p: hostile.truncated(hostile.overrunning_chunk()), 1, codes.BAD_ENVELOPE),
}


def submit(peer: RawPeer) -> Frames:
    return encode(hostile.submit(peer.peer_id), seq=1)


def doubled(peer: RawPeer) -> Frames:
    batch = hostile.submit(peer.peer_id)
    return encode(replace(batch, ids=batch.ids[:16] * 3), seq=1)


def forged() -> Frames:
    return encode(hostile.submit(new_peer_id()), seq=1)


@pytest.mark.parametrize("said", TO_THE_SCHEDULER)
def test_in_a_session_with_the_scheduler(cluster: RealCluster, rejected: Callable[[], int], said: str) -> None:
    say, role, code = TO_THE_SCHEDULER[said]
    with raw_peer(cluster.address) as peer:
        peer.join(role, lease_seconds=WAIT)  # 65 MiB may take longer than a second
        peer.send(*say(peer))
        refusal = peer.refusal()
    assert refusal.code == code and len(refusal.text) > 20, refusal
    assert rejected() == 1


@pytest.mark.parametrize("said", TO_THE_STORAGE)
def test_in_a_session_with_the_storage(cluster: RealCluster, said: str) -> None:
    say, role, code = TO_THE_STORAGE[said]
    with raw_peer(cluster.storage_address) as peer:
        peer.join(role, lease_seconds=WAIT)  # 65 MiB may take longer than a second
        peer.send(*say(peer))
        refusal = peer.refusal()
    assert refusal.code == code and len(refusal.text) > 20, refusal
    assert cluster.storage_status().object_count == 1, "the bystander's function"


def test_results_that_nobody_waits_for(cluster: RealCluster) -> None:
    """A worker may be late with some, so they are no mistake; they are dropped. (SCH-6; LIM-24 is for more)"""
    with raw_peer(cluster.address) as peer:
        peer.join(codes.ROLE_WORKER)
        for number in range(80):
            peer.send(*encode(hostile.results(100), seq=number + 1))
        peer.send(*encode(Ping(1), seq=81))
        while type(peer.answer()) is not Pong:
            pass


def test_a_flood(cluster: RealCluster) -> None:
    """From one who does not read the answers. It is answered for as long as it is there, and so is everybody else."""
    with raw_peer(cluster.address) as peer:
        peer.join()
        for number in range(20_000):
            peer.send(*encode(Cancel(number.to_bytes(16, "little")), seq=number + 1))
        assert cluster.snapshot().workers
