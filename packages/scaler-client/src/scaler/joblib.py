"""joblib's parallel calls, and with them scikit-learn's, as tasks of a cluster::

    import joblib, scaler.joblib

    with joblib.parallel_config(backend="scaler", client=client):
        grid_search.fit(X, y)

In place of `client`, give `address`, or nothing: then a cluster on this machine is started once, and ends with the
program. Needs joblib 1.3 or newer.

`n_jobs=-1` is every worker that is there when the call begins. Arguments of more than a megabyte that can be told apart
(arrays above all) are sent once for each call of Parallel, as joblib's own backend does: the array must not change
while the call runs. A nested parallel call runs in the cluster too, if it asks for `n_jobs`; its task lends its place
while it waits. `initializer` and `initargs` are called once in each process that runs calls, before the first of them.
"""

from __future__ import annotations

import contextlib
import copy
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.cluster.local import LocalClient, local
from scaler.utility.exceptions import RemoteError
from scaler.utility.worker_state import worker_state
from scaler_protocol import task_context, values, waits

SHARED_BYTES = 1_000_000
"""From this size on an argument is sent once: joblib's own bound for memory maps."""
KEPT_ARGUMENTS = 4
"""The most arguments kept of those that cannot be referred to weakly."""
_COUNT_SECONDS = 10.0

_lock = waits.RLock()
_local_client: list[LocalClient] = []


def _renew_lock() -> None:
    """In a forked child: another thread may have held it while it started the cluster."""
    global _lock
    _lock = waits.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_lock)


class ScalerBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """What `backend="scaler"` stands for; joblib makes one for each `parallel_config`, with the options given there."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = False
    uses_threads = False
    supports_sharedmem = False
    default_n_jobs = -1

    def __init__(
        self,
        client: Client | None = None,
        address: str | None = None,
        *,
        key_file: str | None = None,
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        nesting_level: int | None = None,
        worker_count: int = 0,
    ) -> None:
        """The arguments are those of `joblib.parallel_config(backend="scaler", …)`.

        Args:
            client: runs the calls.
            address: in place of a client, the scheduler's: a client is made.
            key_file: with an address: the cluster's key, or a ticket. None: searched for.
            capabilities: what a worker must offer, as for `Client.submit_verbose`.
            priority: as for `Client.submit_verbose`.
            retries: as for `Client.submit_verbose`.
            initializer: called once in each process that runs calls, before the first of them.
            initargs: the arguments of the initializer.
            nesting_level: set by joblib.
            worker_count: set in nested calls.

        Raises:
            ValueError: both a client and an address are given.
            TypeError: the client is none.
            Exception: as `Client` and `local` do.
        """
        if client is not None and address is not None:
            raise ValueError("give the backend a client or an address, not both")
        if client is not None and not isinstance(client, Client):
            raise TypeError(f"client must be a scaler.Client, got {type(client).__name__}")
        super().__init__(nesting_level=nesting_level)
        if client is None:
            client = _shared_local_client() if address is None else Client(address, key_file=key_file)
        self.client = client
        self._options: dict[str, Any] = {"capabilities": capabilities, "priority": priority, "retries": retries}
        self._initializer = initializer, initargs
        #: what a process calls before the first call of the present Parallel
        self._start: list[ObjectReference[bytes]] = []
        #: what it refers to lives as long as these
        self._start_pieces: Any = None
        #: as it was counted last; a nested call takes what its parent's has counted: a worker's ticket watches nothing
        self._worker_count = worker_count
        self._unfinished: weakref.WeakSet[ScalerFuture[Any]] = weakref.WeakSet()
        self._shared = _Shared()

    def __reduce__(self) -> Any:
        return _nested, (self.client, self._options, self.nesting_level, self._worker_count)

    # ------------------------------------------------------------ how many

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = -1
        if n_jobs > 0:
            return n_jobs
        if task_context.current() is None or not self._worker_count:
            self._worker_count = self.client.cluster_info(_COUNT_SECONDS).worker_count
        return max(self._worker_count + 1 + n_jobs, 1)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        **_: Any,
    ) -> int:
        self.parallel = parallel
        if initializer is None:
            initializer, initargs = self._initializer
        if initializer is not None:
            # Equal bytes are one initializer: a later Parallel with the same one finds its processes initialized.
            self._start_pieces = values.dumps((initializer, initargs))
            self._start = [self.client.send_object(bytes(values.join(self._start_pieces)))]
        return self.effective_n_jobs(n_jobs)

    def terminate(self) -> None:
        self._start, self._start_pieces = [], None
        self.reset_batch_stats()

    def get_nested_backend(self) -> tuple[ScalerBackend, None]:
        level = (self.nesting_level or 0) + 1
        return _nested(self.client, self._options, level, self._worker_count), None

    # ------------------------------------------------------------ calls

    def submit(self, func: Any, callback: Callable[[Any], object] | None = None) -> ScalerFuture[Any]:
        batch, references = self._apart(func)
        run = _run_initialized if self._start else _run
        future = self.client.submit_verbose(run, (*self._start, batch, *references), {}, **self._options)
        self._unfinished.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: ScalerFuture[Any]) -> Any:
        try:
            return out.result()
        except RemoteError as error:
            if error.type_name != "builtins.KeyboardInterrupt":
                raise
            # A client never raises an interrupt of a task as one of its own; programs of joblib catch it as such.
            raise KeyboardInterrupt(error.message) from error

    def abort_everything(self, ensure_ready: bool = True) -> None:
        for future in list(self._unfinished):
            future.cancel()

    def stop_call(self) -> None:
        self._shared.clear()
        self._unfinished.clear()

    @contextlib.contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """joblib waits by looking again and again: a task that does lends its place meanwhile. (WRK-9)"""
        context = task_context.current()
        if context is None:
            yield
            return
        context.block()
        try:
            yield
        finally:
            context.unblock()

    # ------------------------------------------------------------ large arguments

    def _apart(self, batch: Any) -> tuple[Any, list[ObjectReference[Any]]]:
        """The batch with the number of a reference in each place of a large argument, and the references."""
        references: dict[ObjectReference[Any], int] = {}

        def place(value: Any) -> Any:
            if not _is_large(value):
                return value
            reference = self._shared.reference(value, self.client)
            return _Place(references.setdefault(reference, len(references)))

        items = _changed(batch.items, place)
        if not references:
            return batch, []
        batch = copy.copy(batch)
        batch.items = items
        return batch, list(references)


class _Shared:
    """The large arguments of one Parallel, by identity, each as long as the program has it: a Parallel may take more of
    them than fit into the memory, one after another. Bytes cannot be referred to weakly: the last few are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Callable[[], Any], ObjectReference[Any]]] = OrderedDict()
        #: of these, what is kept, so that its id stays its own
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def reference(self, value: Any, client: Client) -> ObjectReference[Any]:
        number = id(value)
        known = self._known.get(number)
        if known is not None and known[0]() is value:
            return known[1]
        reference = client.send_object(value)
        self._known[number] = self._seen(value, number, reference), reference
        return reference

    def _seen(self, value: Any, number: int, reference: ObjectReference[Any]) -> Callable[[], Any]:
        def forget(_: object) -> None:
            if number in self._known and self._known[number][1] is reference:
                del self._known[number]

        try:
            return weakref.ref(value, forget)
        except TypeError:
            self._kept[number] = value
            if len(self._kept) > KEPT_ARGUMENTS:
                self._known.pop(self._kept.popitem(last=False)[0], None)
            return lambda: self._kept.get(number)

    def clear(self) -> None:
        self._known.clear()
        self._kept.clear()


