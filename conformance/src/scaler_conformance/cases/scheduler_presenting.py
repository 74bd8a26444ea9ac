"""A scheduler that follows on another: workers present what they hold, clients submit it again (SCH-59 to SCH-76,
HSK-35, feature `present-held`). A scheduler may leave it.

Each case has a process of its own: a scheduler that has met a peer of a predecessor waits for others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ENDED, PRESENT_HELD, QUEUED, RUNNING, ClientPeer, WorkerPeer, ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Result, Task, write_results
from scaler_conformance.wire.keys import families_of, own_family

case = cases_for("scheduler")
timing = cases_for("scheduler", layer="timing")
hostile = cases_for("scheduler", layer="hostile")

DELIVERED_SECONDS = 8.0
QUIET_SECONDS = 3.0
MANY = 4_000


class Past:
    """The scheduler before, and one client of it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.server_id = new_id()
        self.owner = new_id()
        scene.transcript.call(self.owner, "a former client")

    @property
    def grant(self) -> bytes:
        return self.grant_of(self.owner)

    def grant_of(self, owner: bytes) -> bytes:
        key = self.scene.pump.key
        return b"" if key is None else key.grant(owner, own_family(owner))

    def ended_grant(self) -> bytes:
        """Of the former client, as a worker has it of a task that has run for a long time."""
        key = self.scene.pump.key
        return b"" if key is None else key.lent(self.owner, own_family(self.owner), families_of(), ends=1)

    def hello(self, generation: int = 3) -> dict[str, Any]:
        return {"features": [PRESENT_HELD], "generation": generation, "lastServerId": self.server_id}

    def worker(self, credit: int = 5, **changes: Any) -> WorkerPeer:
        worker = self.scene.worker(credit=credit, **{**self.hello(), **changes})
        _has_feature(self.scene, worker)
        return worker

    def client(self, **changes: Any) -> ClientPeer:
        """Under its new name."""
        former = self.owner + self.grant if self.grant else b""
        return self.scene.client(**{**self.hello(), "formerName": former, **changes})

    def holds(
        self,
        worker: WorkerPeer,
        *tasks: Task,
        state: int = RUNNING,
        is_last: bool = True,
        worker_count: int = 0,
        owner: bytes = b"",
        grant: bytes | None = None,
    ) -> None:
        """One Holding with these tasks, all of one client."""
        proof = self.grant_of(owner or self.owner) if grant is None else grant
        worker.holds(
            *tasks, owner=owner or self.owner, grant=proof, state=state, is_last=is_last, worker_count=worker_count
        )


