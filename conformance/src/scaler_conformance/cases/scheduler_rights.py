"""A scheduler keeps users apart, and hands out the grants of owners (OWN-7, OWN-16, OWN-24, OWN-25, SCH-55, SCH-56,
SCH-91, SCH-97, SCH-98, SEC-19, LIM-30)."""

from __future__ import annotations

import secrets
import time
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_endings import begin
from scaler_conformance.cases.scheduler_graphs import after
from scaler_conformance.cases.scheduler_objects import released
from scaler_conformance.cases.storage_rights import key_of
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import PRESENT_HELD, ClientPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, ROLES, KeptResult, Result, Task, write_results
from scaler_conformance.wire.keys import KEY_BYTES, families_of, own_family, read_lent

case = cases_for("scheduler")

DAY = 86_400
RETIRED_SECONDS = 3.0
"""Some looks at the load, of which there is one a second."""


def _client(scene: Scene, user: str, role: str = "client", *, is_open: bool = True, **hello: Any) -> ClientPeer:
    """With a ticket of that user for that role."""
    client = scene.client(is_open=False)
    secret = secrets.token_bytes(KEY_BYTES)
    client.shown = key_of(scene).pass_for(secret, [ROLES[role]], user=user, is_operator=False)
    if is_open:
        client.open(**hello)
    else:
        client.dial(**hello)
    return client


def _is_queued(scene: Scene, client: ClientPeer, task: Task) -> None:
    """The task has not ended, and is this client's: its Cancel finds it."""
    client.cancel(task)
    client.fence()
    outcomes = [(task.id, CODES.CANCEL_CANCELED)]
    scene.equal(client.cancel_outcomes(), outcomes, "the answer to its client's Cancel")


# ------------------------------------------------------------ grants


def _is_lent(scene: Scene, task: Task, family: bytes, user: str, clause: str = "OWN-24") -> None:
    """Of this task's client, for workers of that user, for a day at least and without the right to release."""
    client, grant = task.header["client"], task.header["ownerGrant"]
    lent = read_lent(grant)
    scene.check(lent is not None and key_of(scene).is_grant(grant, client), "it has no lent grant", clause)
    assert lent is not None
    said = (lent.family, lent.user, lent.may_release)
    scene.equal(said, (family, families_of(user), False), "what the grant says", clause)
    scene.check(lent.ends >= time.time() + DAY, "it ends within a day, or never", clause)


@case("OWN-16", "OWN-24")
def a_client_has_its_grant_and_its_workers_have_lent_ones(scene: Scene) -> None:
    key = key_of(scene)
    worker, client = scene.worker(credit=5), _client(scene, "ana")
    family = own_family(client.peer_id, "ana")
    scene.equal(client.welcome["ownerGrant"], key.grant(client.peer_id, family), "ownerGrant of the Welcome", "OWN-16")
    scene.equal(worker.welcome["ownerGrant"], b"", "ownerGrant of a worker's Welcome")
    client.submit(1, ownerGrant=key.lent(new_id(), new_id()))
    client.submit(1)
    scene.settle(client, worker)
    for task in worker.expect_dispatch(2):
        _is_lent(scene, task, family, "conformance")


@case("OWN-16", "OWN-24", "SCH-55")
def a_client_in_a_task_is_in_the_family_of_its_program(scene: Scene) -> None:
    key = key_of(scene)
    _, worker, (task,) = begin(scene)
    program = own_family(task.header["client"])
    child = _client(scene, "conformance", "worker", parentTask=task.id)
    scene.equal(child.welcome["ownerGrant"], key.grant(child.peer_id, program), "ownerGrant of its Welcome")
    child.submit(1, parentTask=task.id, depth=1)
    worker.credit(5, 5)
    scene.settle(child, worker)
    (own,) = worker.expect_dispatch(1)
    scene.equal(own.header["client"], child.peer_id, "client of the Dispatch")
    _is_lent(scene, own, program, "conformance")
    grandchild = _client(scene, "conformance", "worker", parentTask=own.id)
    expected = key.grant(grandchild.peer_id, program)
    scene.equal(grandchild.welcome["ownerGrant"], expected, "ownerGrant of a client in a task of a client in a task")


