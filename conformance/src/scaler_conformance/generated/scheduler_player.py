"""Plays steps against a scheduler and keeps the model beside it. After every step everybody is fenced, and what has
come must be what the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ENDED as HAS_ENDED
from scaler_conformance.play.roles import PRESENT_HELD, RUNNING, ClientPeer, WorkerPeer
from scaler_conformance.play.samples import samples
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, Task, write_tasks

from .scheduler_model import CANCELING, DISPATCHED, ENDED, QUEUED, ModelTask, ModelWorker, SchedulerModel, value_of
from .steps import Step

#: How often each step is drawn.
WEIGHTS = {
    "finish": 22, "submit": 14, "credit": 8, "cancel": 7, "answer_cancel": 12, "give_back": 4, "cancel_all": 1,
    "stale_result": 3, "submit_again": 2, "submit_wrong": 2, "log": 2, "strange": 2,
    "worker_joins": 3, "worker_leaves": 2, "worker_lost": 3, "worker_resumes": 2, "worker_presents": 3,
    "client_joins": 1, "client_leaves": 1, "client_replaced": 1, "client_resumes": 2,
}  # fmt: skip
MOST_PEERS = 3
PREDECESSOR = bytes(range(16))
"""One for all sequences: with each other one a scheduler would begin to wait for its workers once more (SCH-65)."""
STATUS_CHOICES = (0, 0, 0, 0, CODES.STATUS_FAILED, CODES.STATUS_FAILED, CODES.STATUS_TIMED_OUT, CODES.STATUS_REFUSED,
                  CODES.STATUS_PROCESSOR_DIED, CODES.STATUS_CANCELED)  # fmt: skip
OFFERS: tuple[dict[str, int], ...] = ({}, {}, {"gpu": 2}, {"gpu": -1, "big": -1})
NEEDS: tuple[dict[str, int], ...] = ({}, {}, {}, {}, {}, {"gpu": 1}, {"gpu": 2}, {"big": -1})


def play(scene: Scene, steps: list[Step], edges: Counter[str]) -> None:
    player = SchedulerPlayer(scene, edges)
    for step in steps:
        player.step(step)


class SchedulerPlayer:
    """Beside the model it notes what is due for the step alone: errors, logs, answers to Cancels of unknown tasks."""

    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        self.scene = scene
        self.model = SchedulerModel(edges)
        self.clients: list[ClientPeer] = []
        self.workers: list[WorkerPeer] = []
        self.logs: Counter[tuple[bytes, bytes]] = Counter()
        self.errors: Counter[tuple[bytes, int, int]] = Counter()
        self.unknown: Counter[tuple[bytes, bytes]] = Counter()
        self.empty: Counter[bytes] = Counter()
        self.edges = edges
        #: the highest that a Welcome has told
        self.generation = 0
        self._client_joins(0, 0, 0, 0)
        self._worker_joins(2, 0, 0, 0)
        self._worker_joins(1, 3, 2, 0)
        self.settle(None)

    def step(self, step: Step) -> None:
        name, *numbers = step
        act: Callable[[int, int, int, int], ClientPeer | WorkerPeer | None] = getattr(self, f"_{name}")
        actor = act(*numbers)
        if actor is not None:
            self.edges[f"step: {name}"] += 1
        self.settle(actor)

    # ------------------------------------------------------------ clients

    def _client_joins(self, *_: int) -> ClientPeer | None:
        if len(self.clients) >= MOST_PEERS:
            return None
        client = self.scene.client()
        self.clients.append(client)
        self.model.clients.add(client.peer_id)
        return client

    def _client(self, number: int) -> ClientPeer | None:
        return self.clients[number % len(self.clients)] if self.clients else None

    def _submit(self, who: int, count: int, header: int, more: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None:
            return None
        depth, priority, retries = (0, 0, 1, 2)[header % 4], (0, 0, 3, -2)[header // 4 % 4], header // 16 % 3
        processors = 1 + (header + more) % 3
        needs = NEEDS[more % len(NEEDS)]
        living = [task for task in self._mine(client) if task.state != ENDED]
        tasks = client.new_tasks(1 + count % 4)
        depends = more // 8 % 4 == 3 and bool(living)
        if depends:
            needed = living[count % len(living)]
            tasks[-1] = replace(tasks[-1], parts=((CODES.KIND_TASK, needed.id),), dependencies=(needed.id,))
        if more // 32 % 4 == 3:
            tasks = [replace(task, flags=CODES.TASK_UNWANTED) for task in tasks]
        asked = [{"name": name, "amount": amount} for name, amount in needs.items()]
        client.submit(
            tasks,
            depth=depth,
            priority=priority,
            retries=retries,
            lostProcessorsLimit=processors,
            capabilities=asked,
        )
        for task in tasks:
            missing = set(task.dependencies)
            unwanted = bool(task.flags)
            self.model.submitted(
                ModelTask(task, client.peer_id, depth, priority, retries, processors, needs, unwanted, missing=missing)
            )
        return client

    def _mine(self, client: ClientPeer) -> list[ModelTask]:
        return [task for task in self.model.tasks.values() if task.client == client.peer_id and not task.is_orphan]

    def _submit_again(self, who: int, which: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        living = [task for task in self._mine(client) if task.state != ENDED] if client else []
        if client is None or not living:
            return None
        seq = client.submit_batch([*client.new_tasks(1), living[which % len(living)].task])
        self.errors[client.peer_id, CODES.DUPLICATE_TASK, seq] += 1
        return client

    def _submit_wrong(self, who: int, how: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None:
            return None
        tasks = client.new_tasks(2)
        code = CODES.BAD_BATCH
        columns: dict[str, bytes] = {}
        if how % 4 == 0:
            columns = {"partSizes": bytes(12)}
        elif how % 4 == 1:
            columns = {"ids": tasks[0].id * 2}
        elif how % 4 == 2:
            tasks[0] = replace(tasks[0], dependencies=(tasks[1].id,))
            tasks[1] = replace(tasks[1], dependencies=(tasks[0].id,))
            code = CODES.BAD_GRAPH
        else:
            columns = {"payload": b"much too long"}
        seq = client.send_batch("submit", write_tasks(tasks, {"callFormat": CODES.CALL_RAW}), **columns)
        self.errors[client.peer_id, code, seq] += 1
        return client

    def _cancel(self, who: int, which: int, again: int, _: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None:
            return None
        mine = list(self.model.tasks.values())
        name = mine[which % len(mine)].id if mine and again % 8 else new_id()
        client.send("cancel", ids=name * (1 + again % 2))
        if self.model.canceled(client.peer_id, name) is None:
            self.unknown[client.peer_id, name] += 1
        return client

    def _cancel_all(self, who: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None:
            return None
        living = [task for task in self._mine(client) if task.state != ENDED]
        client.cancel(is_all=True)
        # Those that end because another one ends are answered as well: they had not ended when the Cancel came.
        for task in living:
            task.cancels += 1
        for task in living:
            if task.state != ENDED:
                task.cancels -= 1
                self.model.canceled(client.peer_id, task.id)
        if not living:
            self.empty[client.peer_id] += 1
        return client

    def _client_leaves(self, who: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None or len(self.clients) < 2:
            return None
        client.leave()
        self.clients.remove(client)
        self.model.client_gone(client.peer_id)
        return client

    def _client_replaced(self, who: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        if client is None:
            return None
        client.incarnation += 1
        client.open()
        self.model.client_gone(client.peer_id)
        self.model.clients.add(client.peer_id)
        return client

    def _client_resumes(self, who: int, *_: int) -> ClientPeer | None:
        client = self._client(who)
        if client is not None:
            client.resume(client.told_ack)
        return client

    # ------------------------------------------------------------ workers

    def _worker_joins(self, credit: int, reserve: int, offers: int, _: int) -> WorkerPeer | None:
        if len(self.workers) >= MOST_PEERS:
            return None
        limit, extra, offered = credit % 4, (0, 0, 0, 1, 2)[reserve % 5], OFFERS[offers % len(OFFERS)]
        worker = self.scene.worker(limit, reserve=extra, capabilities=offered)
        self.workers.append(worker)
        self.model.workers[worker.peer_id] = ModelWorker(limit, extra, offered)
        return worker

    def _worker_presents(self, who: int, which: int, how: int, more: int) -> WorkerPeer | None:
        """A worker of the scheduler before comes, with tasks of one client: some that this client has submitted, and
        some that have ended, which it submits now."""
        client = self._client(who)
        if client is None or len(self.workers) >= MOST_PEERS:
            return None
        seen = self.generation + how % 2
        worker = self.scene.worker(more % 3, features=[PRESENT_HELD], generation=seen, lastServerId=PREDECESSOR)
        self.workers.append(worker)
        entry = self.model.workers[worker.peer_id] = ModelWorker(more % 3, 0, {})
        if PRESENT_HELD not in worker.welcome["features"]:
            return worker
        self.generation = worker.welcome["generation"]
        if self.generation <= seen:
            raise Breach(f"a peer has seen generation {seen}, and the Welcome tells {self.generation}", "HSK-35")
        entry.limit = 0  # until all is presented
        held = self._presentable(client, which, more)
        ended = client.new_tasks(1 + more % 2)
        self._holds(worker, client, held, RUNNING, is_last=False)
        if any(message.kind != "cancel" for message in worker.inbox):
            raise Breach(f"{worker.name} was sent {worker.last_words()} before its last Holding", "SCH-63")
        self._holds(worker, client, ended, HAS_ENDED, is_last=True)
        if not worker.take("delivered"):
            raise Breach(f"the last Holding of {worker.name} was not answered", "SCH-64")
        entry.limit = more % 3
        for task in held:
            self.model.presented(worker.peer_id, task.id, task.attempt)
        if how % 4 == 3:  # once more: none of it is taken (SCH-62)
            self._holds(worker, client, self._presentable(client, which, more), RUNNING, is_last=True)
        self._submit_ended(worker, client, ended, is_told_first=bool(how // 4 % 2))
        return worker

    def _presentable(self, client: ClientPeer, which: int, more: int) -> list[Task]:
        """Some of its tasks, with attempts that are lower or higher than those that the scheduler knows."""
        mine = [task for task in self._mine(client) if task.state in (QUEUED, DISPATCHED, CANCELING) and not task.needs]
        chosen = [mine[(which + at) % len(mine)] for at in range(min(len(mine), more // 2 % 4))]
        return [replace(task.task, attempt=max(1, task.attempt - 1 + more // 8 % 4)) for task in chosen]

    def _holds(self, worker: WorkerPeer, client: ClientPeer, tasks: list[Task], state: int, *, is_last: bool) -> None:
        grant = client.welcome["ownerGrant"]
        worker.holds(*tasks, owner=client.peer_id, grant=grant, state=state, is_last=is_last, worker_count=1)
        worker.fence()

    def _submit_ended(self, worker: WorkerPeer, client: ClientPeer, tasks: list[Task], *, is_told_first: bool) -> None:
        """Their results may come before their client does."""
        if is_told_first:
            self._tell_ended(worker, tasks)
        client.submit(tasks)
        client.fence()
        for task in tasks:
            self.model.submitted(ModelTask(task, client.peer_id, 0, 0, 0, 1, {}, is_unwanted=False))
            self.model.presented(worker.peer_id, task.id, task.attempt)
        if not is_told_first:
            self._tell_ended(worker, tasks)
        for task in tasks:
            self.model.reported(worker.peer_id, task.id, task.attempt, CODES.STATUS_SUCCESS)

    def _tell_ended(self, worker: WorkerPeer, tasks: list[Task]) -> None:
        for task in tasks:
            worker.finish(task, value=value_of(task.id, task.attempt))
        worker.fence()

    def _worker(self, number: int) -> WorkerPeer | None:
        return self.workers[number % len(self.workers)] if self.workers else None

    def _held(self, worker: WorkerPeer | None, state: str = "") -> list[ModelTask]:
        held = self.model.workers[worker.peer_id].held.values() if worker else ()
        return [task for task in held if not state or task.state == state]

    def _finish(self, who: int, which: int, status: int, more: int) -> WorkerPeer | None:
        worker = self._worker(who)
        held = self._held(worker, DISPATCHED)
        if worker is None or not held:
            return None
        task = held[which % len(held)]
        credit = (0, 0, 0, 1, 2, 3)[more % 6]
        self._report(worker, task, task.attempt, STATUS_CHOICES[status % len(STATUS_CHOICES)], credit)
        return worker

    def _report(self, worker: WorkerPeer, task: ModelTask, attempt: int, status: int, credit: int = 0) -> None:
        given = Task(task.id, b"", attempt=attempt)
        worker.finish(given, status=status, value=value_of(task.id, attempt), credit=credit)
        if credit:
            self.model.workers[worker.peer_id].limit = credit
        self.model.reported(worker.peer_id, task.id, attempt, status)

    def _stale_result(self, who: int, which: int, how: int, _: int) -> WorkerPeer | None:
        worker = self._worker(who)
        tasks = list(self.model.tasks.values())
        if worker is None or not tasks:
            return None
        task = tasks[which % len(tasks)]
        attempt = task.attempt if task.worker != worker.peer_id and how % 2 else task.attempt + 1 + how % 3
        self._report(worker, task, attempt, CODES.STATUS_SUCCESS)
        return worker

    def _credit(self, who: int, limit: int, reserve: int, _: int) -> WorkerPeer | None:
        worker = self._worker(who)
        if worker is not None:
            chosen, extra = limit % 5, (0, 0, 1, 2)[reserve % 4]
            worker.credit(chosen, extra)
            entry = self.model.workers[worker.peer_id]
            entry.limit, entry.reserve = chosen, extra
        return worker

    def _give_back(self, who: int, which: int, *_: int) -> WorkerPeer | None:
        worker = self._worker(who)
        held = self._held(worker)
        if worker is None or not held:
            return None
        task = held[which % len(held)]
        worker.send("returned", ids=task.id, isRecallAnswer=False)
        self.model.returned(worker.peer_id, task.id)
        return worker

    def _answer_cancel(self, who: int, which: int, status: int, order: int) -> WorkerPeer | None:
        """The worker ends a task that it was told to cancel, as CANCELED or in another way."""
        worker = self._worker(who)
        held = self._held(worker, CANCELING)
        if worker is None or not held:
            return None
        task = held[which % len(held)]
        end = CODES.STATUS_CANCELED if status % 3 else STATUS_CHOICES[status % len(STATUS_CHOICES)]
        outcome = CODES.CANCEL_CANCELED if end == CODES.STATUS_CANCELED else CODES.CANCEL_TOO_LATE
        if order % 4 == 0:
            worker.answer_cancel((task.id, outcome))
            worker.fence()
        self._report(worker, task, task.attempt, end)
        if order % 4:
            worker.answer_cancel((task.id, outcome))
        return worker

    def _log(self, who: int, which: int, *_: int) -> WorkerPeer | None:
        worker = self._worker(who)
        tasks = list(self.model.tasks.values())
        if worker is None or not tasks:
            return None
        task = tasks[which % len(tasks)]
        worker.send("taskLog", taskId=task.id, stream=1, text="said")
        if task.worker == worker.peer_id and not task.is_orphan:
            self.logs[task.client, task.id] += 1
        return worker

    def _worker_leaves(self, who: int, *_: int) -> WorkerPeer | None:
        worker = self._worker(who)
        if worker is not None:
            worker.leave()
            self.workers.remove(worker)
            self.model.worker_gone(worker.peer_id, is_lost=False)
        return worker

    def _worker_lost(self, who: int, credit: int, *_: int) -> WorkerPeer | None:
        """Another life of it begins: the session is replaced, and what it held is lost."""
        worker = self._worker(who)
        if worker is None:
            return None
        entry = self.model.workers[worker.peer_id]
        worker.inbox.clear()
        worker.incarnation += 1
        self.model.worker_gone(worker.peer_id, is_lost=True)
        offers = [{"name": name, "amount": amount} for name, amount in entry.offers.items()]
        self.model.workers[worker.peer_id] = ModelWorker(credit % 3, 0, entry.offers)
        worker.open(worker={"name": worker.name, "credit": credit % 3, "capabilities": offers})
        return worker

    def _worker_resumes(self, who: int, *_: int) -> WorkerPeer | None:
        worker = self._worker(who)
        if worker is not None:
            worker.resume(worker.told_ack)
        return worker

    def _strange(self, who: int, kind: int, *_: int) -> ClientPeer | None:
        """Something a client may not say; or the last message once more; or a gap, and a resume."""
        client = self._client(who)
        if client is None:
            return None
        if kind % 3 == 0:
            sample = samples()[("credit", "put", "results")[kind // 3 % 3]]
            payload = sample.payload[0] if sample.payload else None
            seq = client.send(sample.kind, payload=payload, **sample.body)
            self.errors[client.peer_id, CODES.NOT_ALLOWED, seq] += 1
        elif kind % 3 == 1 and client.sent:
            client.send_frames(client.sent[-1][1], Message("ping", {"nonce": 0}, client.sent_seq))
        else:
            client.send_message(Message("ping", {"nonce": 1}, client.sent_seq + 2, client.received_seq))
            client.expect_error(CODES.SEQUENCE_GAP, fatal=True, clause="SES-5")
            client.resume(client.told_ack)
        return client

    # ------------------------------------------------------------ comparing

    def settle(self, actor: ClientPeer | WorkerPeer | None) -> None:
        from .scheduler_checks import compare

        if actor is not None and actor.is_open:
            actor.fence()
        for peer in (*self.workers, *self.clients):
            if peer is not actor:
                peer.fence()
        compare(self)
