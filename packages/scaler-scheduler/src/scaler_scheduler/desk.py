"""Where monitors are served: what they watch, what they ask, and what becomes of one that asks for too much (MON-22).

Questions are bounded for each monitor and in all, answered in turn, and at a bounded cost. A question waits until what
the monitor has got before is acknowledged, as far as the window asks, and until the scheduler has time for it. So a
monitor that asks without end makes itself wait, and no one else: neither clients and workers nor, since one question of
each monitor is answered after another, the other monitors.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

from scaler_protocol.codes import OVERLOADED
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    DumpRequest,
    Error,
    Explain,
    GraphRequest,
    Message,
    SnapshotRequest,
    StackRequest,
    StorageStatus,
    Watch,
)
from scaler_protocol.transport import RouterEndpoint
from scaler_scheduler.core import SchedulerCore
from scaler_scheduler.core.notes.cluster_events import LIMIT_REACHED
from scaler_scheduler.dumps import Dumps
from scaler_scheduler.publishing import Publisher, StorageFigures
from scaler_scheduler.watchers import TASKS, Watchers

Question = SnapshotRequest | Explain | StackRequest | GraphRequest | DumpRequest | Watch

PENDING_LIMIT = 64
"""Of one monitor."""
PENDING_TOTAL = 4_096
TURN_SECONDS = 0.004
"""Of processor time: then it is the turn of clients and workers."""
COST_SHARE = 0.02
"""Of the scheduler's time, at most, in the long run."""
BURST_SECONDS = 0.1
"""What may be spent at once when little was asked before: a person, and a test, does not wait."""
DUMP_SECONDS = 0.001
"""What a part of a dump counts for at most: how much time it takes to make dumps is bounded where they are made."""
LOOK_SECONDS = 0.05
"""So often those are looked at that wait for acknowledgements, which wake no one."""
REFUSALS_BYTES = 2 * 1024 * 1024
"""A monitor that is refused and has so much unread, refusals among it, loses its session: that is the one way to stop
it."""


class Allowance:
    """Processor time that may be spent: it comes back with time, up to a burst."""

    def __init__(self, share: float = COST_SHARE, burst_seconds: float = BURST_SECONDS) -> None:
        self._share = share
        self._burst_seconds = burst_seconds
        self._left = burst_seconds
        self._at = 0.0

    def is_open(self, now: float) -> bool:
        self._left = min(self._burst_seconds, self._left + max(0.0, now - self._at) * self._share)
        self._at = now
        return self._left > 0

    @property
    def is_ample(self) -> bool:
        """Much of the burst is left: a question may have an answer made for it alone."""
        return self._left > self._burst_seconds / 2

    def spend(self, seconds: float) -> None:
        self._left -= seconds

    @property
    def opens_at(self) -> float:
        return self._at if self._left > 0 else self._at - self._left / self._share


