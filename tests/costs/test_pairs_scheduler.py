"""What one client does costs a scheduler the same whatever the others have (see `pairs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler_protocol import codes
from scaler_protocol.codec import encode_task_error
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import GraphId, TaskId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Cancel, Capability, Hello, Results, Submit, TaskError, TaskHeader, WorkerOffer
from scaler_protocol.session import Lost, Opened, Received
from scaler_scheduler.core import Policy, SchedulerCore, Settled
from tests.costs.pairs import FEW, MANY, WARM, assert_same_beside_any
from tests.costs.test_growth import bytecodes_of
from tests.support.scheduler_story import FUNCTION, WELCOME, peer

OTHERS = (Capability("other"),)
#: less urgent than what the small client submits, or its tasks would have to wait for them
LATER = -5


def ids_of(salt: int, count: int) -> list[TaskId]:
    return [TaskId(bytes([salt]) + bytes(7) + number.to_bytes(8, "little")) for number in range(count)]


def batch(ids: list[TaskId], **header: Any) -> Submit:
    return Submit(TaskHeader(**header), FUNCTION, join_ids(ids), b"v" * len(ids), join_u32([1] * len(ids)))


class World:
    """A scheduler with a worker that has room, another one whose place is taken, and a small client."""

    def __init__(self) -> None:
        self.core = SchedulerCore(Policy())
        self.join("worker", 100, ())
        self.join("full", 1, (*OTHERS, Capability("large", 2_000)))
        self.open("small")
        self.open("other")
        self.tell("other", batch(ids_of(1, 3), capabilities=OTHERS))
        self.settle()

    def join(self, name: str, credit: int, capabilities: tuple[Capability, ...]) -> None:
        offer = WorkerOffer(name, capabilities, credit, 0)
        self.core.handle(Opened(peer(name), Hello(1, 1, codes.ROLE_WORKER, peer(name), worker=offer), WELCOME), 0.0)

    def open(self, name: str, user: str = "") -> None:
        identity = Identity(user, frozenset({codes.ROLE_CLIENT}), False, bytes(32), 0.0) if user else None
        self.core.handle(Opened(peer(name), Hello(1, 1, codes.ROLE_CLIENT, peer(name)), WELCOME, identity), 0.0)

    def tell(self, name: str, message: Any) -> None:
        self.core.handle(Received(peer(name), 1, message), 0.0)

    def settle(self) -> None:
        self.core.handle(Settled(), 0.0)
        while self.core.next_deadline() == 0.0:
            self.core.handle(Settled(), 0.0)


# ---------------------------------------------------------------- neighbours


def lines_that_no_worker_takes(world: World, size: int) -> None:
    for number, one in enumerate(ids_of(2, size)):
        world.open(f"client{number // 200}")
        world.tell(f"client{number // 200}", batch([one], capabilities=(Capability(f"no{number % 200}"),)))
    world.settle()


def lines_that_wait_for_a_place(world: World, size: int) -> None:
    """Of other priorities."""
    for number, one in enumerate(ids_of(2, size)):
        world.tell("other", batch([one], capabilities=OTHERS, priority=LATER - number))
    world.settle()


def lines_of_other_amounts(world: World, size: int) -> None:
    """Of other requirements, which the full worker offers."""
    for number, one in enumerate(ids_of(2, size)):
        world.open(f"client{number // 200}")
        amount = (Capability("large", number + 1),)
        world.tell(f"client{number // 200}", batch([one], capabilities=amount, priority=LATER))
    world.settle()


def tasks_in_a_line(world: World, size: int) -> None:
    for number in range(size):
        world.tell("other", batch(ids_of(number % 250 + 3, 10), capabilities=OTHERS) if number < 250 else _more(number))
    world.settle()


def _more(number: int) -> Submit:
    return batch([TaskId(b"\xff" + number.to_bytes(15, "little"))], capabilities=OTHERS)


def tasks_that_wait_for_others(world: World, size: int) -> None:
    ids = ids_of(2, size)
    header = TaskHeader(graph_id=GraphId(b"graph".ljust(16, b".")), capabilities=OTHERS, priority=LATER)
    counts, others = join_u16([0] + [1] * (size - 1)), join_ids(ids[:-1])
    columns: dict[str, Any] = {"dependency_counts": counts, "dependencies": others, "task_flags": bytes(size)}
    world.tell("other", Submit(header, FUNCTION, join_ids(ids), b"v" * size, join_u32([1] * size), **columns))
    world.settle()


def clients_with_a_task(world: World, size: int) -> None:
    for number, one in enumerate(ids_of(2, size)):
        world.open(f"client{number}")
        world.tell(f"client{number}", batch([one], capabilities=OTHERS, priority=LATER))
    world.settle()


def users_with_an_urgent_task(world: World, size: int) -> None:
    """Which says nothing of the tasks of others."""
    for number, one in enumerate(ids_of(2, size)):
        world.open(f"client{number}", f"user{number}")
        world.tell(f"client{number}", batch([one], capabilities=OTHERS, priority=-LATER))
    world.settle()


def idle_clients(world: World, size: int) -> None:
    for number in range(size):
        world.open(f"client{number}")
    world.settle()


def full_workers(world: World, size: int) -> None:
    for number in range(size):
        world.join(f"worker{number}", 1, OTHERS)
    world.tell("other", batch(ids_of(2, 2 * size), capabilities=OTHERS, priority=LATER))
    world.settle()


def idle_workers(world: World, size: int) -> None:
    for number in range(size):
        world.join(f"worker{number}", 1, ())
    world.settle()


NEIGHBOURS = (
    lines_that_no_worker_takes,
    lines_that_wait_for_a_place,
    lines_of_other_amounts,
    tasks_in_a_line,
    tasks_that_wait_for_others,
    clients_with_a_task,
    users_with_an_urgent_task,
    idle_clients,
    full_workers,
    idle_workers,
)


# ---------------------------------------------------------------- what the small client does


def runs_a_task(world: World, one: TaskId) -> None:
    world.tell("small", batch([one]))
    world.settle()
    holder = next(worker for worker in world.core.tables.workers.values() if one in worker.held)
    world.core.handle(Received(holder.peer_id, 1, Results(one, b"v", join_u32([1]), credit=100)), 0.0)
    world.settle()


def loses_a_processor(world: World, one: TaskId) -> None:
    """Its task runs once more, on the same worker."""
    world.tell("small", batch([one]))
    world.settle()
    died = encode_task_error(TaskError(code=codes.PROCESSOR_DIED, exit_code=1, message="died"))
    for attempt, status, value in ((1, codes.STATUS_PROCESSOR_DIED, died), (2, codes.STATUS_SUCCESS, b"v")):
        holder = next(worker for worker in world.core.tables.workers.values() if one in worker.held)
        columns = {"statuses": bytes([status]), "attempts": join_u16([attempt])}
        results = Results(one, value, join_u32([len(value)]), credit=100, **columns)
        world.core.handle(Received(holder.peer_id, 1, results), 0.0)
        world.settle()


def misses_its_function(world: World, one: TaskId) -> None:
    world.tell("small", batch([one]))
    world.settle()
    holder = next(worker for worker in world.core.tables.workers.values() if one in worker.held)
    error = encode_task_error(TaskError(code=codes.NO_SUCH_OBJECT, message="the task's function is lost"))
    columns = {"statuses": bytes([codes.STATUS_REFUSED]), "credit": 100}
    world.core.handle(Received(holder.peer_id, 1, Results(one, error, join_u32([len(error)]), **columns)), 0.0)
    world.settle()


def cancels_a_task(world: World, one: TaskId) -> None:
    world.tell("small", batch([one], capabilities=OTHERS))
    world.settle()
    world.tell("small", Cancel(one))
    world.settle()


def comes_and_goes(world: World, one: TaskId) -> None:
    name = one.hex()[-8:]
    world.open(name)
    world.tell(name, batch([one], capabilities=OTHERS))
    world.settle()
    world.core.handle(Lost(peer(name), 0, "", is_orderly=True), 0.0)
    world.settle()


ROUNDS = (runs_a_task, loses_a_processor, misses_its_function, cancels_a_task, comes_and_goes)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("does", ROUNDS)
def test_a_small_client_costs_the_same_beside_any_neighbours(
    does: Callable[[World, TaskId], None], neighbours: Callable[[World, int], None]
) -> None:
    ids = ids_of(0xFE, WARM + 1)
    assert_same_beside_any(World, neighbours, lambda world, number: does(world, ids[number]))


USER_STEPS = 180
"""For each user that waits for the only place of a turn: it was 270 when all were gone through again afterwards."""


def test_a_turn_with_one_place_ends_when_the_place_is_taken() -> None:
    few, many = map(_turn_with_one_place, (FEW, MANY))
    assert (many - few) / (MANY - FEW) <= USER_STEPS, f"{many:,} steps for {MANY:,} users, {few:,} for {FEW}"


def _four(number: int) -> list[TaskId]:
    return [TaskId(number.to_bytes(8, "little") + one[8:]) for one in ids_of(0xFD, 4)]


def _turn_with_one_place(size: int) -> int:
    world = World()
    for number in range(size):
        world.open(f"client{number}", f"user{number}")
        world.tell(f"client{number}", batch(_four(number), capabilities=OTHERS))
    world.settle()
    (full,) = [worker for worker in world.core.tables.workers.values() if worker.name == "full"]

    def turn() -> None:
        results = Results(next(iter(full.held)), b"v", join_u32([1]), credit=1)
        world.core.handle(Received(full.peer_id, 1, results), 0.0)
        world.settle()

    for _ in range(WARM):
        turn()
    return bytecodes_of(turn)
