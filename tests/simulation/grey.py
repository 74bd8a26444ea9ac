"""Grey failures: workers, processors, tasks and peers that live and do not do their part.

While one worker works, every task ends. So in each of these worlds one worker is well, and all tasks but those without
an end come to their end within a bound, whatever the others do: their processors never become ready, they fail to
start always or a few times, or hang between two tasks or in the middle of one that has a timeout; the storage does not
answer them, for a while or for ever; tasks without an end have their places, and a flood of short tasks sees to it that
no worker is ever idle.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.codes import STATUS_TIMED_OUT
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import PeerId
from scaler_worker.core import events
from tests.simulation import program
from tests.simulation.clients import Call, ClientNode
from tests.simulation.servers import StorageNode
from tests.simulation.workers import Processor, WorkerNode
from tests.simulation.world import Report, World

WORK_SECONDS = 5.0
"""In which all work is submitted."""
BOUND_SECONDS = 90.0
"""After which all of it has ended. A worker that does not work may hold a task for some seconds, rest for ten, and be
given another one."""
FLOOD_TASKS = 16
ENDLESS_MILLISECONDS = 10**9

NEVER = "never ready"
FAILS = "fails to start"
FAILS_FIRST = "fails to start at first"
HANGS = "so many tasks without an end as it has places are submitted"
BETWEEN = "its processors hang between two tasks now and then"
MIDDLE = "its processors hang in the middle of tasks with a timeout"
SILENT = "the storage does not answer it"
SILENT_FIRST = "the storage does not answer it for a while"
WELL = "well"
KINDS = (NEVER, FAILS, FAILS_FIRST, HANGS, HANGS, BETWEEN, BETWEEN, MIDDLE, MIDDLE, SILENT, SILENT_FIRST, WELL)
FIRST_FAILURES = 4
HANG_CHANCE = 0.3
SILENT_SECONDS = 30.0
TASK_TIMEOUT_SECONDS = 2.0


class GreyProcessor(Processor):
    """It hangs in its worker's way, and then takes nothing in any more: no interrupt, and no reclaim."""

    def __init__(self, worker: GreyWorker, number: int) -> None:
        super().__init__(worker, number)
        self._kind, self._grey = worker.kind, worker
        self._is_stuck = self._has_run = False
        #: the last task that was begun, and when, as in the memory that a processor shares with its shell
        self.begun = (0, 0.0)

    def _begin(self) -> None:
        if self._kind == BETWEEN and self._has_run and self._grey.world.rng.random() < HANG_CHANCE:
            self._is_stuck = True
            self._grey.world.stuck_count += 1
        if self._is_stuck:
            return
        super()._begin()
        if self.slice:
            self.begun, self._has_run = (self.slice[0].number, self._grey.world.clock.now), True

    def _work(self, task: Task, call: bytes, inputs: tuple[bytes, ...], seconds: float) -> None:
        if self._kind == MIDDLE and task.header.timeout_seconds and self._grey.world.rng.random() < HANG_CHANCE:
            self._is_stuck = True
            self._grey.world.hung.add(call)
            return
        super()._work(task, call, inputs, seconds)

    def interrupt(self, number: int) -> None:
        if not self._is_stuck:
            super().interrupt(number)

    def reclaim(self, serial: int) -> None:
        if not self._is_stuck:
            super().reclaim(serial)


class GreyStorage(StorageNode):
    def is_silent_to(self, peer_id: PeerId) -> bool:
        grey = [worker for worker in self.world.workers if isinstance(worker, GreyWorker)]
        return any(worker.is_unanswered and worker.storage_id == peer_id for worker in grey)


class TimedClient(ClientNode):
    """Its tasks have a timeout, and are done in no time unless they hang."""

    def __init__(self, world: GreyWorld, name: str) -> None:
        super().__init__(world, name)
        self._header = replace(self._header, timeout_seconds=TASK_TIMEOUT_SECONDS)

    def _ended(self, call: Call, status: int, kind: int, value: bytes | bytearray | memoryview) -> None:
        assert isinstance(self.world, GreyWorld)
        if status == STATUS_TIMED_OUT and call.line in self.world.hung:
            call.status = status
            return
        super()._ended(call, status, kind, value)


