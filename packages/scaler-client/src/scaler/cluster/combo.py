"""A whole cluster on this machine: storage, scheduler and workers as child processes, by their commands.

Nothing of them is imported, so `if __name__ == "__main__"` is not needed, and the children are what an operator would
have started by hand. They end with this process, however it ends.
"""

from __future__ import annotations

import atexit
import operator
import os
import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scaler.client.client import Client
from scaler.client.elsewhere import OF_CLUSTERS, explain_missing
from scaler.client.futures.waiting import program_exits
from scaler.cluster.cluster import Cluster
from scaler.cluster.object_storage_server import ObjectStorageServerProcess
from scaler.cluster.process import CommandProcess, require
from scaler.cluster.readiness import wait_until_ready
from scaler.cluster.scheduler import SchedulerProcess
from scaler.cluster.warm import can_start_warm, start_warm
from scaler_protocol import codes, waits
from scaler_protocol.addresses import default_monitor_address, default_storage_address, parse_address
from scaler_protocol.keys import KeyFileError, Keyring, find_keyring, lookup, new_secret
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.texts import KeyText, key_text, ticket_text
from scaler_protocol.process import require_posix
from scaler_protocol.process.ports import answers, free_ports, is_free

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from scaler.cluster.keywords import ClientOptions
    from scaler.cluster.page import PageProcess

START_SECONDS = 60.0
"""How long a cluster may take to start: interpreters on a busy machine are slow."""