@case("OWN-25")
def a_client_in_a_task_of_another_user_has_a_grant_with_an_end(scene: Scene) -> None:
    """Of the family of the task's client, for the user of the worker."""
    key = key_of(scene)
    worker, client = scene.worker(credit=1), _client(scene, "ana")
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1)
    child = _client(scene, "conformance", "worker", parentTask=task.id)
    grant = child.welcome["ownerGrant"]
    lent = read_lent(grant)
    scene.check(lent is not None and key.is_grant(grant, child.peer_id), "it has no lent grant")
    assert lent is not None
    said, family = (lent.family, lent.user, lent.may_release), own_family(client.peer_id, "ana")
    scene.equal(said, (family, families_of("conformance"), True), "what the grant says")
    scene.check(lent.ends >= time.time() + DAY, "it ends within a day, or never")


@case("SCH-55")
def a_workers_ticket_opens_no_client_outside_its_tasks(scene: Scene) -> None:
    key_of(scene)
    client, worker, (task,) = begin(scene)
    (queued,) = client.submit(1)
    scene.settle(client, worker)
    for user, parent in (("joe", task.id), ("conformance", queued.id), ("conformance", new_id()), ("joe", b"")):
        stranger = _client(scene, user, "worker", is_open=False, parentTask=parent)
        stranger.expect_reject(CODES.UNAUTHORIZED)
        stranger.close()
    worker.finish(task)
    worker.credit(0)
    scene.settle(worker, client)
    late = _client(scene, "conformance", "worker", is_open=False, parentTask=task.id)
    late.expect_reject(CODES.UNAUTHORIZED)


@case("SCH-55", fresh=True)
def a_workers_ticket_opens_no_client_of_a_scheduler_that_has_just_begun(scene: Scene) -> None:
    """Whose workers may still present tasks (SCH-74): this client is in none."""
    key_of(scene)
    stranger = _client(scene, "conformance", "worker", is_open=False, features=["present-held"])
    stranger.expect_reject(CODES.UNAUTHORIZED)


@case("HSK-38")
def a_client_that_begins_again_stays_in_its_family(scene: Scene) -> None:
    """As the name says that it proves: twice, and not with a grant of another name or of none."""
    key = key_of(scene)
    first = _client(scene, "ana")
    family = own_family(first.peer_id, "ana")
    second = _client(scene, "ana", formerName=first.peer_id + first.welcome["ownerGrant"])
    scene.equal(second.welcome["ownerGrant"], key.grant(second.peer_id, family), "ownerGrant under the next name")
    third = _client(scene, "ana", formerName=second.peer_id + second.welcome["ownerGrant"])
    scene.equal(third.welcome["ownerGrant"], key.grant(third.peer_id, family), "ownerGrant under the name after that")
    for forged in (family + new_id(), new_id() + first.welcome["ownerGrant"], family, b"", bytes(200)):
        stranger = _client(scene, "ana", formerName=forged)
        expected = key.grant(stranger.peer_id, own_family(stranger.peer_id, "ana"))
        scene.equal(stranger.welcome["ownerGrant"], expected, "ownerGrant with a wrong former name")
        stranger.close()


@case("HSK-38")
def a_worker_that_was_given_a_task_does_not_enter_the_family_of_its_client(scene: Scene) -> None:
    """It shows the grant of the Dispatch as a client of its own user, and even the own grant of that client."""
    key = key_of(scene)
    worker, client = scene.worker(credit=1), _client(scene, "ana")
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1)
    shown = task.header["client"] + task.header["ownerGrant"]
    for name in (shown, client.peer_id + client.welcome["ownerGrant"]):
        stranger = _client(scene, "joe", formerName=name)
        expected = key.grant(stranger.peer_id, own_family(stranger.peer_id, "joe"))
        scene.equal(stranger.welcome["ownerGrant"], expected, "ownerGrant with a grant of another user's client")
    again = _client(scene, "ana", formerName=shown)
    expected = key.grant(again.peer_id, own_family(again.peer_id, "ana"))
    scene.equal(again.welcome["ownerGrant"], expected, "ownerGrant with the grant of a task of the same user")