def _has_feature(scene: Scene, peer: WorkerPeer) -> None:
    is_on = PRESENT_HELD in peer.welcome["features"]
    is_declared = PRESENT_HELD in scene.arena.manifest.features
    scene.check(is_on or not is_declared, f"the manifest claims `{PRESENT_HELD}`, the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, f"the feature `{PRESENT_HELD}` is optional, and this scheduler does not name it")


def canceled(worker: WorkerPeer) -> list[bytes]:
    return [name for message in worker.take("cancel") for name in ids_of(message["ids"])]


def is_let_go(scene: Scene, worker: WorkerPeer, clause: str = "SCH-64") -> Message:
    """One Delivered has come."""
    told = worker.take("delivered")
    scene.equal(len(told), 1, f"the count of Delivered for {worker.name}", clause)
    return told[0]


def is_quiet(scene: Scene, worker: WorkerPeer, clause: str, why: str) -> None:
    worker.fence()
    tasks = worker.dispatched(clause)
    scene.check(not tasks, f"{worker.name} was given {len(tasks)} tasks: {why}", clause)


@case("SCH-61", "HSK-35", fresh=True)
def the_generation_is_above_all_that_peers_have_seen(scene: Scene) -> None:
    past = Past(scene)
    worker = past.worker(generation=41)
    scene.check(worker.welcome["generation"] > 41, f"the Welcome tells {worker.welcome['generation']}", "HSK-35")
    past.holds(worker)
    fresh = scene.client(features=[PRESENT_HELD])
    scene.check(fresh.welcome["generation"] >= worker.welcome["generation"], "the generation falls", "HSK-35")
    fresh.submit(1)
    late = scene.client(**past.hello(generation=1_000))
    raised = late.welcome["generation"]
    scene.check(raised > 1_000, f"the Welcome after a Hello with generation 1000 tells {raised}", "HSK-35")
    own = {"features": [PRESENT_HELD], "generation": raised, "lastServerId": late.welcome["serverId"]}
    scene.equal(scene.client(**own).welcome["generation"], raised, "the generation for a peer of its own", "HSK-35")
    fresh.submit(1)
    scene.settle(fresh, worker)
    tasks = worker.expect_dispatch(2)
    scene.equal(tasks[-1].header["generation"], raised, "the generation of the Dispatch", "SCH-61")


@case("HSK-44", "HSK-35", fresh=True)
def no_peer_uses_up_the_generations(scene: Scene) -> None:
    """Behind the highest there is none for a later scheduler."""
    highest = 2**64 - 1
    first = scene.client(**Past(scene).hello(generation=highest)).welcome["generation"]
    scene.check(first <= 1 + 2**32, f"one Hello has raised the generation to {first}", "HSK-44")
    second = scene.client(**Past(scene).hello(generation=highest)).welcome["generation"]
    scene.check(second <= first + 2**32, f"one Hello has raised the generation by {second - first}", "HSK-44")


@case("SCH-63", "SCH-64", fresh=True)
def a_worker_gets_nothing_before_its_last_holding(scene: Scene) -> None:
    past = Past(scene)
    worker, client = past.worker(), scene.client(features=[PRESENT_HELD])
    client.submit(1)
    client.fence()
    is_quiet(scene, worker, "SCH-63", "it has not presented anything yet")
    past.holds(worker, *client.new_tasks(1), is_last=False)
    is_quiet(scene, worker, "SCH-63", "another Holding was to come")
    scene.equal(worker.take("delivered"), [], "Delivered before the last Holding", "SCH-64")
    past.holds(worker, *client.new_tasks(1))
    worker.fence()
    kinds = [message.kind for message in worker.inbox if message.kind in ("delivered", "dispatch")]
    scene.equal(kinds, ["delivered", "dispatch"], "what follows the last Holding", "SCH-64")


@case("SCH-66", fresh=True)
def a_task_that_is_presented_and_submitted_is_not_dispatched(scene: Scene) -> None:
    """In either order, with the attempt that the worker has named."""
    past = Past(scene)
    worker, client = past.worker(), past.client()
    early, late = client.new_tasks(2)
    client.submit([early])
    client.fence()
    past.holds(worker, *[replace(task, attempt=4) for task in (early, late)])
    worker.fence()
    client.submit([late])
    scene.settle(client, worker)
    is_quiet(scene, worker, "SCH-66", "it has them already")
    other = scene.worker(credit=5)
    is_quiet(scene, other, "SCH-66", "another worker has them")
    worker.finish(early, attempt=3)
    scene.settle(worker, client)
    scene.equal(client.results(), [], "results of an earlier attempt", "SCH-66")
    worker.finish(early, late, attempt=4, value=b"of the worker")
    scene.settle(worker, client)
    for task in (early, late):
        scene.equal(client.result_of(task, "SCH-66").value, b"of the worker", "the value")


@case("SCH-66", "SCH-9", fresh=True)
def a_task_that_was_presented_as_queued_comes_back(scene: Scene) -> None:
    """An adopted task is the worker's: it may give it back, and then another worker gets it."""
    past = Past(scene)
    worker, client = past.worker(credit=0), past.client()
    (task,) = client.submit(1)
    client.fence()
    past.holds(worker, task, state=QUEUED, worker_count=1)
    worker.fence()
    other = scene.worker(credit=1)
    is_quiet(scene, other, "SCH-66", "another worker has it")
    worker.credit(0)
    worker.give_back(task)
    scene.settle(worker, other)
    (again,) = other.expect_dispatch(1, "SCH-66", "its worker has given it back")
    scene.equal(again.id, task.id, "the task", "SCH-66")


@case("SCH-67", fresh=True)
def how_a_task_ended_waits_for_its_client(scene: Scene) -> None:
    past = Past(scene)
    worker = past.worker()
    tasks = [Task(id=new_id(), function=b"f" * 16, parts=()) for _ in range(2)]
    past.holds(worker, *tasks, state=ENDED)
    worker.finish(tasks[0], value=b"of the worker")
    worker.finish(tasks[1], status=CODES.STATUS_FAILED)
    worker.fence()
    client = past.client()
    own = [replace(client.new_tasks(1)[0], id=task.id) for task in tasks]
    client.submit(own)
    scene.settle(client, worker)
    scene.equal(
        client.expect_status(own[0], CODES.STATUS_SUCCESS, clause="SCH-67").value, b"of the worker", "the value"
    )
    client.expect_status(own[1], CODES.STATUS_FAILED, clause="SCH-67")
    is_quiet(scene, worker, "SCH-67", "they have ended")


@case("SCH-69", "SCH-64", fresh=True)
def the_higher_attempt_wins(scene: Scene) -> None:
    past = Past(scene)
    tasks = [Task(id=new_id(), function=b"f" * 16, parts=(), attempt=2) for _ in range(3)]
    later = [replace(task, attempt=3) for task in tasks]
    first, second = past.worker(), past.worker()
    past.holds(first, tasks[0], later[1], tasks[2])
    first.fence()
    is_let_go(scene, first)
    past.holds(second, later[0], tasks[1], tasks[2])
    second.fence()
    kinds = [message.kind for message in second.inbox if message.kind in ("cancel", "delivered")]
    scene.equal(kinds, ["cancel", "delivered"], "what follows the Holding", "SCH-64")
    scene.equal(sorted(canceled(second)), sorted([tasks[1].id, tasks[2].id]), "what the second is to stop", "SCH-69")
    first.fence()
    scene.equal(canceled(first), [tasks[0].id], "what the first is to stop", "SCH-69")


@case("SCH-69", fresh=True)
def what_the_scheduler_has_dispatched_itself_is_not_taken_from_its_worker(scene: Scene) -> None:
    past = Past(scene)
    holder, client = scene.worker(credit=1), scene.client()
    client.submit(1)
    scene.settle(client, holder)
    (task,) = holder.expect_dispatch(1, "SCH-25")
    liar = past.worker()
    past.holds(liar, replace(task, attempt=900), owner=client.peer_id)
    liar.fence()
    scene.equal(canceled(liar), [task.id], "what the worker that presents it is to stop", "SCH-69")
    holder.finish(task, value=b"of the holder")
    scene.settle(holder, client)
    scene.equal(client.result_of(task, "SCH-69").value, b"of the holder", "the value")


@case("SCH-62", fresh=True)
def a_holding_that_is_not_due_changes_nothing(scene: Scene) -> None:
    """Of a worker without a past, and of one that has presented everything."""
    past = Past(scene)
    client = scene.client()
    done, fresh = past.worker(credit=0), scene.worker(credit=0, features=[PRESENT_HELD])
    past.holds(done)
    tasks = client.submit(2)
    client.fence()
    for worker, task in zip((done, fresh), tasks, strict=True):
        past.holds(worker, task, owner=client.peer_id)
        worker.fence()
    other = scene.worker(credit=2)
    scene.settle(done, fresh, other)
    given = {task.id for task in other.expect_dispatch(2, "SCH-62", "no Holding was due")}
    scene.equal(given, {task.id for task in tasks}, "what the third worker was given", "SCH-62")


@case("SCH-65", fresh=True)
def queued_tasks_wait_for_the_workers_that_there_were(scene: Scene) -> None:
    """Two: the first alone gets nothing of what the predecessor's clients submit."""
    past = Past(scene)
    client, first = past.client(), past.worker()
    client.submit(1)
    client.fence()
    past.holds(first, worker_count=2)
    is_quiet(scene, first, "SCH-65", "another worker may have begun them")
    stranger = scene.client(features=[PRESENT_HELD])
    stranger.submit(1)
    scene.settle(stranger, first)
    first.expect_dispatch(1, "SCH-65", "its client has had no other scheduler")
    second = past.worker(credit=0)
    is_quiet(scene, first, "SCH-65", "the second worker has not presented anything yet")
    past.holds(second, worker_count=2)
    scene.settle(second, first)
    first.expect_dispatch(1, "SCH-65", "all workers are there")


@case("SCH-70", fresh=True)
def the_value_of_an_adopted_task_passes_to_the_present_name(scene: Scene) -> None:
    past = Past(scene)
    storage = scene.storage_session()
    worker, client = past.worker(), past.client()
    salt = secrets.token_bytes(16)
    (task,) = client.submit(1, resultSalt=salt)
    client.fence()
    past.holds(worker, task)
    worker.fence()
    value = result_id(task.id, task.attempt, salt, past.owner)
    scene.storage.store(value, bytes(100_000), past.owner)
    worker.send_batch("results", write_results([Result(task.id, 1, CODES.STATUS_SUCCESS, CODES.KIND_OBJECT, value)]))
    worker.fence()
    storage.fence()
    claims = [message for message in scene.storage.asked("duplicate") if message["owner"] == client.peer_id]
    scene.equal([claim["source"] for claim in claims], [value], "what the client is made an owner of", "SCH-70")
    client.fence()
    scene.equal(client.result_of(task, "SCH-70").value, value, "the object")


@case("SCH-73", fresh=True)
def what_a_departed_client_owns_is_kept_while_a_presented_task_may_store(scene: Scene) -> None:
    """How the second task ended is not told yet."""
    past = Past(scene)
    storage = scene.storage_session()
    worker = past.worker()
    clients = {RUNNING: scene.client(), ENDED: scene.client()}
    for state, client in clients.items():
        task = Task(id=new_id(), function=b"f" * 16, parts=())
        past.holds(worker, task, state=state, owner=client.peer_id, is_last=state == ENDED, worker_count=1)
    worker.fence()
    for client in clients.values():
        client.leave()
    storage.fence()
    gone = [message["owner"] for message in scene.storage.asked("releaseOwner")]
    scene.check(clients[RUNNING].peer_id not in gone, "its objects were released, and a task of it runs", "SCH-73")
    scene.check(clients[ENDED].peer_id not in gone, "the value of a task that has ended was released", "SCH-73")


@timing("SCH-71", "SCH-72", fresh=True)
def results_count_as_delivered_when_the_client_has_acknowledged_them(scene: Scene) -> None:
    past = Past(scene)
    worker, client = past.worker(lastServerId=b""), scene.client()
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1, "SCH-25")
    client.reads_until = client.received_seq
    worker.finish(task)
    watch = scene.stopwatch()
    scene.pump.until(lambda: False, QUIET_SECONDS)
    counts = [message["resultsCount"] for message in worker.take("delivered")]
    scene.check(not any(counts), f"{max(counts, default=0)} Results are told as delivered, and none is", "SCH-71")
    client.reads_until = None
    client.acknowledge()

    def is_told() -> bool:
        return any(message["resultsCount"] == 1 for message in worker.inbox if message.kind == "delivered")

    watch.until(is_told, DELIVERED_SECONDS, "its Results were not told as delivered", "SCH-72")


