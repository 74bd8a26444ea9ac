"""Rules that hold in every state of a task, in the states in which they are easily forgotten (chapters 06 to 09)."""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import content_id, named_function, new_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, encode_task_error, write_results
from scaler_conformance.wire.codes import STATUSES

from .scheduler_canceling import CANCELED, TOO_LATE, UNKNOWN, told_to_cancel
from .scheduler_endings import begin
from .scheduler_graphs import after

case = cases_for("scheduler")
NOBODY = [{"name": "nobody-has-this", "amount": -1}]


def lose(worker: WorkerPeer) -> None:
    """Another life of the same worker, that takes nothing: the former is lost with all it held."""
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 0})


# ---------------------------------------------------------------- accepting


@case("SCH-2")
def an_id_is_unfinished_in_every_state(scene: Scene) -> None:
    client, worker, (held, stopping) = begin(scene, 2)
    (queued,) = client.submit(1)
    (waiting,) = client.submit([after(client, held)])
    client.cancel(stopping)
    scene.settle(client, worker)
    for state, task in {"dispatched": held, "canceling": stopping, "queued": queued, "waiting": waiting}.items():
        scene.transcript.note(client.name, f"submits an id that is {state}")
        seq = client.submit_batch([replace(task, header={}, dependencies=(), parts=((0, b"x"),))])
        client.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False)
    worker.finish(held)
    worker.finish(stopping, status=CODES.STATUS_CANCELED)
    worker.credit(5)
    scene.settle(worker, client)
    given = worker.expect_dispatch(2, "SCH-1", "one was queued and one waited; what was refused is not run")
    scene.equal({task.id for task in given}, {queued.id, waiting.id}, "the tasks that are run", "SCH-1")


@case("SCH-16")
def a_result_that_is_kept_for_another_client_is_unknown(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=5), scene.client(), scene.client()
    (one,) = client.submit(1, sealed=False, graphId=new_id())
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), value=b"kept")
    scene.settle(worker, client)
    client.expect_status(one, CODES.STATUS_SUCCESS)
    seq = other.submit_batch([after(other, one)])
    other.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False)


@case("SCH-18", "SCH-17")
def a_dependency_that_is_named_twice_is_one(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    one, two = client.new_tasks(2)
    client.submit([one, two, replace(after(client, one, two), dependencies=(one.id, two.id, one.id))])
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(2, "SCH-18"))
    worker.fence()
    worker.expect_dispatch(1, "SCH-18", "all that it depends on has succeeded")


@case("SCH-8", "SCH-22")
def tasks_that_a_client_takes_over_under_a_new_id_run_once_more(scene: Scene) -> None:
    """It comes back as another peer while its former self is still there (CLI-8): one task is held, one is queued."""
    client, worker, (held,) = begin(scene)
    (queued,) = client.submit(1)
    client.fence()
    successor = scene.client()
    successor.submit([replace(held, header={}), queued])
    scene.settle(successor, worker)
    successor.expect_nothing("a new session may bring unfinished ids", "SCH-8")
    client.leave()
    worker.fence()
    scene.equal(told_to_cancel(worker), [held.id], "what the worker is told to cancel", "SCH-22")
    worker.finish(held, status=CODES.STATUS_CANCELED)
    worker.answer_cancel((held.id, CANCELED))
    worker.credit(5)
    scene.settle(worker, successor, worker)
    given = worker.expect_dispatch(2, "SCH-8", "both belong to the new session now")
    scene.equal({task.id for task in given}, {held.id, queued.id}, "the tasks that are run", "SCH-8")
    scene.equal({task.header["client"] for task in given}, {successor.peer_id}, "whose tasks they are", "SCH-3")
    worker.finish(*given)
    scene.settle(worker, successor)
    scene.equal([row.status for row in successor.results()], [CODES.STATUS_SUCCESS] * 2, "the statuses", "SCH-8")