@case("HSK-43")
def clients_of_two_users_with_one_name_are_in_two_families(scene: Scene) -> None:
    """Proves it one after the other. The names of all families of a user begin alike, and those of others do not
    (WRK-68)."""
    key, name = key_of(scene), new_id()
    heads = []
    for user, peer_id in (("ana", name), ("joe", name), ("ana", new_id())):
        client = _client(scene, user, peerId=peer_id)
        grant, expected = client.welcome["ownerGrant"], key.grant(peer_id, own_family(peer_id, user))
        scene.equal(grant, expected, f"ownerGrant of a client of the user {user}")
        heads.append(bytes(grant[:8]))
        client.leave()
    scene.check(heads[0] == heads[2] != heads[1], "the first eight bytes of a family do not tell its user")


@case("OWN-23")
def a_release_of_an_owner_has_its_grant(scene: Scene) -> None:
    key_of(scene)
    storage = scene.storage_session()
    client = _client(scene, "ana")
    grant = client.welcome["ownerGrant"]
    client.leave()
    storage.fence()
    gone = [one["grant"] for one in scene.storage.asked("releaseOwner") if one["owner"] == client.peer_id]
    scene.equal(gone, [grant], "grant of the ReleaseOwner")


# ------------------------------------------------------------ tasks


@case("SCH-56", "SCH-8")
def a_task_is_taken_over_by_its_user_alone(scene: Scene) -> None:
    key_of(scene)
    owner, thief = _client(scene, "ana"), _client(scene, "joe")
    (task,) = owner.submit(1)
    owner.fence()
    mine = thief.new_tasks(1)
    seq = thief.submit_batch([*mine, task])
    thief.fence()
    thief.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False)
    _is_queued(scene, owner, task)
    thief.cancel(*mine)
    thief.fence()
    outcomes = [(mine[0].id, CODES.CANCEL_UNKNOWN)]
    scene.equal(thief.cancel_outcomes(), outcomes, "the outcome of a task of the batch that was refused")
    (task,) = owner.submit(1)
    owner.fence()
    again = _client(scene, "ana")
    again.submit([task])
    again.fence()
    _is_queued(scene, again, task)


@case("SCH-56")
def a_kept_result_is_not_replaced_by_another_user(scene: Scene) -> None:
    key_of(scene)
    worker, owner = scene.worker(credit=1), _client(scene, "ana")
    (one,) = owner.new_tasks(1)
    owner.submit([one, after(owner, one)], graphId=new_id())
    scene.settle(owner, worker)
    worker.expect_dispatch(1)
    worker.credit(0)
    worker.finish(one, value=b"of ana")
    scene.settle(worker, owner)
    thief = _client(scene, "joe")
    seq = thief.submit_batch([one])
    thief.fence()
    thief.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False)
    given = thief.give(new_id(), KeptResult(one.id, CODES.KIND_INLINE, b"forged"))
    thief.fence()
    thief.expect_error(CODES.BAD_GRAPH, ref_seq=given, fatal=False)
    worker.credit(1)
    scene.settle(worker, owner)
    (last,) = worker.expect_dispatch(1)
    scene.equal(last.inputs.get(one.id), (CODES.KIND_INLINE, b"of ana"), "the input of the task that depends on it")


@case("SCH-97")
def a_depth_is_proven_by_the_parent(scene: Scene) -> None:
    """Claims, as a user, a depth for tasks without a parent, with one of another user, with one that no worker has, and
    with its own running one."""
    key_of(scene)
    owner, liar, worker = _client(scene, "ana"), _client(scene, "joe"), scene.worker(credit=2)
    (foreign,) = owner.submit(1)
    (own,) = liar.submit(1)
    scene.settle(owner, liar, worker)
    worker.expect_dispatch(2)
    (queued,) = liar.submit(1)
    scene.settle(liar, worker)
    expected = {queued.id: 0}
    for parent, depth in ((b"", 0), (foreign.id, 0), (queued.id, 0), (own.id, 1)):
        (task,) = liar.submit(1, depth=1_000, parentTask=parent)
        expected[task.id] = depth
    liar.fence()
    worker.credit(10)
    scene.settle(liar, worker)
    given = {task.id: task.header["depth"] for task in worker.expect_dispatch(5)}
    scene.equal(given, expected, "the depths of the dispatched tasks", "SCH-97")


