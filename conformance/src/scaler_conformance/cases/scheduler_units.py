"""Targets of a manager, and what becomes of the workers of its units (chapter 19)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene

from .scheduler_managers import tell

case = cases_for("scheduler")


@case("MGR-11", "MGR-12", "MGR-5")
def every_target_has_a_higher_number_and_keeps_to_what_is_allowed(scene: Scene) -> None:
    manager = scene.peer("manager")
    last = 0
    for most in (3, 0, 2, 0):
        tell(manager, most, ("u1", 2))
        manager.pump.until(lambda: any(each.kind == "managerTarget" for each in manager.inbox), 1.0)
        for target in manager.take("managerTarget"):
            number, wanted = target["number"], target["workerCount"]
            scene.check(number > last, f"a target has number {number} after {last}", "MGR-11")
            scene.check(wanted <= most, f"asked for {wanted} workers, {most} are allowed", "MGR-12")
            last = number
    scene.check(last > 0, "no ManagerTarget came", "MGR-5")


def managed(scene: Scene, manager: Dialer, **offer: object) -> tuple[WorkerPeer, ClientPeer]:
    worker, client = scene.worker(is_open=False), scene.client()
    worker.open(worker={"name": "managed", "credit": 1, **offer})
    return worker, client


@case("MGR-15")
def a_worker_that_was_to_leave_stays_when_its_manager_is_lost(scene: Scene) -> None:
    """Its unit was too many, and it was busy; then the manager goes, and nobody is there to end it."""
    manager = scene.peer("manager")
    tell(manager, 1, ("u1", 2))
    manager.expect("managerTarget", clause="MGR-5")
    worker, client = managed(scene, manager, managerId=manager.peer_id, unitId="u1")
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1, "SCH-25")
    tell(manager, 0, ("u1", 2), target=1)
    scene.settle(manager, worker)
    manager.leave()
    worker.take("recall")
    worker.give_back(is_answer=True)
    worker.finish(task)
    client.submit(1)
    scene.settle(worker, client, worker)
    worker.expect_dispatch(1, "MGR-15", "its manager is lost, and it is to be kept")


@case("MGR-17", "MGR-16")
def a_worker_known_by_name_goes_with_its_unit(scene: Scene) -> None:
    """Its unit is named in `stop`, if the scheduler likes; then it gets nothing, though it names no unit itself."""
    manager = scene.peer("manager")
    units = [{"unitId": "u1", "state": 2, "workerNames": ["managed"]}]
    manager.send("managerStatus", maxWorkers=1, units=units)
    manager.expect("managerTarget", clause="MGR-5")
    worker, client = managed(scene, manager)
    worker.fence()
    manager.send("managerStatus", maxWorkers=0, units=units)

    def is_stopped() -> bool:
        return any(target.kind == "managerTarget" and "u1" in target["stop"] for target in manager.inbox)

    scene.pump.until(is_stopped, 1.5)  # it may also take its time, or keep the unit
    if is_stopped():
        client.submit(1)
        scene.settle(client, worker)
        worker.expect_nothing("its unit was named in `stop`", "MGR-17")
