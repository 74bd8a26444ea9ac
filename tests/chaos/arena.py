"""One cell of the matrix, with real processes: a cluster, a client's program with its work, and one fault.

Laws: every future ends, right or (where the cell allows it) with a documented error; none is told twice; no pause is
longer than the cell's bound; no task begins more often than the fault explains; tables and storage are empty
afterwards, and descriptors and memory of servers and workers are where they were; no process, port or file is left
(`Stage`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from scaler import Client
from tests.chaos.cells import COUNTS, RESTART, STARTED_BY_OTHERS, TERM, Cell
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import Command, Stage
from tests.support.waiting import eventually
from tests.support.workload import HANG_SECONDS, Outcome, Running

_RESTART_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
#: Of clients whose server does not come back: they need not wait for a minute each time.
_SHORT_PATIENCE_SECONDS = 8.0
#: A task begins once, again after its attempt was lost, and again after its parent's.
_MOST_BEGINNINGS = 4
#: The storage has a connection of each worker that has asked it for something, and a file for each function. A worker
#: has some for each further processor.
_SPARE_DESCRIPTORS = {"scheduler": 8, "storage": 16, "worker": 32}
_SPARE_BYTES = 64 << 20


class Measured(NamedTuple):
    cell: Cell
    pause: float
    reruns: int
    text: str


class _Footprint:
    """What one process had open, and its memory, before the fault."""

    def __init__(self, role: str, process: psutil.Process) -> None:
        self._role = role
        self._process = process
        self._descriptors, self._memory = process.num_fds(), process.memory_info().rss

    def check(self) -> None:
        """It is about as large as it was, or soon is: connections that peers have given up are closed one by one. Of a
        process that has ended since there is nothing to check."""
        with contextlib.suppress(psutil.NoSuchProcess):
            eventually(
                lambda: self._process.num_fds() - self._descriptors <= _SPARE_DESCRIPTORS[self._role],
                f"the {self._role} has about as many descriptors as before: {self._descriptors}",
            )
            eventually(
                lambda: self._process.memory_info().rss - self._memory <= _SPARE_BYTES,
                f"the {self._role} has about as much memory as before: {self._memory} bytes",
            )


class _Arena:
    def __init__(self, stage: Stage, cell: Cell) -> None:
        self.cell = cell
        self.stage = stage
        # A new scheduler names the clients that live to the storage, and what two namings leave out goes: that takes
        # leases, so they are short where the law waits for it.
        is_renewed = "scheduler" in cell.roles and cell.fault in (TERM, RESTART)
        options = ("--client-timeout-seconds", "10") if is_renewed else ()
        self.cluster = RealCluster(stage, 0 if cell.role == "manager" else 2, scheduler=options)
        self.manager = self._start_manager() if cell.role == "manager" else None
        log = stage.directory / "log"
        patience = _SHORT_PATIENCE_SECONDS if cell.is_gone else _PATIENCE_SECONDS
        arguments = (self.cluster.address, cell.kind, str(COUNTS[cell.kind]), str(log), str(patience))
        # Looked up before: a monitor of its own would come late for the second of two faults.
        workers = [worker.software.process_id for worker in self.cluster.snapshot().workers]
        self._worker_process_id = workers[0]
        servers = (("scheduler", self.cluster.scheduler.pid), ("storage", self.cluster.storage.pid))
        watched = [*servers, *(("worker", process_id) for process_id in workers)]
        self._footprints = [_Footprint(role, psutil.Process(process_id)) for role, process_id in watched]
        self.running = Running(stage.start("tests.support.workload", *arguments), log)

    def _start_manager(self) -> Command:
        manager = self.stage.start(*self._manager_line())
        self.cluster.wait_for_workers(2)
        return manager

    # ------------------------------------------------------------ the fault

    def victim(self, role: str) -> psutil.Process:
        if role == "processor":
            return psutil.Process(self.running.begun.last_process)
        if role == "worker":
            return psutil.Process(self._worker_process_id)
        return psutil.Process(self._command(role).pid)

    def _command(self, role: str) -> Command:
        if self.manager is not None:
            return self.manager
        commands = {"cluster": self.cluster.workers[0], "scheduler": self.cluster.scheduler}
        return {**commands, "storage": self.cluster.storage, "client": self.running.command}[role]

    def strike(self) -> None:
        """All its victims in one moment, and each of them is started again when all are down."""
        victims = [(role, self.victim(role)) for role in self.cell.roles]
        if self.cell.stop_seconds:
            for _, victim in victims:
                victim.suspend()
            threading.Event().wait(self.cell.stop_seconds)
            for _, victim in victims:
                victim.resume()
            return
        for _, victim in victims:
            self._end(victim)
        ended = [(role, victim) for role, victim in victims if role not in STARTED_BY_OTHERS]
        if ended and not self.cell.is_gone:
            for _, victim in ended:
                self._wait_for_end(victim)
            threading.Event().wait(_RESTART_SECONDS)
            for role, _ in ended:
                self._start_again(role)

    def _end(self, victim: psutil.Process) -> None:
        if self.cell.fault == RESTART:
            # With all that it has started: a machine's part of the cluster, as a supervisor would end it.
            for process in [victim, *victim.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended with the victim before it
                    process.kill()
        else:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGTERM if self.cell.fault == TERM else signal.SIGKILL)

    def _wait_for_end(self, victim: psutil.Process) -> None:
        try:
            victim.wait(HANG_SECONDS)
        except psutil.NoSuchProcess:
            pass

    def _start_again(self, role: str) -> None:
        cluster = self.cluster
        if role == "cluster":
            cluster.start_workers(2)
        elif role == "scheduler":
            cluster.start_scheduler()
        elif role == "storage":
            cluster.start_storage()
        elif role == "manager":
            self.manager = self.stage.start(*self._manager_line())

    def _manager_line(self) -> tuple[str, ...]:
        line = ("baremetal_native", self.cluster.address, "-wmi", "chaos", "-mtc", "2", "--mode", "fixed")
        return ("scaler_worker.manager", *line)

    # ------------------------------------------------------------ the laws

    def judge(self, outcome: Outcome | None, struck_at: float) -> Measured:
        cell, begun = self.cell, self.running.begun
        pause = begun.pause_after(struck_at)
        text = "ends" if outcome is None else outcome.text
        if outcome is not None:
            assert not (outcome.wrong or outcome.hanging or outcome.twice), outcome.text
            assert cell.excused.issuperset(outcome.errors), f"{outcome.text}: {outcome.first_error}"
            assert outcome.right + sum(outcome.errors.values()) == outcome.count, outcome.text
        assert pause <= cell.pause_bound, f"no task began for {pause:.1f} s, and {cell.pause_bound:g} s is the bound"
        most = max(begun.times.values(), default=0)
        assert most <= _MOST_BEGINNINGS, f"a task began {most} times"
        assert begun.reruns <= cell.most_reruns, f"{begun.reruns} tasks began again, {cell.most_reruns} at most may"
        if not cell.is_gone:
            self._check_it_is_well()
        return Measured(cell, round(pause, 1), begun.reruns, text)

    def _check_it_is_well(self) -> None:
        with Client(self.cluster.address) as client:
            assert client.map(tasks.square, range(20)) == [number * number for number in range(20)]
        self.cluster.wait_until_empty()
        for footprint in self._footprints:
            footprint.check()


def run(cell: Cell, directory: Path) -> Measured:
    directory.mkdir(parents=True, exist_ok=True)
    with Stage(directory) as stage:
        arena = _Arena(stage, cell)
        arena.running.wait_until_begun(3)
        struck_at = time.monotonic()
        arena.strike()
        if cell.is_client_dead:
            arena.running.command.wait()
        outcome = None if cell.is_client_dead else arena.running.outcome(HANG_SECONDS + 30.0)
        return arena.judge(outcome, struck_at)
