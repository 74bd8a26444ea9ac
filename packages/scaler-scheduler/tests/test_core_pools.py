"""Workers of a user: the capability that the scheduler sets from a ticket."""

from __future__ import annotations

import pytest

from scaler_protocol.codes import ROLE_MANAGER, ROLE_WORKER
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Capability, Hello, ManagerOffer, WorkerOffer
from scaler_scheduler.core.peers.pools import of_user

PEER = PeerId(b"p" * 16)
ANA = Identity("ana", frozenset({ROLE_WORKER}), False, b"h" * 32)
GPU, ANAS, BOBS = Capability("gpu", 2), Capability("user:ana", -1), Capability("user:bob", -1)


def offers(hello: Hello) -> tuple[Capability, ...]:
    return hello.worker.capabilities if hello.role == ROLE_WORKER else hello.manager.capabilities


def hello(role: int, *capabilities: Capability) -> Hello:
    if role == ROLE_WORKER:
        return Hello(1, 1, role, PEER, worker=WorkerOffer("w", capabilities, 4))
    return Hello(1, 1, role, PEER, manager=ManagerOffer(PEER, "m", capabilities))


@pytest.mark.parametrize("role", [ROLE_WORKER, ROLE_MANAGER])
def test_the_ticket_says_whose_it_is(role: int) -> None:
    assert offers(of_user(hello(role, GPU), ANA)) == (GPU, ANAS)
    assert offers(of_user(hello(role), ANA)) == (ANAS,)


@pytest.mark.parametrize("role", [ROLE_WORKER, ROLE_MANAGER])
def test_nothing_that_is_offered_does(role: int) -> None:
    assert offers(of_user(hello(role, BOBS, GPU, Capability("user:ana", 7)), ANA)) == (GPU, ANAS)


@pytest.mark.parametrize("role", [ROLE_WORKER, ROLE_MANAGER])
def test_without_keys_nobody_is_known(role: int) -> None:
    assert of_user(hello(role, BOBS), None) == hello(role, BOBS)
