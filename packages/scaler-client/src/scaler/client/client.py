"""The client: what a program holds on to."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from scaler.client.address import HasAddress, address_of
from scaler.client.elsewhere import CALLED_HERE, explain_missing
from scaler.client.future import ScalerFuture
from scaler.client.futures.leaving import bring_values, wait_for_ends
from scaler.client.futures.waiting import stand_still_at_exit
from scaler.client.io import forking, sharing
from scaler.client.io.connection import Connection
from scaler.client.serializer.default import DefaultSerializer
from scaler.client.serializer.mixins import Serializer
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.options import seconds_of
from scaler.client.submitting.surface import Submitting
from scaler.utility.exceptions import ClientQuitException
from scaler_protocol import codes, task_context, waits
from scaler_protocol.addresses import check_resolvable, parse_address, parse_addresses
from scaler_protocol.errors import readable
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import NO_TASK
from scaler_protocol.transport.descriptors import exhaustion_told, expect_room

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from scaler.client.glimpse import Glimpse
    from scaler.client.info import ClusterInfo
    from scaler.client.submitting.code import CodeSource, Requirements
    from scaler.client.submitting.named import NamedCalls

_log = logging.getLogger("scaler")

_CLEAR_SECONDS = 60.0
_UNSET: Any = object()
_DESCRIPTORS = 16
"""What a first client opens at most while it connects. Cap'n Proto ends the process if it finds none left to load its
schema."""


@explain_missing
class Client(Submitting):
    """A connection to a scheduler, as a `concurrent.futures.Executor`.

    Leave its `with` block, or call `disconnect()`, when you need it no longer: every later call raises
    ClientQuitException. A client may be an argument of a task. There it is a client of the same cluster, and the tasks
    that it submits belong to that task.
    """

    asynchronous = False
    """False: Dask looks for this attribute at every client."""

    def __init__(
        self,
        address: str | HasAddress | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer | None = None,
        stream_output: bool = False,
        object_storage_address: str | None = None,
        key_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        trust_results: bool = True,
        on_exit: Literal["cancel", "wait"] = "cancel",
        weight: float = 1.0,
        code: CodeSource | Iterable[CodeSource] | None = None,
        requirements: Requirements | None = None,
    ) -> None:
        """Connect, and wait until the scheduler has answered.

        Args:
            address: of the scheduler, such as `tcp://127.0.0.1:2345`, or several with commas if there are standbys; or
                a `SchedulerClusterCombo`, which is then kept running. None, in a task: the scheduler of that task.
            profiling: accepted, without effect: every task is measured.
            timeout_seconds: for so long, above 0, the client waits for a scheduler, now or when it was lost.
            heartbeat_interval_seconds: above 0; so often an idle client sends a sign, at most `timeout_seconds` / 3.
            serializer: turns functions, arguments and results into bytes. None: cloudpickle.
            stream_output: True writes what tasks print to this program's output too.
            object_storage_address: of the storage as this program reaches it. None: as the scheduler names it.
            key_file: the cluster's key, or a ticket. None: searched for (docs: "Who may do what").
            insecure: True for a cluster that was started so, with neither key nor encryption.
            trust_results: False refuses results that are no plain values or collections: reading a pickle runs code.
            on_exit: leaving a `with` block cancels unfinished tasks and logs their number; "wait" waits for them.
            weight: of this program while programs compete for workers, 0.01 to 1; 0.1 is a tenth of another's time.
            code: modules that this client's functions import, where workers lack them: as for `send_code`.
            requirements: packages that they import: as for `send_code`.

        Raises:
            ValueError: an argument is out of its range, or there is no address outside of a task.
            TypeError: the serializer is none.
            TimeoutError: no scheduler answered within `timeout_seconds`.
            RejectedError: the scheduler refuses this client; such as UnauthorizedError or VersionMismatchError.
            KeyFileError: no key was found, or its file cannot be used.
            TooManyOpenFilesError: the process has no descriptors left.
        """
        #: kept: a cluster that is made in the call would be shut down when nothing refers to it
        self._cluster: str | HasAddress | None = address
        self._address = address_of(address)
        timers = (("timeout_seconds", timeout_seconds), ("heartbeat_interval_seconds", heartbeat_interval_seconds))
        for name, seconds in timers:
            if not 0 < seconds_of(name, seconds) < math.inf:
                raise ValueError(f"{name} must be greater than zero, and finite: got {seconds}")
        if serializer is not None and not all(hasattr(serializer, name) for name in ("serialize", "deserialize")):
            raise TypeError(f"a serializer has serialize() and deserialize(); {type(serializer).__name__} has not")
        if serializer is not None and not trust_results:
            raise ValueError("trust_results=False reads plain types, and a serializer of your own reads what it likes")
        if on_exit not in ("cancel", "wait"):
            raise ValueError(f'on_exit must be "cancel" or "wait", got {on_exit!r}')
        if not 0.01 <= weight <= 1:
            raise ValueError(f"weight must be from 0.01 to 1, the full share of a program: got {weight}")
        parse_addresses(self._address)
        if object_storage_address is not None:
            parse_address(object_storage_address)
        self._timeout_seconds = float(timeout_seconds)
        self._heartbeat_seconds = float(heartbeat_interval_seconds)
        self._serializer = None if type(serializer) is DefaultSerializer else serializer
        self._stream_output = stream_output
        self._storage_address = object_storage_address
        self._keys = KeyOptions(None if key_file is None else os.fspath(key_file), insecure)
        self._trusts_results = trust_results
        self._on_exit = on_exit
        self._weight = float(weight)
        self._prepare()
        if code is not None or requirements is not None:
            self.send_code(code, requirements=requirements)
        self._ready()

    def _renew_locks(self) -> None:
        """For a forked child: another thread of its parent may have connected this client when the process forked."""
        self._lock = waits.RLock()

    def _prepare(self) -> None:
        self._renew_locks()
        forking.note_locks(self)
        self._is_closed = False
        self._calls: Calls | None = None
        self._named: NamedCalls | None = None
        self._is_shared = False
        self._glimpse: Glimpse | None = None
        #: what the tasks of this handle import from, packed (CLI-24)
        self._code = b""
        #: names this handle's tasks: handles in one process of a worker share a connection
        self._owner = object()

    # ------------------------------------------------------------ ending

    def clear(self) -> None:
        """Cancel all unfinished tasks of this client, wait up to 60 s for their end, and invalidate its references. The
        client stays usable. A `map` that waits for some of the tasks in another thread raises CancelledError."""
        calls = self._ready()
        connection = calls.connection
        collectors = connection.pending_collectors(self._owner)
        connection.clear(self._owner)
        connection.hasten()
        end_at = time.monotonic() + _CLEAR_SECONDS
        for collector in collectors:
            if isinstance(collector, ScalerFuture):
                collector.wait_for_end(end_at)
        calls.release_references()

    def disconnect(self) -> None:
        """Cancel what is unfinished and leave. The cluster is not affected. A second time it does nothing.

        Results of ended tasks can be read afterwards: what is large of them is fetched now, up to 4 GiB, for futures
        that the program holds. That takes at most `timeout_seconds`."""
        self._disconnect()

    def _disconnect(self, *, is_hurried: bool = False) -> None:
        with self._lock:
            calls, is_closed, self._is_closed = self._calls, self._is_closed, True
            self._calls = None
        if calls is None or is_closed:
            return
        if self._is_shared:
            calls.connection.clear(self._owner)
            calls.release_references()
            return
        try:
            if not is_hurried:
                bring_values(calls.connection, list(calls.maps))
        finally:
            calls.connection.close()

    def shutdown(self, wait: bool = _UNSET, *, cancel_futures: bool = _UNSET) -> None:
        """Without arguments: stop the whole cluster. With any argument: close this client only, as an Executor does.

        Args:
            wait: wait for unfinished tasks. False: return at once; the client leaves when they have ended.
            cancel_futures: True cancels unfinished tasks.

        Raises:
            ValueError: without arguments, if the cluster is protected.
            DisconnectedError: without arguments, if the scheduler did not answer in time.
        """
        if wait is not _UNSET or cancel_futures is not _UNSET:
            self._shut_down_as_executor(wait is _UNSET or wait, cancel_futures is not _UNSET and cancel_futures)
            return
        calls = self._ready()
        bring_values(calls.connection, list(calls.maps))
        answer = calls.connection.shut_down_cluster()
        self._disconnect(is_hurried=True)
        if not answer.is_accepted:
            raise ValueError(
                readable(answer.text) or "the scheduler is in protected mode: it does not stop for a client"
            )

    def _shut_down_as_executor(self, wait: bool, cancel_futures: bool) -> None:
        with self._lock:
            calls = None if self._is_closed else self._calls
        if calls is None:
            return
        self._is_refusing = True
        # In a forked child the connection is closed, and the threads that gather are the parent's.
        is_idle = cancel_futures or calls.connection.is_closed
        collectors = [] if is_idle else [*calls.maps, *calls.connection.pending_collectors(self._owner)]
        if wait:
            self._leave_after(collectors)
        else:
            threading.Thread(target=self._leave_after, args=(collectors,), name="scaler-leave", daemon=True).start()

    def _leave_after(self, collectors: list[Any]) -> None:
        try:
            wait_for_ends(collectors)
        finally:
            self.disconnect()

    def __exit__(self, exception_type: object, *_exception: object) -> None:
        if self._on_exit == "wait":
            self._shut_down_as_executor(wait=True, cancel_futures=False)
            return
        calls = None if self._is_closed else self._calls
        collectors = [] if calls is None else calls.connection.pending_collectors(self._owner)
        count = sum(isinstance(collector, ScalerFuture) and not collector.done() for collector in collectors)
        self._disconnect(is_hurried=exception_type is KeyboardInterrupt)
        if count and exception_type is None:
            what = "1 task that had" if count == 1 else f"{count:,} tasks that had"
            _log.warning(
                'leaving the `with` block canceled %s not ended: ask for the results before, or write on_exit="wait"',
                what,
            )

    # ------------------------------------------------------------ code

    def send_code(
        self, code: CodeSource | Iterable[CodeSource] | None = None, *, requirements: Requirements | None = None
    ) -> None:
        """Send the modules, and the packages, that the functions of this client import. Tasks that are submitted from
        now on find them; tasks submitted before keep what they had.

        It replaces what was sent before. Call it again when files have changed, and without arguments to send none.

        Args:
            code: a module file, a package, a directory with modules and packages in it (as an entry of `sys.path`), a
                `.zip` or `.whl` file, an imported module, or several of these in a list. Hidden files and
                `__pycache__` are left out. At most 20,000 files and 256 MiB.
            requirements: packages from an index, as a list (`["numpy==2.1"]`), a requirements file, or a `uv.lock`.
                Each host installs them once for a program.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: something in it cannot be sent.
            RejectedError: the scheduler is of a version that sends no code.
        """
        from scaler.client.submitting.code import code_set_of  # few programs send code

        content = code_set_of(code, requirements)
        calls = self._ready()
        with self._lock:
            self._code = content
            self._use_code(calls)

    def _use_code(self, calls: Calls) -> None:
        from scaler.client.submitting.code import stored_code_set

        calls.use_code_set(stored_code_set(calls.connection, self._code))

    # ------------------------------------------------------------ in an event loop

    @classmethod
    async def open(cls, *arguments: Any, **options: Any) -> Self:
        """A new client, without blocking the event loop while it connects.

        Args:
            *arguments: of the class.
            **options: of the class.

        Raises:
            Exception: as the class does.
        """
        import asyncio  # not needed, and slow to import, for everyone else

        return await asyncio.to_thread(cls, *arguments, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        import asyncio

        await asyncio.to_thread(self.__exit__, *exception)

    def __del__(self) -> None:
        # Unfinished futures keep their client, so no thread waits for anything of this one any more.
        calls = getattr(self, "_calls", None)
        if calls is not None and not self._is_shared:
            calls.connection.close_later()

    # ------------------------------------------------------------ facts

    @property
    def identity(self) -> bytes:
        """The id under which the scheduler knows this client."""
        return self._ready().connection.identity

    @property
    def _max_workers(self) -> int:
        """For Dask, as a window of its own: enough to keep a large cluster busy."""
        return 1024

    def cluster_info(self, timeout: float = 5.0) -> ClusterInfo:
        """What the cluster has and does now. In a cluster with keys, a ticket needs the role monitor besides client.

        Args:
            timeout: seconds.

        Raises:
            MonitorError: of `scaler.monitoring`: nothing answered in time, or the ticket is not for monitors.
        """
        from scaler.client.info import cluster_info  # few programs ask

        seconds = seconds_of("timeout", timeout)
        return cluster_info(self._ready().connection.address, self._keys, seconds)

    @property
    def dashboard_link(self) -> str | None:
        """The address of the page, if this client was made with a cluster that serves one (`ui=True`)."""
        link: str | None = getattr(self._cluster, "dashboard_link", None)
        return link

    def __repr__(self) -> str:
        return f"<Client of {self._address}, {', '.join(self._standing())}>"

    def _repr_html_(self) -> str:
        """For notebooks. Workers and memory are as last published: to show a client waits for nothing."""
        import html

        from scaler.client.display import link_to, table_of  # few programs show one

        rows = {"State": ", ".join(self._standing()), **self._figures()}
        head = f"<b>Client</b> of <code>{html.escape(self._address)}</code> {link_to(self.dashboard_link)}"
        return f"{head.rstrip()}{table_of(rows)}"

    def _figures(self) -> dict[str, str]:
        """Of the cluster, for people."""
        from scaler.client.glimpse import Glimpse

        calls = self._calls
        if self._is_closed or self._is_refusing or calls is None or calls.connection.is_closed:
            return {}
        self._glimpse = self._glimpse or Glimpse()
        info = self._glimpse.look(calls.connection.address, self._keys)
        figures: dict[str, str] = getattr(self._cluster, "_figures", {})
        if info is None:
            return figures or {"Workers": "not known yet: show the client again in a moment"}
        return {**info._figures, **figures}

    def _standing(self) -> tuple[str, ...]:
        """For people. What is known here: no message is sent, and no lock is waited for."""
        calls = self._calls
        if self._is_closed or self._is_refusing:
            return ("disconnected",)
        if calls is None or calls.connection.is_closed:
            return ("not connected yet",) if calls is None else ("disconnected",)
        is_connected, count = calls.connection.standing()
        tasks = f"{count:,} unfinished {'task' if count == 1 else 'tasks'}"
        return "connected" if is_connected else "waiting for the scheduler", tasks

    # ------------------------------------------------------------ travelling into tasks

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - CALLED_HERE.keys())

    def __getstate__(self) -> dict[str, Any]:
        return {
            "address": self._address,
            "timeout_seconds": self._timeout_seconds,
            "heartbeat_interval_seconds": self._heartbeat_seconds,
            "serializer": self._serializer,
            "stream_output": self._stream_output,
            "object_storage_address": self._storage_address,
            # No key and no name of a file: in a task the worker's ticket counts, elsewhere what is found there.
            "insecure": self._keys.insecure,
            "trust_results": self._trusts_results,
            "on_exit": self._on_exit,
            "weight": self._weight,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Connects when it is first used: many tasks carry a client that they never touch."""
        self._cluster = None
        self._address = state["address"]
        self._timeout_seconds = state["timeout_seconds"]
        self._heartbeat_seconds = state["heartbeat_interval_seconds"]
        self._serializer = state["serializer"]
        self._stream_output = state["stream_output"]
        self._storage_address = state["object_storage_address"]
        self._keys = KeyOptions(insecure=state["insecure"])
        self._trusts_results = state["trust_results"]
        self._on_exit = state["on_exit"]
        self._weight = state["weight"]
        self._prepare()

    # ------------------------------------------------------------ inside

    _is_refusing = False

    def _ready(self) -> Calls:
        calls = self._calls
        if calls is not None and not self._is_refusing and not calls.connection.is_closed:
            return calls
        if self._is_closed or self._is_refusing:
            stand_still_at_exit()
            # The first words are those of the executors of the standard library: libraries look for them.
            raise ClientQuitException(
                "cannot schedule new futures after shutdown: this client is disconnected, make a new one"
            )
        with self._lock:
            if self._calls is None or self._calls.connection.is_closed:
                flags = codes.FLAG_PROFILING | (codes.FLAG_STREAM_OUTPUT if self._stream_output else 0)
                calls = self._calls_type()(self._connect(), self._serializer, flags, owner=self._owner)
                if self._code:
                    self._use_code(calls)
                if self._calls is None or self._calls.connection.is_closed:
                    self._calls = calls
                elif not self._is_shared:  # a signal's handler has used this client meanwhile
                    calls.connection.close_later()
            return self._calls

    def _calls_type(self) -> type[Calls]:
        """In a task, calls may belong to the trace of that task."""
        if task_context.current() is None:
            return Calls
        from scaler.client.submitting.tracing import TracedCalls  # most programs make no client in a task

        return TracedCalls

    def _connect(self) -> Connection:
        context = task_context.current()
        if context is None:
            return self._open(self._address, self._storage_address)
        # The worker knows its scheduler by an address that works from where it is; the client's own may not. (CLI-9)
        self._is_shared = True
        address = context.scheduler_address or self._address
        return sharing.shared(
            address,
            self._trusts_results,
            context.family,
            self,
            lambda: self._open(address, context.storage_address or None),
        )

    def _open(self, address: str, storage_address: str | None) -> Connection:
        check_resolvable(address)
        expect_room(_DESCRIPTORS)
        context = task_context.current()
        shown = self._keys.find_pass(address, self._timeout_seconds) if context is None else context.shown
        if context is None and self._keys.insecure:
            _log.warning(
                "this client uses no key and no encryption (insecure=True): every program that reaches the cluster at "
                "%s can read and change what this client sends and gets",
                address,
            )
        with exhaustion_told():
            connection = Connection(
                address,
                timeout_seconds=self._timeout_seconds,
                heartbeat_seconds=self._heartbeat_seconds,
                storage_address=storage_address,
                parent_task=NO_TASK if context is None else context.task_id,
                shown=shown,
                trusts_results=self._trusts_results,
                weight=self._weight,
            )
            return connection.open()
