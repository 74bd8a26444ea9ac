"""The decisions of a client: no socket, thread or clock.

Theory of operation. Everything submitted is an `Entry` in the pending table, under the id of each of its unfinished
tasks, and is kept until the last of them has ended, so that it can be sent again under the same ids when the session
is replaced. Submissions wait in the outbox until a `Flush`; the shell flushes at once when nothing is on its way and
otherwise lets them pile up while it is busy. A task ends exactly once: by its result, by a cancellation, or with an
error of ours when no scheduler came back in time. Whatever ends it takes it out of the table, and what comes later for
the same id finds nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import groupby
from typing import Any

from scaler.client.core import events, losses
from scaler.client.core.actions import (
    Action,
    AnswerShutdown,
    Claim,
    Explained,
    Redial,
    Release,
    Send,
)
from scaler.client.core.batching import bounds_of
from scaler.client.core.canceling import Cancels
from scaler.client.core.endings import Endings
from scaler.client.core.function_names import Names
from scaler.client.core.knowledge import Knowledge, claims_of
from scaler.client.core.outbox import WINDOW_BYTES, WINDOW_MESSAGES, Outbox, sent_ids
from scaler.client.core.output import shown
from scaler.client.core.records import Collector, Entry, Graph, Outcomes, Submission, cut, each_alone
from scaler.client.core.reruns import Reruns
from scaler.client.core.states import State
from scaler.client.core.table import Table
from scaler_protocol import codes, columns
from scaler_protocol.ids import ID_BYTES, STORED, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    CancelReply,
    Explain,
    Explanation,
    KeptResults,
    Limits,
    Message,
    Results,
    Shutdown,
    ShutdownReply,
    StackReply,
    StackRequest,
    TaskError,
    TaskLog,
)
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected

FEATURE_KEPT_RESULTS = "kept-results"
REFUSALS = frozenset((codes.UNAUTHORIZED, codes.VERSION_MISMATCH))  # futures have an error of their own for each

NUMBERED_BATCHES = WINDOW_MESSAGES + 64
"""A refusal comes at the latest with the acknowledgement of what is refused, or little later."""


class ClientCore:
    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._table = Table()
        #: what the latest event has taken out of the table; see `performed`
        self.taken = self._table.taken
        self._outbox = Outbox()
        self._names = Names()
        self._cancels = Cancels()
        self._bounds = bounds_of(Limits())
        self._is_open = False
        #: when the latest message came
        self._now = 0.0
        #: the shell tries to reach the scheduler; false after a Rejected, until something is submitted
        self._is_dialing = True
        #: when what is pending fails; None while the session is open or nothing is pending
        self._give_up_at: float | None = None
        self._awaits_shutdown = False
        #: seq -> ids of the latest batches of this session
        self._numbered: dict[int, bytes] = {}
        self._knowledge = Knowledge()
        self._reruns = Reruns(self._table, self._knowledge, self._outbox)
        self._endings = Endings(self._table, self._cancels, self._knowledge, self._reruns)
        #: our name in the present session, or in the last one
        self._peer_id: PeerId | None = None
        self._handlers: dict[type, Callable[[Any, float], list[Action]]] = {
            Submission: self._on_submitted,
            events.GraphSubmitted: self._on_graph_submitted,
            events.CancelRequested: self._on_cancel_requested,
            events.Cleared: self._on_cleared,
            events.ShutdownRequested: self._on_shutdown_requested,
            events.Left: self._on_left,
            events.Asked: self._on_asked,
            events.Named: self._on_named,
            events.Numbered: self._on_numbered,
            events.Unneeded: self._on_unneeded,
            events.ObjectsLost: self._on_objects_lost,
            events.StorageRestarted: self._on_storage_restarted,
            events.TakenOver: self._on_taken_over,
            events.Sought: lambda event, now: self._dial(),
            events.Flush: self._on_flush,
            events.Ticked: self._on_ticked,
            Opened: self._on_opened,
            Received: self._on_received,
            Complained: self._on_complained,
            Lost: self._on_lost,
            Rejected: self._on_rejected,
        }
        self._message_handlers: dict[type, Callable[[Any], list[Action]]] = {
            Results: self._on_results,
            KeptResults: self._on_kept_results,
            CancelReply: self._on_cancel_reply,
            TaskLog: lambda message: [shown(message)],
            Explanation: self._on_explanation,
            StackReply: lambda message: [Explained(message.request_id, None, (), message)],
            ShutdownReply: self._on_shutdown_reply,
        }

    # ------------------------------------------------------------ the contract

    def handle(self, event: events.Event, now: float) -> list[Action]:
        return self._handlers[type(event)](event, now)

    def performed(self) -> None:
        """The shell has performed the actions of an event, or keeps the endings among them where no interrupt loses
        them. Until then an inheritor of this core begins what the event has ended once more."""
        self._table.forget_taken()

    def next_deadline(self) -> float | None:
        if not (self._cancels.waiting or self._cancels.gathered or self._reruns.stops):
            return self._give_up_at
        every = self._cancels.next_deadline(), self._give_up_at, self._reruns.next_deadline()
        return min([at for at in every if at is not None], default=None)

    # ------------------------------------------------------------ questions

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way: what is submitted now should leave at once."""
        return not self._table.pending

    @property
    def has_queued(self) -> bool:
        return bool(self._outbox)

    @property
    def dropped_count(self) -> int:
        """Results of tasks that this client does not wait for."""
        return self._endings.dropped_count

    @property
    def pending_count(self) -> int:
        return len(self._table.pending)

    def collectors_of(self, owner: object) -> list[Collector]:
        """What waits for unfinished tasks of this owner, or of any if it is None, each once."""
        every = (entry.submission for entry in self._table.pending.values())
        return list({id(one.collector): one.collector for one in every if owner is None or one.owner is owner}.values())

    def inherit(
        self,
        broken: ClientCore,
        has_ended: Callable[[TaskId, Entry], bool],
        now: float,
        posted_again: Container[TaskId] = (),
    ) -> list[Action]:
        """Begin with every task whose end `broken` has not told, but for those that will be posted once more. An
        interrupt cut `broken` off in the middle of an event. What was sent because of that event is unknown, so this
        begins as if its session was lost, and releases once more what ended tasks took. (OWN-3)"""
        self._table.inherit(broken._table, lambda task_id, entry: task_id in posted_again or has_ended(task_id, entry))
        self._names = broken._names
        self._names.forget_session()
        self._awaits_shutdown = broken._awaits_shutdown
        self._endings.inherit(broken._endings)
        self._knowledge.adopt(broken._knowledge, self._table.graphs.values())
        needless = self._table.needless(broken._table, posted_again)
        actions: list[Action] = [Release(needless)] if needless else []
        actions += self._end_streams(losses.begun_once(broken._table)) + self._begin_again()
        if self._table.pending:
            self._give_up_at = now + self._timeout_seconds
        return actions + self._complete_all(list(broken._cancels.waiting), codes.STATUS_CANCELED)

    def _end_streams(self, ids: Iterable[TaskId]) -> list[Action]:
        begun = [task_id for task_id in ids if task_id in self._table.pending]
        return self._complete_all(begun, codes.STATUS_FAILED, losses.session_lost())

    def _begin_again(self) -> list[Action]:
        """All that is pending is to be sent again, under another name."""
        results = [one for graph in self._table.graphs.values() for one in claims_of(graph)]
        self._outbox.refill(self._table)
        return [Claim(tuple(results))] if results else []

    # ------------------------------------------------------------ what the program wants

    def _on_submitted(self, submission: Submission, now: float) -> list[Action]:
        entry = Entry(submission, State.QUEUED, len(submission.ids))
        self._table.add(entry)
        self._outbox.add(entry)
        return [] if self._is_open else self._seek(now)

    def _on_graph_submitted(self, event: events.GraphSubmitted, now: float) -> list[Action]:
        entries = tuple(Entry(submission, State.QUEUED, 1) for submission in event.wanted)
        graph = Graph(
            event.graph_id, event.batches, entries, objects=event.objects, kept=event.kept, inputs=event.inputs
        )
        self._table.add_graph(graph)
        self._outbox.add_graph(graph)
        return [] if self._is_open else self._seek(now)

    def _on_cancel_requested(self, event: events.CancelRequested, now: float) -> list[Action]:
        """Ends at once what was not sent yet, and graphs. A Cancel for the rest leaves when no more are asked for."""
        local: list[TaskId] = []
        remote: list[TaskId] = []
        graphs: dict[Graph, None] = {}
        for task_id in dict.fromkeys(event.ids):
            entry = self._table.pending.get(task_id)
            if entry is None or task_id in self._cancels.waiting:
                continue
            if entry.graph is not None:
                graphs[entry.graph] = None
            else:
                (local if entry.state is State.QUEUED else remote).append(task_id)
        if remote:
            self._cancels.ask(remote, columns.join_ids(remote), event.grace_seconds, now)
        actions: list[Action] = []
        for graph in graphs:
            self._cancel_graph(graph, event.grace_seconds, now, actions)
        return actions + self._complete_all(local, codes.STATUS_CANCELED)

    def _cancel_graph(self, graph: Graph, grace_seconds: float, now: float, actions: list[Action]) -> None:
        """All of it ends here and now (CAN-6); what comes of it later is dropped like the results of a failed graph."""
        if graph.sent_count:
            graph.is_canceling = True
            graph.grace_seconds = grace_seconds
            self._cancels.ask((), sent_ids(graph), grace_seconds, now)
        canceled = bytes((codes.STATUS_CANCELED,)), bytes((codes.KIND_NONE,)), (0,)
        self._endings.fail_graph(graph, Outcomes((), *canceled), actions)

    def _send_cancels(self) -> list[Action]:
        return [Send(message) for message in self._cancels.take(self._bounds)]

    def _on_cleared(self, event: events.Cleared, now: float) -> list[Action]:
        pending = self._table.pending
        ids = tuple(task_id for task_id, entry in pending.items() if entry.submission.owner is event.owner)
        actions = self._on_cancel_requested(events.CancelRequested(ids, event.grace_seconds), now)
        return actions + self._send_cancels()

    def _on_shutdown_requested(self, event: events.ShutdownRequested, now: float) -> list[Action]:
        self._awaits_shutdown = True
        return [Send(Shutdown(grace_seconds=event.grace_seconds))]

    def _on_asked(self, event: events.Asked, now: float) -> list[Action]:
        if not self._is_open:
            return [Explained(event.request_id, None)]
        number, task_id = event.request_id, event.task_id
        return [Send(StackRequest(number, task_id) if event.wants_stack else Explain(number, task_id, *event.short))]

    def _on_left(self, event: events.Left, now: float) -> list[Action]:
        self._cancels.forget_unsent()  # the goodbye ends all tasks of this client
        if event.text:
            return self._give_up(event.text)
        self._outbox.clear()
        return self._complete_all(list(self._table.pending), codes.STATUS_CANCELED)

    def _on_numbered(self, event: events.Numbered, now: float) -> list[Action]:
        self._numbered[event.seq] = event.ids
        if len(self._numbered) > NUMBERED_BATCHES:
            del self._numbered[next(iter(self._numbered))]
        return []

    def _on_unneeded(self, event: events.Unneeded, now: float) -> list[Action]:
        """Released at once, unless an unfinished node of the same graph may still take it. (CLI-14)"""
        free: list[ObjectId] = []
        for object_id in event.ids:
            graph = self._knowledge.objects.get(object_id)
            (free if graph is None else graph.unneeded).append(object_id)
        return [Release(tuple(free))] if free else []

    def _on_objects_lost(self, event: events.ObjectsLost, now: float) -> list[Action]:
        """What needs them would only wait at a worker, in vain (WRK-3). Nodes that have made some are made again."""
        lost = frozenset(event.ids)
        actions = self._reruns.lost(lost, self._bounds, now) if self._is_open and not event.is_session_lost else []
        self._knowledge.lose(self._table.graphs.values(), lost)
        losses.note_doomed(self._table, lost)
        calls, graphs = losses.doomed(self._table, event)
        sent = [task_id for task_id in calls if self._table.pending[task_id].state is State.SENT]
        if sent:
            self._cancels.ask((), columns.join_ids(sent), 0.0, now)
        actions += self._complete_all(calls, codes.STATUS_FAILED, losses.error())
        for graph in graphs:
            self._endings.fail_graph(graph, losses.outcomes(), actions)
        return actions

    def _on_storage_restarted(self, event: events.StorageRestarted, now: float) -> list[Action]:
        return self._reruns.storage_restarted() if self._is_open else []

    def _on_taken_over(self, event: events.TakenOver, now: float) -> list[Action]:
        """Graphs that waited for this are sent with the next Flush."""
        if event.owner == self._peer_id and self._is_open:
            for graph in self._outbox.let_go():
                if not event.is_complete:  # the storage was not reached: they may be gone
                    self._knowledge.lose_all(graph)
        return []

    def _on_flush(self, event: events.Flush, now: float) -> list[Action]:
        if not self._is_open:
            return []
        room = WINDOW_BYTES - event.unacknowledged_bytes, WINDOW_MESSAGES - event.unacknowledged_count
        actions: list[Action] = [Send(message) for message in self._outbox.take(self._bounds, self._table, *room)]
        if self._outbox.unsendable:
            actions += self._refuse_unsendable()
        if self._names:
            actions += [Send(message) for message in self._names.take(self._bounds)]
        return actions

    def _refuse_unsendable(self) -> list[Action]:
        """Of one task alone there is more than a message may have: an earlier scheduler took it, this one cannot."""
        entries, self._outbox.unsendable = self._outbox.unsendable, []
        ids = [task_id for one in entries for task_id in one.submission.ids]
        return self._complete_all(ids, codes.STATUS_REFUSED, losses.too_large())

    def _on_named(self, event: events.Named, now: float) -> list[Action]:
        self._names.add(event.function_id, event.name)
        return []

    def _on_ticked(self, event: events.Ticked, now: float) -> list[Action]:
        if self._give_up_at is not None and now >= self._give_up_at:
            return self._give_up(losses.not_back(self._timeout_seconds, event.waits_because))
        actions = self._send_cancels() if self._cancels.look(now) else []
        for graph in self._reruns.expired(now):
            self._endings.fail_graph(graph, losses.outcomes(), actions)
        return actions + self._complete_all(self._cancels.expired(now), codes.STATUS_CANCELED)

    # ------------------------------------------------------------ the session

    def _on_opened(self, event: Opened, now: float) -> list[Action]:
        self._is_open = True
        self._is_dialing = False
        self._give_up_at = None
        self._bounds = self._endings.bounds = bounds_of(event.welcome.limits)
        self._peer_id = event.hello.peer_id
        self._outbox.may_give = FEATURE_KEPT_RESULTS in event.welcome.features
        # Inherited: whether the core before this one has sent a Shutdown is unknown.
        return [Send(Shutdown())] if self._awaits_shutdown else []

    def _on_lost(self, event: Lost, now: float) -> list[Action]:
        """Nothing sent in this session counts any more: everything pending will be sent again. (CLI-8)"""
        self._is_open, self._endings.bounds = False, None
        self._numbered.clear()
        self._names.forget_session()
        self._reruns.clear()
        actions: list[Action] = [Redial()]
        self._is_dialing = True
        if self._awaits_shutdown:
            self._awaits_shutdown = False
            actions.append(AnswerShutdown(event.is_orderly, event.text))
        # A task that is being canceled must not run again. No scheduler is left to answer, so it counts as canceled.
        self._cancels.forget_unsent()
        actions += self._complete_all(list(self._cancels.waiting), codes.STATUS_CANCELED)
        remaining_seconds = self._timeout_seconds - event.silent_seconds
        if remaining_seconds <= 0:  # the session layer has waited for all that time
            return actions + self._give_up(event.text or "the scheduler has been silent for too long")
        actions += self._end_streams(losses.begun_once(self._table))
        actions += self._begin_again()
        if self._table.pending:
            self._give_up_at = now + remaining_seconds
        return actions

    def _on_rejected(self, event: Rejected, now: float) -> list[Action]:
        self._is_open, self._is_dialing, self._endings.bounds = False, False, None
        return self._give_up(event.text, event.code if event.code in REFUSALS else codes.LEASE_EXPIRED)

    def _on_complained(self, event: Complained, now: float) -> list[Action]:
        """A refused batch is refused as a whole, and no results follow for it. (CLI-10)"""
        refused = self._numbered.pop(event.ref_seq, b"")
        ids = [TaskId(task_id) for task_id in columns.split_ids(refused) if task_id in self._table.pending]
        return self._complete_all(ids, codes.STATUS_REFUSED, TaskError(event.code, "refused", event.text))

    def _seek(self, now: float) -> list[Action]:
        """Something waits for a session: see that the shell dials, and that the wait is bounded."""
        if self._give_up_at is None:
            self._give_up_at = now + self._timeout_seconds
        return self._dial()

    def _dial(self) -> list[Action]:
        if self._is_open or self._is_dialing:
            return []
        self._is_dialing = True
        return [Redial()]

    def _give_up(self, text: str, code: int = codes.LEASE_EXPIRED) -> list[Action]:
        self._give_up_at = None
        self._outbox.clear()
        return self._complete_all(list(self._table.pending), codes.STATUS_FAILED, TaskError(code=code, message=text))

    # ------------------------------------------------------------ what the scheduler says

    def _on_received(self, event: Received, now: float) -> list[Action]:
        self._now = now
        handler = self._message_handlers.get(type(event.message))
        actions = handler(event.message) if handler is not None else self._on_unknown(event.message)
        if self._reruns:
            for graph in self._reruns.begin_again():
                self._endings.fail_graph(graph, losses.outcomes(), actions)
        return actions

    def _on_unknown(self, message: Message) -> list[Action]:
        self._endings.dropped_count += 1
        return []

    def _on_results(self, results: Results) -> list[Action]:
        if len(results.ids) == ID_BYTES:
            return self._on_result(TaskId(results.ids), results)
        ids = columns.split_ids(results.ids)
        sizes = columns.split_u32(results.sizes)
        taken = self._table.take(ids)  # type: ignore[arg-type]
        if self._cancels.waiting:
            for task_id in ids:
                self._cancels.waiting.pop(task_id, None)  # type: ignore[call-overload]
        actions: list[Action] = []
        if len(set(map(id, taken))) == len(taken) or (results.statuses and STORED in bytes(results.payload)):
            for entry, outcomes in zip(taken, each_alone(results, ids, sizes), strict=True):
                self._take_outcomes(entry, outcomes, actions)
            return actions
        index = offset = 0
        for entry, run in groupby(taken):
            begin, index = index, index + len(list(run))
            size = sum(sizes[begin:index])
            outcomes = cut(results, ids, sizes, begin, index, offset, offset + size)
            offset += size
            self._take_outcomes(entry, outcomes, actions)
        return actions

    def _on_result(self, task_id: TaskId, results: Results) -> list[Action]:
        """The most frequent message by far needs none of the cutting."""
        (entry,) = self._table.take((task_id,))
        if self._cancels.waiting:
            self._cancels.waiting.pop(task_id, None)
        payload = results.payload
        outcomes = Outcomes((task_id,), results.statuses, results.kinds, (len(payload),), payload, results.profiles)
        actions: list[Action] = []
        self._take_outcomes(entry, outcomes, actions)
        return actions

    def _take_outcomes(self, entry: Entry | None, outcomes: Outcomes, actions: list[Action]) -> None:
        graph = None if entry is None else entry.graph
        if outcomes.statuses and len(outcomes.ids) == 1:
            outcomes = self._endings.note_exception(outcomes, actions)
        if outcomes.statuses and self._table.graphs and (entry is None or graph is not None) and any(outcomes.statuses):
            actions += self._reruns.refused(graph, outcomes, self._bounds, self._now)
        if entry is None:
            self._endings.drop(outcomes, actions)
            self._endings.fail_graphs_of(outcomes, actions)
        elif graph is not None and self._reruns.heard(graph, outcomes):
            self._table.put_back(outcomes.ids[0], entry)
        else:
            self._endings.end(entry, outcomes, actions)

    def _on_kept_results(self, message: KeptResults) -> list[Action]:
        graph = self._table.graphs.get(message.graph_id)
        if graph is not None:
            self._knowledge.learn(graph, message, self._table.pending)
        return []

    def _on_cancel_reply(self, reply: CancelReply) -> list[Action]:
        """TOO_LATE: its result is here or on its way. All else, also what we do not know: nothing more will come."""
        if self._reruns:
            self._reruns.answered(reply)
        ids = columns.split_ids(reply.ids)
        outcomes = reply.outcomes or bytes((codes.CANCEL_CANCELED,)) * len(ids)
        canceled = []
        for task_id, outcome in zip(ids, outcomes, strict=True):
            if self._cancels.waiting.pop(TaskId(task_id), None) is not None and outcome != codes.CANCEL_TOO_LATE:
                canceled.append(TaskId(task_id))
        return self._complete_all(canceled, codes.STATUS_CANCELED)

    def _on_explanation(self, explanation: Explanation) -> list[Action]:
        entry = self._table.pending.get(explanation.task_id)
        capabilities = () if entry is None else entry.submission.header.capabilities
        return [Explained(explanation.request_id, explanation, capabilities)]

    def _on_shutdown_reply(self, reply: ShutdownReply) -> list[Action]:
        if not self._awaits_shutdown:
            return []
        self._awaits_shutdown = False
        return [AnswerShutdown(reply.is_accepted, reply.text)]

    def _complete_all(self, ids: Iterable[TaskId], status: int, error: TaskError | None = None) -> list[Action]:
        actions = self._endings.complete_all(ids, status, error)
        if not self._table.pending:
            self._give_up_at = None
        return actions
