"""Cancel (chapter 09), as a scheduler keeps it."""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer, ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

from .scheduler_endings import begin

case = cases_for("scheduler")


@case("SCH-14", "CAN-6")
def too_late_for_an_unwanted_task_is_followed_by_nothing(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    (task,) = client.submit(client.new_tasks(1, flags=CODES.TASK_UNWANTED))
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    client.cancel(task)
    scene.settle(client, worker)
    worker.take("cancel")
    worker.finish(held)
    worker.answer_cancel((task.id, CODES.CANCEL_TOO_LATE))
    scene.settle(worker, client)
    scene.equal(client.cancel_outcomes(), [(task.id, CODES.CANCEL_TOO_LATE)], "the CancelReply", "CAN-6")
    client.expect_nothing("the success is not wanted, whether or not it was canceled", "SCH-14")


CANCELED, TOO_LATE, UNKNOWN = CODES.CANCEL_CANCELED, CODES.CANCEL_TOO_LATE, CODES.CANCEL_UNKNOWN


def told_to_cancel(worker: WorkerPeer) -> list[bytes]:
    return [name for cancel in worker.take("cancel") for name in ids_of(cancel["ids"])]


@case("CAN-5", "CAN-2", "CAN-1")
def a_queued_task_is_canceled_at_once(scene: Scene) -> None:
    client = scene.client()
    one, two = client.submit(2)
    client.cancel(one)
    client.fence()
    scene.equal(client.cancel_outcomes(), [(one.id, CANCELED)], "the CancelReply", "CAN-5")
    client.expect_status(one, CODES.STATUS_CANCELED, clause="CAN-2")
    client.expect_nothing("one reply and one result", "CAN-1")
    worker = scene.worker(credit=5)
    worker.fence()
    (given,) = worker.expect_dispatch(1, "CAN-5", "the other task is queued")
    scene.equal(given.id, two.id, "the task that is run", "CAN-5")


@case("CAN-1")
def every_distinct_id_is_answered_once(scene: Scene) -> None:
    client, worker, (done,) = begin(scene)
    worker.finish(done)
    scene.settle(worker, client)
    client.results()
    queued = client.submit(1)[0]
    stranger = replace(done, id=new_id())
    client.cancel(queued, stranger, queued, done, stranger)
    client.fence()
    told = sorted(client.cancel_outcomes())
    names = [name for name, _ in told]
    scene.equal(sorted(names), sorted({queued.id, stranger.id, done.id}), "the ids that are answered")
    outcomes = dict(told)
    scene.equal(outcomes[queued.id], CANCELED, "the outcome of the queued task")
    scene.equal(outcomes[stranger.id], UNKNOWN, "the outcome of an id that nobody knows")
    scene.check(outcomes[done.id] in (UNKNOWN, TOO_LATE), f"the outcome of the ended task is {outcomes[done.id]}")


@case("CAN-6")
def a_dispatched_task_is_canceled_at_its_worker(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    client.cancel(task, grace=0.25)
    scene.settle(client, worker)
    client.expect_nothing("the worker has not said what became of it", "CAN-6")
    cancels = worker.take("cancel")
    scene.equal([ids_of(cancel["ids"]) for cancel in cancels], [[task.id]], "the Cancel at the worker")
    scene.equal(cancels[0]["graceSeconds"], 0.25, "graceSeconds", "CAN-6")
    scene.equal(cancels[0]["isAll"], False, "isAll, which is not passed on to workers", "CAN-6")
    worker.finish(task, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((task.id, CANCELED))
    scene.settle(worker, client)
    scene.equal(client.cancel_outcomes(), [(task.id, CANCELED)], "the CancelReply")
    client.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-2")
    client.expect_nothing("one reply and one result", "CAN-1")


@case("CAN-6", "CAN-1")
def a_task_that_ends_first_is_too_late(scene: Scene) -> None:
    for status in (CODES.STATUS_SUCCESS, CODES.STATUS_FAILED, CODES.STATUS_PROCESSOR_DIED, CODES.STATUS_REFUSED):
        client, worker, (task,) = begin(scene, retries=3)
        worker.credit(1)
        client.cancel(task)
        scene.settle(client, worker)
        scene.equal(told_to_cancel(worker), [task.id], "the ids of the Cancel at the worker")
        worker.finish(task, status=status)
        worker.answer_cancel((task.id, TOO_LATE if status == 0 else UNKNOWN))
        scene.settle(worker, client, worker)
        scene.equal(client.cancel_outcomes(), [(task.id, TOO_LATE)], "the CancelReply")
        client.expect_status(task, status, clause="CAN-6")
        worker.expect_nothing("a canceled task is never run again", "CAN-6")
        worker.credit(0)
        worker.fence()


@case("CAN-6")
def a_canceled_task_that_comes_back_is_canceled(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    client.cancel(task)
    scene.settle(client, worker)
    told_to_cancel(worker)
    worker.credit(1)
    worker.give_back(task)
    worker.answer_cancel((task.id, UNKNOWN))
    scene.settle(worker, client, worker)
    scene.equal(client.cancel_outcomes(), [(task.id, CANCELED)], "the CancelReply")
    client.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-6")
    worker.expect_nothing("a canceled task is never run again")


@case("CAN-6")
def a_canceled_task_whose_worker_leaves_is_canceled(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    other = scene.worker(credit=1)
    client.cancel(task)
    scene.settle(client, worker)
    worker.leave()
    scene.settle(client, other)
    scene.equal(client.cancel_outcomes(), [(task.id, CANCELED)], "the CancelReply")
    client.expect_status(task, CODES.STATUS_CANCELED)
    other.expect_nothing("a canceled task is never run again")


@case("CAN-3")
def everything_of_a_client_is_canceled(scene: Scene) -> None:
    client, worker, (held,) = begin(scene)
    other = scene.client()
    queued = client.submit(3)
    mine = other.submit(1)
    other.fence()
    client.cancel(is_all=True)
    scene.settle(client, worker)
    outcomes = client.cancel_outcomes()
    scene.equal(sorted(outcomes), sorted((task.id, CANCELED) for task in queued), "the replies so far", "CAN-3")
    scene.equal(told_to_cancel(worker), [held.id], "the ids of the Cancel at the worker", "CAN-6")
    worker.finish(held, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((held.id, CANCELED))
    worker.credit(1)
    scene.settle(worker, client, worker)
    scene.equal(client.cancel_outcomes(), [(held.id, CANCELED)], "the last reply", "CAN-3")
    scene.equal({row.status for row in client.results()}, {CODES.STATUS_CANCELED}, "the statuses", "CAN-2")
    (given,) = worker.expect_dispatch(1, "CAN-3", "the other client's task is not canceled")
    scene.equal(given.id, mine[0].id, "the task that is run", "CAN-3")


@case("CAN-3")
def a_cancel_of_everything_when_there_is_nothing_has_one_empty_reply(scene: Scene) -> None:
    client = scene.client()
    client.cancel(is_all=True)
    client.fence()
    replies = client.take("cancelReply")
    scene.equal([reply["ids"] for reply in replies], [b""], "the ids of the replies")


@case("CAN-11", "CAN-1")
def none_of_very_many_canceled_tasks_begins(scene: Scene) -> None:
    """A worker comes, and a place becomes free, while the scheduler may be busy with the Cancel."""
    client, worker, (held,) = begin(scene)
    tasks = client.submit(2000)
    (other,) = client.submit(1, priority=-1)
    client.fence()
    client.cancel(held, *tasks)
    worker.credit(2)
    late = scene.worker(credit=3)
    scene.settle(client, worker, late)
    given = [task.id for peer in (worker, late) for task in peer.dispatched()]
    scene.check(set(given) <= {other.id}, "a task was dispatched after the Cancel that named it", "CAN-11")
    scene.equal(told_to_cancel(worker), [held.id], "the ids of the Cancel at the worker", "CAN-6")
    worker.finish(held, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((held.id, CANCELED))
    scene.settle(worker, client, worker, late)
    given += [task.id for peer in (worker, late) for task in peer.dispatched()]
    scene.equal(given, [other.id], "the tasks that are run", "CAN-11")
    answered = [name for name, outcome in client.cancel_outcomes() if outcome == CANCELED]
    scene.equal(sorted(answered), sorted(task.id for task in (held, *tasks)), "the ids that are answered", "CAN-1")


@case("CAN-8")
def a_second_cancel_is_answered_when_the_task_ends(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    client.cancel(task)
    client.cancel(task)
    scene.settle(client, worker)
    client.expect_nothing("the task has not ended", "CAN-8")
    told_to_cancel(worker)
    worker.finish(task, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((task.id, CANCELED))
    scene.settle(worker, client)
    scene.equal(client.cancel_outcomes(), [(task.id, CANCELED)] * 2, "the replies to two Cancels")
    client.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-2")


@case("CAN-5")
def a_waiting_task_is_canceled_at_once(scene: Scene) -> None:
    client, worker, (first,) = begin(scene)
    (task,) = client.submit([replace(each, dependencies=(first.id,)) for each in client.new_tasks(1)])
    client.cancel(task)
    client.fence()
    scene.equal(client.cancel_outcomes(), [(task.id, CANCELED)], "the CancelReply")
    client.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-5")
    worker.fence()
    worker.expect_nothing("the worker does not hold it")


@case("CAN-6", "CAN-1")
def another_clients_task_is_unknown(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    other = scene.client()
    other.cancel(task)
    scene.settle(other, worker)
    scene.equal(other.cancel_outcomes(), [(task.id, UNKNOWN)], "the CancelReply to another client", "CAN-1")
    worker.expect_nothing("the task of another client goes on", "CAN-1")
    worker.finish(task)
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_SUCCESS)


@case("CAN-7")
def children_are_canceled_when_an_attempt_of_their_parent_ends(scene: Scene) -> None:
    client, worker, (parent,) = begin(scene)
    nested = scene.client(parentTask=parent.id)
    (running,) = nested.submit(1, depth=1, parentTask=parent.id)
    worker.credit(2)
    scene.settle(nested, worker)
    (child,) = worker.expect_dispatch(1, "SCH-25")
    (queued,) = nested.submit(1, depth=1, parentTask=parent.id)
    nested.fence()
    worker.finish(parent)
    scene.settle(worker, nested)
    nested.expect_status(queued, CODES.STATUS_CANCELED, clause="CAN-7")
    worker.fence()
    scene.equal(told_to_cancel(worker), [child.id], "the ids of the Cancel at the worker", "CAN-7")
    worker.finish(child, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((child.id, CANCELED))
    scene.settle(worker, nested, client)
    nested.expect_status(running, CODES.STATUS_CANCELED, clause="CAN-7")
    client.expect_status(parent, CODES.STATUS_SUCCESS)
    scene.equal(nested.take("cancelReply"), [], "CancelReplies to a client that has asked for none", "CAN-1")


@case("CAN-7")
def children_of_an_attempt_that_is_run_again_are_canceled(scene: Scene) -> None:
    """The parent has failed and has a retry left: its next attempt submits children of its own."""
    client, worker = scene.client(), scene.worker(credit=1)
    (parent,) = client.submit(1, retries=1)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-25")
    nested = scene.client(parentTask=parent.id)
    (child,) = nested.submit(1, depth=1, parentTask=parent.id, capabilities=[{"name": "nobody", "amount": -1}])
    nested.fence()
    worker.finish(parent, status=CODES.STATUS_FAILED)
    scene.settle(worker, nested)
    (again,) = worker.expect_dispatch(1, "SCH-15", "one retry is left")
    nested.expect_status(child, CODES.STATUS_CANCELED, clause="CAN-7")
    worker.finish(again)
    scene.settle(worker, client)
    client.expect_status(parent, CODES.STATUS_SUCCESS)


@case("CAN-7")
def children_of_a_lost_attempt_are_canceled(scene: Scene) -> None:
    _client, worker, (parent,) = begin(scene)
    nested = scene.client(parentTask=parent.id)
    (child,) = nested.submit(1, depth=1, parentTask=parent.id, capabilities=[{"name": "nobody", "amount": -1}])
    nested.fence()
    worker.leave()
    nested.fence()
    nested.expect_status(child, CODES.STATUS_CANCELED, clause="CAN-7")


@case("CAN-7")
def a_parent_that_nobody_knows_has_no_effect(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    client.submit(1, depth=1, parentTask=new_id())
    scene.settle(client, worker)
    client.expect_nothing("a parent of another cluster is fine")
    worker.expect_dispatch(1, "SCH-25")


def family(scene: Scene) -> tuple[ClientPeer, ClientPeer, WorkerPeer, Task, Task]:
    """A client and one inside its task; a worker that has the task and a child of it, and no place for more."""
    client, worker, (parent,) = begin(scene)
    nested = scene.client(parentTask=parent.id)
    nested.submit(1, depth=1, parentTask=parent.id)
    worker.credit(2)
    scene.settle(nested, worker)
    (child,) = worker.expect_dispatch(1, "SCH-25")
    return client, nested, worker, parent, child


@case("CAN-13", "CAN-7")
def no_child_of_a_task_that_is_being_canceled_begins(scene: Scene) -> None:
    client, nested, worker, parent, child = family(scene)
    queued = nested.submit(3, depth=1, parentTask=parent.id)
    nested.fence()
    client.cancel(parent)
    client.fence()
    worker.finish(child)
    worker.credit(9)
    other = scene.worker(credit=9)
    (late,) = nested.submit(1, depth=1, parentTask=parent.id)
    scene.settle(worker, nested, worker, other)
    scene.equal(told_to_cancel(worker), [parent.id], "the ids of the Cancel at the worker", "CAN-6")
    for peer in (worker, other):
        peer.expect_nothing("the parent of the tasks that wait is being canceled", "CAN-13")
    nested.expect_status(child, CODES.STATUS_SUCCESS)
    nested.expect_nothing("the parent has not ended", "CAN-13")
    worker.finish(parent, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((parent.id, CANCELED))
    scene.settle(worker, nested, other)
    for task in (*queued, late):
        nested.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-7")
    for peer in (worker, other):
        peer.expect_nothing("children of a task that has ended", "CAN-7")


@case("CAN-13")
def nor_does_a_grandchild(scene: Scene) -> None:
    client, nested, worker, parent, child = family(scene)
    inner = scene.client(parentTask=child.id)
    (grandchild,) = inner.submit(1, depth=2, parentTask=child.id)
    inner.fence()
    client.cancel(parent)
    client.fence()
    worker.credit(9)
    scene.settle(worker, inner, worker)
    scene.equal(told_to_cancel(worker), [parent.id], "the ids of the Cancel at the worker", "CAN-6")
    worker.expect_nothing("the task above its parent is being canceled", "CAN-13")
    worker.finish(parent, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((parent.id, CANCELED))
    scene.settle(worker, nested, worker)
    scene.equal(told_to_cancel(worker), [child.id], "the ids of the Cancel at the worker", "CAN-7")
    worker.expect_nothing("its parent is being canceled", "CAN-13")
    worker.finish(child, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((child.id, CANCELED))
    scene.settle(worker, inner, worker)
    inner.expect_status(grandchild, CODES.STATUS_CANCELED, clause="CAN-7")


@case("CAN-13")
def a_child_that_arrives_after_the_end_of_its_canceled_parent_is_canceled(scene: Scene) -> None:
    client, worker, (parent,) = begin(scene)
    nested = scene.client(parentTask=parent.id)
    client.cancel(parent)
    scene.settle(client, worker)
    told_to_cancel(worker)
    worker.finish(parent, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((parent.id, CANCELED))
    scene.settle(worker, client)
    (late,) = nested.submit(1, depth=1, parentTask=parent.id)
    scene.settle(nested, worker)
    nested.expect_status(late, CODES.STATUS_CANCELED, clause="CAN-13")
    worker.expect_nothing("its parent was canceled", "CAN-13")
