"""What one peer does costs a storage the same whatever the others have (see `pairs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Duplicate, Get, Hello, Put, Release, ReleaseOwner, Welcome
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import StorageCore, Tick
from tests.costs.pairs import assert_same_beside_any
from tests.support.scheduler_story import peer

WELCOME = Welcome(version=1, server_id=PeerId(b"storage".ljust(16, b".")), incarnation=1, session_id=1)


def object_id(kind: int, number: int) -> ObjectId:
    return ObjectId(bytes([kind]) + number.to_bytes(15, "little"))


class World:
    """A storage with a scheduler, a small client, and another one."""

    def __init__(self) -> None:
        self.core = StorageCore()
        self.now = 0.0
        self.open("scheduler", codes.ROLE_SCHEDULER)
        for name in ("small", "other"):
            self.open(name)

    def open(self, name: str, role: int = codes.ROLE_CLIENT) -> None:
        self.do(Opened(peer(name), Hello(1, 1, role, peer(name)), WELCOME))

    def tell(self, name: str, message: Any) -> None:
        self.do(Received(peer(name), 1, message))

    def put(self, name: str, identifier: ObjectId, owner: str = "", total_bytes: int = 1) -> None:
        self.tell(name, Put(1, identifier, peer(owner or name), total_bytes, 0, b"v"))

    def do(self, event: Any) -> None:
        self.core.handle(event, self.now)
        while (deadline := self.core.next_deadline()) is not None and deadline <= self.now:
            self.core.handle(Tick(), self.now)


# ---------------------------------------------------------------- neighbours


def objects(world: World, size: int) -> None:
    for number in range(size):
        world.put("other", object_id(1, number))


def owners(world: World, size: int) -> None:
    for number in range(size):
        world.put("other", object_id(1, number), f"owner{number}")


def owners_of_one_object(world: World, size: int) -> None:
    for number in range(size):
        world.put("other", object_id(1, 0), f"owner{number}")


def peers(world: World, size: int) -> None:
    for number in range(size):
        world.open(f"peer{number}")


def waits(world: World, size: int) -> None:
    for number in range(size):
        if number % 64 == 0:
            world.open(f"peer{number // 64}")
        world.tell(f"peer{number // 64}", Get(1, object_id(1, number), 0, 0, 1e3))


def waits_for_one_object(world: World, size: int) -> None:
    for number in range(size):
        if number % 64 == 0:
            world.open(f"peer{number // 64}")
        world.tell(f"peer{number // 64}", Get(1, object_id(1, 0), 0, 0, 1e3))


def uploads(world: World, size: int) -> None:
    """That stand still."""
    for number in range(size):
        if number % 16 == 0:
            world.open(f"peer{number // 16}")
        world.put(f"peer{number // 16}", object_id(1, number), total_bytes=2)


def owners_that_have_left(world: World, size: int) -> None:
    for number in range(size):
        world.put("other", object_id(1, number), f"owner{number}")
        world.tell("scheduler", ReleaseOwner(1, peer(f"owner{number}")))


NEIGHBOURS = (
    objects,
    owners,
    owners_of_one_object,
    peers,
    waits,
    waits_for_one_object,
    uploads,
    owners_that_have_left,
)


# ---------------------------------------------------------------- what the small client does


def stores_and_releases(world: World, number: int) -> None:
    one = object_id(9, number)
    world.put("small", one)
    world.tell("small", Get(2, one))
    world.tell("small", Release(3, peer("small"), one))


def waits_for_a_value(world: World, number: int) -> None:
    one = object_id(9, number)
    world.tell("small", Get(1, one, 0, 0, 10.0))
    world.put("small", one)
    world.tell("small", Release(2, peer("small"), one))


def waits_in_vain(world: World, number: int) -> None:
    """As a worker for a function that was never stored."""
    world.tell("small", Get(1, object_id(9, number), 0, 0, 0.01))
    world.now += 0.02
    world.do(Tick())


def names_a_value_again(world: World, number: int) -> None:
    one, other = object_id(9, number), object_id(8, number)
    world.put("small", one)
    world.tell("small", Duplicate(2, one, other, peer("small"), 0.0))
    world.tell("small", Release(3, peer("small"), one + other))


def comes_and_goes(world: World, number: int) -> None:
    name = f"guest{number}"
    world.open(name)
    world.put(name, object_id(9, number))
    world.tell(name, Get(1, object_id(7, number), 0, 0, 10.0))
    world.do(Lost(peer(name), 0, "", is_orderly=True))
    world.tell("scheduler", ReleaseOwner(1, peer(name)))


ROUNDS = (stores_and_releases, waits_for_a_value, waits_in_vain, names_a_value_again, comes_and_goes)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("does", ROUNDS)
def test_a_small_client_costs_the_same_beside_any_neighbours(
    does: Callable[[World, int], None], neighbours: Callable[[World, int], None]
) -> None:
    assert_same_beside_any(World, neighbours, does)