class GreyWorker(WorkerNode):
    """A worker whose processors do not start, each in its way; or one that is well."""

    world: GreyWorld
    kind = WELL
    failures = 0

    @property
    def storage_id(self) -> PeerId:
        return self._storage.dialer.hello.peer_id

    @property
    def is_unanswered(self) -> bool:
        return self.kind == SILENT or (self.kind == SILENT_FIRST and self.world.clock.now < SILENT_SECONDS)

    def round(self, now: float) -> None:
        for processor in list(self._processors.values()):
            if isinstance(processor, GreyProcessor):
                self._perform(self.core.handle(events.BegunSeen(processor.number, *processor.begun), now))
        super().round(now)

    def _processor(self, number: int) -> Processor:
        return GreyProcessor(self, number)

    def _start_processor(self, number: int) -> None:
        self.failures += 1
        is_failing = self.kind == FAILS or (self.kind == FAILS_FIRST and self.failures <= FIRST_FAILURES)
        if self.kind == NEVER:
            self._processors[number] = Processor(self, number)
        elif is_failing:
            processor = self._processors[number] = Processor(self, number)
            self.world.clock.after(0.01, lambda: self.processor_exits(processor, 1) if processor.is_alive else None)
        else:
            super()._start_processor(number)


class GreyWorld(World):
    """No message is lost and nothing crashes: what fails does so while it lives."""

    kinds: tuple[str, ...] = KINDS  #: of the grey workers

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for node in (*self.workers, *self.clients):
            node.crash()
        self.hung: set[bytes] = set()  #: calls in whose middle a processor hangs
        self.stuck_count = 0  #: processors that hang between two tasks
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01))
        self.workers = [self._worker("well", WELL)]
        for number in range(self.rng.randint(1, 3)):
            self.workers.append(self._worker(f"grey{number}", self.rng.choice(self.kinds)))
        self.clients = [ClientNode(self, f"client{number}") for number in range(self.rng.randint(1, 3))]
        self._timed = TimedClient(self, "timed")
        self._flood = ClientNode(self, "flood")
        self._hangs = ClientNode(self, "hangs")

    def _new_storage(self) -> StorageNode:
        return GreyStorage(self)

    def _worker(self, name: str, kind: str) -> GreyWorker:
        worker = GreyWorker(self, name, places=self.rng.randint(1, 2), queue_sizes=(5, 1000))
        worker.kind = kind
        if kind != WELL:
            self._trouble(f"{name}: {kind}")
        return worker

    # ------------------------------------------------------------ work

    def run(self) -> Report:
        """Checks the law, and ends there: tasks without an end are none that a client could wait for."""
        self.clock.at(0.0, self._go_on_flooding)
        for worker in self.workers:
            for _ in range(worker.places if isinstance(worker, GreyWorker) and worker.kind == HANGS else 0):
                self.clock.at(self.rng.uniform(0.5, WORK_SECONDS), self._hang)
        for client in self.clients:
            for _ in range(self.rng.randint(2, 5)):
                self.clock.at(self.rng.uniform(0.2, WORK_SECONDS), lambda client=client: self._grey_work(client))
        for _ in range(self.rng.randint(5, 10)):
            self.clock.at(self.rng.uniform(0.2, WORK_SECONDS), self._timed_work)
        if self.rng.random() < 0.3:
            self._trouble("the client of the flood reads nothing")
            self.clock.at(1.0, lambda: self._flood.stop_for(BOUND_SECONDS))
        self._run_until(lambda: False, WORK_SECONDS)
        self._run_until(lambda: not self._left(), BOUND_SECONDS - WORK_SECONDS)
        self.law(
            not self._left(), f"a worker works, and after {BOUND_SECONDS:g} s these have not ended: {self._left()}"
        )
        return Report(self.seed, self._messages, self._names, self.clock.now, tuple(self._troubles))

    def _grey_work(self, client: ClientNode) -> None:
        what = self.rng.random()
        if what < 0.4:
            client.submit([self.rng.choice(("echo", "slow", "nest")) for _ in range(self.rng.choice((1, 5, 20)))])
        elif what < 0.6:
            client.submit_graph(self.rng.choice((2, 7, 15)), is_quick=True)
        else:
            shape = self.rng.choice(((1,), (2, 2), (3, 1), (2, 2, 2)))
            client.submit_lines([program.tree(self.new_name(), shape, "echo", one_by_one=self.rng.random() < 0.5)])

    def _timed_work(self) -> None:
        self._timed.submit(["echo"] * self.rng.choice((5, 20)))

    def _go_on_flooding(self) -> None:
        """Always more tasks than the workers have places for, so that none that works is idle."""
        if self._flood.core.pending_count < FLOOD_TASKS:
            self._flood.submit_lines([program.lasting(self.new_name(), 100) for _ in range(FLOOD_TASKS)])
        self.clock.after(0.2, self._go_on_flooding)

    def _hang(self) -> None:
        self._hangs.submit_lines([program.lasting(self.new_name(), ENDLESS_MILLISECONDS)])

    def _left(self) -> list[str]:
        """Clients with unfinished work; those inside tasks end with these."""
        return [
            f"{client.name} ({client.core.pending_count} tasks)"
            for client in (*self.clients, self._timed)
            if _has_work(client)
        ]


def _has_work(client: ClientNode) -> bool:
    return "." not in client.name and client.core.pending_count > 0
