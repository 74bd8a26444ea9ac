"""What monitors may ask a scheduler to do (chapter 14)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message
from scaler_conformance.wire.keys import USER

case = cases_for("scheduler")
TRUSTING = "trusting"
"""Its operator lets monitors control the cluster."""


@case("MON-49")
def a_monitor_may_do_nothing_unless_the_operator_lets_it(scene: Scene) -> None:
    worker, client, watcher = scene.worker(credit=1), scene.client(), scene.peer("monitor")
    held, queued = client.submit(2)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    watcher.send("snapshotRequest", requestId=1)
    shown = watcher.expect("clusterStatus")
    subjects = (
        (CODES.CONTROL_CANCEL_TASK, held.id),
        (CODES.CONTROL_CANCEL_TASK, queued.id),
        (CODES.CONTROL_CANCEL_TASK, new_id()),
        *((CODES.CONTROL_CANCEL_CLIENT, entry["peerId"]) for entry in shown["clients"]),
        *((CODES.CONTROL_DRAIN_WORKER, entry["peerId"]) for entry in shown["workers"]),
        (2**16 - 1, b""),
    )
    for number, (action, subject) in enumerate(subjects):
        watcher.send("control", requestId=2**63 + number, action=action, subject=subject, graceSeconds=0.0)
        reply = watcher.expect("controlReply", clause="MON-49")
        told = (reply["requestId"], reply["outcome"], reply["taskCount"])
        scene.equal(told, (2**63 + number, CODES.CONTROL_NOT_ALLOWED, 0), "requestId, outcome and taskCount")
    worker.fence()
    client.fence()
    worker.expect_nothing("nothing is done for a monitor", "MON-49")
    client.expect_nothing("nothing is done for a monitor", "MON-49")


# ---------------------------------------------------------------- where the operator lets monitors do it


def ordered(scene: Scene, watcher: Dialer, action: int, subject: bytes, count: int, grace: float = 1.0) -> None:
    """Asks for it; it has to be done, to so many tasks."""
    watcher.send("control", requestId=5, action=action, subject=subject, graceSeconds=grace)
    reply = watcher.expect("controlReply", clause="MON-49")
    told = (reply["requestId"], reply["outcome"], reply["taskCount"])
    scene.equal(told, (5, CODES.CONTROL_DONE, count), "requestId, outcome and taskCount", "MON-49")


def snapshot(watcher: Dialer) -> Message:
    watcher.send("snapshotRequest", requestId=1)
    return watcher.expect("clusterStatus", clause="MON-3")


def worker_shown(watcher: Dialer, name: str) -> bytes:
    """The display id of the worker of this name."""
    return next(bytes(entry["peerId"]) for entry in snapshot(watcher)["workers"] if entry["name"] == name)


@case("MON-50", "MON-49", variant=TRUSTING)
def a_task_is_canceled_as_its_client_would_cancel_it(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()
    tasks = client.submit(2)
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    worker.credit(0)
    queued = next(task for task in tasks if task.id != held.id)
    ordered(scene, watcher, CODES.CONTROL_CANCEL_TASK, queued.id, 1)
    client.fence()
    client.expect_status(queued, CODES.STATUS_CANCELED, clause="MON-50")
    ordered(scene, watcher, CODES.CONTROL_CANCEL_TASK, held.id, 1, grace=0.25)
    worker.fence()
    cancels = [(ids_of(cancel["ids"]), cancel["graceSeconds"]) for cancel in worker.take("cancel")]
    scene.equal(cancels, [([held.id], 0.25)], "ids and graceSeconds of the Cancels at the worker", "MON-50")
    worker.finish(held, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((held.id, CODES.CANCEL_CANCELED))
    scene.settle(worker, client)
    client.expect_status(held, CODES.STATUS_CANCELED, clause="MON-50")
    client.expect_nothing("it has not sent a Cancel, so there is no CancelReply", "MON-50")


@case("MON-50", variant=TRUSTING)
def all_tasks_of_a_client_are_canceled_and_no_others(scene: Scene) -> None:
    watcher, client, other = scene.peer("monitor"), scene.client(), scene.client()
    tasks, (left,) = client.submit(7), other.submit(1)
    scene.settle(client, other)
    (shown,) = [bytes(entry["peerId"]) for entry in snapshot(watcher)["clients"] if entry["taskCount"] == len(tasks)]
    ordered(scene, watcher, CODES.CONTROL_CANCEL_CLIENT, shown, len(tasks))
    scene.settle(client, other)
    ends = {result.id: result.status for result in client.results("MON-50")}
    scene.equal(ends, {task.id: CODES.STATUS_CANCELED for task in tasks}, "the ends of the tasks", "MON-50")
    client.expect_nothing("it has not sent a Cancel, so there is no CancelReply", "MON-50")
    other.expect_nothing("its task was not named", "MON-50")
    (more,) = client.submit(1)
    worker = scene.worker(credit=5)
    scene.settle(client, worker)
    given = {task.id for task in worker.expect_dispatch(2, "MON-50", "both clients go on")}
    scene.equal(given, {left.id, more.id}, "the tasks that are run", "MON-50")


@case("MON-51", variant=TRUSTING)
def a_worker_is_told_to_leave_with_the_seconds_of_the_control(scene: Scene) -> None:
    watcher, worker, other = scene.peer("monitor"), scene.worker(credit=1), scene.worker()
    scene.settle(worker, other)
    ordered(scene, watcher, CODES.CONTROL_DRAIN_WORKER, worker_shown(watcher, worker.name), 0, grace=7.5)
    scene.settle(worker, other)
    told = [message["graceSeconds"] for message in worker.take("shutdown")]
    scene.equal(told, [7.5], "graceSeconds of each Shutdown that this worker was sent", "MON-51")
    other.expect_nothing("another worker was named", "MON-51")


@case("MON-52", variant=TRUSTING)
def what_was_done_is_told_in_an_event(scene: Scene) -> None:
    watcher, worker = scene.peer("monitor"), scene.worker()
    worker.fence()
    shown = worker_shown(watcher, worker.name)
    before = snapshot(watcher)["eventCount"]
    watcher.send("control", requestId=6, action=CODES.CONTROL_CANCEL_TASK, subject=new_id(), graceSeconds=1.0)
    scene.equal(watcher.expect("controlReply")["outcome"], CODES.CONTROL_UNKNOWN, "the outcome", "MON-49")
    ordered(scene, watcher, CODES.CONTROL_DRAIN_WORKER, shown, 0)
    events = [event for event in snapshot(watcher)["events"] if event["number"] > before]
    told = [event for event in events if event["kind"] == "control"]
    scene.equal(len(told), 1, "the events of kind `control` after one Control that was done and one that was not")
    said = f"{told[0]['subject']} {told[0]['text']}"
    scene.check(worker.name in said, f"the event does not name the worker: {said}")
    scene.check(
        not scene.arena.manifest.has_keys or USER in said, f"the event does not name the user who asked: {said}"
    )
