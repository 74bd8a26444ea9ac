"""`map`: many calls of one function without a future for each. (CLI-10)"""

from __future__ import annotations

import concurrent.futures
import math
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import accumulate, chain, islice
from typing import Any

from scaler.client import errors
from scaler.client.core.batching import BATCH_BYTES
from scaler.client.core.events import Unneeded
from scaler.client.core.records import Outcomes, Submission, result_objects
from scaler.client.futures.interrupts import pass_on
from scaler.client.futures.waiting import yielding
from scaler.client.io import dropping
from scaler.client.submitting import unserializable
from scaler.client.submitting.calls import LARGE_BYTES, STAND_INS, Calls
from scaler.client.submitting.options import CallOptions
from scaler.client.submitting.parts import unreadable
from scaler.client.submitting.pipeline import Pipeline
from scaler.client.submitting.signatures import check_call, seems_to_fit
from scaler_protocol import codes, values, waits
from scaler_protocol.ids import TaskId
from scaler_protocol.waits import Event

FIRST_BATCH = 16
LARGEST_BATCH = 2_048
"""Batches grow from the first, so that workers start at once, to the largest, so that messages cost nothing. Of items
that are not small, a batch has as many as one message carries, as far as the items before them tell; what is more than
that all the same is cut when it leaves."""
WINDOW_TASKS = 16_384
WINDOW_BYTES = 64 * 1024 * 1024
WINDOW_STORED_BYTES = 1024 * 1024 * 1024
"""How much may be on its way: an iterable without end, or slower workers, never fill the memory of a host. What is too
large to ride along lies in the storage, not in the scheduler."""
SLOW_SECONDS = 0.002
"""A batch that takes longer than this to come out of its iterable leaves as it is."""