@case("SCH-91")
def a_priority_says_nothing_of_another_user(scene: Scene) -> None:
    """Floods, as a user with several programs, the scheduler with tasks of the highest priority."""
    key_of(scene)
    worker = scene.worker(credit=1)
    flood = [_client(scene, "joe") for _ in range(3)]
    for client in flood:
        client.submit(10, priority=2**31 - 1)
    scene.settle(*flood, worker)
    (held,) = worker.expect_dispatch(1, "CRD-1")
    for _ in range(3):
        other = _client(scene, "ana")
        (task,) = other.submit(1)
        scene.settle(other, worker)
        held = worker.next_after(held)
        scene.check(held.id == task.id, "a task of the user that has just run one was dispatched", "SCH-91")
        held = worker.next_after(held)


@case("SCH-98", "SCH-10")
def a_users_priorities_are_not_told_to_workers(scene: Scene) -> None:
    key_of(scene)
    worker, client = scene.worker(credit=0), _client(scene, "ana")
    tasks = {priority: client.submit(1, priority=priority)[0] for priority in (0, 7, -7)}
    client.fence()
    worker.credit(3)
    worker.fence()
    given = worker.expect_dispatch(3)
    order = [task.id for task in given]
    scene.equal(order, [tasks[priority].id for priority in (7, 0, -7)], "the order of a user's tasks", "SCH-10")
    scene.equal([task.header["priority"] for task in given], [0, 0, 0], "the priorities in the Dispatch", "SCH-98")


@case("CAN-1", "SCH-34", "SCH-16")
def a_foreign_task_is_an_unknown_one(scene: Scene) -> None:
    key_of(scene)
    owner, thief = _client(scene, "ana"), _client(scene, "joe")
    (task,) = owner.submit(1)
    owner.fence()
    thief.cancel(task)
    thief.fence()
    scene.equal(thief.cancel_outcomes(), [(task.id, CODES.CANCEL_UNKNOWN)], "the outcome of the Cancel", "CAN-1")
    thief.send("explain", requestId=7, taskId=task.id)
    thief.fence()
    scene.equal(thief.expect("explanation")["state"], "", "the state that the Explanation tells", "SCH-34")
    seq = thief.submit_batch([after(thief, task)])
    thief.fence()
    thief.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False)
    _is_queued(scene, owner, task)


@case("OWN-7", "SCH-6")
def a_worker_has_no_other_object_released(scene: Scene) -> None:
    """It names objects that are not those of the attempt, or does not hold the task."""
    storage = scene.storage_session()
    client, worker, (task,) = begin(scene)
    liar = scene.worker()
    present, other = result_id(task.id, task.attempt), new_id()
    for peer, attempt, value in (
        (liar, task.attempt, present),
        (liar, task.attempt, other),
        (liar, task.attempt + 1, other),
        (liar, task.attempt + 1, present),
        (worker, task.attempt + 1, other),
        (worker, task.attempt + 1, present),
    ):
        rows = [Result(task.id, attempt, kind=CODES.KIND_OBJECT, value=value)]
        peer.send_batch("results", write_results(rows))
        scene.settle(peer, storage)
        what = "the owners in whose name an object was released that is not the attempt's"
        scene.equal(released(scene, value), [], what, "OWN-7")
    worker.finish(task)
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-6")


@case("HSK-44", fresh=True)
def a_users_peer_does_not_raise_the_generation(scene: Scene) -> None:
    """Checks that no user can choose which of two schedulers ends: the one with the lower generation does. (SCH-82)"""
    own = scene.client(features=[PRESENT_HELD]).welcome
    scene.needs(PRESENT_HELD in own["features"], "the scheduler has no generations")
    told = {"features": [PRESENT_HELD], "generation": own["generation"] + 7, "lastServerId": new_id()}
    client = _client(scene, "ana", **told)
    scene.equal(client.welcome["generation"], own["generation"], "the generation after a user's Hello", "HSK-44")


