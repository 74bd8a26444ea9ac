"""A worker of a simulated cluster: the real agent core over processors that only pretend to work."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from scaler_protocol.codec import encode_task_error
from scaler_protocol.codes import (
    BAD_ENVELOPE,
    KIND_INLINE,
    KIND_OBJECT,
    KIND_TASK,
    OK,
    ROLE_WORKER,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STORAGE_UNREACHABLE,
    TASK_RAISED,
)
from scaler_protocol.holding.presenting import FEATURE
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, PeerId, TaskId, result_object_id
from scaler_protocol.messages import (
    Capability,
    Get,
    Hello,
    Message,
    ObjectReply,
    ProcessorStatus,
    Put,
    TaskError,
    Value,
    WorkerOffer,
    WorkerStatus,
)
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected
from scaler_worker.core import actions, events, invariants
from scaler_worker.core.agent import AgentCore
from scaler_worker.core.tables import Settings
from tests.simulation import program
from tests.simulation.clients import ClientNode
from tests.simulation.nodes import TIMERS, Node, Port, earliest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

OBJECT_SECONDS = 5.0
SILENCE_SECONDS = 10.0
"""More than a request takes in the worst of weathers, and less than the longest parting."""
NESTED_KINDS = ("echo", "slow", "large", "nest", "fail")


class Processor:
    """Runs its slice in order. `run` counts what it has begun, so that a late callback of an earlier task is known."""

    def __init__(self, worker: WorkerNode, number: int) -> None:
        self._worker = worker
        self._world = worker.world
        self.number = number
        self.slice: deque[Task] = deque()
        #: by number of the task, as it was handed over
        self._awaited: dict[int, frozenset[TaskId]] = {}
        #: what its tasks have returned: as much as tasks that run behind them here may take
        self._returned: dict[TaskId, tuple[int, bytes]] = {}
        self.is_alive = True
        self.is_blocked = False
        self._run = 0
        self._nested: ClientNode | None = None
        #: calls that a tree still has to submit, when it does so one by one
        self._later_children: list[bytes] = []
        self._begun_at = 0.0

    def hand_over(self, tasks: tuple[Task, ...]) -> None:
        was_idle = not self.slice
        self.slice.extend(tasks)
        self._awaited.update({task.number: frozenset(task.awaits or ()) for task in tasks})
        if was_idle:
            self._begin()

    def _begin(self) -> None:
        self._run += 1
        while self.slice and not self._returned.keys() >= self._awaited[self.slice[0].number]:
            self.slice.popleft()  # what it awaited did not succeed: passed over
        if self.slice:
            self._world.note_begin(_call_of(self.slice[0]))
            self._begun_at = self._world.clock.now
            self._later_children = []
            self._gather(self.slice[0], [])

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        """Unless the task has ended by then."""
        run = self._run
        self._world.clock.after(seconds, lambda: do() if self.is_alive and self._run == run else None)

    def _gather(self, task: Task, values: list[bytes]) -> None:
        """The parts of the call, one after another; objects come from the storage."""
        parts = ((KIND_INLINE, task.parts),) if isinstance(task.parts, bytes) else task.parts
        if len(values) < len(parts):
            kind, part = parts[len(values)]
            if kind == KIND_TASK:
                kind, part = self._returned[TaskId(part)]
            if kind == KIND_OBJECT:
                self._fetch(task, values, ObjectId(part))
            else:
                self._gather(task, [*values, part])
            return
        call, inputs = values[0], tuple(values[1:])
        seconds = program.seconds(self._world.rng, call)
        self._later(seconds, lambda: self._work(task, call, inputs, seconds))

    def _fetch(self, task: Task, values: list[bytes], object_id: ObjectId) -> None:
        run = self._run

        def got(value: bytes | None, code: int) -> None:
            if not self.is_alive or self._run != run:
                return
            if value is not None:
                self._gather(task, [*values, value])
            elif code == STORAGE_UNREACHABLE:
                self._fail("the storage is silent", code, STATUS_REFUSED)
            else:
                self._fail("an input is not in the storage")

        self._worker.fetch(object_id, got)

    def _work(self, task: Task, call: bytes, inputs: tuple[bytes, ...], seconds: float) -> None:
        kind = program.kind_of(call)
        if kind == "fail":
            self._fail("it was told to fail")
        elif kind == "crash" or (kind == "crashonce" and self._world.runs[call] == 1):
            self._worker.processor_exits(self, 3)
        elif kind == "nest" and program.argument_of(call):
            kinds = [self._world.rng.choice(NESTED_KINDS) for _ in range(program.argument_of(call))]
            self._nest(task, lambda nested: nested.submit(kinds))
        elif kind == "tree":
            names = [self._world.new_name() for _ in range(program.argument_of(call))]
            self._later_children = program.subtrees(call, names)
            self._nest_on(task)
        elif kind == "meet":
            self._meet(call)
        else:
            self._return(task, program.value(call, inputs), seconds)

    def _return(self, task: Task, value: bytes, seconds: float) -> None:
        if len(value) <= program.LARGE:
            self._end(STATUS_SUCCESS, KIND_INLINE, value, seconds)
            return
        object_id = result_object_id(task.id, task.attempt, task.header.result_salt, task.header.client)
        run = self._run

        def stored(code: int) -> None:
            if self.is_alive and self._run == run:
                if not code:
                    self._end(STATUS_SUCCESS, KIND_OBJECT, object_id, seconds)
                else:
                    self._fail("the storage does not take it", code if code == STORAGE_UNREACHABLE else TASK_RAISED)

        self._worker.store(object_id, task.header.client, value, stored)

    def _fail(self, text: str, code: int = TASK_RAISED, status: int = STATUS_FAILED) -> None:
        self._end(status, KIND_INLINE, encode_task_error(TaskError(code=code, message=text)), 0.001)

    def _end(self, status: int, kind: int, value: bytes, seconds: float) -> None:
        task = self.slice.popleft()
        self.is_blocked = False
        if status == STATUS_SUCCESS:
            self._world.succeeded.add(_call_of(task))
            self._returned[task.id] = (kind, value)
        end = (task.number, status, kind, seconds, value, b"")
        self._begin()
        self._worker.happen(events.TasksEnded(self.number, [end]))

    # ------------------------------------------------------------ children

    def _nest(self, task: Task, submit: Callable[[ClientNode], object]) -> None:
        """Submit children, lend the place while they run, and ask for it back."""
        nested = self._nested = ClientNode(
            self._world,
            f"{self._worker.name}.{self.number}.{self._run}",
            depth=task.header.depth + 1,
            parent=task.id,
            on_done=lambda: self._want_resume(nested),
        )
        self._world.clients.append(nested)
        submit(nested)

        def block() -> None:
            if all(call.status is not None for call in nested.calls.values()):
                self._go_on()
            else:
                self._block()

        # The children and the word that their parent waits take different ways: either may be there first.
        self._later(self._world.rng.uniform(0, 0.003), block)

    def _block(self) -> None:
        self.is_blocked = True
        self.slice = deque([self.slice[0]])
        self._worker.happen(events.TaskBlocked(self.number, self.slice[0].number))

    def _want_resume(self, nested: ClientNode) -> None:
        if self.is_alive and self.is_blocked and self._nested is nested:
            self._worker.happen(events.ResumeWanted(self.number))

    def _meet(self, call: bytes) -> None:
        """Wait for others that wait for this one: none of them has children."""
        run = self._run

        def met() -> None:
            if self.is_alive and self._run == run and self.is_blocked:
                self._worker.happen(events.ResumeWanted(self.number))

        self._block()
        self._world.meet(call, met)

    def _nest_on(self, task: Task) -> None:
        """The next child, or all of them."""
        count = 1 if program.is_ordered(_call_of(task)) else len(self._later_children)
        lines, self._later_children = self._later_children[:count], self._later_children[count:]
        self._nest(task, lambda nested: nested.submit_lines(lines, capabilities=task.header.capabilities))

    def resume(self) -> None:
        """The place is granted: take up where it blocked."""
        if not self.is_blocked or not self.slice:
            return
        self.is_blocked = False
        self._go_on()

    def _go_on(self) -> None:
        self._drop_nested(is_orderly=True)
        task, call = self.slice[0], _call_of(self.slice[0])
        if self._later_children:
            self._nest_on(task)
        else:
            seconds = self._world.clock.now - self._begun_at
            self._later(0.001, lambda: self._return(task, program.value(call), seconds))

    def _drop_nested(self, *, is_orderly: bool) -> None:
        if self._nested is not None:
            self._nested.leave() if is_orderly else self._nested.crash()
            self._nested = None

    # ------------------------------------------------------------ being stopped

    def interrupt(self, number: int) -> None:
        if not self.slice or self.slice[0].number != number:
            return
        if program.kind_of(_call_of(self.slice[0])) != "stubborn":
            self._drop_nested(is_orderly=True)
            self._end(events.INTERRUPTED, KIND_INLINE, b"", 0.001)

    def reclaim(self, serial: int) -> None:
        running = self.slice[0].number if self.slice else 0
        self.slice = deque(list(self.slice)[:1])
        self._worker.happen(events.GaveBack(self.number, serial, running))

    def die(self) -> None:
        self.is_alive = False
        self._drop_nested(is_orderly=False)


def _call_of(task: Task) -> bytes:
    return task.parts if isinstance(task.parts, bytes) else task.parts[0][1]


class WorkerNode(Node):
    #: the manager that has started it, and its unit there
    unit = (PeerId(b""), "")

    def __init__(
        self, world: World, name: str, *, places: int, queue_sizes: tuple[int, ...] = (1, 5, 1000), gpus: int = 0
    ) -> None:
        super().__init__(world, name)
        self.places = places
        self._queue_sizes = queue_sizes
        self._capabilities = (Capability("gpu", gpus),) if gpus else ()
        self.start()

    def start(self) -> None:
        """A new life, under a new id."""
        self.is_up = True
        world = self.world
        self.core = AgentCore(
            Settings(
                worker_name=self.name,
                encode_error=encode_task_error,
                queue_size=world.rng.choice(self._queue_sizes),
                max_processors=world.max_processors,
                places=self.places,
            )
        )
        peer_id = PeerId(world.rng.randbytes(16))
        manager_id, unit_id = self.unit
        offer = WorkerOffer(
            name=self.name,
            credit=self.core.credit(world.clock.now).limit,
            nested_reserve=1,
            capabilities=self._capabilities,
            manager_id=manager_id,
            unit_id=unit_id,
        )
        #: workers of an earlier version do not know it
        features = world.some(("chains",), 0.75, world.rng)
        features += world.some((FEATURE,), 0.75, world.present_rng)
        hello = Hello(1, 1, ROLE_WORKER, peer_id, timers=TIMERS, worker=offer, features=features)
        self._scheduler = Port(self, world.schedulers, hello, "scheduler")
        hello = Hello(1, 1, ROLE_WORKER, PeerId(world.rng.randbytes(16)), timers=TIMERS)
        self._storage = Port(self, world.storage, hello, "object storage server", is_renamed=True)
        self._processors: dict[int, Processor] = {}
        self._events: list[events.Event] = [events.Started()]
        self._requests: dict[int, tuple[Message, Callable[[ObjectReply | Value], None]]] = {}
        self._request_id = 0
        self._awaits_acknowledgement = False
        self.wake()

    def come_back(self) -> None:
        """After a crash, or when it has drained."""
        if not self.is_up:
            self.start()

    # ------------------------------------------------------------ for its processors

    def happen(self, event: events.Event) -> None:
        self._events.append(event)
        self.wake()

    def fetch(self, object_id: ObjectId, then: Callable[[bytes | None, int], None]) -> None:
        """`then` gets the value, or None and why not."""
        self._request_id += 1
        get = Get(self._request_id, object_id, wait_seconds=OBJECT_SECONDS)

        def answered(answer: ObjectReply | Value) -> None:
            if isinstance(answer, Value):
                then(bytes(answer.payload), OK)
            else:
                then(None, answer.code)

        self._ask(get, answered)

    def store(self, object_id: ObjectId, owner: PeerId, value: bytes, then: Callable[[int], None]) -> None:
        """`then` gets the code of the answer."""
        self._request_id += 1
        put = Put(self._request_id, object_id, owner, len(value), 0, value)
        self._ask(put, lambda answer: then(answer.code if isinstance(answer, ObjectReply) else BAD_ENVELOPE))

    def _ask(self, request: Get | Put, then: Callable[[ObjectReply | Value], None]) -> None:
        requests = self._requests  # of this life: another one counts from the beginning again
        requests[request.request_id] = (request, then)
        self.world.clock.after(SILENCE_SECONDS, lambda: self._give_up(requests.pop(request.request_id, None)))
        self._storage.send(request)
        self.wake()

    def _give_up(self, unanswered: tuple[Message, Callable[[ObjectReply | Value], None]] | None) -> None:
        """The storage has been silent for too long (WRK-27)."""
        if unanswered is not None and self.is_up:
            self.world.note_event(self.name, "does not reach the storage")
            unanswered[1](ObjectReply(0, code=STORAGE_UNREACHABLE))

    def processor_exits(self, processor: Processor, exit_code: int) -> None:
        processor.die()
        self._processors.pop(processor.number, None)
        self.happen(events.ProcessorExited(processor.number, exit_code))

    # ------------------------------------------------------------ the shell

    def round(self, now: float) -> None:
        for stored in self._storage.poll(now):
            self._on_storage(stored)
        for event in self._scheduler.poll(now):
            if isinstance(event, Complained):
                self.world.fail(f"the scheduler complains to {self.name}: {event.text} ({event.clause})")
            elif isinstance(event, Rejected):
                self._scheduler.dialer.redial()
            else:
                self._perform(self.core.handle(event, now))
                if isinstance(event, Lost):
                    self._scheduler.dialer.redial()
        if self._awaits_acknowledgement and not any(self._scheduler.dialer.unacknowledged):
            self._awaits_acknowledgement = False
            self._events.append(events.Acknowledged())
        incoming, self._events = self._events, []
        for local in incoming:
            self._perform(self.core.handle(local, now))
        self._perform(self.core.handle(events.RoundEnded(), now))
        if not self.is_up:  # it has drained, and said its goodbye
            return
        self._scheduler.settle(now)
        self._storage.settle(now)

    def _perform(self, todo: list[actions.Action]) -> None:
        for action in todo:
            if isinstance(action, actions.Send):
                self._scheduler.send(action.message)
            elif isinstance(action, actions.StartProcessor):
                self._start_processor(action.processor)
            elif isinstance(action, actions.Finish):
                self.world.law(not action.is_failure, f"{self.name} gave up: {action.text}")
                self._finish()
            elif isinstance(action, actions.TellStatus):
                self._scheduler.send(self._status())
            elif isinstance(action, actions.AwaitAcknowledgement):
                self._awaits_acknowledgement = True
                self._scheduler.dialer.ping(self.world.clock.now)
            elif isinstance(action, actions.Remember):
                dialer = self._scheduler.dialer
                dialer.hello = replace(dialer.hello, generation=action.generation)
            elif not isinstance(action, actions.Log):
                self._tell_processor(action)

    def _tell_processor(self, action: actions.Action) -> None:
        others = (
            actions.Send, actions.Log, actions.TellStatus, actions.Remember, actions.AwaitAcknowledgement,
            actions.Finish,
        )  # fmt: skip
        assert not isinstance(action, others), "not for a processor"
        processor = self._processors.get(action.processor)
        if processor is None:
            return  # it has just died, and the core will hear of it
        if isinstance(action, actions.HandOver):
            processor.hand_over(action.tasks)
        elif isinstance(action, actions.Resume):
            processor.resume()
        elif isinstance(action, actions.Interrupt):
            processor.interrupt(action.number)
        elif isinstance(action, actions.Reclaim):
            processor.reclaim(action.serial)
        elif isinstance(action, actions.KillProcessor):
            self.processor_exits(processor, -9)
        elif isinstance(action, actions.StopProcessor):
            self.processor_exits(processor, 0)

    def _status(self) -> WorkerStatus:
        processors = self.core.tables.processors.values()
        states = [
            ProcessorStatus(state=int(one.state), task_id=one.slice[0].id) for one in processors if one.is_waiting
        ]
        return WorkerStatus(blocked_count=len(states), processors=tuple(states))

    def _processor(self, number: int) -> Processor:
        return Processor(self, number)

    def _start_processor(self, number: int) -> None:
        processor = self._processors[number] = self._processor(number)

        def ready() -> None:
            if processor.is_alive:
                self.happen(events.ProcessorReady(number, 1000 + number))

        self.world.clock.after(self.world.rng.uniform(0.001, 0.02), ready)

    def _on_storage(self, event: object) -> None:
        if isinstance(event, Opened):
            for request, _ in self._requests.values():
                self._storage.send(request)
        elif isinstance(event, (Lost, Rejected)):
            self._storage.redial(event)
        elif isinstance(event, Received) and isinstance(event.message, (Value, ObjectReply)):
            found = self._requests.pop(event.message.request_id, None)
            if found is not None:
                found[1](event.message)

    def drain(self, grace_seconds: float = 2.0) -> None:
        self.happen(events.DrainRequested(grace_seconds))

    def _finish(self) -> None:
        self._scheduler.dialer.bye(0, "")
        self._scheduler.settle(self.world.clock.now)
        self.crash()

    def next_deadline(self) -> float | None:
        return earliest(
            self._scheduler.dialer.next_deadline(), self._storage.dialer.next_deadline(), self.core.next_deadline()
        )

    def check(self) -> None:
        invariants.check(self.core)

    def crash(self) -> None:
        super().crash()
        for processor in list(self._processors.values()):
            processor.die()
        self._scheduler.close()
        self._storage.close()
