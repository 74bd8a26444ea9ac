"""The cluster command: one warm process that forks the workers, buries them, and starts those that broke again.

Everything is imported before the first fork, so the workers share that memory. The process itself has one thread and no
ZeroMQ context, and does nothing but wait. What a killed worker leaves, such as programs of its tasks, becomes a child
of this process, which ends it: no program of a task goes on while the task runs again.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from scaler_protocol.keys import NoKeyFound
from scaler_protocol.messages import Capability
from scaler_protocol.process import (
    PARENT_VARIABLE,
    StartupError,
    adopt_orphans,
    die_with_parent,
    forget_secrets,
    restore_search_path,
    take_secrets,
)
from scaler_protocol.process.modules import add_task_directory
from scaler_protocol.records import dataclass
from scaler_worker.children import (
    EXIT_DONE,
    EXIT_GIVEN_UP,
    children_of_this,
    end_children,
    exited_children,
    in_child,
    kill_children,
)
from scaler_worker.config import ClusterConfig
from scaler_worker.core.deaths import describe_exit
from scaler_worker.core.devices import CAPABILITY
from scaler_worker.cores import share_cores, usable_cores
from scaler_worker.memory import is_readable
from scaler_worker.service import DRAIN_SIGNAL, run_agent
from scaler_worker.zygote import warm_up

logger = logging.getLogger("scaler.cluster")

PROMPT_STARTS = 2
"""So many workers in a row that die young are started again at once: they may have been killed from outside."""
BACKOFF_SECONDS = 0.5
BACKOFF_LIMIT_SECONDS = 30.0
STEADY_SECONDS = 10.0
"""A worker that lived this long did not die young: its start works, whatever ended it."""
STOP_MARGIN_SECONDS = 5.0
"""What workers get beyond the grace of their tasks before they are killed."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class _Worker:
    name: str
    index: int
    process_id: int = 0  #: 0 while it does not run
    started_at: float = 0.0
    start_at: float = 0.0  #: when to start it, while it does not run
    failures: int = 0  #: how often in a row it has died young
    exit_code: int | None = None  #: set when it has ended for good