class Gathering:
    """Collects what the tasks of one map return, by position. The IO thread only stores; the caller decodes."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        #: of all items until now
        self.count = 0
        self.values: Any = []
        #: task id -> position, of all and only the unfinished tasks
        self.positions: dict[TaskId, int] = {}
        self.inline_bytes = 0
        self.stored_bytes = 0
        self._arrived: deque[Outcomes] = deque()
        #: what the caller is putting in its place; one at most
        self._placing: list[Outcomes] = []
        #: what has arrived and is not wanted any more
        self._unwanted: list[Outcomes] = []
        self._has_arrived = Event()
        self._is_over = False
        #: its end is dealt with: what has not ended is canceled
        self.has_left = False
        #: held by the thread that gathers, for as long as its `map` runs
        self.running = waits.RLock()

    # ------------------------------------------------------------ the IO thread

    def complete(self, outcomes: Outcomes) -> None:
        self._arrived.append(outcomes)
        self._has_arrived.set()
        if self._is_over:
            self._release_arrived()

    def _release_arrived(self) -> None:
        while self._arrived:
            try:
                self._release_objects(self._arrived.popleft())
            except IndexError:  # the caller does the same, at the same time
                return

    def _release_objects(self, outcomes: Outcomes) -> None:
        """Its results are not wanted any more: the map has failed."""
        ids = result_objects(outcomes)
        if ids:
            self.calls.connection.garbage.add(ids)

    # ------------------------------------------------------------ the caller

    def expect(self, ids: Sequence[TaskId]) -> None:
        begin = self.count
        self.count += len(ids)
        self.positions.update(zip(ids, range(begin, self.count), strict=True))
        self._make_places(len(ids))

    def _make_places(self, count: int) -> None:
        self.values += [None] * count

    @property
    def held_count(self) -> int:
        """What counts for the window."""
        return len(self.positions)

    def take(self, end_at: float | None, is_waiting: bool) -> None:
        """Put what has arrived in its place; wait for something first, if asked to."""
        if is_waiting and not self._arrived:
            self.calls.connection.hasten()
            yielding(lambda: self._wait(end_at))
        try:
            while self._arrived:
                # In one step of the interpreter: an interrupt finds it in one of the two.
                self._placing.extend(map(deque.popleft, (self._arrived,)))
                self._place(self._placing[0], math.inf if end_at is None else end_at)
                self._placed()
        except BaseException:
            self._placed()
            raise

    def _placed(self) -> None:
        """The large results among these are not needed any more, or will not be fetched."""
        for outcomes in self._placing:
            if objects := result_objects(outcomes):
                self.calls.connection.post(Unneeded(objects), is_batch=True)
        self._placing.clear()

    def has_to_wait(self) -> bool:
        """Nothing has arrived that is not in its place, and more may come."""
        return not (self._arrived or self._is_over)

    def abandon(self) -> None:
        """Cancel what has not ended. A thread that waits for it meanwhile waits no more."""
        self._end()
        self._has_arrived.set()
        if self.positions:
            self.calls.connection.cancel(self.positions)
        self.has_left = True

    def drop(self) -> None:
        """The same, safe in a destructor, wherever it runs: takes no lock."""
        self._end()
        if self.positions:
            dropping.cancel(self.calls.connection, tuple(self.positions))
        self.has_left = True

    def make_sure(self) -> None:
        """What gathers is gone; perhaps an interrupt has come between its lines. In the IO thread."""
        self.calls.maps.discard(self)
        for outcomes in (*self._placing, *self._unwanted):
            self._release_objects(outcomes)
        if not self.has_left:
            self.drop()

    def wait_for_end(self) -> None:
        """Until the `map` has returned. In the thread that gathers, such as in a signal's handler, nothing is waited
        for."""
        if yielding(lambda: waits.acquire(self.running, math.inf)):
            self.running.release()

    def _end(self) -> None:
        self._is_over = True
        try:
            while self._arrived:
                # In one step of the interpreter, as in `take`.
                self._unwanted.extend(map(deque.popleft, (self._arrived,)))
        except IndexError:  # the IO thread does the same, at the same time
            pass
        for outcomes in tuple(self._unwanted):
            self._release_objects(outcomes)

    def _wait(self, end_at: float | None) -> None:
        while self.has_to_wait():
            self._has_arrived.clear()
            remaining = None if end_at is None else end_at - time.monotonic()
            if self.has_to_wait() and not self._has_arrived.wait(remaining):
                count = len(self.positions)
                what = "1 task has" if count == 1 else f"{count} tasks have"
                # As an Executor's: before Python 3.11 the builtin error is another one.
                raise concurrent.futures.TimeoutError(f"{what} not ended in time")

    def _place(self, outcomes: Outcomes, end_at: float) -> None:
        take = self.positions.pop
        placed = [take(task_id) for task_id in outcomes.ids]
        has_own_reader = self.calls.serializer is not None or not self.calls.connection.trusts_results
        if any(outcomes.statuses) or any(outcomes.kinds) or has_own_reader:
            self._place_one_by_one(placed, outcomes, end_at)
            return
        try:
            loaded = values.load_many(outcomes.payload, outcomes.sizes)
        except BaseException as error:
            pass_on(error)
            raise unreadable(error) from error
        found = self.values
        for position, value in zip(placed, loaded, strict=True):
            found[position] = value

    def _place_one_by_one(self, placed: list[int], outcomes: Outcomes, end_at: float) -> None:
        """Objects to fetch, a serializer of the program's own, or failures: the first, by position, is raised."""
        connection, deserialize = self.calls.connection, self.calls.deserialize
        failed: list[tuple[int, Outcomes]] = []
        for position, task_id, (status, kind, data) in zip(placed, outcomes.ids, _each(outcomes), strict=True):
            columns = bytes((status,)), bytes((kind,)), (len(data),), bytes(data), b"", outcomes.error
            one = Outcomes((task_id,), *columns)
            if status != codes.STATUS_SUCCESS:
                failed.append((position, one))
            else:
                self.values[position] = deserialize(connection.fetch_one(one, end_at))
        if failed:
            self._fail(failed, end_at)

    def _fail(self, failed: list[tuple[int, Outcomes]], end_at: float) -> None:
        """The first of these positions ends the map."""
        raise errors.raised_by(min(failed, key=lambda pair: pair[0])[1], self.calls.connection, end_at)


def _each(outcomes: Outcomes) -> Iterator[tuple[int, int, memoryview]]:
    """Status, kind and bytes of each task."""
    count = len(outcomes.ids)
    view = memoryview(outcomes.payload)
    ends = accumulate(outcomes.sizes)
    columns = zip(outcomes.statuses or bytes(count), outcomes.kinds or bytes(count), outcomes.sizes, ends, strict=True)
    for status, kind, size, end in columns:
        yield status, kind, view[end - size : end]