class SchedulerClusterCombo:
    """A cluster on this machine: object storage, scheduler and workers, each a process of its own.

    The cluster ends with its `with` block, with `shutdown()`, or with the program. Its log lines and what tasks print
    go to the program's standard error, except what a client with `stream_output=True` shows. Standard output is the
    program's own, unless `logging_paths` has /dev/stdout.
    """

    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        object_storage_address: str | None = None,
        monitor_address: str | None = None,
        per_worker_capabilities: dict[str, int] | None = None,
        worker_io_threads: int = 1,
        scheduler_io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        lost_processors_limit: int = 3,
        heartbeat_interval_seconds: float = 2,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1024 * 1024 * 1024,
        per_worker_task_queue_size: int = 1000,
        hard_processor_suspend: bool = False,
        protected: bool = True,
        allocate_policy: Any = "even",
        event_loop: str = "builtin",
        logging_paths: Iterable[str] = ("/dev/stderr",),
        logging_level: str = "WARNING",
        logging_config_file: str | None = None,
        per_worker_queue_size: int | None = None,
        storage_address: str | None = None,
        scaler_policy: Any = None,
        key_file: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        memory_limit: int | None = None,
        spill_directory: str | os.PathLike[str] | None = None,
        disk_limit: int | None = None,
        present_seconds: float = 60,
        ui: bool = False,
        data_directory: str | os.PathLike[str] | None = None,
        gpus: str | None = None,
        memory_per_processor: int | str | None = None,
        tasks_per_processor: int | None = None,
    ) -> None:
        """Start the cluster, and wait until its workers are ready, for up to 60 s.

        Args:
            n_workers: how many workers, from 0; each runs one task at a time.
            address: of the scheduler, such as `tcp://127.0.0.1:2345`. None: free ports of 127.0.0.1.
            object_storage_address: of the object storage; one is started there unless one answers. None: the port after
                that of `address`.
            monitor_address: of the monitor. None: the second port after that of `address`.
            per_worker_capabilities: what each worker offers, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            worker_io_threads: threads of each worker that move messages, from 1.
            scheduler_io_threads: threads of the scheduler that move messages, from 1.
            max_number_of_tasks_waiting: if so many tasks wait, further ones fail with NoWorkerError. -1: no limit.
            lost_processors_limit: a task fails with ProcessorDiedError when so many processes that ran it have died.
            heartbeat_interval_seconds: how often workers report their status, above 0.
            client_timeout_seconds: a client that is silent for so long, above 0, is lost, and its tasks end.
            worker_timeout_seconds: a worker that is silent for so long, above 0, is lost; others run its tasks.
            object_retention_seconds: how long workers keep functions that no task uses.
            task_timeout_seconds: a task that runs for longer is stopped. 0: none, but by a timeout of its own.
            death_timeout_seconds: how long workers look for a lost scheduler before they end.
            load_balance_seconds: how often queued tasks of busy workers are moved to idle ones. 0 or less: never.
            load_balance_trigger_times: how many looks in a row must find such tasks before they are moved, from 1.
            garbage_collect_interval_seconds: how often a busy process collects garbage, above 0.
            trim_memory_threshold_bytes: a process with so much memory gives back what is free after that.
            per_worker_task_queue_size: the most tasks that a worker queues, from 1.
            hard_processor_suspend: True stops the whole process of a task while it waits for its children.
            protected: True refuses `client.shutdown()`.
            allocate_policy: "even" or "capability", which mean the same.
            event_loop: "builtin", or "uvloop" if it is installed.
            logging_paths: files for log lines.
            logging_level: the least level that is logged: "DEBUG", "INFO", "WARNING", "ERROR" or "CRITICAL".
            logging_config_file: a file for `logging.config.fileConfig`, in place of the two above.
            per_worker_queue_size: earlier name of `per_worker_task_queue_size`, and counts more.
            storage_address: earlier name of `object_storage_address`, and counts less.
            scaler_policy: `allocate_policy` as a text of earlier versions, such as "allocate=even_load; scaling=no".
            key_file: the cluster's key. None: a new one, or the key of an object storage that answers.
            insecure: True for neither key nor encryption: any program on this machine can then run code in the cluster.
            memory_limit: bytes of objects that the storage takes. None: no limit.
            spill_directory: from 80 % of `memory_limit` on, the storage moves objects into files there.
            disk_limit: bytes that objects may take in that directory, or in `data_directory`. None: no limit.
            present_seconds: if the scheduler is lost, workers keep their tasks for so long.
            ui: True serves the page of `scaler_ui` too (needs the extra `ui`): see `dashboard_link`.
            data_directory: keeps objects there for a storage that is started again with it.
            gpus: devices to share out among the workers: "auto", or ids such as "0,1". None: no devices.
            memory_per_processor: bytes; a task whose process reaches them fails with MemoryLimitError. None: no limit.
            tasks_per_processor: replace a process after so many tasks, from 1. None: never.

        Raises:
            ImportError: the parts of a cluster are not installed: `pip install 'scaler-client[cluster]'`.
            ValueError: an argument is out of its range.
            TypeError: `n_workers` is no whole number.
            KeyFileError: the key cannot be used.
            ClusterStartError: of `scaler.cluster.process`: a part did not start; the text has its last lines.
            NotImplementedError: this is Windows, where no cluster can run.
        """
        self._children: list[CommandProcess] = []
        self._warm: CommandProcess | None = None
        self._lock = waits.Lock()
        self._process_id = os.getpid()
        require_posix("a local cluster")
        _check_count(n_workers)
        require("scaler_storage", "scaler_scheduler", *(["scaler_worker"] if n_workers else []))
        self._address = _free_address() if address is None else _checked_address(address)
        storage = object_storage_address or storage_address
        self._storage_address = str(storage or default_storage_address(self._address))
        self._n_workers = n_workers
        program = _program_options(event_loop, logging_paths, logging_level, logging_config_file, insecure)
        is_started = storage is None or _is_ours_to_start(self._storage_address)
        self._keyring = _keyring(key_file, insecure, None if is_started else self._storage_address)
        room = _room(memory_limit, disk_limit, spill_directory, data_directory)
        self._storage = ObjectStorageServerProcess(self._storage_address, **room, **program) if is_started else None
        self._scheduler = SchedulerProcess(
            address=self._address,
            storage_address=self._storage_address,
            monitor_address=monitor_address or default_monitor_address(self._address),
            io_threads=scheduler_io_threads,
            max_number_of_tasks_waiting=max_number_of_tasks_waiting,
            lost_processors_limit=lost_processors_limit,
            client_timeout_seconds=client_timeout_seconds,
            worker_timeout_seconds=worker_timeout_seconds,
            object_retention_seconds=object_retention_seconds,
            load_balance_seconds=load_balance_seconds,
            load_balance_trigger_times=load_balance_trigger_times,
            protected=protected,
            allocate_policy=allocate_policy,
            scaler_policy=scaler_policy,
            **program,
        )
        self._cluster = None
        if n_workers:
            self._cluster = Cluster(
                address=self._address,
                worker_io_threads=worker_io_threads,
                worker_names=tuple(map(str, range(n_workers))),
                per_worker_capabilities=per_worker_capabilities,
                per_worker_task_queue_size=per_worker_queue_size or per_worker_task_queue_size,
                heartbeat_interval_seconds=heartbeat_interval_seconds,
                task_timeout_seconds=task_timeout_seconds,
                death_timeout_seconds=death_timeout_seconds,
                garbage_collect_interval_seconds=garbage_collect_interval_seconds,
                trim_memory_threshold_bytes=trim_memory_threshold_bytes,
                hard_processor_suspend=hard_processor_suspend,
                present_seconds=present_seconds,
                gpus=gpus,
                memory_per_processor=memory_per_processor,
                tasks_per_processor=tasks_per_processor,
                **program,
            )
        self._page = _page(self._address, program) if ui else None
        try:
            self._start(joins_streams="/dev/stdout" not in program["logging_paths"])
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._warm is not None:
            self._warm.kill()  # the parts that it has not started yet shall not start
        self.shutdown()

    def _start(self, *, joins_streams: bool) -> None:
        _combos.add(self)
        if self._cluster is not None:  # what workers write is shown by this program, as streamed output is by a client
            self._cluster.command.insert(3, "--hide-streamed-output=True")
        made = (self._storage, self._scheduler, self._cluster)
        parts: list[CommandProcess] = [part for part in made if part is not None]
        for part in parts:
            part.joins_streams = joins_streams
            if self._keyring is not None:
                part.handed = (
                    _ticket(self._keyring, codes.ROLE_WORKER) if part is self._cluster else key_text(self._keyring.keys)
                )
        lookup.own(self._address, self._keyring)
        if can_start_warm():
            # Workers take longest until they answer: what the scheduler needs is imported meanwhile.
            order = (self._storage, self._cluster, self._scheduler)
            self._warm = start_warm([part for part in order if part is not None])
            self._children = parts
        else:
            for part in parts:
                part.start()
                self._children.append(part)
        if self._page is not None:
            self._page.handed = "" if self._keyring is None else _ticket(self._keyring, codes.ROLE_MONITOR)
            self._page.joins_streams = joins_streams
            self._page.start()
            self._children = [*self._children, self._page]
        shown = None if self._keyring is None else self._keyring.own_pass()
        watched = parts if self._warm is None else [self._warm, *parts]
        wait_until_ready(self._address, self._n_workers, self._scheduler, watched, START_SECONDS, shown)
        if self._page is not None:
            self._page.wait_until_ready(START_SECONDS)

    def get_address(self) -> str:
        """Where clients connect to, such as tcp://127.0.0.1:34567."""
        return self._address

    @property
    def dashboard_link(self) -> str | None:
        """The address of the page, with the token that opens it; None without `ui=True`."""
        return None if self._page is None else self._page.link

    @property
    def _has_died(self) -> bool:
        """A part of it has ended by itself. A forked child cannot tell."""
        return os.getpid() == self._process_id and any(one.exitcode is not None for one in self._children)

    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """A client of this cluster.

        Args:
            **options: of `Client`.

        Raises:
            Exception: as `Client` does.
        """
        return Client(self, **options)

    def shutdown(self) -> None:
        """Stop everything, workers first. Bounded; a second time, and in a process that was forked, it does nothing."""
        if os.getpid() != self._process_id:
            return  # a forked child has a copy of the object; the cluster is its parent's
        with self._lock:
            children, self._children = self._children, []
            if children:
                lookup.own(self._address, None)
            warm, self._warm = self._warm, None
        # In this order no part loses a part that it depends on, and none has to warn about it.
        for child in reversed(children):
            child.end()
        if warm is not None:
            warm.end()

    def __enter__(self) -> SchedulerClusterCombo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        if getattr(self, "_children", None):
            self.shutdown()

    def __repr__(self) -> str:
        return f"<SchedulerClusterCombo at {self._address}, {self._n_workers} workers>"

    @property
    def _figures(self) -> dict[str, str]:
        """Workers, cores and memory, as texts under their titles."""
        from scaler.top.formats import byte_text

        return {
            "Workers": f"{self._n_workers:,}",
            "Cores": f"{_core_count():,} of this machine",
            "Memory": f"{byte_text(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of this machine",
        }

    def _repr_html_(self) -> str:
        """For notebooks: with a link to the page, if there is one."""
        import html

        from scaler.client.display import link_to, table_of  # few programs show one

        rows = self._figures if self._children else {"State": "has ended"}
        head = f"<b>Cluster</b> at <code>{html.escape(self._address)}</code> {link_to(self.dashboard_link)}"
        return f"{head.rstrip()}{table_of(rows)}"


