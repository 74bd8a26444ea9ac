"""Results that are lost before the program has fetched them: their tasks are run again. (CLI-8)

A large result lies in the storage alone. When the storage is restarted, or the client was silent for longer than its
lease, it is gone; the task then counts as unfinished. It is submitted again when the program asks for the value, under
the same id, and with it all others whose loss is known by then, so that they run side by side.

The thread that asks for the value can be interrupted anywhere. A call that was noted as begun, and was not handed over,
would be waited for for ever; one that was handed over and not noted would be handed over twice. So the IO thread does
both (`Connection.soon`).
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from scaler.client import errors
from scaler.client.core.cutting import narrowed
from scaler.client.core.events import GraphSubmitted, ProgramEvent
from scaler.client.core.losses import named_objects
from scaler.client.core.records import Definition, Outcomes, Submission
from scaler.client.core.remaining import nodes_again
from scaler.client.future import ScalerFuture
from scaler.client.futures.fetching import NotInTime, StillAtIt
from scaler.client.futures.source import Source
from scaler.client.objects.holdings import FinishedCall
from scaler.client.objects.storage import Storage
from scaler.utility.exceptions import MissingObjects
from scaler_protocol import columns, waits
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Buffer

T = TypeVar("T")

_GONE = (
    "a result is no longer in the object storage, and neither is argument {} of its task: the memory of arrays is not "
    "always kept for that"
)


_NOT_AGAIN = "the value was lost, and what its task takes was not stored again in time"

_NO_FUNCTION = ObjectId(b"")

MOST_RUNS = 3
"""So often a value is made again that is lost each time, before the program is told."""


_Begun = list[tuple[FinishedCall, ScalerFuture[Any]]]
"""Calls that run again, each with what stands for its new run."""


class Host(Source, Protocol):
    """The connection."""

    @property
    def storage(self) -> Storage: ...

    @property
    def new_task_ids(self) -> Callable[[int], list[TaskId]]: ...

    def post(self, *posted: ProgramEvent, is_batch: bool = False) -> None: ...

    def soon(self, step: Callable[[], object]) -> None: ...

    def wait_until_told(self) -> None: ...


def _in_time(text: str, call: Callable[[], T]) -> T:
    """What the storage answers; NotInTime with this text if it has not by the end of the wait."""
    try:
        return call()
    except TimeoutError as error:
        raise NotInTime(f"{text}: {error}") from None


class Remaking:
    """Of one connection, in the threads that ask for values."""

    def __init__(self, connection: Host) -> None:
        self._connection = connection
        self._lock = waits.RLock()

    def fetch(self, object_id: ObjectId, end_at: float) -> Buffer:
        """Its bytes, from the storage, or after another run of the task that has made it. NotInTime if they have not
        come by `end_at`."""
        call = None
        for _ in range(MOST_RUNS):
            try:
                return self._get(object_id, end_at)
            except MissingObjects:
                call = call or self._connection.storage.holdings.call_of(object_id)
                if call is None:
                    raise
            outcomes = self._run_again(call, end_at)
            if any(outcomes.statuses):
                raise errors.raised_by(outcomes, self._connection, end_at)
            if not any(outcomes.kinds):
                return outcomes.payload
            object_id, call.again = ObjectId(bytes(outcomes.payload)), None
        return self._get(object_id, end_at)

    def _get(self, object_id: ObjectId, end_at: float) -> Buffer:
        return _in_time(NotInTime.TEXT, lambda: self._connection.storage.get(object_id, end_at))

    def _run_again(self, call: FinishedCall, end_at: float) -> Outcomes:
        again = self._begin(call, end_at)
        try:
            return again.outcomes(end_at)
        except concurrent.futures.TimeoutError as error:
            raise StillAtIt(f"the value was lost, and its task runs again: {error}") from None

    def _begin(self, call: FinishedCall, end_at: float) -> ScalerFuture[Any]:
        """This one, and others whose loss is known."""
        holdings = self._connection.storage.holdings
        if call.again is None and (shared := _shared(call)):
            self._look_for(shared, end_at)
            for argument in shared:
                if holdings.is_there(argument):
                    continue
                # The result of another call, which is made again first.
                if holdings.call_of(argument) is None:
                    raise MissingObjects(_GONE.format(argument.hex()))
                self.fetch(argument, end_at)
        if call.again is None and isinstance(call.submission, Definition):  # nodes of one graph need the same others
            self._look_for(holdings.results_of(call.submission), end_at)
        asked: set[TaskId] = set()
        with waits.Bounded(self._lock, end_at, StillAtIt):
            while (future := call.again) is None:
                if asked and time.monotonic() > end_at:
                    raise NotInTime(_NOT_AGAIN)
                asked = {call.task_id}
                self._hand_over(call, asked, end_at)
                for _, other in holdings.lost_calls():
                    if other.again is None and other.task_id not in asked and _can_begin(other):
                        self._hand_over(other, asked, end_at)
                self._connection.wait_until_told()
        assert isinstance(future, ScalerFuture)
        return future

    def _look_for(self, ids: list[ObjectId], end_at: float) -> None:
        _in_time(_NOT_AGAIN, lambda: self._connection.storage.look_for(ids, end_at))

    def _hand_over(self, call: FinishedCall, asked: set[TaskId], end_at: float) -> None:
        """This one, and others of its graph; `asked` has them all then."""
        submission = call.submission
        _in_time(_NOT_AGAIN, lambda: self._connection.storage.put_again(call.arguments, end_at))
        if isinstance(submission, Definition):
            begun, event = self._nodes_again(call, submission)
        else:
            begun, event = self._call_again(call, submission)
        asked.update([one.task_id for one, _ in begun])
        self._connection.soon(partial(self._note_and_post, begun, event))

    def _note_and_post(self, begun: _Begun, event: ProgramEvent) -> None:
        """In the IO thread."""
        if all(call.again is None for call, _ in begun):  # else one of them was asked for by a call that was cut off
            for call, future in begun:
                call.again = future
            self._connection.post(event, is_batch=True)

    def _call_again(self, call: FinishedCall, submission: Submission) -> tuple[_Begun, ProgramEvent]:
        if len(submission.ids) > 1:
            submission = narrowed(submission, (call.task_id,))
        future: ScalerFuture[Any] = ScalerFuture(call.task_id, self._connection)
        return [(call, future)], submission._replace(collector=future)

    def _nodes_again(self, call: FinishedCall, definition: Definition) -> tuple[_Begun, ProgramEvent]:
        """All nodes of this graph whose values are known to be lost, as a graph of their own."""
        lost = [one for _, one in self._connection.storage.holdings.lost_calls() if one.submission is definition]
        calls = {one.task_id: one for one in (call, *lost) if one.again is None}
        batches, new_id_of = nodes_again(definition, calls.keys(), self._connection.new_task_ids)
        header = batches[0].message.header
        begun: _Begun = [(one, ScalerFuture(new_id_of[task_id], self._connection)) for task_id, one in calls.items()]
        wanted = [Submission(header, _NO_FUNCTION, (future.task_id,), b"", (), future) for _, future in begun]
        objects = definition.objects if definition.is_ended else ()  # else the old graph still needs them
        return begun, GraphSubmitted(header.graph_id, batches, tuple(wanted), objects, definition.kept)


def _can_begin(call: FinishedCall) -> bool:
    return not _shared(call) and all(kept.can_return for kept in call.arguments.values())


def _shared(call: FinishedCall) -> list[ObjectId]:
    """What it takes that was not stored for it alone: references, and results of other calls."""
    submission = call.submission
    if isinstance(submission, Definition):
        messages = [batch.message for batch in submission.batches]
        every = [one for message in messages for one in named_objects(message, columns.split_u32(message.part_sizes))]
    else:
        every = list(named_objects(submission, submission.part_sizes))
    return [object_id for object_id in dict.fromkeys(every) if object_id not in call.arguments]
