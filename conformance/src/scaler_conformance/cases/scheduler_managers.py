"""Worker managers, as a scheduler treats them (chapter 19)."""

from __future__ import annotations

from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler")


def tell(manager: Dialer, most: int, *units: tuple[str, int], target: int = 0) -> None:
    listed: list[dict[str, Any]] = [{"unitId": name, "state": state} for name, state in units]
    manager.send("managerStatus", targetNumber=target, maxWorkers=most, units=listed)


@case("MGR-5", "MGR-11", "MGR-12")
def the_first_status_is_answered_with_a_target(scene: Scene) -> None:
    manager, client = scene.peer("manager"), scene.client()
    tell(manager, 2)
    target = manager.expect("managerTarget")
    scene.check(target["number"] >= 1, f"the first target has number {target['number']}", "MGR-11")
    client.submit(5)
    scene.settle(client, manager)
    last = target["number"]
    for each in manager.take("managerTarget"):
        scene.check(each["number"] > last, f"a target has number {each['number']} after {last}", "MGR-11")
        scene.check(each["workerCount"] <= 2, f"asked for {each['workerCount']} workers, 2 are allowed", "MGR-12")
        last = each["number"]


@case("MGR-2")
def a_manager_without_an_id_is_refused(scene: Scene) -> None:
    manager = scene.peer("manager", is_open=False)
    manager.dial(manager={"managerId": b"", "workersPerUnit": 1})
    _is_refused(manager)


@case("MGR-2")
def a_second_manager_of_the_same_id_is_refused(scene: Scene) -> None:
    first, second = scene.peer("manager"), scene.peer("manager", is_open=False)
    tell(first, 1)
    first.expect("managerTarget", clause="MGR-5")
    second.dial(manager={"managerId": first.peer_id, "workersPerUnit": 1})
    _is_refused(second)
    first.fence(clause="MGR-2")


@case("MGR-2", "MGR-5")
def the_id_of_a_manager_that_left_is_free(scene: Scene) -> None:
    """It is started again, and dials as another peer."""
    first, second = scene.peer("manager"), scene.peer("manager", is_open=False)
    tell(first, 1)
    first.expect("managerTarget", clause="MGR-5")
    first.leave()
    second.open(manager={"managerId": first.peer_id, "workersPerUnit": 1})
    tell(second, 1)
    second.expect("managerTarget", clause="MGR-2")


def _is_refused(manager: Dialer) -> None:
    manager.expect("welcome", "reject", clause="HSK-10")
    manager.expect_error(CODES.BAD_IDENTITY, fatal=True, clause="MGR-2")


@case("MGR-15")
def the_workers_of_a_lost_manager_stay(scene: Scene) -> None:
    manager = scene.peer("manager")
    tell(manager, 1, ("u1", 2))
    manager.expect("managerTarget", clause="MGR-5")
    offer = {"name": "managed", "credit": 1, "managerId": manager.peer_id, "unitId": "u1"}
    worker, client = scene.worker(is_open=False), scene.client()
    worker.open(worker=offer)
    worker.fence()
    manager.leave()
    client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "MGR-15", "it stays when its manager leaves")


@case("MGR-16", "MGR-7")
def a_worker_of_a_stopped_unit_gets_nothing(scene: Scene) -> None:
    """Nothing is to be done, and the manager may have none: its idle unit may be named, and then it is left alone."""
    manager = scene.peer("manager")
    tell(manager, 1, ("u1", 2))
    worker, client = scene.worker(is_open=False), scene.client()
    worker.open(worker={"name": "managed", "credit": 1, "managerId": manager.peer_id, "unitId": "u1"})
    worker.fence()
    tell(manager, 0, ("u1", 2))
    manager.fence()

    def is_stopped() -> bool:
        return any(target.kind == "managerTarget" and "u1" in target["stop"] for target in manager.inbox)

    scene.pump.until(is_stopped, 1.5)  # it may also take its time, or keep the unit
    was_stopped = is_stopped()
    client.submit(1)
    scene.settle(client, worker)
    if was_stopped:
        worker.expect_nothing("its unit was named in `stop`", "MGR-16")


