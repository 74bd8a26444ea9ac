"""The library's own `map`, of functions that workers know by name: what cuts its batches is what users run.

`Client.map` sends Python's functions, which the suite cannot run, and makes no future for each task, which the suite
asks for. So the calls are packed here as `submit_named` packs them, and each task has a future besides; how the
iterable is read, how large batches grow and how they are cut is the library's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scaler import Client, ScalerFuture
from scaler.client.core.records import Collector, Outcomes
from scaler.client.objects.functions import StoredFunction
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.deferred import Call
from scaler.client.submitting.mapping import Gathering, MapRun, _each
from scaler.client.submitting.named import NamedCalls, Raw
from scaler.client.submitting.options import CallOptions
from scaler.client.submitting.pipeline import Pipeline
from scaler_protocol import values
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskHeader


def mapped(client: Client, name: str, calls: list[tuple[bytes, ...]], options: CallOptions) -> list[ScalerFuture[Any]]:
    """Begins the map; its futures, as soon as all tasks have their ids."""
    named = NamedCalls(client._ready())
    gathering = _Spread(named.calls, len(calls))
    raw_calls: Any = _RawCalls(named, name)
    run = MapRun(raw_calls, lambda *_: None, calls, options, gathering=gathering)
    if calls:
        threading.Thread(target=run.run, args=(None,), daemon=True).start()
        assert gathering.is_complete.wait(30), "a map did not read all its arguments"
    return gathering.futures


class _RawCalls:
    """As much of the library's calls as `map` uses."""

    serializer = None

    def __init__(self, named: NamedCalls, name: str) -> None:
        self._named = named
        self._name = name
        self.connection = named.calls.connection
        self.owner = named.calls.owner
        self.maps = named.calls.maps
        self.warn_large = named.calls.warn_large
        self.picklers = _RawPicklers()

    def function(self, function: Any, *, is_changed: bool) -> StoredFunction:
        return self._named._function(self._name)

    def header(self, options: CallOptions, *, has_code: bool, code_set: StoredFunction | None = None) -> TaskHeader:
        return self._named._header(options)

    def pipeline(self) -> Pipeline:
        return self._named.calls.pipeline()

    def submit(
        self, function: StoredFunction, arguments: tuple[bytes, ...], keywords: dict[str, Any], options: CallOptions,
        task_id: TaskId, collector: Collector, pipeline: Pipeline,
    ) -> int:  # fmt: skip
        """A call that cannot share a batch's columns."""
        parts = [self._named._part(index, argument) for index, argument in enumerate(arguments, start=1)]
        call = Call(self._named._header(options), function, task_id, parts, collector)
        with self.connection.storage.puts() as puts:
            submission = self._named.calls.submission(call, puts)
            if not parts:
                submission = submission._replace(part_counts=(0,))
            self.connection.post(submission, is_batch=True)
        puts.hand_over()
        return sum(part.size for part in parts)


class _RawPicklers:
    @contextmanager
    def one(self) -> Iterator[_RawPickler]:
        yield _RawPickler()


class _RawPickler:
    failed_index = 0
    notes = None

    def dump(self, calls: Sequence[tuple[bytes, ...]]) -> tuple[bytes, list[int]]:
        if any(len(arguments) != 1 for arguments in calls):
            raise values.TooLarge  # these have other columns, and are sent one by one
        data = [arguments[0] for arguments in calls]
        return b"".join(data), list(map(len, data))


class _Spread(Gathering):
    """Besides, each task has a future."""

    def __init__(self, calls: Calls, count: int) -> None:
        super().__init__(calls)
        self.futures: list[ScalerFuture[Any]] = []
        self.is_complete = threading.Event()
        self._count = count
        self._future_of: dict[TaskId, ScalerFuture[Any]] = {}

    def expect(self, ids: Sequence[TaskId]) -> None:
        super().expect(ids)
        made = [ScalerFuture(task_id, self.calls.connection, Raw) for task_id in ids]
        self._future_of.update(zip(ids, made, strict=True))
        self.futures += made
        if len(self.futures) == self._count:
            self.is_complete.set()

    def complete(self, outcomes: Outcomes) -> None:
        profiles = outcomes.profiles
        for index, (task_id, (status, kind, data)) in enumerate(zip(outcomes.ids, _each(outcomes), strict=True)):
            one = bytes((status,)), bytes((kind,)), (len(data),), bytes(data), profiles[24 * index : 24 * index + 24]
            self._future_of.pop(task_id).complete(Outcomes((task_id,), *one, outcomes.error))
        super().complete(outcomes)

    def _place(self, outcomes: Outcomes, end_at: float) -> None:
        for task_id in outcomes.ids:
            del self.positions[task_id]
