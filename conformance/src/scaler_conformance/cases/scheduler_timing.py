"""What a scheduler does when time passes."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler", layer="timing")
SHORT = {"heartbeatSeconds": 0.1, "leaseSeconds": 0.6}


@case("SCH-7", "LIV-11")
def the_tasks_of_a_silent_worker_go_to_another(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=1, timers=SHORT)
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1, "SCH-25")
    other = scene.worker(credit=1)
    worker.shows_life = worker.answers_pings = worker.acknowledges = False
    watch = scene.stopwatch()
    lease = worker.welcome["timers"]["leaseSeconds"] + worker.welcome["timers"]["heartbeatSeconds"]

    def is_given() -> bool:
        return any(message.kind == "dispatch" for message in other.inbox)

    watch.until(is_given, lease, "the task of a silent worker was not given to another", "LIV-11")
    (again,) = other.expect_dispatch(1, "SCH-7")
    scene.equal((again.id, again.attempt), (task.id, 2), "task and attempt", "SCH-5")
    other.finish(again)
    scene.settle(other, client)
    client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-7")


@case("SCH-22", "OWN-9")
def the_tasks_of_a_silent_client_are_canceled(scene: Scene) -> None:
    storage = scene.storage_session()
    worker, client = scene.worker(credit=1), scene.client(timers=SHORT)
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-25")
    client.shows_life = client.answers_pings = client.acknowledges = False
    watch = scene.stopwatch()

    def is_told() -> bool:
        return any(message.kind == "cancel" for message in worker.inbox)

    watch.until(is_told, 0.7, "the worker was not told to cancel the task of a silent client", "SCH-22")
    scene.equal([cancel["ids"] for cancel in worker.take("cancel")], [task.id], "the ids of the Cancel")
    storage.fence()
    owners = [message["owner"] for message in scene.storage.asked("releaseOwner")]
    scene.equal(owners.count(client.peer_id), 1, "the count of ReleaseOwners for the client that is lost", "OWN-9")


@case("MON-4", seconds=30.0)
def the_state_is_published_about_once_a_second(scene: Scene) -> None:
    watcher = scene.monitor()

    def count() -> int:
        return len(watcher.published)

    scene.pump.until(lambda: count() >= 1, 10.0)
    before = count()
    watch = scene.stopwatch()
    scene.pump.for_seconds(4.0)
    came = count() - before
    if not 2 <= came <= 8:
        watch.must_be_undisturbed()
        scene.fail(f"{came} messages were published in 4 s")
