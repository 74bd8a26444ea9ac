"""Order, credit, capabilities: who is given what, and when (chapters 06 and 10)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import WorkerPeer, ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

from .scheduler_watching import snapshot

case = cases_for("scheduler")


@case("CRD-1", "SCH-25")
def a_worker_is_never_given_more_than_its_limit(scene: Scene) -> None:
    worker, client = scene.worker(credit=3), scene.client()
    client.submit(10)
    scene.settle(client, worker)
    held = worker.expect_dispatch(3, "CRD-1", "its limit is 3 and there are 10")
    worker.finish(held[0])
    worker.fence()
    worker.expect_dispatch(1, "SCH-25", "one has ended")
    worker.credit(2)
    worker.finish(held[1])
    worker.fence()
    worker.expect_dispatch(0, "CRD-1", "it holds 2 and its limit is 2")
    worker.credit(6)
    worker.fence()
    worker.expect_dispatch(4, "SCH-25", "it holds 2 and its limit is 6")


@case("CRD-1")
def a_limit_is_absolute(scene: Scene) -> None:
    """Messages do not add up."""
    worker, client = scene.worker(credit=1), scene.client()
    for _ in range(3):
        worker.credit(2)
    worker.fence()
    client.submit(10)
    scene.settle(client, worker)
    worker.expect_dispatch(2, "CRD-1", "the last limit is 2")


@case("CRD-3")
def credit_rides_on_results(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    client.submit(10)
    scene.settle(client, worker)
    (first,) = worker.expect_dispatch(1, "CRD-1")
    worker.finish(first, credit=4)
    worker.fence()
    held = worker.expect_dispatch(4, "CRD-3", "the Results said credit 4, and its task counts as ended")
    worker.finish(held[0], credit=0)
    worker.fence()
    worker.expect_dispatch(1, "CRD-3", "credit 0 in Results changes nothing")
    worker.finish(*held[1:3], credit=2)
    worker.fence()
    worker.expect_dispatch(0, "CRD-3", "the limit is 2 and it holds 2")


@case("CRD-7")
def a_worker_without_credit_gets_nothing(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    worker.credit(0)
    worker.fence()
    client.submit(3)
    scene.settle(client, worker)
    worker.expect_nothing("its limit is zero")
    worker.fence()


@case("CRD-4")
def the_reserve_is_for_nested_tasks_only(scene: Scene) -> None:
    worker, client = scene.worker(credit=1, reserve=2), scene.client()
    client.submit(5)
    scene.settle(client, worker)
    (parent,) = worker.expect_dispatch(1, "CRD-4", "a reserve takes no task of depth 0")
    client.submit(5, depth=1)
    scene.settle(client, worker)
    nested = worker.expect_dispatch(2, "CRD-4", "two more places, for tasks of depth 1")
    scene.check(all(task.header["depth"] == 1 for task in nested), "a task of depth 0 took a reserved place")
    worker.finish(parent)
    worker.fence()
    more = worker.dispatched()
    scene.check(len(more) <= 1, "it holds more than limit and reserve together allow")
    scene.check(len(more) == 1, "a place was left empty", "SCH-25")


@case("SCH-25")
def a_free_place_is_filled_at_once(scene: Scene) -> None:
    client = scene.client()
    client.submit(2)
    client.fence()
    worker = scene.worker(credit=1)
    worker.fence()
    worker.expect_dispatch(1, why="a task is queued, and this worker has a place")
    second = scene.worker(credit=3)
    second.fence()
    second.expect_dispatch(1, why="a task is queued, and this worker has a place")
    client.submit(1)
    scene.settle(client, second)
    second.expect_dispatch(1, why="it has a place, the other is full")


@case("SCH-9")
def deeper_tasks_go_first(scene: Scene) -> None:
    worker, client = scene.worker(credit=0), scene.client()
    for depth in (0, 2, 1, 3, 0):
        client.submit(1, depth=depth, priority=-depth)
    client.fence()
    depths = _order(worker, 5, "depth")
    scene.equal(depths, [3, 2, 1, 0, 0], "the order of depths")


@case("SCH-10")
def higher_priority_goes_first(scene: Scene) -> None:
    worker, client = scene.worker(credit=0), scene.client()
    for priority in (0, 5, -3, 2_000_000_000, 5, -2_000_000_000):
        client.submit(1, priority=priority)
    client.fence()
    priorities = _order(worker, 6, "priority")
    scene.equal(priorities, [2_000_000_000, 5, 5, 0, -3, -2_000_000_000], "the order of priorities")


@case("SCH-10", "SCH-9")
def priorities_of_several_clients_are_one_order(scene: Scene) -> None:
    worker, clients = scene.worker(credit=0), [scene.client(), scene.client()]
    for number, priority in enumerate((1, 4, 2, 3)):
        clients[number % 2].submit(1, priority=priority)
    scene.settle(*clients)
    priorities = _order(worker, 4, "priority")
    scene.equal(priorities, [4, 3, 2, 1], "the order of priorities")


@case("SCH-11")
def equal_tasks_of_a_client_go_in_the_order_of_acceptance(scene: Scene) -> None:
    worker, client = scene.worker(credit=0), scene.client()
    submitted = client.submit(3) + client.submit(1) + client.submit(2)
    client.fence()
    ran = []
    for _ in submitted:
        worker.credit(1)
        worker.fence()
        (task,) = worker.expect_dispatch(1, "SCH-25")
        ran.append(task.id)
        worker.finish(task)
    scene.equal([scene.transcript.known(name) for name in ran], [f"t{n + 1}" for n in range(6)], "the order")


def _order(worker: WorkerPeer, count: int, field: str) -> list[int]:
    """Give the worker one place at a time and note what comes."""
    found = []
    worker.credit(1)
    for _ in range(count):
        worker.fence()
        (task,) = worker.expect_dispatch(1, "SCH-25")
        found.append(int(task.header[field]))
        worker.finish(task)
    return found


@case("SCH-23", "EVO-4")
def a_task_goes_only_where_its_capabilities_are(scene: Scene) -> None:
    plain, gpu = scene.worker(credit=10), scene.worker(credit=10, capabilities={"gpu": -1, "linux": -1})
    client = scene.client()
    client.submit(1, capabilities=[{"name": "gpu", "amount": -1}])
    client.submit(1, capabilities=[{"name": "gpu", "amount": 3}, {"name": "linux", "amount": -1}])
    client.submit(1, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    client.submit(1, capabilities=[{"name": "gpu", "amount": -1}, {"name": "nobody-has-this", "amount": -1}])
    scene.settle(client, plain, gpu)
    plain.expect_nothing("it does not offer what these tasks ask for", "SCH-23")
    given = gpu.dispatched()
    scene.check(len(given) <= 2, "a worker was given tasks that ask for more than it offers", "SCH-23")
    scene.equal(len(given), 2, "the count of tasks at the worker that offers what two ask for", "SCH-25")
    client.expect_nothing("a task that nobody can take waits", "SCH-25")
    late = scene.worker(credit=1, capabilities={"nobody-has-this": 1})
    late.fence()
    late.expect_dispatch(1, "SCH-25", "the right worker has come")


@case("SCH-39")
def a_task_goes_only_where_its_code_can_be_read(scene: Scene) -> None:
    """No task names a capability for this. A worker that offers no codeTags is given any task."""
    new = scene.worker(credit=10, code_tags=("cpython-312", "cpython-313"))
    client = scene.client()
    client.submit(2, codeTag="cpython-311")
    (readable,) = client.submit(1, codeTag="cpython-313")
    (plain,) = client.submit(1)
    scene.settle(client, new)
    given = {task.id for task in new.dispatched()}
    scene.check(given <= {readable.id, plain.id}, "a worker was given code that it does not read")
    scene.equal(given, {readable.id, plain.id}, "the tasks of a worker that reads the code of one", "SCH-25")
    client.expect_nothing("a task whose code no worker reads waits", "SCH-25")
    old = scene.worker(credit=1, code_tags=("cpython-311",))
    silent = scene.worker(credit=1)
    scene.settle(old, silent)
    for worker, why in ((old, "it reads this code"), (silent, "it does not say what it reads")):
        (task,) = worker.expect_dispatch(1, "SCH-25", why)
        scene.equal(task.header["codeTag"], "cpython-311", "the codeTag of its header")
        worker.finish(task)


@case("SCH-39")
def code_does_not_change_workers_for_another_language(scene: Scene) -> None:
    """Neither when it is run again, nor when it comes back."""
    first, new = scene.worker(credit=2, code_tags=("cpython-311",)), scene.worker(credit=2, code_tags=("cpython-312",))
    client = scene.client()
    client.submit(2, codeTag="cpython-311", retries=3)
    first.fence()
    failed, returned = first.expect_dispatch(2, "SCH-25")
    first.credit(0)
    first.finish(failed, status=CODES.STATUS_FAILED)
    first.give_back(returned)
    scene.settle(first, new, client)
    new.expect_nothing("it does not read the code of these tasks")
    second = scene.worker(credit=2, code_tags=("cpython-311",))
    second.fence()
    scene.equal(len(second.dispatched()), 2, "the count of tasks at the next worker that reads them", "SCH-25")


@case("SCH-39")
def a_task_with_a_code_set_goes_only_where_code_sets_are_taken(scene: Scene) -> None:
    """Only where the scheduler has the feature: it is for clients to find that out. (CLI-24)"""
    client = scene.client(features=["code-sets"])
    scene.needs(
        "code-sets" in client.welcome["features"], "the feature `code-sets` is optional, and it does not name it"
    )
    plain = scene.worker(credit=10, features=["chains", "samples"])
    client.submit(2, codeSet=new_id())
    (other,) = client.submit(1)
    scene.settle(client, plain)
    scene.equal({task.id for task in plain.dispatched()}, {other.id}, "the tasks of a worker that takes no code sets")
    client.expect_nothing("a task whose code set no worker takes waits", "SCH-25")
    able = scene.worker(credit=1, features=["code-sets"])
    able.fence()
    (first,) = able.expect_dispatch(1, "SCH-25", "it takes code sets")
    scene.equal(len(first.header["codeSet"]), 16, "the count of bytes of the codeSet in its header")
    able.give_back(first)
    scene.settle(client, plain)
    plain.expect_nothing("it takes no code sets, also not of a task that has come back")


@case("SCH-12")
def a_counted_capability_is_not_given_out_twice(scene: Scene) -> None:
    worker, client = scene.worker(credit=10, capabilities={"gpu": 4}), scene.client()
    client.submit(5, capabilities=[{"name": "gpu", "amount": 2}])
    scene.settle(client, worker)
    held = worker.expect_dispatch(2, "SCH-12", "4 units, 2 for each task")
    worker.finish(held[0])
    worker.fence()
    again = worker.expect_dispatch(1, "SCH-12", "2 units are free again")
    worker.give_back(*again, held[1])
    worker.fence()
    worker.expect_dispatch(2, "SCH-12", "what came back frees its units")
    client.submit(1, capabilities=[{"name": "gpu", "amount": -1}])
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-12", "-1 needs the name and takes no unit")


@case("SCH-47", "SCH-12")
def a_blocked_task_lends_what_it_takes_to_its_descendants(scene: Scene) -> None:
    worker, client = scene.worker(credit=10, capabilities={"gpu": 1}), scene.client()
    one = [{"name": "gpu", "amount": 1}]
    client.submit(1, capabilities=one)
    scene.settle(client, worker)
    (parent,) = worker.expect_dispatch(1, "SCH-25")
    client.submit(2, depth=1, parentTask=parent.id, capabilities=one)
    client.submit(1, depth=1, capabilities=one)
    scene.settle(client, worker)
    worker.expect_dispatch(0, "SCH-12", "the parent is not blocked, and takes the only unit")
    worker.send("workerStatus", blockedCount=1, processors=[{"state": 3, "taskId": parent.id}])
    worker.fence()
    (child,) = worker.expect_dispatch(1, "SCH-47", "the parent is blocked: one of its two children may take its unit")
    scene.equal(child.header["parentTask"], parent.id, "the parent of the task that is given it", "SCH-12")
    worker.finish(child)
    worker.fence()
    (second,) = worker.expect_dispatch(1, "SCH-47", "the unit has come back to the family")
    worker.finish(second)
    worker.fence()
    worker.expect_dispatch(0, "SCH-12", "the other task is of no family that could lend it the unit")
    worker.finish(parent)
    worker.fence()
    worker.expect_dispatch(1, "SCH-25", "the unit is free")


@case("SCH-12")
def a_task_that_needs_more_than_there_is_waits(scene: Scene) -> None:
    worker, client = scene.worker(credit=10, capabilities={"gpu": 2}), scene.client()
    client.submit(1, capabilities=[{"name": "gpu", "amount": 3}])
    scene.settle(client, worker)
    worker.expect_nothing("it offers 2 units, the task needs 3")
    client.expect_nothing("it waits for the right worker", "SCH-25")
    big = scene.worker(credit=1, capabilities={"gpu": 3})
    big.fence()
    big.expect_dispatch(1, "SCH-25")


@case("SCH-23", "SCH-5")
def what_is_given_back_is_given_out_again(scene: Scene) -> None:
    worker, client = scene.worker(credit=2), scene.client()
    client.submit(2)
    scene.settle(client, worker)
    first, second = worker.expect_dispatch(2, "SCH-25")
    worker.credit(1)
    worker.give_back(first)
    worker.fence()
    worker.expect_dispatch(0, "CRD-1", "its limit is 1 and it holds 1")
    again = worker.next_after(second)
    scene.equal(again.id, first.id, "the task", "SCH-25")
    scene.equal(again.attempt, first.attempt, "its attempt: one that came back keeps its number", "SCH-5")
    worker.finish(again)
    scene.settle(worker, client)
    scene.equal(len(client.results()), 2, "the count of results", "SCH-13")


@case("SCH-20", "MON-3")
def a_recall_may_be_answered_with_nothing(scene: Scene) -> None:
    """One worker has begun none of its tasks, another is idle: what is recalled counts as held until Returned."""
    busy, client, watcher = scene.worker(credit=6), scene.client(), scene.peer("monitor")
    before = snapshot(watcher)
    client.submit(6)
    scene.settle(client, busy)
    held = busy.expect_dispatch(6, "SCH-25")
    idle = scene.worker(credit=6)
    busy.pump.until(lambda: any(message.kind == "recall" for message in busy.inbox), 2.5)
    scene.settle(busy, idle)
    idle.expect_dispatch(0, "SCH-20", "nothing was given back yet")
    recalls = busy.take("recall")
    asked = {name for recall in recalls for name in ids_of(recall["ids"])}
    is_held = asked <= {task.id for task in held}
    scene.check(is_held, "a Recall names tasks that this worker does not hold", "SCH-31")
    for _ in recalls:
        busy.give_back(is_answer=True)
    scene.settle(busy, idle)
    idle.expect_dispatch(0, "SCH-20", "the answer to the Recall gave nothing back")
    after = snapshot(watcher)
    for name, count in {"recalledCount": sum(len(each["ids"]) // 16 for each in recalls), "returnedCount": 0}.items():
        scene.equal(after[name] - before[name], count, f"what was added to {name}", "MON-3")


@case("SCH-96", seconds=60.0)
def what_a_worker_does_not_begin_goes_to_one_that_is_never_idle(scene: Scene) -> None:
    """Sets a worker that ends nothing beside one that ends task after task and always has the next."""
    stuck, client = scene.worker(credit=1), scene.client()
    client.submit(1)
    scene.settle(client, stuck)
    (held,) = stuck.expect_dispatch(1, "SCH-25")
    busy = scene.worker(credit=2)
    client.submit(1000)
    scene.settle(client, busy)
    running = busy.expect_dispatch(2, "SCH-25")
    recalled = False
    for _ in range(400):
        busy.finish(running.pop(0))
        scene.settle(busy)
        running += busy.dispatched("SCH-25")
        recalled = scene.pump.until(lambda: any(message.kind == "recall" for message in stuck.inbox), 0.03)
        if recalled:
            break
    scene.check(recalled, "a worker ended nothing for 12 s, and no task was recalled from it", "SCH-96")
    (recall,) = stuck.take("recall")
    scene.equal(recall["ids"], held.id, "the task that is recalled", "SCH-96")
    stuck.give_back(held, is_answer=True)
    scene.settle(stuck, busy)
    stuck.expect_dispatch(0, "SCH-96", "it has just given back a task that it did not begin")
    for _ in range(3):
        running += busy.dispatched("SCH-96")
        if any(task.id == held.id for task in running):
            break
        busy.finish(running.pop(0))
        scene.settle(busy)
    scene.check(any(task.id == held.id for task in running), "what came back was not given to the other", "SCH-96")


@case("SCH-31", "SCH-5")
def a_worker_that_may_hold_an_attempt_gets_no_other(scene: Scene) -> None:
    """It resumes nothing: its session is replaced, so it was lost with its task; then it is the only worker again."""
    worker, client = scene.worker(credit=2), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1, "SCH-25")
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 2})
    worker.fence()
    (again,) = worker.expect_dispatch(1, "SCH-7")
    scene.equal(again.id, task.id, "the task", "SCH-7")
    scene.equal(again.attempt, held.attempt + 1, "the attempt after a lost one", "SCH-5")


@case("SCH-91")
def a_program_that_comes_waits_for_one_task(scene: Scene) -> None:
    """Whatever the tasks of the others need, and however many there are."""
    worker, many = scene.worker(credit=1, capabilities={"gpu": -1}), scene.client()
    many.submit(20)
    scene.settle(many, worker)
    (held,) = worker.expect_dispatch(1, "CRD-1")
    for capabilities in ([], [{"name": "gpu", "amount": -1}]):
        other = scene.client()
        (task,) = other.submit(1, capabilities=capabilities)
        scene.settle(other, worker)
        held = worker.next_after(held)
        scene.check(held.id == task.id, "another task of the program that has just run one was dispatched", "SCH-91")
        held = worker.next_after(held)
