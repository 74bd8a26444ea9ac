"""A client of a simulated cluster: the real core, a small program, and a collector that checks every ending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from scaler.client.core import actions, events
from scaler.client.core.core import ClientCore
from scaler.client.core.cutting import narrowed
from scaler.client.core.invariants import check
from scaler.client.core.outbox import WINDOW_BYTES
from scaler.client.core.records import Outcomes, Submission, stored_results
from scaler.client.errors import task_error_of
from scaler_protocol.codes import (
    KIND_OBJECT,
    KIND_TASK,
    OK,
    ROLE_CLIENT,
    STATUS_CANCELED,
    STATUS_PROCESSOR_DIED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import GraphId, ObjectId, PeerId, Salt, TaskId
from scaler_protocol.messages import (
    NO_GRAPH,
    Capability,
    Duplicate,
    Get,
    Hello,
    KeptResults,
    Message,
    ObjectReply,
    Release,
    Submit,
    TaskHeader,
    Value,
    Welcome,
)
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected
from scaler_protocol.session.handshake import remembering
from scaler_scheduler.core import FEATURE_PRESENT_HELD, Policy
from tests.simulation import program
from tests.simulation.memory import Memory
from tests.simulation.nodes import TIMERS, Node, Port, earliest
from tests.support.client_graphs import GraphNode, graph_of

if TYPE_CHECKING:
    from tests.simulation.world import World

TIMEOUT_SECONDS = 120.0


class Tries(NamedTuple):
    """How often tasks may be tried."""

    retries: int = 0
    lost_processors_limit: int = 0

    @property
    def of_crashes(self) -> int:
        """So many attempts does a task have that kills every processor (SCH-75, SCH-15)."""
        return (self.lost_processors_limit or Policy().lost_processors_limit) + self.retries


NO_TRIES = Tries()


class Call:
    """One task as its caller knows it."""

    def __init__(
        self, task_id: TaskId, line: bytes, depends_on: tuple[Call, ...], graph_id: GraphId, tries: Tries
    ) -> None:
        self.task_id = task_id
        self.line = line
        self.depends_on = depends_on
        self.graph_id = graph_id
        self.tries = tries
        self.status: int | None = None
        self.was_canceled = False
        #: all of its graph: what befalls one befalls every unfinished one
        self.graph: list[Call] = [self]

    def expected(self) -> bytes:
        return program.value(self.line, tuple(call.expected() for call in self.depends_on))

    def may_fail(self) -> bool:
        """One that crashes once is saved by a second attempt, unless a Cancel of it is under way by then. (SCH-75)"""
        is_saved = self.tries.of_crashes > 1 and not any(call.was_canceled for call in self.graph)
        kinds = ("fail", "crash") if is_saved else ("fail", "crash", "crashonce")
        return any(program.kind_of(call.line) in kinds for call in self.graph)


def _ids_of(calls: tuple[Call, ...]) -> tuple[TaskId, ...]:
    return tuple([call.task_id for call in calls])


class ClientNode(Node):
    """`on_done` is called each time nothing is pending any more."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        depth: int = 0,
        parent: TaskId = TaskId(b""),  # noqa: B008 (a constant)
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(world, name)
        self.core = ClientCore(timeout_seconds=TIMEOUT_SECONDS)
        self._header = TaskHeader(
            call_format=2, depth=depth, parent_task=parent, result_salt=Salt(world.rng.randbytes(16))
        )
        #: of the scheduler before, under a former name
        self._welcome: Welcome | None = None
        self._begin()
        hello = Hello(1, 1, ROLE_CLIENT, PeerId(world.rng.randbytes(16)), timers=TIMERS)
        self._storage = Port(self, world.storage, hello, "object storage server", is_renamed=True)
        #: results in the storage that are ours, and our former names until what they own has passed to us
        self._held: dict[ObjectId, None] = {}
        self._previous: list[PeerId] = []
        #: request -> object, while it is not known whether it is ours under our present name
        self._duplicates: dict[int, Duplicate] = {}
        self._memory = Memory(self)
        self._on_done = on_done
        self.calls: dict[TaskId, Call] = {}
        self._events: list[events.ProgramEvent] = []
        self._fetches: dict[int, tuple[Message, Callable[[bytes | None], None]]] = {}
        self._request_id = 0
        #: of tasks whose values are in the storage and were not fetched: if they are lost, they run again (CLI-8)
        self._finished: dict[TaskId, Submission] = {}
        #: how much may be unacknowledged
        self._window_bytes = world.limits_rng.choice((WINDOW_BYTES, 3_000))
        self._graph_count = 0
        self._is_leaving = False
        self.has_left = False
        self.wake()

    def _begin(self) -> None:
        """A life under a new name, as far as the scheduler is concerned (CLI-8)."""
        self.peer_id = PeerId(self.world.rng.randbytes(16))
        rng = self.world.rng
        #: clients of an earlier version do not know it
        features = self.world.some(("result-window",), 0.75, rng)
        features += self.world.some(("kept-results",), 0.75, self.world.limits_rng)
        features += self.world.some((FEATURE_PRESENT_HELD,), 0.75, self.world.present_rng)
        window = rng.choice(self.world.result_windows)
        hello = Hello(1, 1, ROLE_CLIENT, self.peer_id, timers=TIMERS, features=features, result_window_bytes=window)
        if self._welcome is not None:
            hello = remembering(hello, self._welcome)
        self._scheduler = Port(self, self.world.schedulers, hello, "scheduler")

    # ------------------------------------------------------------ the program

    def submit(self, kinds: list[str]) -> list[Call]:
        rng, depth = self.world.rng, self._header.depth
        lines = [program.line(rng, kind, self.world.new_name(), 3 - depth) for kind in kinds]
        return self.submit_lines(lines, tries=self._tries(rng.choice((0, 1, 1, 3))))

    def _tries(self, retries: int) -> Tries:
        return Tries(retries, self.world.limits_rng.choice((0, 0, 1, 2, 5)))

    def submit_lines(
        self, lines: list[bytes], *, tries: Tries = NO_TRIES, capabilities: tuple[Capability, ...] = ()
    ) -> list[Call]:
        calls = [self._call(line, tries=tries) for line in lines]
        self._add(
            Submission(
                header=replace(self._header, **tries._asdict(), capabilities=capabilities),
                function=program.FUNCTION,
                ids=tuple(call.task_id for call in calls),
                payload=b"".join(lines),
                part_sizes=tuple(map(len, lines)),
                collector=self,
            )
        )
        return calls

    def submit_graph(self, size: int, *, is_quick: bool) -> None:
        rng = self.world.rng
        shape = rng.choice(("any", "chain", "tree"))
        tries = self._tries(rng.choice((0, 2)))
        quick = ("quick",) * 30 + ("large", "fail", "crash", "crashonce")
        kinds = quick if is_quick else ("echo", "echo", "large", "slow", "fail", "crashonce")
        self.submit_graph_of(
            size, shape, lambda: program.line(rng, rng.choice(kinds), self.world.new_name(), 0), tries=tries
        )

    def submit_graph_of(self, size: int, shape: str, line: Callable[[], bytes], *, tries: Tries = NO_TRIES) -> None:
        rng = self.world.rng
        self._graph_count += 1
        # Every client counts from one, so clients have graphs of the same id: a graph belongs to its client (SCH-18).
        graph_id = GraphId(self._graph_count.to_bytes(16, "little"))
        calls: list[Call] = []
        for _ in range(size):
            others = self._others(shape, calls)
            calls.append(self._call(line(), tuple(others), graph_id, tries=tries))
        # A node that no other node takes is wanted: a graph ends when its wanted nodes have, and the client submits no
        # node that none of them needs.
        taken = {taken for call in calls for taken in call.depends_on}
        wanted = {*rng.sample(calls, size // 3), *(call for call in calls if call not in taken)}
        for call in calls:
            call.graph = calls
        for call in calls:
            if call not in wanted:
                del self.calls[call.task_id]
        self._memory.note_graph(calls)
        self.world.note_graph(calls, wanted)
        nodes = [GraphNode(self._node(call), tuple(_ids_of(call.depends_on)), call in wanted) for call in calls]
        self._add(graph_of(graph_id, nodes, batch_tasks=rng.randint(3, 20)))

    def _others(self, shape: str, calls: list[Call]) -> list[Call]:
        """What the next task of a graph depends on."""
        if shape == "chain":
            return calls[-1:]
        if shape == "tree":  # a sum in pairs: leaves and inner nodes by turns
            return calls[-2:] if len(calls) % 3 == 2 else []
        return self.world.rng.sample(calls, self.world.rng.randint(0, min(3, len(calls))))

    def cancel_some(self) -> None:
        pending = [call for call in self.calls.values() if call.status is None]
        if pending:
            chosen = self.world.rng.sample(pending, self.world.rng.randint(1, len(pending)))
            graphs = {call.graph_id for call in chosen if call.graph_id}
            for call in pending:  # a canceled task takes the rest of its graph along (CAN-6)
                call.was_canceled |= call in chosen or call.graph_id in graphs
            if self.world.rng.random() < 0.5:
                self._cancel(tuple(call.task_id for call in chosen))
                return
            after = 0.0  # one after another, as a program does in a loop: without a pause, or with one now and then
            for call in chosen:
                after += self.world.rng.choice((0.0, 0.0, 0.0, 0.01, 0.1))
                self.world.clock.after(after, lambda call=call: self._cancel((call.task_id,)))

    def _cancel(self, ids: tuple[TaskId, ...]) -> None:
        if self.is_up:
            self._add(events.CancelRequested(ids, grace_seconds=0.5))

    def leave(self) -> None:
        """When everything has ended."""
        self._is_leaving = True
        self.wake()

    def _call(
        self, line: bytes, depends_on: tuple[Call, ...] = (), graph_id: GraphId = NO_GRAPH, *, tries: Tries = NO_TRIES
    ) -> Call:
        call = Call(TaskId(self.world.rng.randbytes(16)), line, depends_on, graph_id, tries)
        self.calls[call.task_id] = call
        return call

    def _node(self, call: Call) -> Submission:
        others = _ids_of(call.depends_on)
        return Submission(
            header=TaskHeader(
                call_format=2,
                depth=self._header.depth,
                graph_id=call.graph_id,
                **call.tries._asdict(),
                result_salt=self._header.result_salt,
            ),
            function=program.function(call.line),
            ids=(call.task_id,),
            payload=call.line + b"".join(others),
            part_sizes=(len(call.line), *(16 for _ in others)),
            part_counts=(1 + len(others),),
            part_kinds=bytes([0, *(KIND_TASK for _ in others)]),
            collector=self,
        )

    def _add(self, event: events.ProgramEvent) -> None:
        self._events.append(event)
        self.wake()

    # ------------------------------------------------------------ endings

    def complete(self, outcomes: Outcomes) -> None:
        offset = 0
        kinds, statuses = outcomes.kinds or bytes(len(outcomes.ids)), outcomes.statuses or bytes(len(outcomes.ids))
        for index, task_id in enumerate(outcomes.ids):
            size = outcomes.sizes[index]
            if statuses[index] not in (STATUS_SUCCESS, STATUS_CANCELED):
                payload = outcomes.payload[offset : offset + size]
                error = task_error_of(outcomes._replace(statuses=statuses[index : index + 1], payload=payload))
                self.world.law(error.code != OK, f"{task_id.hex()} ended with status {statuses[index]} and code 0")
            self._ended(self.calls[task_id], statuses[index], kinds[index], outcomes.payload[offset : offset + size])
            offset += size

    def _ended(self, call: Call, status: int, kind: int, value: bytes | bytearray | memoryview) -> None:
        world = self.world
        world.law(call.status is None, f"{call.line!r} of {self.name} ended twice")
        call.status = status
        if status == STATUS_SUCCESS and kind == KIND_OBJECT:
            self._fetch(call, ObjectId(bytes(value)))
        elif status == STATUS_SUCCESS:
            self._check_value(call, bytes(value))
        elif status == STATUS_CANCELED:
            world.law(call.was_canceled or world.may_be_canceled(self), f"nobody canceled {call.line!r}")
        else:
            is_excused = call.may_fail() or world.may_fail
            world.law(is_excused, f"{call.line!r} of {self.name} ended with status {status}")
            is_canceled = any(one.was_canceled for one in call.graph) or world.may_be_canceled(self)
            if status == STATUS_PROCESSOR_DIED and not is_canceled:
                was_tried = any(world.runs[one.line] >= one.tries.of_crashes for one in call.graph)
                world.law(was_tried, f"{call.line!r} died before it was tried as often as {call.tries} allows")

    def _check_value(self, call: Call, value: bytes | None) -> None:
        if value is None:
            self.world.law(self.world.may_fail, f"the result of {call.line!r} is not in the storage")
        else:
            self.world.law(value == call.expected(), f"{call.line!r} returned {value[:60]!r}")

    def _fetch(self, call: Call, object_id: ObjectId) -> None:
        self._request_id += 1
        get = Get(request_id=self._request_id, object_id=object_id, wait_seconds=5.0)

        def done(value: bytes | None) -> None:
            submission = self._finished.pop(call.task_id, None)
            if value is None and submission is not None:
                self._run_again(call, submission)
                return
            self._check_value(call, value)
            self._add(events.Unneeded((object_id,)))

        self._fetches[self._request_id] = (get, done)
        self._storage.send(get)

    def _run_again(self, call: Call, submission: Submission) -> None:
        """Its value is lost, so it counts as unfinished. (CLI-8)"""
        self.world.law(self.world.may_fail, f"the result of {call.line!r} is not in the storage")
        call.status = None
        alone = submission if len(submission.ids) == 1 else narrowed(submission, (call.task_id,))
        self._add(alone)

    def _release(self, ids: tuple[ObjectId, ...]) -> None:
        for object_id in ids:
            self._held.pop(object_id, None)
        self._storage.send(Release(request_id=0, owner=self.peer_id, ids=join_ids(ids)))

    def _begin_again(self) -> None:
        self._scheduler.close()
        self._previous.append(self.peer_id)
        self._begin()

    def _take_over(self) -> None:
        """Own under the new name what was ours under earlier ones (CLI-11)."""
        self._duplicates.clear()
        for object_id in self._held:
            self._request_id += 1
            self._duplicates[self._request_id] = Duplicate(self._request_id, object_id, object_id, self.peer_id)
            self._storage.send(self._duplicates[self._request_id])
        self._note_taken_over()
        previous, self._previous = self._previous, []
        for owner in previous:
            self._storage.send(Release(request_id=0, owner=owner, ids=join_ids(self._held)))

    def _note_taken_over(self) -> None:
        if not self._duplicates:
            self._add(events.TakenOver(self.peer_id))

    def _duplicated(self, reply: ObjectReply) -> None:
        object_id = self._duplicates.pop(reply.request_id).source
        if reply.code:
            self._memory.lose(object_id)
            self._add(events.ObjectsLost((object_id,), is_session_lost=True))
        self._note_taken_over()

    # ------------------------------------------------------------ the shell

    def round(self, now: float) -> None:
        for stored in self._storage.poll(now):
            self._on_storage(stored)
        had_pending = bool(self.core.pending_count)
        incoming, self._events = self._events, []
        port = self._scheduler
        for event in (*port.poll(now), *incoming):
            if isinstance(event, Complained):
                self.world.fail(f"the scheduler complains to {self.name}: {event.text} ({event.clause})")
            elif isinstance(event, Opened) and self._scheduler is port:
                self._welcome = event.welcome
                self._take_over()
            if self._scheduler is port or not isinstance(event, (Opened, Received, Complained, Lost, Rejected)):
                self._memory.note(event)
                self._perform(self.core.handle(event, now))
        deadline = self.core.next_deadline()
        if deadline is not None and deadline <= now:
            self._perform(self.core.handle(events.TICKED, now))
        unacknowledged_bytes, unacknowledged_count = self._scheduler.dialer.unacknowledged
        full_bytes = WINDOW_BYTES - self._window_bytes
        self._perform(self.core.handle(events.Flush(full_bytes + unacknowledged_bytes, unacknowledged_count), now))
        if had_pending and not self.core.pending_count and not self._events:
            self._on_done()
        if self._is_leaving and not self.core.pending_count and not self._fetches and not self._events:
            self._scheduler.dialer.bye(0, "")
            self._storage.dialer.bye(0, "")
            self.has_left = True
        self._scheduler.settle(now)
        self._storage.settle(now)
        if self.has_left:
            self.crash()

    def _perform(self, todo: list[actions.Action]) -> None:
        for action in todo:
            if isinstance(action, actions.Send):
                self._scheduler.send(action.message)
                if isinstance(action.message, KeptResults):
                    self.world.given_count += len(action.message.ids) // 16
                elif isinstance(action.message, Submit):
                    self._memory.check(action.message)
                    self.core.handle(events.Numbered(self._scheduler.dialer.sent_seq, action.message.ids), 0.0)
            elif isinstance(action, actions.Complete):
                stored = stored_results(action.outcomes)
                self._held.update(dict.fromkeys(object_id for _, object_id in stored))
                if isinstance(action.submission, Submission) and not self._header.depth:
                    self._finished.update({task_id: action.submission for task_id, _ in stored})
                action.collector.complete(action.outcomes)
            elif isinstance(action, actions.Release):
                self._release(action.ids)
            elif isinstance(action, actions.Claim):
                self._held.update(dict.fromkeys(object_id for _, object_id in action.results))
            elif isinstance(action, actions.Redial):
                self._begin_again()
        self.core.performed()

    def _on_storage(self, event: object) -> None:
        if isinstance(event, Opened):
            for get, _ in self._fetches.values():
                self._storage.send(get)
            for duplicate in self._duplicates.values():
                self._storage.send(duplicate)
        elif isinstance(event, (Lost, Rejected)):
            self._storage.redial(event)
        elif isinstance(event, Received) and isinstance(event.message, (Value, ObjectReply)):
            if isinstance(event.message, ObjectReply) and event.message.request_id in self._duplicates:
                self._duplicated(event.message)
                return
            found = self._fetches.pop(event.message.request_id, None)
            if found is not None:
                payload = event.message.payload if isinstance(event.message, Value) else None
                found[1](None if payload is None else bytes(payload))

    def next_deadline(self) -> float | None:
        return earliest(
            self._scheduler.dialer.next_deadline(), self._storage.dialer.next_deadline(), self.core.next_deadline()
        )

    def check(self) -> None:
        check(self.core)

    def crash(self) -> None:
        super().crash()
        self._scheduler.close()
        self._storage.close()