# ------------------------------------------------------------ managers


def _of_user(scene: Scene, peer: Dialer, role: str, user: str, *, is_operator: bool = False, **hello: Any) -> None:
    secret = secrets.token_bytes(KEY_BYTES)
    peer.shown = key_of(scene).pass_for(secret, [ROLES[role]], user=user, is_operator=is_operator)
    peer.open(**hello)


@case("SEC-19", "MGR-16")
def a_manager_retires_no_worker_of_another_user(scene: Scene) -> None:
    """It may have no worker, and says that the workers of another user are in its units."""
    key_of(scene)
    client, manager = scene.client(), scene.peer("manager", is_open=False)
    by_name, by_id = scene.worker(is_open=False), scene.worker(is_open=False)
    offer = {"managerId": manager.peer_id, "workersPerUnit": 1, "name": "thief"}
    _of_user(scene, manager, "manager", "joe", manager=offer)
    _of_user(scene, by_name, "worker", "ana", worker={"name": "by-name", "credit": 1})
    named = {"name": "by-id", "credit": 1, "managerId": manager.peer_id, "unitId": "u2"}
    _of_user(scene, by_id, "worker", "ana", worker=named)
    units = [{"unitId": "u1", "state": 2, "workerNames": ["by-name"]}, {"unitId": "u2", "state": 2}]
    manager.send("managerStatus", maxWorkers=0, units=units)
    manager.expect("managerTarget", clause="MGR-5")
    scene.pump.until(lambda: False, RETIRED_SECONDS)  # an idle unit is named in `stop` in less
    client.submit(2)
    scene.settle(client, by_name, by_id)
    by_name.expect_dispatch(1, "SEC-19", "no manager of its user has it")
    by_id.expect_dispatch(1, "SEC-19", "no manager of its user has it")


@case("MGR-2")
def managers_of_two_users_may_have_one_id(scene: Scene) -> None:
    """Else a manager that comes again would be refused, because another user has taken its id meanwhile."""
    key_of(scene)
    first, second = scene.peer("manager", is_open=False), scene.peer("manager", is_open=False)
    offer = {"managerId": first.peer_id, "workersPerUnit": 1}
    _of_user(scene, first, "manager", "joe", manager=offer)
    _of_user(scene, second, "manager", "ana", manager=offer)
    second.send("managerStatus", maxWorkers=1, units=[])
    second.expect("managerTarget", clause="MGR-2")


# ------------------------------------------------------------ what all users share

#: More than a scheduler needs to allow for all users. One with higher bounds shows nothing here.
MANAGERS, UNITS, WATCHERS = 5, 4_096, 120
FIRST_UNITS, FIRST_WATCHERS = 256, 4


def _manager_with(scene: Scene, user: str, count: int) -> Dialer:
    """So many units, of which none brings a worker."""
    manager = scene.peer("manager", is_open=False)
    _of_user(scene, manager, "manager", user)
    units = [{"unitId": f"u{number}", "state": 2} for number in range(count)]
    manager.send("managerStatus", maxWorkers=count, units=units)
    return manager


def _watcher(scene: Scene, user: str) -> Dialer:
    watcher = scene.monitor(is_open=False)
    _of_user(scene, watcher, "monitor", user)
    watcher.watch("status")
    return watcher


@case("LIM-30", seconds=60.0)
def the_units_of_one_user_leave_room_for_others(scene: Scene) -> None:
    for _ in range(MANAGERS):
        _manager_with(scene, "ana", UNITS).expect("managerTarget", "error", clause="MGR-5")
    manager = _manager_with(scene, "bo", FIRST_UNITS)
    manager.expect("managerTarget", clause="LIM-30", what="a ManagerTarget, as for the first units of each user")


@case("LIM-30", seconds=60.0)
def the_watchers_of_one_user_leave_room_for_others(scene: Scene) -> None:
    for _ in range(WATCHERS):
        _watcher(scene, "ana").fence()
    for _ in range(FIRST_WATCHERS):
        watcher = _watcher(scene, "bo")
        watcher.fence(clause="LIM-30")
        watcher.expect_nothing("the first watchers of each user are never refused", "LIM-30")