explain_missing(SchedulerClusterCombo, OF_CLUSTERS)


def _core_count() -> int:
    """Those that this program, and so its cluster, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_combos: weakref.WeakSet[SchedulerClusterCombo] = weakref.WeakSet()


def _check_count(n_workers: int) -> None:
    try:
        count = operator.index(n_workers)
    except TypeError:
        raise TypeError(f"n_workers must be a whole number, got {n_workers!r}") from None
    if count < 0:
        raise ValueError(f"n_workers must not be negative, got {count}")
    if not count:
        text = "a cluster of no workers: tasks wait until a scaler_cluster or a worker manager joins it"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _room(memory_limit: int | None, disk_limit: int | None, spill: Any, data: Any) -> dict[str, Any]:
    """What the object storage may take."""
    directories = {"spill_directory": spill, "data_directory": data}
    return {"memory_limit": memory_limit, "disk_limit": disk_limit, **directories}


def _program_options(
    event_loop: str, paths: Iterable[str], level: str, config_file: str | None, insecure: bool
) -> dict[str, Any]:
    """What every part is told."""
    return {
        "insecure": insecure,
        "event_loop": event_loop,
        "logging_paths": (paths,) if isinstance(paths, str) else tuple(paths),
        "logging_level": level,
        "logging_config_file": config_file,
    }


def _keyring(key_file: str | os.PathLike[str] | None, insecure: bool, other_storage: str | None) -> Keyring | None:
    """A key for the life of this cluster, unless one is named, or it joins a storage that has one."""
    if insecure or key_file is not None:
        return find_keyring(key_file, insecure)
    if other_storage is None:
        return Keyring([new_secret()])
    found, origin = lookup.searched(other_storage)
    if not isinstance(found, KeyText):
        raise KeyFileError(f"{origin} holds a ticket: name the key of the storage at {other_storage} (key_file=)")
    return Keyring(found.keys, origin)


def _ticket(keyring: Keyring, role: int) -> str:
    return ticket_text(keyring.derive(account_name(), frozenset({role})))


def _page(address: str, program: dict[str, Any]) -> PageProcess:
    from scaler.cluster.page import PageProcess

    return PageProcess(address, **program)


def _checked_address(address: object) -> str:
    parse_address(str(address))
    return str(address)


def _is_ours_to_start(storage_address: str) -> bool:
    """Nothing answers at this address of this machine. What another machine has, the scheduler waits for."""
    parsed = parse_address(storage_address)
    return not answers(storage_address) and (bool(parsed.path) or is_free(parsed.port, parsed.host))


def _shut_down_all() -> None:
    program_exits.set()
    for combo in list(_combos):
        combo.shutdown()


atexit.register(_shut_down_all)


def _free_address() -> str:
    """With three free ports in a row: scheduler, storage, monitor."""
    return f"tcp://127.0.0.1:{free_ports(3)}"