class Questions:
    """`answer` answers one question; `has_room` says whether one message more may be on its way to that monitor."""

    def __init__(
        self,
        answer: Callable[[PeerId, Question, float], None],
        has_room: Callable[[PeerId], bool],
        allowance: Allowance,
        awaited_until: Callable[[], float] = lambda: 0.0,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._answer = answer
        self._has_room = has_room
        self._allowance = allowance
        #: before that nothing is answered: what the answers are made of is on its way
        self._awaited_until = awaited_until
        self._thread_time = thread_time
        #: by monitor, the one that was answered longest ago first
        self.pending: OrderedDict[PeerId, deque[Question]] = OrderedDict()
        self._count = 0
        #: when `settle` is due though nothing arrives
        self._due_at: float | None = None

    def ask(self, peer_id: PeerId, seq: int, question: Question) -> Error | None:
        """It waits for `settle`. An Error: too many wait already."""
        pending = self.pending.get(peer_id)
        if (pending is not None and len(pending) >= PENDING_LIMIT) or self._count >= PENDING_TOTAL:
            text = f"too many questions wait for their answers: read those, and ask at most {PENDING_LIMIT} at a time"
            return Error(OVERLOADED, seq, False, text, "MON-22")
        self.pending.setdefault(peer_id, deque()).append(question)
        self._count += 1
        self._due_at = None  # looked at in this turn
        return None

    def lost(self, peer_id: PeerId) -> None:
        self._count -= len(self.pending.pop(peer_id, ()))

    def is_busy_with(self, peer_id: PeerId) -> bool:
        """Its Pong comes after the answers. (LIV-4)"""
        return peer_id in self.pending

    def settle(self, now: float) -> None:
        """One answer to each monitor in turn, until all have theirs, or the time is over."""
        if not self.pending or (self._due_at is not None and now < self._due_at):
            return
        self._due_at = None
        if now < self._awaited_until():
            self._due_at = self._awaited_until()
            return
        begun = self._thread_time()
        passed_over = 0
        while passed_over < len(self.pending):
            if not self._allowance.is_open(now):
                self._due_at = self._allowance.opens_at
                return
            if self._thread_time() - begun > TURN_SECONDS:
                self._due_at = now
                return
            peer_id = next(iter(self.pending))
            if self._has_room(peer_id):
                passed_over = 0
                self._answer_one(peer_id, now)
            else:
                passed_over += 1
                self.pending.move_to_end(peer_id)
        if self.pending:
            self._due_at = now + LOOK_SECONDS

    def hurry(self) -> None:
        """What was awaited has come: at the next moment."""
        self._due_at = 0.0

    def _answer_one(self, peer_id: PeerId, now: float) -> None:
        pending = self.pending[peer_id]
        question = pending.popleft()
        self._count -= 1
        if pending:
            self.pending.move_to_end(peer_id)
        else:
            del self.pending[peer_id]
        begun = self._thread_time()
        self._answer(peer_id, question, now)
        spent = self._thread_time() - begun
        self._allowance.spend(min(spent, DUMP_SECONDS) if type(question) is DumpRequest else spent)

    def next_deadline(self) -> float | None:
        return self._due_at if self.pending else None


class Desk:
    def __init__(
        self, core: SchedulerCore, router: RouterEndpoint, watchers: Watchers, publisher: Publisher,
        figures: StorageFigures, dumps: Dumps,
    ) -> None:  # fmt: skip
        self._core = core
        self._router = router
        self._watchers = watchers
        self._publisher = publisher
        self._dumps = dumps
        self._allowance = Allowance()
        self._figures = figures
        self._questions = Questions(self._answer, watchers.has_room, self._allowance, lambda: figures.awaited_until)
        self.is_busy_with = self._questions.is_busy_with
        #: by monitor, the questions that wait
        self.pending = self._questions.pending
        #: after the core has settled: what is answered is what all messages of this turn have led to
        self.settle = self._questions.settle
        self.next_deadline = self._questions.next_deadline

    def asked(self, peer_id: PeerId, seq: int, message: Question) -> None:
        if isinstance(message, Watch):
            refusal = self._watchers.watch(peer_id, seq, message)
            if refusal is not None:
                self._core.note(LIMIT_REACHED, "watchers", refusal.text, time.monotonic())
            elif message.wants_history and TASKS in message.topics:
                refusal = self._questions.ask(peer_id, seq, message)
        else:
            if isinstance(message, SnapshotRequest):
                self._figures.refresh(time.monotonic())
            refusal = self._questions.ask(peer_id, seq, message)
        if refusal is None:
            return
        if self._router.unacknowledged(peer_id)[0] > REFUSALS_BYTES:
            text = "asked for more than can be answered, and does not read what is: ask again when answers have come"
            self._router.disconnect(peer_id, OVERLOADED, text)
        else:
            self._router.send(peer_id, refusal)

    def storage_told(self, status: StorageStatus) -> None:
        self._figures.told(status)
        self._questions.hurry()

    def lost(self, peer_id: PeerId) -> None:
        self._watchers.lost(peer_id)
        self._questions.lost(peer_id)

    def _answer(self, peer_id: PeerId, question: Question, now: float) -> None:
        answer: Message
        if isinstance(question, Explain):
            answer = self._core.explanation(question, now)
        elif isinstance(question, StackRequest):
            self._router.send(*self._core.stacks.ask(peer_id, question, None, now))
            return
        elif isinstance(question, GraphRequest):
            answer = self._core.graph_parts.answer(question, now)
        elif isinstance(question, Watch):
            answer = self._publisher.history(now)
        elif isinstance(question, DumpRequest):
            answer = self._dumps.answer(peer_id, question, now)
        else:
            snapshot = self._publisher.snapshot(now, may_be_old=not self._allowance.is_ample)
            self._router.send(peer_id, snapshot.answering(question.request_id))
            return
        self._router.send(peer_id, answer)
