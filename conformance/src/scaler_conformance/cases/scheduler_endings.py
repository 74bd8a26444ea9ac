"""How tasks end: results, attempts, retries, lost workers, clients that leave (chapter 06)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer, error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, encode_task_error, write_results
from scaler_conformance.wire.codes import STATUSES

case = cases_for("scheduler")


def begin(scene: Scene, count: int = 1, **header: Any) -> tuple[ClientPeer, WorkerPeer, list[Task]]:
    """A client, and a worker that holds its tasks and takes no others."""
    worker, client = scene.worker(credit=count), scene.client()
    client.submit(count, **header)
    scene.settle(client, worker)
    tasks = worker.expect_dispatch(count, "SCH-25")
    worker.credit(0)
    return client, worker, tasks


@case("SCH-13")
def every_end_is_passed_on_as_it_is(scene: Scene) -> None:
    client, worker, tasks = begin(scene, 6)
    others = [status for status in STATUSES if status not in (CODES.STATUS_WORKER_LOST,)]
    for task, status in zip(tasks, others, strict=True):
        worker.finish(task, status=status, value=b"value of " + task.id)
    scene.settle(worker, client)
    rows = {row.id: row for row in client.results()}
    scene.equal(len(rows), 6, "the count of results")
    for task, status in zip(tasks, others, strict=True):
        row = rows.get(task.id)
        scene.check(row is not None, f"{STATUSES[status]} did not reach the client")
        assert row is not None
        scene.equal(STATUSES[row.status], STATUSES[status], "the status")
        if status == CODES.STATUS_SUCCESS:
            scene.equal((row.kind, row.value), (CODES.KIND_INLINE, b"value of " + task.id), "the value")
        elif row.kind != CODES.KIND_NONE:
            scene.check(error_of(row)["typeName"] == "X", "the TaskError is another than the worker's")
    scene.settle(worker, client)
    worker.credit(9)
    worker.fence()
    worker.expect_nothing("only FAILED is repeated, and only with retries", "SCH-15")
    client.expect_nothing("each task has one result")


@case("SCH-13")
def a_result_object_and_an_empty_value_are_passed_on(scene: Scene) -> None:
    client, worker, tasks = begin(scene, 3)
    stored = result_id(tasks[0].id, 1)
    rows = [
        Result(tasks[0].id, kind=CODES.KIND_OBJECT, value=stored),
        Result(tasks[1].id, value=b""),
        Result(tasks[2].id, value=b"v", profile=(11, 22, 33)),
    ]
    worker.send_batch("results", write_results(rows))
    scene.settle(worker, client)
    found = {row.id: row for row in client.results()}
    for row in rows:
        got = found.get(row.id)
        scene.check(got is not None, "a result did not reach the client")
        assert got is not None
        scene.equal((got.kind, got.value), (row.kind, row.value), "kind and value")
    scene.equal(found[tasks[2].id].profile, (11, 22, 33), "the profile", "EVO-5")


@case("SCH-13", "CLI-5")
def each_client_gets_its_own_results_only(scene: Scene) -> None:
    worker = scene.worker(credit=4)
    clients = [scene.client(), scene.client()]
    mine = [client.submit(2) for client in clients]
    scene.settle(*clients, worker)
    worker.finish(*worker.expect_dispatch(4, "SCH-25"))
    scene.settle(worker, *clients)
    for client, tasks in zip(clients, mine, strict=True):
        scene.equal({row.id for row in client.results()}, {task.id for task in tasks}, f"the results of {client.name}")


@case("SCH-5")
def the_first_attempt_is_one_and_the_next_is_two(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    scene.equal(task.attempt, 1, "the first attempt")
    other = scene.worker(credit=1)
    worker.leave()
    other.fence()
    (again,) = other.expect_dispatch(1, "SCH-7")
    scene.equal(again.attempt, 2, "the attempt after a lost one")
    other.finish(again)
    scene.settle(other, client)
    scene.equal(client.result_of(task).status, CODES.STATUS_SUCCESS, "the status", "SCH-13")


@case("SCH-6")
def a_result_of_another_attempt_is_dropped(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    for attempt in (2, 9, 65_535):
        worker.finish(task, attempt=attempt)
    scene.settle(worker, client)
    client.expect_nothing("no attempt of that number is current")
    worker.expect_nothing("no error is sent for a result that is dropped")
    worker.finish(task)
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_SUCCESS)


@case("SCH-6")
def a_result_of_another_attempt_frees_no_place(scene: Scene) -> None:
    """Nor does it when its client has left: the worker still holds what it was given."""
    client, worker, (task,) = begin(scene)
    client.leave()
    worker.credit(1)
    worker.fence()
    worker.take("cancel")
    worker.finish(task, attempt=2)
    other = scene.client()
    (next_task,) = other.submit()
    scene.settle(worker, other)
    worker.expect_nothing("its limit is 1, and it holds the task of the client that has left")
    worker.finish(task)
    scene.settle(worker)
    scene.equal(worker.expect_dispatch(1)[0].id, next_task.id, "the task that has the place now")


@case("SCH-6")
def a_result_of_another_worker_is_dropped(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    stranger = scene.worker(credit=0)
    stranger.finish(task, value=b"forged")
    stranger.finish(replace(task, id=new_id()))
    scene.settle(stranger, client)
    client.expect_nothing("that worker does not hold the task")
    stranger.expect_nothing("no error is sent for a result that is dropped")
    worker.finish(task, value=b"true")
    scene.settle(worker, client)
    scene.equal(client.result_of(task).value, b"true", "the value")


@case("SCH-6", "SCH-13")
def a_second_result_is_dropped(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    worker.finish(task, value=b"first")
    worker.finish(task, value=b"second")
    scene.settle(worker, client)
    scene.equal(client.result_of(task).value, b"first", "the value")
    client.expect_nothing("a task has one result")


@case("SCH-15", "SCH-5")
def a_failed_task_is_run_again_as_often_as_asked(scene: Scene) -> None:
    _use_up_retries(scene, CODES.STATUS_FAILED, CODES.STATUS_FAILED, last=CODES.STATUS_FAILED)


@case("SCH-15", "SCH-5")
def a_dead_processor_uses_up_a_retry(scene: Scene) -> None:
    """As an error of the task does: both count together."""
    _use_up_retries(scene, CODES.STATUS_PROCESSOR_DIED, CODES.STATUS_FAILED, last=CODES.STATUS_PROCESSOR_DIED)


def _use_up_retries(scene: Scene, *statuses: int, last: int) -> None:
    """The attempts of one task end with these statuses, and there is a retry for each but the last."""
    client, worker, (task,) = begin(scene, retries=len(statuses))
    worker.credit(1)
    for attempt, status in enumerate(statuses, start=1):
        scene.equal(task.attempt, attempt, "the attempt", "SCH-5")
        worker.finish(task, status=status)
        scene.settle(worker, client)
        client.expect_nothing("it has retries left", "SCH-15")
        (task,) = worker.expect_dispatch(1, "SCH-15", "it has retries left")
    worker.finish(task, status=last)
    scene.settle(worker, client)
    client.expect_status(task, last, clause="SCH-15")
    worker.expect_nothing("no retry is left")


@case("SCH-15", "CAN-6")
def what_is_being_canceled_is_not_run_again(scene: Scene) -> None:
    for status in (CODES.STATUS_FAILED, CODES.STATUS_PROCESSOR_DIED):
        client, worker, (task,) = begin(scene, retries=5)
        client.cancel(task)
        client.fence()
        worker.fence()
        worker.take("cancel")
        worker.credit(1)
        worker.finish(task, status=status)
        worker.answer_cancel((task.id, CODES.CANCEL_TOO_LATE))
        scene.settle(worker, client, worker)
        client.expect_status(task, status, clause="SCH-15")
        scene.equal(client.cancel_outcomes(), [(task.id, CODES.CANCEL_TOO_LATE)], "the CancelReply", "CAN-6")
        worker.expect_nothing("it was canceled", "SCH-15")
        worker.credit(0)
        worker.fence()


@case("SCH-15", "SCH-13")
def other_ends_are_not_run_again(scene: Scene) -> None:
    for status in (CODES.STATUS_TIMED_OUT, CODES.STATUS_REFUSED):
        client, worker, (task,) = begin(scene, retries=5)
        worker.credit(1)
        worker.finish(task, status=status)
        scene.settle(worker, client, worker)
        client.expect_status(task, status, clause="SCH-13")
        worker.expect_nothing("only FAILED and PROCESSOR_DIED are repeated", "SCH-13")
        worker.credit(0)
        worker.fence()


@case("SCH-42")
def the_tasks_of_a_refused_dispatch_are_refused(scene: Scene) -> None:
    """And those alone: what else the worker has goes on."""
    worker, client = scene.worker(credit=4), scene.client()
    for code in (CODES.BAD_BATCH, CODES.TOO_LARGE):
        kept = client.submit(1)
        scene.settle(client, worker)
        worker.expect_dispatch(1)
        refused = client.submit(2)
        scene.settle(client, worker)
        dispatches = [message for message in worker.inbox if message.kind == "dispatch"]
        given = worker.expect_dispatch(2)
        client.cancel(refused[1])
        scene.settle(client, worker)
        worker.take("cancel")
        for dispatch in dispatches:
            worker.send("error", code=code, refSeq=dispatch.seq, fatal=False, text="this batch is not taken")
        scene.settle(worker, client)
        rows = {row.id: row for row in client.results()}
        scene.equal(set(rows), {task.id for task in given}, "the tasks that have ended")
        statuses = [rows[task.id].status for task in refused]
        scene.equal(statuses, [CODES.STATUS_REFUSED, CODES.STATUS_CANCELED], "their statuses")
        scene.equal(error_of(rows[refused[0].id])["code"], code, "the code of the TaskError")
        scene.equal(client.cancel_outcomes(), [(refused[1].id, CODES.CANCEL_CANCELED)], "the CancelReply", "CAN-1")
        worker.finish(replace(kept[0], attempt=1))
        scene.settle(worker, client)
        client.expect_status(kept[0], CODES.STATUS_SUCCESS)
    four = client.submit(4)
    scene.settle(client, worker)
    worker.expect_dispatch(len(four), "SCH-25", "what was refused takes no place")


@case("ERR-5", "SCH-42")
def other_errors_of_a_worker_change_nothing(scene: Scene) -> None:
    """Codes that say something else than a refusal, and one that no version knows yet: the Error is not fatal."""
    for code in (CODES.UNKNOWN_MESSAGE, CODES.CREDIT_EXCEEDED, 61_234):
        worker, client = scene.worker(credit=1), scene.client()
        client.submit(1)
        scene.settle(client, worker)
        seqs = [message.seq for message in worker.inbox if message.kind == "dispatch"]
        (task,) = worker.expect_dispatch(1)
        for seq in (0, worker.received_seq, *seqs):
            worker.send("error", code=code, refSeq=seq, fatal=False, text="?")
        scene.settle(worker, client)
        worker.expect_nothing(f"an Error {code} that is not fatal ends nothing")
        client.expect_nothing(f"the worker still runs its task after an Error {code}", "SCH-42")
        worker.finish(task)
        scene.settle(worker, client)
        client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-42")
        worker.leave()


@case("SCH-7")
def what_a_lost_worker_held_is_run_by_another(scene: Scene) -> None:
    client, worker, tasks = begin(scene, 2)
    worker.finish(tasks[0])
    worker.fence()
    other = scene.worker(credit=5)
    # Another life of the same worker: the session is lost, and nothing of it is left.
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 0})
    scene.settle(worker, other)
    (again,) = other.expect_dispatch(1, "SCH-7", "one task was unfinished")
    scene.equal(again.id, tasks[1].id, "the task that is run again", "SCH-7")
    client.fence()
    client.result_of(tasks[0])
    other.finish(again)
    scene.settle(other, client)
    client.expect_status(again, CODES.STATUS_SUCCESS)


@case("SCH-7")
def a_task_that_loses_every_worker_ends(scene: Scene) -> None:
    """Three by default; a deployment may allow another number, so up to twelve are tried."""
    client = scene.client()
    (task,) = client.submit(1)
    names = []
    for attempt in range(1, 13):
        worker = scene.worker(credit=1)
        scene.settle(worker, client)
        given = worker.dispatched()
        if not given:
            break
        scene.equal(given[0].attempt, attempt, "the attempt", "SCH-5")
        names.append(worker.name)
        worker.incarnation += 1
        worker.open(worker={"name": "again", "credit": 0})
        scene.settle(worker, client)
    scene.check(len(names) < 12, "the task was run again after it had lost 12 workers")
    result = client.expect_status(task, CODES.STATUS_WORKER_LOST)
    error = error_of(result)
    scene.equal(error["code"], CODES.WORKER_LOST, "the code of the TaskError")
    scene.equal(len(error["workers"]), len(names), "the count of workers that the error names")


@case("SCH-21")
def workers_that_say_bye_do_not_count(scene: Scene) -> None:
    client = scene.client()
    (task,) = client.submit(1)
    for _ in range(6):
        worker = scene.worker(credit=1)
        worker.fence()
        worker.expect_dispatch(1, "SCH-21", "its workers left with Bye, and none of them counts")
        worker.leave()
    last = scene.worker(credit=1)
    last.fence()
    last.finish(*last.expect_dispatch(1, "SCH-21"))
    scene.settle(last, client)
    client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-21")


@case("SCH-22")
def a_client_that_leaves_has_its_tasks_canceled(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    client.submit(3)
    client.leave()
    worker.fence()
    cancels = worker.take("cancel")
    named = [
        name for cancel in cancels for name in (cancel["ids"][i : i + 16] for i in range(0, len(cancel["ids"]), 16))
    ]
    scene.equal(named, [task.id], "the tasks that the worker is told to cancel")
    worker.answer_cancel((task.id, CODES.CANCEL_CANCELED))
    worker.finish(task, status=CODES.STATUS_CANCELED)
    worker.credit(10)
    worker.fence()
    worker.expect_nothing("the queued tasks of that client are canceled too")


@case("SCH-22")
def nothing_is_said_about_the_tasks_of_a_session_that_ended(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    client.incarnation += 1
    client.open()
    worker.fence()
    worker.take("cancel")
    worker.finish(task)
    worker.answer_cancel((task.id, CODES.CANCEL_TOO_LATE))
    scene.settle(worker, client)
    client.expect_nothing("these tasks belong to the session that was replaced")


@case("SCH-8", "SCH-31")
def an_id_of_a_former_life_goes_on_counting_attempts(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    other = scene.worker(credit=1)
    client.incarnation += 1
    client.open()
    client.submit([replace(task, header={})])
    scene.settle(client, worker, other)
    client.expect_nothing("an id of the former session is accepted", "SCH-8")
    worker.expect_dispatch(0, "SCH-31", "this worker may still hold the former attempt")
    given = other.dispatched()
    if not given:  # it may wait until the former attempt has ended
        worker.answer_cancel((task.id, CODES.CANCEL_CANCELED))
        worker.finish(task, status=CODES.STATUS_CANCELED)
        scene.settle(worker, other, worker)
        given = other.dispatched() + worker.dispatched()
    scene.equal(len(given), 1, "the count of attempts of the new life", "SCH-25")
    scene.check(given[0].attempt > task.attempt, f"the attempt is {given[0].attempt} again", "SCH-8")


@case("SCH-14", "SCH-18")
def an_unwanted_success_is_not_sent(scene: Scene) -> None:
    worker, client = scene.worker(credit=3), scene.client()
    tasks = client.submit(client.new_tasks(2, flags=CODES.TASK_UNWANTED))
    scene.settle(client, worker)
    held = worker.expect_dispatch(2, "SCH-25")
    worker.finish(held[0])
    worker.finish(held[1], status=CODES.STATUS_FAILED)
    scene.settle(worker, client)
    rows = client.results()
    scene.equal([row.id for row in rows], [held[1].id], "the tasks with a result: every end but SUCCESS", "SCH-14")
    scene.equal(len(tasks), 2, "tasks")


@case("SCH-28")
def a_log_of_a_task_reaches_its_client(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    other = scene.client()
    worker.send("taskLog", taskId=task.id, stream=1, text="hello")
    worker.send("taskLog", taskId=task.id, stream=77, text="unknown streams are passed on")
    worker.send("taskLog", taskId=new_id(), stream=1, text="of a task that nobody knows")
    scene.settle(worker, client, other)
    logs = client.take("taskLog")
    told = [(log["taskId"], log["stream"], log["text"]) for log in logs]
    expected = [(task.id, 1, "hello"), (task.id, 77, "unknown streams are passed on")]
    scene.equal(told, expected, "the logs of the client")
    other.expect_nothing("the log is of another client's task")
    worker.expect_nothing("a log of an unknown task is dropped")
    worker.finish(task)
    worker.send("taskLog", taskId=task.id, stream=1, text="too late")
    scene.settle(worker, client)
    client.results()
    client.expect_nothing("a log of a task that has ended is dropped")


@case("SCH-28")
def a_log_of_a_former_attempt_is_dropped(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    stranger = scene.worker(credit=0)
    stranger.send("taskLog", taskId=task.id, stream=1, text="of a worker that does not hold it")
    scene.settle(stranger, client)
    client.expect_nothing("that worker does not hold the task")
    worker.fence()


@case("BAT-10", "BAT-2")
def results_that_break_their_rules_are_refused(scene: Scene) -> None:
    client, worker, (task,) = begin(scene)
    good = write_results([Result(task.id, value=b"ok")])
    error = encode_task_error({"code": CODES.TASK_RAISED})
    wrong = {
        "two sizes": {"sizes": good["sizes"] * 2},
        "no id": {"ids": b"", "sizes": b"", "payload": b""},
        "an id twice": {"ids": task.id * 2, "sizes": good["sizes"] * 2, "payload": b"okok"},
        "an unknown status": {"statuses": b"\x63"},
        "an unknown kind": {"kinds": b"\x09"},
        "SUCCESS without a value": {"kinds": b"\x02", "sizes": bytes(4), "payload": b""},
        "a payload too long": {"payload": b"okay"},
        "attempt zero": {"attempts": b"\0\0"},
        "an object id of two bytes": {"kinds": b"\x01"},
        "NONE with bytes": {"statuses": b"\x02", "kinds": b"\x02"},
    }
    for what, columns in wrong.items():
        scene.transcript.note(worker.name, what)
        seq = worker.send_batch("results", {**good, **columns})
        worker.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False, clause="BAT-2")
    scene.settle(worker, client)
    client.expect_nothing("all these Results were refused", "BAT-2")
    worker.send_batch("results", write_results([Result(task.id, 1, CODES.STATUS_FAILED, value=error)]))
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_FAILED, clause="SCH-13")