class MapRun:
    """One `map` from its first item to its last."""

    def __init__(
        self,
        calls: Calls,
        function: Any,
        items: Iterable[tuple[Any, ...]],
        options: CallOptions,
        *,
        is_changed: bool = False,
        gathering: Gathering | None = None,
        window: int | None = None,
    ) -> None:
        self._calls = calls
        #: with a window, a batch leaves when all of it fits in; without one, when the usual window is not full
        self._largest_batch = LARGEST_BATCH if window is None else min(LARGEST_BATCH, max(1, window // 4))
        self._full_at = WINDOW_TASKS if window is None else window - self._largest_batch + 1
        self._function = calls.function(function, is_changed=is_changed)
        self._callable = function
        self._fitting: set[int] = set()  #: counts of arguments that the function can be called with
        self._options = options
        self._is_slow = not isinstance(items, Sized)
        self._items = iter(items)
        self._gathering = gathering or Gathering(calls)
        calls.connection.drops.after(self, self._gathering.make_sure)
        self._batch_tasks = min(FIRST_BATCH, self._largest_batch)
        #: what an item that rides along takes: on average, or in the latest batch, whichever is more
        self._item_bytes = 0

    def run(self, end_at: float | None, watch: Callable[[int], None] | None = None) -> list[Any]:
        """`watch` is told how many tasks have ended, whenever some have."""
        gathering, maps = self._gathering, self._calls.maps
        with gathering.running:
            try:
                maps.add(gathering)
                return self._run(gathering, end_at, watch)
            finally:
                maps.discard(gathering)

    def _run(self, gathering: Gathering, end_at: float | None, watch: Callable[[int], None] | None) -> list[Any]:
        try:
            has_more = True
            while has_more or gathering.positions:
                while has_more and self.has_room():
                    has_more = self.send_batch()
                gathering.take(end_at, is_waiting=bool(gathering.positions))
                if watch is not None:
                    watch(gathering.count - len(gathering.positions))
        except BaseException:
            # A failed task, an iterable that raised, Ctrl-C: the siblings are canceled.
            gathering.abandon()
            raise
        gathering.has_left = True
        self._calls.connection.wait_for_prints()
        found: list[Any] = gathering.values
        return found

    def has_room(self) -> bool:
        """By count, and by bytes as far as the items before tell."""
        held = self._gathering.held_count
        return held < min(self._full_at, self._most_stored()) and held * self._item_bytes <= WINDOW_BYTES

    def _most_stored(self) -> int:
        """So many may be on their way whose arguments lie in the storage; a batch of the first size always."""
        gathering = self._gathering
        if not gathering.stored_bytes:
            return sys.maxsize
        return max(FIRST_BATCH, WINDOW_STORED_BYTES * gathering.count // gathering.stored_bytes)

    def send_batch(self) -> bool:
        """False when the iterable has ended."""
        batch = self._next_items()
        if batch:
            self._check(batch)
            self._batch_tasks = min(self._largest_batch, self._batch_tasks * 4)
            ids = self._calls.connection.new_task_ids(len(batch))
            self._gathering.expect(ids)
            self._submit(ids, batch)
        return bool(batch)

    def _check(self, batch: list[tuple[Any, ...]]) -> None:
        for count in set(map(len, batch)) - self._fitting:
            check_call(self._callable, count)
            self._fitting.add(count)

    def _next_items(self) -> list[tuple[Any, ...]]:
        by_bytes = BATCH_BYTES // max(1, self._item_bytes)
        most = min(self._batch_tasks, max(1, by_bytes), self._most_stored() - self._gathering.held_count)
        if not self._is_slow:
            return list(islice(self._items, most))
        batch = []
        leave_at = time.monotonic() + SLOW_SECONDS
        for item in islice(self._items, most):
            batch.append(item)
            if time.monotonic() > leave_at:
                break
        return batch

    def _submit(self, ids: list[TaskId], batch: list[tuple[Any, ...]]) -> None:
        calls = self._calls
        is_plain = calls.serializer is None and STAND_INS.isdisjoint(map(type, chain.from_iterable(batch)))
        pickled = self._pickle(batch) if is_plain else None
        if pickled is not None and max(pickled[1]) <= calls.connection.inline_bytes:
            self._post(ids, *pickled)
            return
        pipeline = calls.pipeline()
        try:
            for task_id, arguments in zip(ids, batch, strict=True):
                self._submit_one(task_id, arguments, pipeline)
            pipeline.finish()
        finally:
            pipeline.abandon()

    def _pickle(self, batch: list[tuple[Any, ...]]) -> tuple[bytes, list[int], values.Notes | None] | None:
        """None when there are large buffers among the arguments: they are not to be copied into one payload."""
        calls = self._calls
        with calls.picklers.one() as pickler:
            try:
                return *pickler.dump(batch), pickler.notes
            except values.TooLarge:
                return None
            except Exception as error:
                pass_on(error)
                item = batch[min(pickler.failed_index, len(batch) - 1)]
                position = self._gathering.count - len(batch) + pickler.failed_index
                told = f"item {position} of the map, {type(item[0]).__name__ if item else 'empty'}"
                reason = unserializable.reason_of(item[0] if len(item) == 1 else item, error)
                raise TypeError(f"{told}, cannot be serialized: {reason}") from error

    def _post(self, ids: list[TaskId], payload: bytes, sizes: list[int], notes: values.Notes | None) -> None:
        calls, function = self._calls, self._function
        self._note_inline(len(payload), len(ids))
        if len(payload) >= LARGE_BYTES:
            calls.warn_large("a batch of arguments", len(payload))
        has_code = function.has_code or (notes is not None and notes.has_code)
        submission = Submission(
            header=calls.header(self._options, has_code=has_code, code_set=function.code_set),
            function=function.object_id,
            ids=tuple(ids),
            payload=payload,
            part_sizes=tuple(sizes),
            collector=self._gathering,
            owner=calls.owner,
            kept=(function, *notes.kept) if notes is not None else (function,),
        )
        calls.connection.post(submission, is_batch=True)

    def _submit_one(self, task_id: TaskId, arguments: tuple[Any, ...], pipeline: Pipeline) -> None:
        """An item with large arguments, references or futures is a call like any other."""
        gathering, calls = self._gathering, self._calls
        size = calls.submit(self._function, arguments, {}, self._options, task_id, gathering, pipeline)
        if size <= calls.connection.inline_bytes:
            self._note_inline(size, 1)
        else:
            gathering.stored_bytes += size

    def _note_inline(self, size: int, count: int) -> None:
        gathering = self._gathering
        gathering.inline_bytes += size
        self._item_bytes = max(size // count, gathering.inline_bytes // gathering.count)


def unpacked(function: Any, iterables: tuple[Iterable[Any], ...]) -> Iterable[tuple[Any, ...]]:
    """The argument tuples of `map(fn, *iterables)`.

    As the builtin does it, with one exception from earlier days: one iterable whose items are all tuples or lists
    holds argument tuples, unless the function can take each as a whole and certainly not all of them apart. An iterator
    cannot be looked through beforehand: its first item decides, and a later item that contradicts is an error rather
    than a guess.
    """
    if not iterables:
        raise TypeError("map() needs at least one iterable besides the function")
    _check_iterable(function, iterables)
    if len(iterables) > 1:
        return zip(*iterables, strict=False)
    items = iterables[0]
    if isinstance(items, Sized) and isinstance(items, Iterable):
        if len(items) and all(isinstance(item, tuple | list) for item in items) and _takes_apart(function, items):
            _warn_unpacking()
            return [tuple(item) for item in items]
        return _Singles(items)
    iterator = iter(items)
    first = list(islice(iterator, 1))
    if first and isinstance(first[0], tuple | list) and _takes_apart(function, first):
        _warn_unpacking()
        return _checked(chain(first, iterator))
    return zip(chain(first, iterator), strict=False)


def _check_iterable(function: Any, iterables: tuple[Any, ...]) -> None:
    for number, one in enumerate(iterables, start=2):
        if isinstance(one, Iterable) or hasattr(one, "__getitem__"):
            continue
        if callable(one) and not callable(function):
            raise TypeError("map() takes the function first and its iterables after it: map(function, values)")
        raise TypeError(
            f"argument {number} of map() is {one!r}, which cannot be iterated over. It takes an iterable for each "
            "parameter of the function; for one value in all calls use functools.partial(function, name=value)"
        )


def _takes_apart(function: Any, items: Iterable[Sized]) -> bool:
    """Returns whether each item becomes the arguments of a call. If the parameters of a function are not known, the
    function gets each item as a whole, as the builtin `map` calls it."""
    if seems_to_fit(function, 1) is False:
        return True
    return all(seems_to_fit(function, count) for count in set(map(len, items)))


class _Singles(Sized, Iterable[tuple[Any, ...]]):
    """One-argument calls of what can be gone through quickly."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(self._items, strict=False)


def _warn_unpacking() -> None:
    warnings.warn(
        "map() unpacks the tuples or lists of a single iterable into arguments, which is deprecated: use starmap(), or "
        "give map() one iterable for each parameter. To pass each one as a whole, use starmap(fn, zip(items))",
        DeprecationWarning,
        stacklevel=4,
    )


def _checked(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for index, item in enumerate(items):
        if not isinstance(item, tuple | list):
            raise TypeError(
                f"map() took its items for argument tuples, but item {index} is of type {type(item).__name__}: "
                "use starmap(), or give map() one iterable for each parameter"
            )
        yield tuple(item)