class Cluster:
    def __init__(self, config: ClusterConfig, run_worker: Callable[[ClusterConfig, str], int] = run_agent) -> None:
        self._config = config
        self._run_worker = run_worker
        self._workers = [_Worker(name, index) for index, name in enumerate(config.worker_names)]
        self._stop_count = 0
        self._kill_at: float | None = None
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._parent = _parent_descriptor()
        #: children that this process had before it became the command
        self._foreign = frozenset(children_of_this())

    def run(self) -> int:
        """Until every worker has ended for good: 0 when all did so in order."""
        logger.info(
            "ClusterProcess: starting %d workers, heartbeat_interval_seconds=%g, object_retention_seconds=%g",
            len(self._workers), self._config.heartbeat_seconds, self._config.object_retention_seconds,
        )  # fmt: skip
        if self._config.memory_bytes and not is_readable():
            raise StartupError("--memory-per-processor needs Linux: leave it out")
        share_cores(os.environ, usable_cores(), len(self._workers))
        take_secrets()
        self._listen_to_signals()
        if not self._find_key():
            return 0
        restore_search_path()
        add_task_directory()
        forget_secrets()  # before there are processes that run the code of users
        warm_up()
        # What was imported so far is never looked at by the workers' collectors, so it stays shared between them.
        gc.collect()
        gc.freeze()
        adopt_orphans()
        while any(worker.exit_code is None for worker in self._workers):
            now = time.monotonic()
            self._start_due(now)
            self._wait(now)
            self._bury(time.monotonic())
            self._stop_workers(time.monotonic())
        end_children(self._wake_reader, self._foreign)
        signal.set_wakeup_fd(-1)
        failed = [worker for worker in self._workers if worker.exit_code]
        logger.info("ClusterProcess: all workers have ended")
        return 1 if failed and not self._stop_count else 0

    def _find_key(self) -> bool:
        """Once for all workers, and for the clients in their tasks. False: it was told to end before there was one."""
        config = self._config
        try:
            shown = config.keys.find_worker_pass(config.address, config.death_timeout_seconds, self._is_to_end)
        except NoKeyFound:
            if self._is_to_end():
                return False
            raise
        self._config = replace(config, shown=shown)
        return True

    def _is_to_end(self) -> bool:
        if self._parent is None:
            return self._stop_count > 0
        return self._stop_count > 0 or bool(select.select([self._parent], [], [], 0)[0])

    def _listen_to_signals(self) -> None:
        self._wake_writer.setblocking(False)
        self._wake_reader.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _STOP_SIGNALS:
            signal.signal(number, lambda received, _frame: self._on_stop(received))

    def _on_stop(self, number: int) -> None:
        self._stop_count += 1
        logger.info("ClusterProcess: received %s, shutting down", signal.Signals(number).name)

    def _start_due(self, now: float) -> None:
        for worker in self._workers:
            if worker.exit_code is None and not worker.process_id and now >= worker.start_at and not self._stop_count:
                worker.started_at = now
                try:
                    worker.process_id = self._fork(worker)
                except OSError as error:
                    self._start_later(worker, f"cannot be forked ({error.strerror})", now)

    def _fork(self, worker: _Worker) -> int:
        cluster_id = os.getpid()
        process_id = os.fork()
        if process_id == 0:
            in_child(lambda: self._become_worker(cluster_id, worker))
        logger.info("Worker[%s] started", worker.name)  # here, so that the lines come in order
        return process_id

    def _become_worker(self, cluster_id: int, worker: _Worker) -> int:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the cluster's to handle
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Told to stop, not killed: it may still hand back its queue.
        die_with_parent(cluster_id, DRAIN_SIGNAL)
        self._wake_reader.close()
        self._wake_writer.close()
        if self._parent is not None:
            os.close(self._parent)
        return self._run_worker(self._with_gpus(worker.index), worker.name)

    def _with_gpus(self, index: int) -> ClusterConfig:
        """In the worker's own process: its tasks see GPUs of its share, or none."""
        if not self._config.gpus:
            return self._config
        from scaler_worker.gpus import NONE_FOUND, Gpus, find_gpus  # most hosts have none

        found = find_gpus(self._config.gpus)
        if not found.ids and index == 0:
            logger.warning(NONE_FOUND, self._config.gpus)
        share = found.of_worker(index, len(self._workers))
        os.environ.update(found.environment(share))
        if not share:
            return self._config
        offered = *self._config.capabilities, Capability(CAPABILITY, len(share))
        return replace(self._config, capabilities=offered, devices=Gpus(found.variable, share))

    def _wait(self, now: float) -> None:
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        if self._parent is not None:
            poller.register(self._parent, select.POLLIN)
        dues = [w.start_at for w in self._workers if w.exit_code is None and not w.process_id and not self._stop_count]
        if self._kill_at is not None:
            dues.append(self._kill_at)
        timeout = max(0.0, min(dues) - now) * 1000 + 1 if dues else None
        ready = {descriptor for descriptor, _ in poller.poll(timeout)}
        if self._wake_reader.fileno() in ready:
            self._wake_reader.recv(4096)
        if self._parent is not None and self._parent in ready:
            logger.info("ClusterProcess: the process that started this one has ended")
            os.close(self._parent)
            self._parent = None
            self._stop_count += 1

    def _bury(self, now: float) -> None:
        buried = {process_id: status for process_id, status, _ in exited_children()}
        if buried:
            living = {worker.process_id for worker in self._workers} - buried.keys()
            kill_children(self._foreign | living)
        for worker in self._workers:
            if worker.process_id in buried:
                status = buried[worker.process_id]
                worker.process_id = 0
                self._after_exit(worker, os.waitstatus_to_exitcode(status), now)

    def _after_exit(self, worker: _Worker, exit_code: int, now: float) -> None:
        if exit_code in (EXIT_DONE, EXIT_GIVEN_UP) or self._stop_count:
            worker.exit_code = exit_code
            logger.info("Worker[%s] ended", worker.name)
            return
        worker.failures = 0 if now - worker.started_at > STEADY_SECONDS else worker.failures + 1
        self._start_later(worker, describe_exit(exit_code), now, backoff_seconds(worker.failures))

    def _start_later(self, worker: _Worker, why: str, now: float, delay: float = BACKOFF_SECONDS) -> None:
        worker.start_at = now + delay
        when = f"in {delay:g} s" if delay else "now"
        logger.error("Worker[%s] %s; starting it again %s", worker.name, why, when)

    def _stop_workers(self, now: float) -> None:
        """The first signal asks, the second does not wait for tasks, and time runs out for those that do not hear."""
        if not self._stop_count:
            return
        for worker in self._workers:
            if not worker.process_id and worker.exit_code is None:
                worker.exit_code = 0  # waiting to be started again: now it is not
        if self._kill_at is None:
            self._kill_at = now + self._config.grace_seconds + STOP_MARGIN_SECONDS
            self._signal_workers(DRAIN_SIGNAL)
        elif self._stop_count > 1 or now >= self._kill_at:
            self._signal_workers(signal.SIGKILL)

    def _signal_workers(self, number: int) -> None:
        for worker in self._workers:
            if worker.process_id:
                os.kill(worker.process_id, number)


def backoff_seconds(failures: int) -> float:
    """How long to wait before a worker is started again that has died young so often in a row."""
    if failures <= PROMPT_STARTS:
        return 0.0
    return min(BACKOFF_SECONDS * 2.0 ** min(failures - PROMPT_STARTS - 1, 10), BACKOFF_LIMIT_SECONDS)


def _parent_descriptor() -> int | None:
    """Readable when the process ends whose id the environment names. A thread would do as well, but we fork."""
    text = os.environ.pop(PARENT_VARIABLE, "")
    if not text.isdecimal() or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(int(text))
    except ProcessLookupError:
        raise StartupError(f"process {text}, which started this one, has ended already") from None
    except OSError:
        return None
