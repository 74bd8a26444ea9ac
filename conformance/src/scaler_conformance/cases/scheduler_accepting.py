"""What a scheduler takes from clients, and what it refuses (chapter 06, Accepting)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler")


@case("SCH-2", "SCH-1")
def an_id_that_is_unfinished_is_refused(scene: Scene) -> None:
    client = scene.client()
    (task,) = client.submit(1)
    client.fence()
    client.expect_nothing("the first Submit is well-formed", "SCH-1")
    seq = client.submit_batch([*client.new_tasks(1), task])
    client.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False)
    client.fence()
    client.expect_nothing("a refused batch is answered once", "SCH-1")


@case("SCH-3")
def a_dispatch_names_its_client(scene: Scene) -> None:
    worker, client = scene.worker(credit=2), scene.client()
    client.submit(1)
    client.submit(1, client=client.peer_id)
    scene.settle(client, worker)
    for task in worker.expect_dispatch(2, "SCH-25"):
        scene.equal(task.header["client"], client.peer_id, "header.client of the Dispatch", "SCH-3")