class _Place:
    """Where a large argument belongs."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def _changed(items: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """The calls of a batch, with each of their arguments changed."""
    return [
        (function, tuple(map(change, arguments)), {name: change(value) for name, value in keywords.items()})
        for function, arguments, keywords in items
    ]


def _run(batch: Any, *large: Any) -> Any:
    """In the worker."""
    if large:

        def value_of(argument: Any) -> Any:
            return large[argument.index] if type(argument) is _Place else argument

        batch.items = _changed(batch.items, value_of)
    return batch()


def _run_initialized(start: bytes, batch: Any, *large: Any) -> Any:
    """In the worker."""
    worker_state(_initialize, start)
    return _run(batch, *large)


def _initialize(start: bytes) -> None:
    initializer, initargs = values.loads(start)
    initializer(*initargs)


def _is_large(value: Any) -> bool:
    """Of what is cheap to ask: arrays, data frames' buffers, bytes."""
    size = len(value) if isinstance(value, bytes | bytearray) else getattr(value, "nbytes", 0)
    return isinstance(size, int) and size >= SHARED_BYTES


def _nested(client: Client, options: dict[str, Any], nesting_level: int | None, worker_count: int) -> ScalerBackend:
    return ScalerBackend(client, nesting_level=nesting_level, worker_count=worker_count, **options)


def _has_died(client: LocalClient) -> bool:
    return client.cluster is not None and client.cluster._has_died


def _shared_local_client() -> Client:
    with _lock:
        if _local_client and _has_died(_local_client[0]):  # else each call would wait for a scheduler that has died
            _local_client.pop().disconnect()
        if not _local_client:
            _local_client.append(local())
        return _local_client[0]


register_parallel_backend("scaler", ScalerBackend)
