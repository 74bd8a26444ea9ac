"""Which of its tasks a worker begins, and when (chapter 07): order, and the places of those that wait."""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.scheduler import ClientGuest, WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, write_results

from .worker_running import call, is_success, warm

case = cases_for("worker")

#: What is dispatched while another task runs, and in which order that begins: depth, priority, and its rank.
RANKS = ((0, 0, 5), (0, -3, 6), (0, 4, 3), (2, 0, 1), (0, 4, 4), (2, -1, 2), (7, -9, 0))


@case("WRK-5", seconds=40.0)
def tasks_begin_by_depth_then_priority_then_arrival(scene: Scene) -> None:
    worker, client = scene.worker_under_test(), new_id()
    scene.needs(warm(scene, worker) > len(RANKS), "it does not take so many tasks at once")
    running = call(scene, "sleep_ms", b"400")
    worker.dispatch([running], client, depth=9)
    ranked: dict[int, Task] = {}
    for depth, priority, rank in RANKS:
        ranked[rank] = call(scene, "echo", b"%d" % rank)
        worker.dispatch([ranked[rank]], client, depth=depth, priority=priority)
    order: list[bytes] = []

    def all_there() -> bool:
        order.extend(row.id for row in worker.results())
        return len(order) > len(RANKS)

    scene.check(scene.pump.until(all_there, 20.0), f"{len(order)} of {len(RANKS) + 1} results came", "WRK-2")
    scene.needs(order[0] == running.id, "it runs several tasks at a time, so that their order does not show")
    expected = [ranked[rank].id for rank in sorted(ranked)]
    scene.equal(order[1:], expected, "the order in which tasks have ended that waited for the same place")


Family = tuple[Task, ClientGuest, Task]


def waiting_parent(scene: Scene, worker: WorkerGuest, clause: str = "CLI-9") -> Family:
    """A task that waits for its child, which nobody has been given."""
    parent = call(scene, "submit_child", b"echo", b"from the child")
    worker.dispatch([parent], new_id())

    def submitting() -> list[ClientGuest]:
        """Of all clients inside tasks, those of former tasks too, who has something to submit."""
        clients = [guest for guest in scene.scheduler.guests if isinstance(guest, ClientGuest)]
        return [each for each in clients if any(message.kind == "submit" for message in each.inbox)]

    scene.check(scene.pump.until(lambda: bool(submitting()), 20.0), "a task did not submit its child", clause)
    (client,) = submitting()
    (child,) = client.wait_for_tasks(1, 20.0, "CLI-9")
    return parent, client, child


def end_child(scene: Scene, worker: WorkerGuest, parent: Task, client: ClientGuest, child: Task) -> None:
    client.send_batch("results", write_results([Result(child.id, value=b"from the child")]))
    (result,) = worker.wait_for_results(parent, seconds=20.0, clause="WRK-6")
    is_success(scene, result, b"from the child")


@case("WRK-6", "CRD-8", seconds=60.0)
def another_task_runs_while_one_waits_for_its_child(scene: Scene) -> None:
    """A task of nobody's, as deep as the one that waits."""
    worker = scene.worker_under_test()
    parent, client, child = waiting_parent(scene, worker)
    is_raised = scene.pump.until(lambda: worker.credit > 1, 5.0)
    scene.check(is_raised, "its limit is 1, and the one task that it holds is blocked: nothing can be sent", "CRD-8")
    other = call(scene, "echo", b"meanwhile")
    worker.dispatch([other], new_id())
    (result,) = worker.wait_for_results(other, clause="WRK-6")
    is_success(scene, result, b"meanwhile")
    end_child(scene, worker, parent, client, child)


