"""Where a running task is in its code, and tasks that are named by the short form of their ids (chapters 06 and 14)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Task

case = cases_for("scheduler")
#: About, for a worker that does not answer.
ANSWER_SECONDS = 5.0


def telling_worker(scene: Scene) -> WorkerPeer:
    worker = scene.worker(credit=1, features=["stacks"])
    scene.needs("stacks" in worker.welcome["features"], "the feature `stacks` is optional, and it does not name it")
    return worker


def held_task(scene: Scene, worker: WorkerPeer, client: ClientPeer) -> Task:
    client.submit(1)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1)
    return task


def ask(peer: Dialer, task_id: bytes, request: int = 7) -> None:
    peer.send("stackRequest", requestId=request, taskId=task_id)


def reply_to(scene: Scene, peer: Dialer, task_id: bytes, request: int = 7, seconds: float = 10.0) -> Message:
    reply = peer.expect("stackReply", clause="SCH-93", seconds=seconds)
    scene.equal((reply["requestId"], reply["taskId"]), (request, task_id), "requestId and taskId", "SCH-93")
    return reply


@case("SCH-93")
def a_question_for_a_stack_goes_to_the_worker(scene: Scene) -> None:
    worker, liar, client = telling_worker(scene), scene.worker(features=["stacks"]), scene.client()
    task = held_task(scene, worker, client)
    for request, outcome in ((0, CODES.STACK_TAKEN), (2**63, CODES.STACK_NOT_RUNNING), (2, CODES.STACK_NO_ANSWER)):
        ask(client, task.id, request)
        asked = worker.expect("stackRequest", clause="SCH-93", seconds=5.0)
        scene.equal(asked["taskId"], task.id, "the task that the worker is asked about")
        for peer in (liar, worker):
            peer.send(
                "stackReply",
                requestId=asked["requestId"],
                taskId=task.id,
                outcome=outcome,
                text="stack" if peer is worker else "forged",
                worker="liar",
                state="lie",
                isBlocked=True,
                runningSeconds=1.5,
            )
            peer.fence()
        reply = reply_to(scene, client, task.id, request)
        scene.equal(reply["outcome"], outcome, "the outcome")
        told = (reply["worker"], reply["state"], reply["isBlocked"], reply["runningSeconds"])
        scene.equal(told, (worker.name, "dispatched", True, 1.5), "worker, state, isBlocked and runningSeconds")
        if outcome == CODES.STACK_TAKEN:
            scene.equal(reply["text"], "stack", "the text")
    client.fence()
    client.expect_nothing("each question has one answer", "SCH-93")


@case("SCH-93")
def tasks_without_a_stack_are_answered_for(scene: Scene) -> None:
    worker, client, other = telling_worker(scene), scene.client(), scene.client()
    task = held_task(scene, worker, client)
    (queued,) = client.submit(1)
    scene.settle(client, worker)
    for peer, task_id, outcome in (
        (client, queued.id, CODES.STACK_NOT_RUNNING),
        (client, new_id(), CODES.STACK_UNKNOWN),
        (other, task.id, CODES.STACK_UNKNOWN),
    ):
        ask(peer, task_id)
        reply = reply_to(scene, peer, task_id)
        scene.equal((reply["outcome"], reply["text"]), (outcome, ""), "outcome and text")
        if outcome == CODES.STACK_NOT_RUNNING:
            scene.equal(reply["state"], "queued", "the state")
    worker.fence()
    worker.expect_nothing("none of these tasks is to be asked about", "SCH-93")


@case("SCH-93", seconds=40.0)
def a_worker_that_does_not_answer_for_its_task(scene: Scene) -> None:
    worker, client = telling_worker(scene), scene.client()
    task = held_task(scene, worker, client)
    ask(client, task.id)
    reply = reply_to(scene, client, task.id, seconds=4 * ANSWER_SECONDS)
    scene.equal((reply["outcome"], reply["worker"]), (CODES.STACK_NO_ANSWER, worker.name), "outcome and worker")
    asked = worker.expect("stackRequest", clause="SCH-93")
    worker.send("stackReply", requestId=asked["requestId"], taskId=task.id, outcome=CODES.STACK_TAKEN, text="late")
    worker.fence()
    client.fence()
    client.expect_nothing("each question has one answer", "SCH-93")
    ask(client, task.id)
    client.fence()
    worker.leave()
    scene.equal(reply_to(scene, client, task.id)["outcome"], CODES.STACK_NO_ANSWER, "the outcome when the worker left")


@case("MON-44")
def a_worker_without_the_feature_is_not_asked_for_stacks(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    telling_worker(scene).leave()
    task = held_task(scene, worker, client)
    ask(client, task.id)
    reply = reply_to(scene, client, task.id)
    scene.equal(reply["outcome"], CODES.STACK_NOT_SUPPORTED, "the outcome")
    worker.fence()
    worker.expect_nothing("its session has no feature `stacks`")


@case("MON-42")
def a_monitor_sees_no_stacks_unless_the_operator_lets_it(scene: Scene) -> None:
    worker, client, watcher = telling_worker(scene), scene.client(), scene.peer("monitor")
    task = held_task(scene, worker, client)
    ask(watcher, task.id)
    reply = watcher.expect("stackReply", clause="MON-42", seconds=10.0)
    scene.equal((reply["requestId"], reply["taskId"]), (7, task.id), "requestId and taskId")
    told = (reply["outcome"], reply["text"], reply["worker"], reply["state"])
    scene.equal(told, (CODES.STACK_NOT_ALLOWED, "", "", ""), "outcome, text, worker and state")
    worker.fence()
    worker.expect_nothing("the monitor may not see texts")


@case("MON-43")
def a_task_may_be_named_by_the_short_form_of_its_id(scene: Scene) -> None:
    client, other, watcher = scene.client(), scene.client(), scene.peer("monitor")
    source = new_id()[:4]
    numbers = (0, 1, 256, 2**64 - 1)
    made = [Task(id=source + new_id()[:4] + n.to_bytes(8, "little"), function=new_id()) for n in numbers]
    elsewhere = Task(id=new_id()[:8] + (1).to_bytes(8, "little"), function=new_id())
    asks = [{"name": "no-worker-has-this", "amount": -1}]
    client.submit([elsewhere, *made[:3]], capabilities=asks)
    client.submit(made[3:], capabilities=asks)
    client.fence()
    for peer in (client, watcher):
        for task, number in zip(made, numbers, strict=True):
            found = _explained(peer, source, number)
            scene.equal((found["taskId"], found["state"]), (task.id, "queued"), "taskId and state")
        for wrong, number in ((source, 2), (new_id()[:4], 1)):
            scene.equal(_explained(peer, wrong, number)["taskId"], b"", "taskId when there is no such task")
    scene.equal(_explained(other, source, 1)["taskId"], b"", "taskId of another client's task", "SCH-33")


def _explained(peer: Dialer, source: bytes, number: int) -> Message:
    peer.send("explain", requestId=5, taskSource=source, taskNumber=number)
    return peer.expect("explanation", clause="MON-43")