@timing("SCH-76", fresh=True)
def results_that_no_client_can_be_told_are_not_delivered(scene: Scene) -> None:
    past = Past(scene)
    worker, other = past.worker(), scene.client(features=[PRESENT_HELD])
    task = Task(id=new_id(), function=b"f" * 16, parts=())
    past.holds(worker, task, state=ENDED)
    worker.finish(task, credit=5)
    other.submit(1)
    scene.settle(other, worker)
    worker.finish(*worker.expect_dispatch(1, "SCH-25"))
    scene.settle(worker, other)
    watch = scene.stopwatch()
    scene.pump.until(lambda: False, QUIET_SECONDS)
    counts = [message["resultsCount"] for message in worker.take("delivered")]
    scene.check(not any(counts), f"{max(counts, default=0)} Results are told as delivered, and none is", "SCH-76")
    client = past.client()
    client.submit([replace(client.new_tasks(1)[0], id=task.id)])
    scene.settle(client)
    client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-67")
    client.acknowledge()
    other.acknowledge()

    def is_told() -> bool:
        return any(message["resultsCount"] == 2 for message in worker.inbox if message.kind == "delivered")

    watch.until(is_told, DELIVERED_SECONDS, "its Results were not told as delivered", "SCH-72")


# ------------------------------------------------------------ families