@case("WRK-67", seconds=60.0)
def a_task_goes_on_though_another_keeps_its_place(scene: Scene) -> None:
    """The other is no child of it, and takes far longer than the time that a task may wait for its place."""
    worker = scene.worker_under_test()
    parent, client, child = waiting_parent(scene, worker, "WRK-67")
    is_raised = scene.pump.until(lambda: worker.credit > 1, 5.0)
    scene.check(is_raised, "its limit is 1, and the one task that it holds is blocked: nothing can be sent", "CRD-8")
    long = call(scene, "sleep_ms", b"40000")
    worker.dispatch([long], new_id())
    scene.pump.until(lambda: False, 0.5)  # it begins: the wait for a child's place is a quarter of a second at most
    client.send_batch("results", write_results([Result(child.id, value=b"from the child")]))
    (result,) = worker.wait_for_results(parent, seconds=15.0, clause="WRK-67")
    is_success(scene, result, b"from the child")
    worker.cancel(long)
    worker.wait_for_results(long, seconds=10.0)


@case("WRK-69", seconds=60.0)
def others_run_while_a_task_waits_for_what_is_not_stored(scene: Scene) -> None:
    """Leaves out a function, and then an argument, that the client does not store."""
    worker = scene.worker_under_test()
    missing = new_id()
    without_function = replace(call(scene, "echo", b"late"), function=new_id())
    without_argument = call(scene, "echo", parts=((CODES.KIND_OBJECT, missing),))
    for held, waiting in enumerate((without_function, without_argument), 1):
        worker.dispatch([waiting], new_id())
        is_raised = scene.pump.until(lambda held=held: worker.credit > held, 10.0)  # type: ignore[misc]
        scene.check(is_raised, "what it holds waits for an object, and nothing can be sent to it")
        other = call(scene, "echo", b"meanwhile")
        worker.dispatch([other], new_id())
        (result,) = worker.wait_for_results(other, seconds=15.0, clause="WRK-69")
        is_success(scene, result, b"meanwhile")
    scene.storage.store(missing, b"late", new_id())
    (result,) = worker.wait_for_results(without_argument)
    is_success(scene, result, b"late")
    worker.cancel(without_function)
    worker.wait_for_results(without_function, seconds=10.0)


@case("WRK-28", seconds=60.0)
def a_task_as_deep_as_many_that_wait_begins_in_the_end(scene: Scene) -> None:
    """It may be what they all wait for, so a place that they lend is not kept for their children for ever."""
    worker = scene.worker_under_test()
    families: list[Family] = []
    for _ in range(5):
        is_raised = scene.pump.until(lambda: worker.credit > len(families), 5.0)
        scene.check(is_raised, "all that it holds is blocked, and nothing can be sent to it", "CRD-8")
        families.append(waiting_parent(scene, worker, "WRK-28"))
    scene.check(scene.pump.until(lambda: worker.credit > len(families), 5.0), "there is no room for one more", "CRD-8")
    other = call(scene, "echo", b"in the end")
    worker.dispatch([other], new_id())
    (result,) = worker.wait_for_results(other, clause="WRK-28")
    is_success(scene, result, b"in the end")
    deeper = call(scene, "echo", b"at once")
    worker.dispatch([deeper], new_id(), depth=1)
    worker.wait_for_results(deeper, clause="WRK-28")
    for family in families:
        end_child(scene, worker, *family)


#: More parents than a worker could have processors for.
MANY = 180


@case("CRD-9", "CRD-2", seconds=90.0)
def a_child_finds_room_though_the_limit_has_fallen_below_what_is_held(scene: Scene) -> None:
    """Many parents were dispatched while tasks were tiny; then one takes long, and the limit falls."""
    worker, client = scene.worker_under_test(), new_id()
    for _ in range(30):
        if worker.credit <= MANY:
            warm(scene, worker)
    scene.needs(worker.credit > MANY, "it never takes so many tasks")
    parents = [call(scene, "submit_child", b"echo", b"from the child") for _ in range(MANY)]
    long = call(scene, "sleep_ms", b"400")
    worker.dispatch([long], client)
    worker.dispatch(parents, client)
    worker.wait_for_results(long)
    has_room = scene.pump.until(lambda: worker.credit + worker.nested_reserve > MANY, 15.0)
    scene.check(
        has_room, f"it holds {MANY} tasks, some of them wait, and no child of theirs can be sent to it", "CRD-9"
    )
    worker.cancel(*parents)
