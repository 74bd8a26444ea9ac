"""What a worker manager makes of its targets (chapter 19). Its workers dial the scheduler that the suite plays."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.manager import ABSENT, RUNNING, STARTING, STOPPING, ManagerGuest
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene

case = cases_for("manager")
#: So long it is watched for what must not happen.
WATCHED_SECONDS = 1.0
#: Starting a unit may take seconds, and a case starts several.
SECONDS = 90.0


def lived(scene: Scene, manager: ManagerGuest, units: int) -> list[WorkerGuest]:
    """So many units run, and a worker of each is there."""
    known, wanted = len(scene.scheduler.guests), units * manager.workers_per_unit
    manager.target(wanted)
    manager.wait_until_acted()
    running = manager.wait_for_running(units)

    def there() -> list[WorkerGuest]:
        return [guest for guest in scene.scheduler.guests[known:] if isinstance(guest, WorkerGuest)]

    manager.wait(lambda: len(there()) >= wanted, f"{wanted} workers of {units} units were not there", "MGR-4")
    for worker in there():
        unit = worker.hello["worker"]["unitId"]
        scene.check(unit in running, f"a worker names unit {unit!r}, and {', '.join(running)} are running", "MGR-8")
    return there()


def end_unit(scene: Scene, worker: WorkerGuest) -> None:
    """As if it ended by itself: its worker is told to leave."""
    worker.send("shutdown", graceSeconds=0.0)


@case("MGR-1", "FRM-6", "FRM-7", "EVO-3")
def the_hello_names_the_manager_and_what_a_unit_brings(scene: Scene) -> None:
    offer = scene.manager_under_test().hello["manager"]
    scene.equal(len(offer["managerId"]), 16, "the length of managerId")
    scene.check(any(offer["managerId"]), "managerId is all zeros")
    scene.check(offer["workersPerUnit"] >= 1, "workersPerUnit is 0")


@case("MGR-3")
def the_first_status_says_what_there_is(scene: Scene) -> None:
    manager = scene.manager_under_test()
    first = manager.statuses[0]
    scene.equal(first["targetNumber"], 0, "targetNumber before any target of the session")
    scene.check(first["maxWorkers"] >= 1, "maxWorkers is 0: it has nothing to bring")
    scene.equal(first["units"], [], "the units of a manager that has never started any")


@case("MGR-4", "MGR-3", "MGR-10", "MGR-8", seconds=SECONDS)
def a_target_brings_workers(scene: Scene) -> None:
    manager = scene.manager_under_test()
    before = len(manager.statuses)
    worker, *_ = lived(scene, manager, 1)
    offer = worker.hello["worker"]
    scene.equal(offer["managerId"], manager.hello["manager"]["managerId"], "worker.managerId of its Hello", "MGR-8")
    scene.equal(manager.acts_on, manager.targets, "the target that the last ManagerStatus acts on", "MGR-3")
    first = next((status for status in manager.statuses[before:] if status["units"]), None)
    states = {unit["state"] for unit in first["units"]} if first else set()
    scene.check(STARTING in states, "the unit was not listed as starting before it ran", "MGR-10")


@case("MGR-4", seconds=SECONDS)
def a_target_is_absolute(scene: Scene) -> None:
    """Said three times, it brings as many as said once; raised by one, one more."""
    manager = scene.manager_under_test()
    per_unit = manager.workers_per_unit
    manager.target(per_unit)
    manager.target(per_unit)
    manager.wait_until_acted()
    manager.wait_for_running(1)
    manager.target(per_unit)
    manager.wait_until_acted()
    manager.fence()
    scene.equal(len(manager.in_state(STARTING, RUNNING)), 1, "the count of units after one unit was wanted three times")
    if manager.most < 2 * per_unit:
        return
    manager.target(2 * per_unit)
    manager.wait_for_running(2)
    manager.fence()
    scene.equal(len(manager.in_state(STARTING, RUNNING)), 2, "the count of units when two were wanted")


@case("MGR-4", "MGR-6", seconds=SECONDS)
def only_the_last_target_counts(scene: Scene) -> None:
    manager = scene.manager_under_test()
    per_unit = manager.workers_per_unit
    for count in (manager.most, 0, per_unit):
        manager.target(count)
    manager.wait_until_acted()
    manager.wait_for_running(1)

    def is_settled() -> bool:
        return len(manager.in_state(STARTING, RUNNING)) == max(1, len(manager.in_state(RUNNING)))

    manager.wait(is_settled, "units that nobody wants any more are still starting", "MGR-4")
    ran = len(manager.in_state(RUNNING))
    manager.target(per_unit)
    manager.wait_until_acted()
    manager.fence()
    told = f"{len(manager.in_state(STARTING))} units are starting, one is wanted and {ran} were running"
    scene.equal(len(manager.in_state(STARTING)), 0, told)
    manager.target(0, manager.units)
    manager.wait_for_none("MGR-13")
    manager.target(per_unit)
    manager.wait_for_running(1)
    manager.fence()
    scene.equal(len(manager.units), 1, "the count of units when one is wanted and there were none")


@case("MGR-6", seconds=SECONDS)
def a_lowered_target_ends_nothing_that_runs(scene: Scene) -> None:
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    unit = worker.hello["worker"]["unitId"]
    manager.target(0)
    manager.wait_until_acted()
    scene.pump.until(lambda: not worker.is_open, WATCHED_SECONDS)
    scene.check(worker.is_open, "its worker has left")
    scene.check(manager.units.get(unit) == RUNNING, "the unit was running, and no target has named it in `stop`")
    worker.fence()


@case("MGR-13", "MGR-10", "MGR-3", seconds=SECONDS)
def a_unit_named_in_stop_ends(scene: Scene) -> None:
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    unit = worker.hello["worker"]["unitId"]
    manager.target(0, ["of-somebody-else", unit])
    manager.wait_until_acted()
    manager.wait(lambda: not worker.is_open, "the worker of a unit named in `stop` has not left", "MGR-13")
    manager.wait(lambda: unit not in manager.units, "the unit has ended and is still listed", "MGR-10")
    scene.equal(manager.in_state(STARTING, RUNNING), [], "units when none are wanted", "MGR-4")


@case("MGR-10", "MGR-3", seconds=SECONDS)
def a_unit_is_listed_as_stopping_until_it_has_ended(scene: Scene) -> None:
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    unit = worker.hello["worker"]["unitId"]
    manager.target(0, [unit])
    manager.wait_for_none()
    states = [
        {each["unitId"]: each["state"] for each in status["units"]}.get(unit, ABSENT)
        for status in manager.statuses
        if status["targetNumber"] == manager.targets
    ]
    scene.check(bool(states), "no ManagerStatus said that the target is in force", "MGR-3")
    scene.equal(states[-1], ABSENT, "the state that was told last")
    scene.check(STOPPING in states, "it was never listed as stopping, and its worker took its time to leave")


@case("MGR-13", "MGR-10", seconds=SECONDS)
def every_unit_named_in_stop_ends(scene: Scene) -> None:
    manager = scene.manager_under_test()
    scene.needs(manager.most >= 2 * manager.workers_per_unit, "it has room for one unit only")
    workers = lived(scene, manager, 2)
    manager.target(0, manager.in_state(RUNNING))
    manager.wait_until_acted()
    manager.wait(
        lambda: not any(worker.is_open for worker in workers),
        "the workers of two units named in `stop` have not all left",
        "MGR-13",
    )
    manager.wait_for_none()


@case("MGR-4", "MGR-13", seconds=SECONDS)
def units_that_stop_do_not_count(scene: Scene) -> None:
    """One is to stop while one is wanted: another takes its place."""
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    old = worker.hello["worker"]["unitId"]
    manager.target(manager.workers_per_unit, [old])
    manager.wait(
        lambda: any(unit != old for unit in manager.in_state(STARTING, RUNNING)), "no other unit was started", "MGR-4"
    )
    manager.wait(lambda: old not in manager.units, "the unit has ended and is still listed", "MGR-10")
    listed = [{unit["unitId"]: unit["state"] for unit in status["units"]} for status in manager.statuses]
    beside = [units for units in listed if units.get(old) == STOPPING]
    is_beside = any(len(units) > 1 for units in beside)
    scene.check(is_beside or not beside, "the other unit was started only when the one that was to stop had ended")


@case("MGR-10", "MGR-4", "MGR-3", seconds=SECONDS)
def a_unit_that_ends_by_itself_is_replaced(scene: Scene) -> None:
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    old = worker.hello["worker"]["unitId"]
    end_unit(scene, worker)
    manager.wait(lambda: old not in manager.units, "a unit whose workers have left is still listed", "MGR-10")
    manager.wait(lambda: bool(manager.in_state(STARTING, RUNNING)), "no other unit was started", "MGR-4")


@case("MGR-8", seconds=SECONDS)
def workers_name_their_manager_and_their_unit(scene: Scene) -> None:
    manager = scene.manager_under_test()
    scene.needs(manager.most >= 2 * manager.workers_per_unit, "it has room for one unit only")
    workers = lived(scene, manager, 2)
    identifier = manager.hello["manager"]["managerId"]
    for worker in workers:
        scene.equal(worker.hello["worker"]["managerId"], identifier, "worker.managerId of a Hello")
    named = [worker.hello["worker"]["unitId"] for worker in workers]
    for unit in manager.in_state(RUNNING):
        scene.equal(named.count(unit), manager.workers_per_unit, f"the count of workers of unit {unit}")


@case("MGR-14", "MGR-3", seconds=SECONDS)
def a_lost_session_leaves_its_units_alone(scene: Scene) -> None:
    """In the new one nothing is started or ended before a target has come, and then what it says is done."""
    manager = scene.manager_under_test()
    worker, *_ = lived(scene, manager, 1)
    unit = worker.hello["worker"]["unitId"]
    again = manager.begin_again()
    scene.equal(again.statuses[0]["targetNumber"], 0, "targetNumber before any target of the session", "MGR-3")
    scene.equal(again.units, {unit: RUNNING}, "the units of the first ManagerStatus of the new session")
    scene.check(worker.is_open, "its worker has left")
    end_unit(scene, worker)
    again.wait(lambda: unit not in again.units, "a unit whose workers have left is still listed", "MGR-10")
    scene.pump.until(lambda: bool(again.units), WATCHED_SECONDS)
    scene.equal(again.units, {}, "the units that were started before a target of the new session")
    again.target(again.workers_per_unit)
    again.wait(lambda: bool(again.in_state(STARTING, RUNNING)), "no unit was started", "MGR-4")


@case("MGR-1", "HSK-4", fresh=True)
def it_has_the_same_id_when_it_is_started_again(scene: Scene) -> None:
    before = scene.manager_under_test().hello
    scene.start_again()
    after = scene.manager_under_test().hello
    scene.equal(after["manager"]["managerId"], before["manager"]["managerId"], "managerId of its next life")
    scene.check(after["peerId"] != before["peerId"], "its next life has the same peerId", "HSK-4")


@case("MGR-9", "MGR-4", variant="unable", fresh=True, seconds=SECONDS)
def what_cannot_be_started_is_told_and_tried_again(scene: Scene) -> None:
    """Its workers get no answer to their Hellos, and give up; then they are welcomed."""
    manager = scene.manager_under_test()
    scene.scheduler.deaf_to = frozenset({"worker"})
    manager.target(manager.workers_per_unit)
    manager.wait(lambda: bool(manager.statuses[-1]["trouble"]), "no ManagerStatus had `trouble`", "MGR-9")
    scene.scheduler.deaf_to = frozenset()
    runs = manager.wait_for_running(1)
    manager.wait(
        lambda: not manager.statuses[-1]["trouble"],
        f"unit {runs[0]} runs again, and `trouble` was not cleared",
        "MGR-9",
    )