def key_needed(scene: Scene) -> None:
    scene.needs(scene.pump.key is not None, "the cluster of this manifest has no key")


@case("SCH-59", fresh=True)
def a_task_is_adopted_for_the_family_that_the_grant_proves(scene: Scene) -> None:
    key_needed(scene)
    past = Past(scene)
    thief, worker, client = past.worker(), past.worker(), past.client()
    forged, foreign, right = client.new_tasks(3)
    stranger = new_id()
    past.holds(thief, forged, grant=secrets.token_bytes(32), is_last=False)
    past.holds(thief, foreign, right, owner=stranger)
    thief.fence()
    scene.equal(canceled(thief), [forged.id], "what is stopped at once", "SCH-59")
    past.holds(worker, right, grant=past.ended_grant())
    scene.settle(worker, thief)
    scene.equal(canceled(worker), [], "what the worker with the grant is to stop", "SCH-59")
    client.submit([foreign, right])
    client.fence()
    thief.finish(foreign, right, value=b"of the thief")
    scene.settle(thief, client)
    scene.equal(client.results(), [], "results of a worker without the grant", "SCH-59")
    worker.finish(right, value=b"of the worker")
    scene.settle(worker, client)
    scene.equal(client.result_of(right, "SCH-59").value, b"of the worker", "the value")


