"""Any order of events leaves the tables consistent, every task with one end, and nothing behind when all have gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.scheduler_story import GRAPH, Story, ids, names, peer

from scaler_protocol.codes import CANCEL_CANCELED, CANCEL_UNKNOWN, STATUS_FAILED, STATUS_SUCCESS
from scaler_protocol.columns import split_ids, split_u16
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import Cancel, CancelReply, Credit, Dispatch, Recall, Results
from scaler_scheduler.core import Send
from scaler_scheduler.core.entities.results import rows

CLIENTS = ("c0", "c1")
WORKERS = ("w0", "w1", "w2")
CHAINING = ("w0", "w1")  #: they take tasks ahead of their time (SCH-36)
CODE = {"w0": (), "w1": ("a",), "w2": ("a", "b")}  #: what they read; the first does not say (SCH-39)
code_tags = st.sampled_from(["", "", "a", "b"])


class AnyOrder(RuleBasedStateMachine):
    """`held` is what each worker was given and has not ended: the workers' own view, kept apart from the core's."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.number = 0
        self.clients: set[str] = set()
        self.held: dict[str, dict[str, int]] = {}
        #: what held tasks await: of a worker's own, and not succeeded yet
        self.awaits: dict[str, set[str]] = {}
        self.asked: dict[str, list[str]] = {}
        self.recalled: dict[str, list[str]] = {}
        self.unfinished: dict[str, str] = {}
        self.canceled: set[str] = set()
        #: of tasks that others have submitted, if the parent has begun: one that has not can have no children
        self.parents: dict[str, str] = {}
        self.begun: set[str] = set()
        #: those whose Cancel the scheduler has taken on while they ran
        self.canceling: set[str] = set()

    @initialize()
    def somebody_is_there(self) -> None:
        self.join_client("c0")
        self.join_worker("w0", 2)

    @rule(name=st.sampled_from(CLIENTS))
    def join_client(self, name: str) -> None:
        if name not in self.clients:
            self.clients.add(name)
            self.story.client(name)

    @rule(name=st.sampled_from(WORKERS), credit=st.integers(0, 4))
    def join_worker(self, name: str, credit: int) -> None:
        if name not in self.held:
            self.held[name], self.asked[name], self.recalled[name] = {}, [], []
            features = ("chains",) if name in CHAINING else ()
            self.story.worker(name, credit=credit, features=features, code_tags=CODE[name])

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(), count=st.integers(1, 6), retries=st.integers(0, 1), depth=st.integers(0, 1), code_tag=code_tags
    )
    def submit(self, data: st.DataObject, count: int, retries: int, depth: int, code_tag: str) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        tasks = self._fresh(client, count)
        self.story.submit(client, tasks, retries=retries, depth=depth, code_tag=code_tag)

    @precondition(lambda self: self.clients and self.unfinished)
    @rule(data=st.data(), count=st.integers(1, 4))
    def submit_children(self, data: st.DataObject, count: int) -> None:
        """A client may claim that any task is the parent, also one that has ended."""
        client = data.draw(st.sampled_from(sorted(self.clients)))
        parent = data.draw(st.sampled_from([f"t{number:05}" for number in range(self.number)]))
        is_there = ids([parent]) in self.story.core.tables.where or parent in self.canceling
        tasks = self._fresh(client, count)
        self.parents.update(dict.fromkeys(tasks, parent if is_there and parent in self.begun else ""))
        self.story.submit(client, tasks, depth=1, parent_task=TaskId(ids([parent])))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), count=st.integers(1, 5), code_tag=code_tags)
    def submit_graph(self, data: st.DataObject, count: int, code_tag: str) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        tasks = self._fresh(client, count)
        graph = {
            name: data.draw(st.lists(st.sampled_from(tasks[:index]), unique=True)) if index else []
            for index, name in enumerate(tasks)
        }
        self.story.submit_graph(client, graph, header=replace(GRAPH, code_tag=code_tag))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), status=st.sampled_from([STATUS_SUCCESS, STATUS_SUCCESS, STATUS_FAILED]))
    def end_some(self, data: st.DataObject, status: int) -> None:
        able = {worker: [task for task in tasks if not self.awaits[task]] for worker, tasks in self.held.items()}
        worker = data.draw(st.sampled_from(sorted(self.held)))
        if able[worker]:
            self._end(worker, data.draw(st.sampled_from(sorted(able[worker]))), status)

    def _end(self, worker: str, task: str, status: int) -> None:
        if status == STATUS_SUCCESS:
            for other in self.held[worker]:
                self.awaits[other].discard(task)
        self.story.results(worker, [task], status=status, attempt=self.held[worker].pop(task))

    @rule(worker=st.sampled_from(CHAINING))
    def give_back_untimely(self, worker: str) -> None:
        """What awaits something that is not here any more (WRK-24): now, or much later than that has ended."""
        while back := [task for task in self.held.get(worker, ()) if self.awaits[task] - self.held[worker].keys()]:
            for task in back:
                del self.held[worker][task]
            self.story.give_back(worker, back)

    @rule(worker=st.sampled_from(WORKERS))
    def answer_cancels(self, worker: str) -> None:
        for task in self.asked.get(worker, []):
            if task in self.held[worker]:
                self.story.canceled(worker, [task], attempt=self.held[worker].pop(task))
            else:
                self.story.receive(worker, CancelReply(task.encode().ljust(16, b"."), bytes([CANCEL_UNKNOWN])))
        self.asked[worker] = []

    @rule(worker=st.sampled_from(WORKERS))
    def answer_recalls(self, worker: str) -> None:
        if self.recalled.get(worker):
            back = [task for task in self.recalled[worker] if self.held[worker].pop(task, None)]
            self.story.give_back(worker, back)
            self.recalled[worker] = []

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.unfinished)))
        self.canceled.add(task)
        self.story.cancel(self.unfinished[task], [task])

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data())
    def cancel_many(self, data: st.DataObject) -> None:
        """In any order, and some twice."""
        client = data.draw(st.sampled_from(sorted(set(self.unfinished.values()))))
        own = sorted(task for task, owner in self.unfinished.items() if owner == client)
        tasks = data.draw(st.lists(st.sampled_from(own), max_size=8))
        self.canceled.update(tasks)
        self.story.cancel(client, tasks)

    @rule(client=st.sampled_from(CLIENTS))
    def cancel_all(self, client: str) -> None:
        if client in self.clients:
            self.canceled.update(task for task, owner in self.unfinished.items() if owner == client)
            self.story.receive(client, Cancel(is_all=True))

    @rule(worker=st.sampled_from(WORKERS), is_orderly=st.booleans())
    def lose_worker(self, worker: str, is_orderly: bool) -> None:
        if worker in self.held:
            self.story.lost(worker, is_orderly=is_orderly)
            del self.held[worker], self.asked[worker], self.recalled[worker]

    @rule(client=st.sampled_from(CLIENTS))
    def lose_client(self, client: str) -> None:
        if client in self.clients:
            self.clients.discard(client)
            self.story.lost(client)
            self.unfinished = {task: owner for task, owner in self.unfinished.items() if owner != client}

    @rule(seconds=st.sampled_from([0.0, 0.4, 1.1]))
    def settle(self, seconds: float) -> None:
        self.story.now += seconds
        sent = self.story.actions()
        self.note_what_is_being_canceled()
        for action in sent:
            if isinstance(action, Send):
                self._deliver(action.peer_id, action.message)

    @invariant()
    def note_what_is_being_canceled(self) -> None:
        self.canceling.update(names(b"".join(self.story.core.tables.canceling)))

    def _ancestors(self, name: str) -> Iterator[str]:
        while name := self.parents.get(name, ""):
            yield name

    @invariant()
    def every_unfinished_task_is_in_the_tables(self) -> None:
        tables = self.story.core.tables
        present = {task for task in tables.where if not tables.chunk_of(task).client.is_gone}
        assert {names(task)[0] for task in present} <= set(self.unfinished)

    def teardown(self) -> None:
        """Whatever happened, it ends: workers that go on working finish everything, then nothing is left."""
        self.join_worker("w0", 4)
        for _ in range(200):
            self.settle(1.1)
            self._work_off()
            for worker in self.held:
                self.story.receive(worker, Credit(limit=4))
            for worker in list(self.held):
                self.answer_cancels(worker)
                self.answer_recalls(worker)
                self.give_back_untimely(worker)
                for task in list(self.held[worker]):
                    assert not self.awaits[task], "what it awaits was dispatched before it, and has ended"
                    self._end(worker, task, STATUS_SUCCESS)
            if not self.unfinished and not any(self.held.values()):
                break
        assert not self.unfinished, f"these tasks never ended: {sorted(self.unfinished)}"
        for name in list(self.clients):
            self.lose_client(name)
        for name in list(self.held):
            self.lose_worker(name, True)
        self._work_off()
        assert self.story.is_empty()

    def _work_off(self) -> None:
        """In slices of one step each."""
        self.settle(0)
        for _ in range(5_000):
            if not self.story.core.tables.backlog:
                return
            self.settle(0)
        raise AssertionError("work is left over that never ends")

    def _fresh(self, client: str, count: int) -> list[str]:
        tasks = [f"t{self.number + index:05}" for index in range(count)]
        self.number += count
        self.unfinished.update(dict.fromkeys(tasks, client))
        return tasks

    def _deliver(self, peer_id: PeerId, message: object) -> None:
        name = peer_id.rstrip(b".").decode()
        assert peer(name) == peer_id
        if isinstance(message, Dispatch):
            tasks = names(message.ids)
            attempts = split_u16(message.attempts) or (1,) * len(tasks)
            assert not self.held[name].keys() & set(tasks), "a worker was given a task that it holds"
            assert not self.canceled & set(tasks), "a task was given to a worker after it was canceled (CAN-11)"
            self.begun.update(tasks)
            above = {ancestor for name_of_task in tasks for ancestor in self._ancestors(name_of_task)}
            assert not self.canceling & above, "a task was given to a worker after its ancestor was canceled (CAN-13)"
            assert not set(tasks) - self.unfinished.keys(), "a task of a client that has gone was given to a worker"
            self.held[name].update(zip(tasks, attempts, strict=True))
            awaited = iter(names(message.awaited))
            for task, count in zip(tasks, split_u16(message.awaited_counts) or (0,) * len(tasks), strict=True):
                self.awaits[task] = {next(awaited) for _ in range(count)}
                assert not count or name in CHAINING, "a task went ahead to a worker that does not know of such"
        elif isinstance(message, Recall):
            self.recalled[name] += names(message.ids)
        elif isinstance(message, Cancel):
            self.asked[name] += names(message.ids)
        elif isinstance(message, Results):
            for row in rows(message):
                assert self.unfinished.pop(names(row.task_id)[0]) == name, "a result came twice, or to the wrong client"
        elif isinstance(message, CancelReply):
            counts = Counter(TaskId(task_id) for task_id in split_ids(message.ids))
            assert max(counts.values(), default=1) == 1, "one cancel was answered twice in one reply"
            assert all(outcome in range(CANCEL_CANCELED, CANCEL_UNKNOWN + 1) for outcome in message.outcomes)


AnyOrder.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyOrder = AnyOrder.TestCase


class AnyOrderInSlices(AnyOrder):
    """What is done for very many tasks is spread over many turns: here for each one."""

    def __init__(self) -> None:
        super().__init__()
        backlog = self.story.core.tables.backlog
        backlog.turn_steps = backlog.slice_tasks = backlog.units_at_once = 1
        self.story.settle()


AnyOrderInSlices.TestCase.settings = AnyOrder.TestCase.settings
TestAnyOrderInSlices = AnyOrderInSlices.TestCase