@case("SCH-48", "SCH-2")
def an_earlier_session_takes_nothing_over(scene: Scene) -> None:
    """Its Submit was still on its way when the later session had the tasks already: one is held, one is queued."""
    former, worker, successor = scene.client(), scene.worker(credit=1), scene.client()
    held, queued = successor.submit(2)
    scene.settle(successor, worker)
    worker.expect_dispatch(1, "SCH-1")
    for task in (held, queued):
        former.submit([replace(task, header={})])
        former.expect_error(CODES.DUPLICATE_TASK, clause="SCH-48")
    former.leave()
    scene.settle(successor, worker)
    scene.equal(told_to_cancel(worker), [], "what the worker is told to cancel", "SCH-48")
    worker.finish(held)
    scene.settle(worker, successor, worker)
    worker.finish(*worker.expect_dispatch(1, "SCH-48", "the task still belongs to the later session"))
    scene.settle(worker, successor)
    scene.equal([row.status for row in successor.results()], [CODES.STATUS_SUCCESS] * 2, "the statuses", "SCH-48")


@case("CAN-12", "SCH-8")
def an_answer_about_a_former_attempt_ends_nothing(scene: Scene) -> None:
    """The attempt had ended when the Cancel came; the worker says so after it was given the next one."""
    _, worker, (task,) = begin(scene)
    successor = scene.client()
    successor.submit([replace(task, header={})])
    scene.settle(successor, worker)
    scene.equal(told_to_cancel(worker), [task.id], "what the worker is told to cancel", "SCH-8")
    worker.finish(task)
    worker.credit(5)
    worker.fence()
    given = worker.expect_dispatch(1, "SCH-8", "the new session's turn has come")
    worker.answer_cancel((task.id, UNKNOWN))
    scene.settle(worker, successor)
    scene.equal([row.status for row in successor.results()], [], "the statuses before it has ended", "CAN-12")
    worker.finish(*given)
    scene.settle(worker, successor)
    scene.equal([row.status for row in successor.results()], [CODES.STATUS_SUCCESS], "the statuses", "CAN-12")


