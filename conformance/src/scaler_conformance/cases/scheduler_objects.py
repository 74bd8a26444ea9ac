"""What a scheduler has the storage release (chapter 13)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, write_results

from .scheduler_endings import begin

case = cases_for("scheduler")


def released(scene: Scene, identifier: bytes) -> list[bytes]:
    """The owners in whose name this object was released."""
    return [message["owner"] for message in scene.storage.asked("release") if identifier in message["ids"]]


def owners_gone(scene: Scene) -> list[bytes]:
    return [message["owner"] for message in scene.storage.asked("releaseOwner")]


@case("OWN-9")
def the_objects_of_a_client_that_leaves_are_released(scene: Scene) -> None:
    storage = scene.storage_session()
    client = scene.client()
    client.fence()
    client.leave()
    storage.fence()
    scene.equal(owners_gone(scene).count(client.peer_id), 1, "the count of ReleaseOwners for the client that left")


@case("OWN-9")
def the_objects_of_a_client_that_breaks_off_are_released(scene: Scene) -> None:
    """It ends its session with a fatal Error, without a Bye."""
    storage = scene.storage_session()
    client = scene.client()
    client.fence()
    client.send("error", seq=0, code=CODES.OVERLOADED, fatal=True, text="too much for me")
    scene.pump.until(lambda: client.peer_id in owners_gone(scene), 5.0)
    storage.fence()
    scene.equal(owners_gone(scene).count(client.peer_id), 1, "the count of ReleaseOwners for the client")
    client.is_open = False


@case("OWN-9")
def a_session_that_is_replaced_keeps_its_objects(scene: Scene) -> None:
    storage = scene.storage_session()
    client = scene.client()
    client.fence()
    client.incarnation += 1
    client.open()
    scene.settle(client, storage)
    scene.check(client.peer_id not in owners_gone(scene), "the objects were released, and the client goes on")
    client.leave()
    storage.fence()
    scene.equal(owners_gone(scene).count(client.peer_id), 1, "the count of ReleaseOwners when the last session ended")


def left_without_an_answer(scene: Scene) -> ClientPeer:
    """A client whose ReleaseOwner the storage has, and does not answer."""
    storage = scene.storage_session()
    scene.storage.unanswered.add("releaseOwner")
    try:
        client = scene.client()
        client.fence()
        client.leave()
        storage.fence()
        scene.equal(owners_gone(scene).count(client.peer_id), 1, "the count of ReleaseOwners")
    finally:
        scene.storage.unanswered.clear()
    return client


@case("OWN-9", seconds=30.0)
def a_release_is_repeated_until_it_is_answered(scene: Scene) -> None:
    client = left_without_an_answer(scene)
    scene.transcript.note("storage", "ends the session without having answered")
    storage = scene.storage_session()
    storage.send("bye", code=CODES.OK)
    storage.forget()
    again = scene.pump.until(lambda: owners_gone(scene).count(client.peer_id) >= 2, 15.0)
    scene.check(again, "ReleaseOwner was not answered, and was not sent again in the next session with the storage")


@case("STO-46", seconds=30.0)
def a_release_is_repeated_to_a_storage_that_was_restarted(scene: Scene) -> None:
    """It may have kept what the client owned."""
    client = left_without_an_answer(scene)
    scene.storage.begin_again()
    again = scene.pump.until(lambda: owners_gone(scene).count(client.peer_id) >= 2, 15.0)
    scene.check(again, "ReleaseOwner was not answered, and was not sent to the storage that came after")


@case("OWN-7", "SCH-6")
def a_dropped_result_object_is_released(scene: Scene) -> None:
    storage = scene.storage_session()
    client, worker, (task,) = begin(scene)
    other = scene.worker(credit=1)
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 0})
    scene.settle(worker, other, storage)
    (again,) = other.expect_dispatch(1, "SCH-7")
    first = result_id(task.id, task.attempt)
    scene.equal(released(scene, first), [client.peer_id], "the owners in whose name the lost attempt's was released")
    stale = result_id(task.id, 77)
    rows = [Result(task.id, 77, kind=CODES.KIND_OBJECT, value=stale)]
    worker.send_batch("results", write_results(rows))
    scene.settle(worker, storage)
    scene.equal(released(scene, stale), [client.peer_id], "the owners in whose name the dropped result was released")
    other.finish(again)
    scene.settle(other, client, storage)
    client.expect_status(task, CODES.STATUS_SUCCESS)
    scene.equal(released(scene, result_id(task.id, again.attempt)), [], "Releases of the result that counts")


@case("OWN-7", "SCH-15")
def a_repeated_attempt_gives_up_what_it_may_have_stored(scene: Scene) -> None:
    storage = scene.storage_session()
    client, worker, (task,) = begin(scene)
    worker.leave()
    storage.fence()
    own = result_id(task.id, 1)
    scene.equal(released(scene, own), [client.peer_id], "the owners in whose name a lost attempt's object was released")


@case("OWN-15", "OWN-7")
def a_salt_is_handed_on_and_goes_into_what_is_released(scene: Scene) -> None:
    storage = scene.storage_session()
    worker, client, salt = scene.worker(credit=1), scene.client(), new_id()
    (task,) = client.submit(1, resultSalt=salt)
    scene.settle(client, worker)
    (given,) = worker.expect_dispatch(1)
    scene.equal(given.header["resultSalt"], salt, "resultSalt of the Dispatch")
    worker.leave()
    storage.fence()
    own = result_id(task.id, 1, salt, client.peer_id)
    scene.equal(released(scene, own), [client.peer_id], "the owners in whose name it was released", "OWN-7")


def begin_unwanted(scene: Scene) -> tuple[ClientPeer, WorkerPeer, Task]:
    """A task whose success its client does not want, dispatched."""
    worker, client = scene.worker(credit=1), scene.client()
    (task,) = client.submit(client.new_tasks(1, flags=CODES.TASK_UNWANTED))
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    return client, worker, task


@case("OWN-5", "SCH-14")
def an_unwanted_result_object_is_released_at_once(scene: Scene) -> None:
    storage = scene.storage_session()
    client, worker, task = begin_unwanted(scene)
    own = result_id(task.id, 1)
    worker.send_batch("results", write_results([Result(task.id, kind=CODES.KIND_OBJECT, value=own)]))
    scene.settle(worker, client, storage)
    client.expect_nothing("the success is not wanted", "SCH-14")
    scene.equal(released(scene, own), [client.peer_id], "the owners in whose name it was released", "OWN-5")


@case("OWN-5", "SCH-14")
def an_unwanted_result_object_of_a_later_attempt_is_released_too(scene: Scene) -> None:
    storage = scene.storage_session()
    client, worker, task = begin_unwanted(scene)
    second = scene.worker(credit=1)
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 0})  # what it held is lost
    scene.settle(worker, second)
    second.expect_dispatch(1, "SCH-7")
    own = result_id(task.id, 2)
    second.send_batch("results", write_results([Result(task.id, kind=CODES.KIND_OBJECT, value=own, attempt=2)]))
    scene.settle(second, client, storage)
    scene.equal(released(scene, own), [client.peer_id], "the owners in whose name it was released", "OWN-5")


@case("OWN-10", "OWN-7")
def a_wanted_result_object_is_left_to_its_client(scene: Scene) -> None:
    storage = scene.storage_session()
    client, worker, (task,) = begin(scene)
    own = result_id(task.id, 1)
    worker.send_batch("results", write_results([Result(task.id, kind=CODES.KIND_OBJECT, value=own)]))
    scene.settle(worker, client, storage)
    client.result_of(task)
    client.acknowledge()
    scene.settle(client, storage)
    scene.equal(released(scene, own), [], "Releases of a result that its client is to fetch", "OWN-7")
