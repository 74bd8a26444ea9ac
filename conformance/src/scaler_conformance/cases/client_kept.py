"""A graph whose scheduler is lost: what of it has ended is given to the successor (CLI-17, CLI-18)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.cases.client_calls import _begun_again, answer
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.scheduler import ClientGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, KeptResult, Result, Task, write_kept

case = cases_for("client")

UNWANTED = 1
CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
GIVEN_SECONDS = 10.0


def begun(scene: Scene) -> tuple[ClientGuest, list[Task]]:
    """A chain of three, of which the last is wanted, in its order."""
    client = scene.client_under_test()
    scene.needs_feature("kept-results", client.hello)
    wanted = scene.testee.graph(CHAIN, "c")
    tasks = {task.dependencies: task for task in client.wait_for_tasks(3)}
    first = tasks[()]
    second = tasks[(first.id,)]
    third = tasks[(second.id,)]
    scene.equal(third.id, wanted["c"], "the id of the wanted task", "CLI-1")
    return client, [first, second, third]


def tell(client: ClientGuest, task: Task, *results: KeptResult) -> None:
    client.send_batch("keptResults", write_kept(task.header["graphId"], results))
    client.fence()


def begin_again(scene: Scene, client: ClientGuest, expected: list[Task], clause: str) -> tuple[ClientGuest, list[Task]]:
    """It has lost its session, and submits these tasks, in their order."""
    client.lose()
    again = _begun_again(scene, client)
    tasks: list[Task] = []

    def all_there() -> bool:
        tasks.extend(again.submitted())
        return len(tasks) >= len(expected)

    scene.pump.until(all_there, GIVEN_SECONDS)
    again.fence()
    tasks.extend(again.submitted())
    scene.equal([task.id for task in tasks], [task.id for task in expected], "the tasks submitted again", clause)
    return again, tasks


def end(scene: Scene, client: ClientGuest, last: Task) -> None:
    answer(client, Result(last.id, value=b"not read by the case"))
    client.fence()


@case("CLI-17", fresh=True, seconds=40.0)
def what_has_ended_is_given_and_not_submitted(scene: Scene) -> None:
    client, (one, two, three) = begun(scene)
    tell(client, one, KeptResult(one.id, value=b"of the first"))
    again, tasks = begin_again(scene, client, [two, three], "CLI-17")
    scene.equal(tasks[0].dependencies, (one.id,), "what the first of them depends on", "CLI-17")
    kinds = [message.kind for message in again.history if message.kind in ("keptResults", "submit")]
    scene.equal(kinds[:1], ["keptResults"], "what comes before the Submit", "CLI-17")
    given = again.given()
    scene.equal(len(given), 1, "how many results are given", "CLI-17")
    graph, row = given[0]
    scene.equal(graph, tasks[0].header["graphId"], "the graph of what is given", "CLI-17")
    expected = KeptResult(one.id, CODES.KIND_INLINE, b"of the first", UNWANTED)
    scene.equal(row, expected, "what is given", "CLI-17")
    end(scene, again, three)


@case("CLI-17", "CLI-8", "HSK-6", fresh=True, seconds=40.0)
def a_scheduler_without_the_feature_is_given_nothing(scene: Scene) -> None:
    client, every = begun(scene)
    tell(client, every[0], KeptResult(every[0].id, value=b"of the first"))
    scene.scheduler.features -= {"kept-results"}
    again, _ = begin_again(scene, client, every, "CLI-17")
    scene.equal([m for m in again.history if m.kind == "keptResults"], [], "what is given without the feature", "HSK-6")
    end(scene, again, every[-1])


def stored(scene: Scene, client: ClientGuest) -> bytes:
    """An object, as a worker would have put it."""
    identifier = new_id()
    scene.storage.values[identifier] = b"of the first"
    scene.storage.owners[identifier] = {client.peer_id}
    return identifier


@case("CLI-18", "CLI-17", "CLI-11", fresh=True, seconds=40.0)
def objects_are_owned_before_they_are_given_and_released_in_the_end(scene: Scene) -> None:
    client, (one, two, three) = begun(scene)
    identifier = stored(scene, client)
    tell(client, one, KeptResult(one.id, CODES.KIND_OBJECT, identifier))
    again, _ = begin_again(scene, client, [two, three], "CLI-17")
    owners = scene.storage.owners.get(identifier, set())
    scene.check(again.peer_id in owners, "it gives an object that it does not own under its new peerId", "CLI-18")
    ((_, row),) = again.given()
    scene.equal(row, KeptResult(one.id, CODES.KIND_OBJECT, identifier, UNWANTED), "what is given", "CLI-17")
    end(scene, again, three)
    is_free = scene.pump.until(lambda: not scene.storage.owners.get(identifier), 5.0)
    scene.check(is_free, "the graph has ended, and its object has still an owner", "CLI-18")


@case("CLI-18", "CLI-17", fresh=True, seconds=40.0)
def what_made_an_object_that_is_gone_is_submitted_again(scene: Scene) -> None:
    client, every = begun(scene)
    tell(client, every[0], KeptResult(every[0].id, CODES.KIND_OBJECT, new_id()))
    again, _ = begin_again(scene, client, every, "CLI-18")
    scene.equal(again.given(), [], "what is given", "CLI-18")
    end(scene, again, every[-1])
