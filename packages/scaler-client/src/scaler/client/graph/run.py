"""`get`: a graph, the keys that are asked for, and their values in the shape they were asked in."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from scaler.client.core.events import GraphSubmitted
from scaler.client.core.records import Submission
from scaler.client.future import ScalerFuture
from scaler.client.graph.nodes import Reader
from scaler.client.graph.packing import Packed
from scaler.client.graph.plan import Plan, plan
from scaler.client.graph.sparse import sparse_plan
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.options import CallOptions
from scaler_protocol.ids import ObjectId

_NO_FUNCTION = ObjectId(b"")


class GraphRun:
    """One `get`. `keys` are one key, or several; lists of them may be nested, as Dask does it. An exception, such as
    an interrupt, in `futures` or `results` cancels its tasks, because the program has no futures of them."""

    def __init__(
        self, calls: Calls, graph: Any, keys: Any, options: CallOptions, *, is_changed: bool = False, keeper: object
    ) -> None:
        reader = Reader(graph)
        self._calls = calls
        self._keeper = keeper
        self._is_dask = reader.is_dask
        if not isinstance(keys, list) and (isinstance(keys, str | tuple) or not isinstance(keys, Iterable)):
            # A tuple is a key when the graph has it; when it has not, it is just not a list.
            is_one = not isinstance(keys, tuple) or reader.is_key(keys)
        else:
            is_one = False
        self._keys: Any = keys if is_one else list(keys)
        wanted = list(_flat(self._keys))
        if not self._is_dask:
            _refuse_repeated(wanted)
        wanted = list(dict.fromkeys(wanted))
        self._plan = sparse_plan(reader, wanted) or plan(reader, wanted)
        if is_changed:
            calls.forget_functions()
        self._options = options
        #: its wanted tasks, from before it is sent
        self._sent: list[ScalerFuture[Any]] = []

    def futures(self) -> Any:
        try:
            return self._shaped(self._start())
        except BaseException:
            self._cancel()
            raise

    def results(self, end_at: float | None) -> Any:
        """Waits. What is unfinished when one fails, or when the wait is over, is canceled."""

        def value_of(future: ScalerFuture[Any]) -> Any:
            return future.result(None if end_at is None else max(0.0, end_at - time.monotonic()))

        try:
            return self._shaped({key: value_of(future) for key, future in self._start(end_at).items()})
        except BaseException:
            try:
                self._cancel()
            finally:
                self._cancel()  # an interrupt may have cut the first off
            raise

    def _cancel(self) -> None:
        if self._sent:
            self._calls.connection.cancel([future.task_id for future in self._sent if not future.done()])
            self._sent = []

    def _start(self, end_at: float | None = None) -> dict[Hashable, ScalerFuture[Any]]:
        calls, a_plan = self._calls, self._plan
        packed = Packed(calls, a_plan, self._options) if a_plan.functions else None
        if packed is not None and end_at is not None and time.monotonic() >= end_at:
            packed.puts.release()
            raise concurrent.futures.TimeoutError("the graph was not built and stored in time: nothing of it was sent")
        by_link: dict[int, ScalerFuture[Any]] = {}
        for link in a_plan.wanted.values():
            if link in by_link:  # two names of one node
                continue
            if link < 0:
                by_link[link] = ScalerFuture.finished(a_plan.values[~link])
            else:
                assert packed is not None, "there are tasks"
                by_link[link] = ScalerFuture(packed.ids[link], calls.connection, calls.serializer, self._keeper)
        if packed is not None:
            header, owner = packed.header, calls.owner
            wanted = tuple(
                Submission(header, _NO_FUNCTION, (future.task_id,), b"", (), future, owner)
                for link, future in by_link.items()
                if link >= 0
            )
            event = GraphSubmitted(packed.graph_id, packed.batches, wanted, packed.objects, packed.kept, packed.inputs)
            self._sent = [future for link, future in by_link.items() if link >= 0]
            calls.connection.post(event, is_batch=True)
            packed.puts.hand_over()
        futures = {key: by_link[link] for key, link in a_plan.wanted.items()}
        self._plan = Plan()  # not to keep what has been sent
        return futures

    def _shaped(self, found: dict[Hashable, Any]) -> Any:
        if not isinstance(self._keys, list):
            return found[self._keys]
        if self._is_dask or any(isinstance(key, list) for key in self._keys):
            return _nested(self._keys, found)
        return found


def _flat(keys: Any) -> Iterator[Hashable]:
    if not isinstance(keys, list):
        yield keys
        return
    for key in keys:
        yield from _flat(key)


def _nested(keys: list[Any], found: dict[Hashable, Any]) -> list[Any]:
    return [_nested(key, found) if isinstance(key, list) else found[key] for key in keys]


def _refuse_repeated(keys: list[Hashable]) -> None:
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise KeyError(f"key {key!r} is asked for more than once")
        seen.add(key)