@case("SCH-8", "SCH-5")
def a_former_life_is_counted_from_its_last_attempt(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    second = scene.worker(credit=1)
    lose(worker)
    scene.settle(worker, second)
    (again,) = second.expect_dispatch(1, "SCH-7")
    scene.equal(again.attempt, 2, "the attempt after a lost one", "SCH-5")
    client.incarnation += 1
    client.open()
    client.submit([task])
    client.fence()
    second.take("cancel")
    second.finish(again, status=CODES.STATUS_CANCELED)
    second.fence()
    (last,) = second.expect_dispatch(1, "SCH-8", "the former attempt has ended")
    scene.check(last.attempt > 2, f"the attempt is {last.attempt}, and 2 was that of the former life", "SCH-8")


# ---------------------------------------------------------------- placing


@case("SCH-5")
def each_task_of_a_dispatch_has_its_own_attempt(scene: Scene) -> None:
    """Of four tasks of a batch one was lost, one came back, and two wait for their first worker; all leave together."""
    client, worker, second = scene.client(), scene.worker(credit=2), scene.worker(credit=0)
    tasks = client.submit(4)
    scene.settle(client, worker)
    lost, returned = worker.expect_dispatch(2, "SCH-25")
    worker.credit(0)
    worker.give_back(returned)
    lose(worker)
    second.credit(4)
    scene.settle(worker, second)
    given = {task.id: task.attempt for task in second.expect_dispatch(4, "SCH-7")}
    scene.equal(given, {task.id: 1 + (task.id == lost.id) for task in tasks}, "the attempts by task")


@case("SCH-38", "EVO-5")
def a_batch_that_is_cut_keeps_each_task_as_it_was(scene: Scene) -> None:
    """Tasks of different functions, with different numbers of parts of different sizes; one leaves the middle."""
    client, worker = scene.client(), scene.worker(credit=0)
    functions = [content_id(named_function(name)) for name in ("echo", "reverse", "concat")]
    tasks = client.new_tasks(9)
    for number, task in enumerate(tasks):
        parts = [(CODES.KIND_INLINE, b"%d" % part * (number + part)) for part in range(number % 4)]
        if number % 3 == 1:
            parts.append((CODES.KIND_OBJECT, new_id()))
        tasks[number] = replace(task, function=functions[number * 2 % 3], parts=tuple(parts))
    client.submit(tasks)
    client.cancel(tasks[4])
    client.fence()
    found: dict[bytes, Task] = {}
    for limit in (1, 3, 9):
        worker.credit(limit)
        worker.fence()
        found |= {task.id: task for task in worker.dispatched("EVO-5")}
    scene.equal(len(found), 8, "the count of tasks that were dispatched", "SCH-25")
    for number, task in enumerate(tasks):
        given = found.get(task.id)
        if number != 4 and given is not None:
            scene.equal(given.function, task.function, f"the function of task {number + 1} of the batch", "SCH-38")
            scene.equal(given.parts, task.parts, f"the parts of task {number + 1} of the batch", "SCH-38")


@case("SCH-12")
def what_several_tasks_took_is_free_when_they_end_together(scene: Scene) -> None:
    worker, client = scene.worker(credit=10, capabilities={"gpu": 3}), scene.client()
    client.submit(9, capabilities=[{"name": "gpu", "amount": 1}])
    scene.settle(client, worker)
    for _ in range(2):
        worker.finish(*worker.expect_dispatch(3, "SCH-12", "it offers 3 units, and each task takes one"))
        worker.fence()
    worker.finish(*worker.expect_dispatch(3, "SCH-12", "all 3 units are free again"), status=CODES.STATUS_FAILED)


@case("SCH-25")
def who_has_left_takes_no_place_away(scene: Scene) -> None:
    """The least loaded worker leaves; what is submitted then goes to the one that is left."""
    client, busy, idle = scene.client(), scene.worker(credit=1), scene.worker(credit=0)
    client.submit(1)
    scene.settle(client, busy)
    busy.expect_dispatch(1, "SCH-25")
    busy.credit(4)
    idle.credit(9)
    scene.settle(busy, idle)
    idle.leave()
    client.submit(3)
    scene.settle(client, busy)
    busy.expect_dispatch(3, "SCH-25", "it has places for 3 more, and the other worker has left")


@case("SCH-25")
def a_worker_that_says_its_credit_often_is_not_forgotten(scene: Scene) -> None:
    """Neither is another one, that says nothing meanwhile. Both have had a task before."""
    client, quiet, worker = scene.client(), scene.worker(credit=1), scene.worker(credit=1)
    client.submit(2)
    scene.settle(client, quiet, worker)
    for each in (quiet, worker):
        each.finish(*each.expect_dispatch(1, "SCH-25"))
    scene.settle(quiet, worker)
    for number in range(300):
        worker.credit(1 + number % 2)
    worker.fence()
    client.submit(4)
    scene.settle(client, worker, quiet)
    worker.expect_dispatch(2, "SCH-25", "its limit is 2")
    quiet.expect_dispatch(1, "SCH-25", "it has a place, and the other is full")


@case("SCH-10", "SCH-25")
def very_many_priorities_are_one_order(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=0)
    priorities = [37 * number % 150 - 75 for number in range(150)]
    for priority in priorities:
        client.submit(1, priority=priority)
    client.fence()
    worker.credit(150)
    worker.fence()
    given = [task.header["priority"] for task in worker.expect_dispatch(150, "SCH-25")]
    scene.check(given == sorted(given, reverse=True), "150 tasks of different priorities left in another order")


@case("CRD-4", "SCH-25")
def a_reserve_may_come_with_credit(scene: Scene) -> None:
    worker, client = scene.worker(credit=0), scene.client()
    client.submit(5, depth=1)
    worker.credit(0, reserve=2)
    scene.settle(client, worker)
    worker.expect_dispatch(2, "CRD-4", "the Credit says a reserve of 2")
    worker.credit(0, reserve=0)
    worker.fence()
    worker.expect_dispatch(0, "CRD-4", "the last Credit says no reserve, and it holds 2")


@case("SCH-11")
def what_comes_back_is_not_overtaken(scene: Scene) -> None:
    """By Returned, and by the loss of its worker."""
    for is_lost in (False, True):
        client, worker = scene.client(), scene.worker(credit=2)
        first, second, third = client.submit(3)
        scene.settle(client, worker)
        held = worker.expect_dispatch(2, "SCH-25")
        worker.credit(0)
        if is_lost:
            lose(worker)
        else:
            worker.give_back(*held)
        other = scene.worker(credit=0)
        order = []
        for _ in range(3):
            other.credit(1)
            other.fence()
            (task,) = other.expect_dispatch(1, "SCH-25")
            order.append(task.id)
            other.finish(task)
        other.leave()
        scene.equal(order, [first.id, second.id, third.id], "the order after two of three came back")


# ---------------------------------------------------------------- ends


@case("SCH-15", "SCH-5")
def lost_attempts_use_up_no_retries(scene: Scene) -> None:
    client, worker, (task,) = begin(scene, retries=1)
    second = scene.worker(credit=1)
    lose(worker)
    scene.settle(worker, second)
    for attempt in (2, 3):
        (again,) = second.expect_dispatch(1, "SCH-15", "it has failed less often than it may be run again")
        scene.equal(again.attempt, attempt, "the attempt", "SCH-5")
        second.finish(again, status=CODES.STATUS_FAILED)
        scene.settle(second, client, second)
    client.expect_status(task, CODES.STATUS_FAILED, clause="SCH-15")
    second.expect_nothing("it has failed twice, and had one retry", "SCH-15")


@case("SCH-13")
def ends_that_are_joined_stay_apart(scene: Scene) -> None:
    """Results of several messages, of which one has successes, one everything else, and one both."""
    client, worker, tasks = begin(scene, 9)
    others = [status for status in STATUSES if status not in (CODES.STATUS_SUCCESS, CODES.STATUS_WORKER_LOST)]
    error = encode_task_error({"code": CODES.TASK_RAISED, "message": "m"})
    rows = [
        Result(task.id, 1, 0, CODES.KIND_INLINE, b"value of " + task.id, (number, 2 * number, 3))
        for number, task in enumerate(tasks)
    ]
    for number, status in enumerate(others, 2):
        rows[number] = replace(rows[number], status=status, value=error)
    for part in (rows[:2], rows[2:5], rows[5:8], rows[8:]):
        worker.send_batch("results", write_results(part))
    scene.settle(worker, client)
    found = {row.id: row for row in client.results()}
    for row in rows:
        expected, given = replace(row, value=b""), found.get(row.id)
        scene.check(given is not None, f"a result {STATUSES[row.status]} did not reach the client")
        assert given is not None
        scene.equal(replace(given, value=b""), expected, "a result, but for its value,")
        scene.check(given.value == row.value, f"the value of a result {STATUSES[row.status]} is another")
    client.expect_nothing("each task has one result")


@case("SCH-14", "SCH-19")
def of_the_tasks_behind_a_failure_those_are_told_that_are_wanted(scene: Scene) -> None:
    """Sends three that wait for one, which is unwanted and is told all the same, and three behind these."""
    worker, client = scene.worker(credit=1), scene.client()
    (one,) = client.new_tasks(1, flags=CODES.TASK_UNWANTED)
    fan = [after(client, one) for _ in range(3)]
    fan[1] = replace(fan[1], flags=CODES.TASK_UNWANTED)
    behind = [after(client, task, takes=False) for task in fan]
    behind[2] = replace(behind[2], flags=CODES.TASK_UNWANTED)
    tasks = [one, *fan, *behind]
    client.submit(tasks)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), status=CODES.STATUS_FAILED)
    scene.settle(worker, client)
    rows = {row.id: row.status for row in client.results()}
    told = [task for task in tasks if not task.flags] + [one]
    missing = [task for task in told if task.id not in rows]
    clause = "SCH-14" if one in missing else "SCH-19"
    scene.check(not missing, f"{len(missing)} of {len(told)} tasks ended without a word", clause)
    statuses = {rows[task.id] for task in told if task is not one}
    scene.equal(statuses, {CODES.STATUS_REFUSED}, "the statuses of the tasks behind a failure", "SCH-19")
    needless = len(rows) - len(told)
    scene.check(not needless, f"{needless} unwanted tasks behind a failure were told", "SCH-14")
    for task in tasks:
        client.send("explain", requestId=1, taskId=task.id)
        scene.equal(client.expect("explanation", clause="SCH-33")["state"], "", "the state of what has ended", "SCH-19")


