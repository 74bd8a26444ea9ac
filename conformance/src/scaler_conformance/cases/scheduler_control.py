"""What monitors may ask a scheduler to do (chapter 14)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler")


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