@case("MGR-17", "MGR-7")
def a_worker_is_known_by_the_name_that_its_unit_lists(scene: Scene) -> None:
    """It names no unit itself; while it holds a task, its unit is not stopped."""
    manager, worker, client = scene.peer("manager"), scene.worker(is_open=False), scene.client()
    manager.send("managerStatus", maxWorkers=1, units=[{"unitId": "u1", "state": 2, "workerNames": ["by-name"]}])
    manager.expect("managerTarget", clause="MGR-5")
    worker.open(worker={"name": "by-name", "credit": 1})
    client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-25")
    manager.send("managerStatus", maxWorkers=0, units=[{"unitId": "u1", "state": 2, "workerNames": ["by-name"]}])
    manager.fence()
    for target in manager.take("managerTarget"):
        scene.check("u1" not in target["stop"], "a unit was named in `stop` while its worker holds a task", "MGR-17")


@case("MGR-16")
def a_worker_that_comes_late_to_a_stopped_unit_gets_nothing(scene: Scene) -> None:
    manager = scene.peer("manager")
    tell(manager, 1, ("u1", 2))
    worker, client = scene.worker(is_open=False), scene.client()
    offer = {"name": "managed", "credit": 1, "managerId": manager.peer_id, "unitId": "u1"}
    worker.open(worker=offer)
    worker.fence()
    tell(manager, 0, ("u1", 2))

    def is_stopped() -> bool:
        return any(target.kind == "managerTarget" and "u1" in target["stop"] for target in manager.inbox)

    scene.pump.until(is_stopped, 1.5)  # it may also take its time, or keep the unit
    if is_stopped():
        late = scene.worker(is_open=False)
        late.open(worker={**offer, "name": "late"})
        client.submit(1)
        scene.settle(client, late)
        late.expect_nothing("its unit was named in `stop` before it came", "MGR-16")


@case("MGR-7")
def a_unit_is_busy_while_any_of_its_workers_is(scene: Scene) -> None:
    """Two workers of one unit: each of them in turn is the only one with a task."""
    for busy_one in (0, 1):
        manager = scene.peer("manager")
        tell(manager, 2, ("u1", 2))
        manager.expect("managerTarget", clause="MGR-5")
        workers, client = [scene.worker(is_open=False) for _ in range(2)], scene.client()
        for number, worker in enumerate(workers):
            offer = {"name": f"w{number}", "managerId": manager.peer_id, "unitId": "u1"}
            worker.open(worker={**offer, "credit": int(number == busy_one)})
        client.submit(1)
        scene.settle(client, *workers)
        workers[busy_one].expect_dispatch(1, "SCH-25")
        tell(manager, 0, ("u1", 2), target=1)
        scene.settle(manager)
        for target in manager.take("managerTarget"):
            scene.check("u1" not in target["stop"], "a unit was named in `stop` while its worker holds a task")
        manager.leave()
        client.leave()


@case("MGR-7", "MGR-12")
def a_unit_that_holds_a_task_is_not_stopped(scene: Scene) -> None:
    manager = scene.peer("manager")
    tell(manager, 1, ("u1", 2))
    manager.expect("managerTarget", clause="MGR-5")
    worker, client = scene.worker(is_open=False), scene.client()
    worker.open(worker={"name": "managed", "credit": 1, "managerId": manager.peer_id, "unitId": "u1"})
    client.submit(1)
    scene.settle(client, worker, manager)
    if worker.dispatched():
        tell(manager, 0, ("u1", 2), target=1)
        scene.settle(manager)
    for target in manager.take("managerTarget"):
        scene.check("u1" not in target["stop"], "a unit was named in `stop` while its worker holds a task")