@case("CAN-6", "CAN-1", "CAN-2")
def a_reply_may_come_before_its_result(scene: Scene) -> None:
    for outcome, status in ((TOO_LATE, CODES.STATUS_SUCCESS), (CANCELED, CODES.STATUS_CANCELED)):
        client, worker, (task,) = begin(scene)
        client.cancel(task)
        scene.settle(client, worker)
        told_to_cancel(worker)
        worker.answer_cancel((task.id, outcome))
        worker.fence()
        worker.finish(task, status=status)
        scene.settle(worker, client)
        client.expect_status(task, status, clause="CAN-6")
        scene.equal(client.cancel_outcomes(), [(task.id, outcome)], "the CancelReply", "CAN-1")
        client.expect_nothing("one reply and one result", "CAN-1")


@case("CAN-7")
def children_are_canceled_however_their_parent_ends(scene: Scene) -> None:
    for status in (CODES.STATUS_FAILED, CODES.STATUS_CANCELED, CODES.STATUS_TIMED_OUT, CODES.STATUS_PROCESSOR_DIED):
        client, worker, (parent,) = begin(scene)
        nested, child = _child_of(scene, parent)
        worker.finish(parent, status=status)
        scene.settle(worker, client, nested)
        scene.transcript.note("worker", f"said that the parent ended {STATUSES[status]}")
        nested.expect_status(child, CODES.STATUS_CANCELED, clause="CAN-7")