@case("SCH-74", fresh=True)
def a_client_in_a_task_that_may_still_be_presented_is_to_come_again(scene: Scene) -> None:
    key = scene.pump.key
    key_needed(scene)
    assert key is not None
    past = Past(scene)
    worker = past.worker()
    task = Task(id=new_id(), function=b"f" * 16, parts=())
    pass_ = key.pass_for(secrets.token_bytes(32), [CODES.ROLE_CLIENT, CODES.ROLE_WORKER], is_operator=False)
    child = scene.client(is_open=False)
    child.shown = pass_
    child.dial(**past.hello(), parentTask=task.id)
    child.expect_reject(CODES.OVERLOADED, "SCH-74")
    past.holds(worker, task)
    worker.fence()
    again = scene.client(is_open=False)
    again.shown = pass_
    again.dial(**past.hello(), parentTask=task.id)
    again.expect_welcome("SCH-74")


# ------------------------------------------------------------ lies


@hostile("SCH-62", "SCH-69", "SCH-60", fresh=True, seconds=60.0)
def a_worker_that_presents_what_it_never_had_is_of_no_effect(scene: Scene) -> None:
    """Tasks of no client, tasks that others hold, the same twice, very many, in the middle, and with a generation that
    no scheduler has had: the tasks of others go on as if it were not there."""
    past = Past(scene)
    holder, client = scene.worker(credit=3), scene.client()
    client.submit(2)
    scene.settle(client, holder)
    held = holder.expect_dispatch(2, "SCH-25")
    (queued,) = client.submit(1, capabilities=[{"name": "nowhere", "amount": -1}])
    liar = past.worker(generation=2**64 - 1)
    junk = [Task(id=new_id(), function=b"f" * 16, parts=(), attempt=65_535) for _ in range(MANY)]
    for part in (junk, junk, [*held, queued], junk[:10]):
        past.holds(liar, *part, is_last=part is junk[:10] or len(part) == 10)
    past.holds(liar, *junk)
    _lie(liar, junk)
    liar.finish(*junk[:100], value=b"of the liar")
    liar.give_back(*junk[100:200])
    liar.fence()
    for task in held:
        holder.finish(task, value=b"of the holder")
    scene.settle(holder, client)
    for task in held:
        scene.equal(client.result_of(task).value, b"of the holder", "the value", "SCH-69")
    liar.leave()
    (fresh,) = client.submit(1)
    scene.settle(client, holder)
    holder.finish(*holder.expect_dispatch(1, "SCH-25", "the liar has left"))
    scene.settle(holder, client)
    client.expect_status(fresh, CODES.STATUS_SUCCESS, clause="SCH-62")


def _lie(liar: WorkerPeer, junk: Sequence[Task]) -> None:
    """Columns that do not agree are a broken message, which changes nothing (BAT-2)."""
    lies: tuple[dict[str, Any], ...] = (
        {"ids": junk[0].id, "clients": b""},
        {"ids": junk[0].id, "clients": new_id(), "states": b"\x09"},
        {"ids": junk[0].id + junk[0].id, "clients": new_id() * 2},
        {"ids": junk[0].id, "clients": new_id(), "grantSizes": b"\xff\xff", "grants": b"x"},
        {"ids": b"short", "clients": b"short"},
    )
    for columns in lies:
        liar.send("holding", **columns)
        liar.fence()
        liar.take("error")