@case("CAN-7", "SCH-22")
def children_are_canceled_when_the_client_of_their_parent_leaves(scene: Scene) -> None:
    client, worker, (parent,) = begin(scene)
    nested, child = _child_of(scene, parent)
    client.leave()
    worker.fence()
    told_to_cancel(worker)
    worker.finish(parent, status=CODES.STATUS_CANCELED)
    scene.settle(worker, nested)
    nested.expect_status(child, CODES.STATUS_CANCELED, clause="CAN-7")


def _child_of(scene: Scene, parent: Task) -> tuple[ClientPeer, Task]:
    nested = scene.client(parentTask=parent.id)
    (child,) = nested.submit(1, depth=1, parentTask=parent.id, capabilities=NOBODY)
    nested.fence()
    return nested, child


@case("SCH-22")
def tasks_of_a_client_that_left_are_never_run_again(scene: Scene) -> None:
    """Its worker gives one back, says of another that it failed, and is lost with the third."""
    client, worker, tasks = begin(scene, 3, retries=2)
    other = scene.worker(credit=3)
    client.leave()
    worker.fence()
    scene.equal(set(told_to_cancel(worker)), {task.id for task in tasks}, "what the worker is told to cancel")
    worker.give_back(tasks[0])
    worker.finish(tasks[1], status=CODES.STATUS_FAILED)
    worker.credit(3)
    scene.settle(worker, other, worker)
    for peer in (worker, other):
        peer.expect_nothing("the client of these tasks has left")
    lose(worker)
    scene.settle(worker, other)
    other.expect_nothing("the client of the task that was lost has left")


@case("SCH-7", "SCH-6")
def a_result_of_a_lost_attempt_is_not_that_of_the_next(scene: Scene) -> None:
    """The same worker is lost, comes back, is given the task once more, and reports the first attempt late."""
    client, worker, (task,) = begin(scene)
    lose(worker)
    worker.credit(1)
    worker.fence()
    (again,) = worker.expect_dispatch(1, "SCH-7")
    worker.finish(again, attempt=1, value=b"of the attempt that was lost")
    scene.settle(worker, client)
    client.expect_nothing("attempt 1 was lost, and 2 is the current one", "SCH-6")
    worker.finish(again, value=b"of the second")
    scene.settle(worker, client)
    scene.equal(client.result_of(task, "SCH-6").value, b"of the second", "the value", "SCH-6")
