"""A cluster of real processes, each a command of its own that a test can stop, kill and start again."""

from __future__ import annotations

import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scaler_protocol import codes
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import ClusterStatus, Hello, SnapshotRequest, StorageStatus, WorkerEntry
from scaler_protocol.objects import ObjectClient
from scaler_protocol.session import Received, Rejected, SessionDialer
from scaler_protocol.transport import DealerEndpoint
from tests.support.processes import WAIT, Command, Stage, until

NAMINGS_SECONDS = 2 * 60.0
"""After a restart of the scheduler, what was stored for a former name of a client, and is of no client any more, is
released with the second message that names the living ones: within two leases of clients. (OWN-18, SCH-58)"""

LIVING = ("waiting", "queued", "dispatched", "canceling")


class RealCluster:
    """Storage, scheduler and one command with the workers, at three ports in a row."""

    def __init__(
        self,
        stage: Stage,
        n_workers: int = 1,
        *,
        scheduler: tuple[str, ...] = (),
        workers: tuple[str, ...] = (),
        storage: tuple[str, ...] = (),
        insecure: bool = False,
        descriptors: int = 0,
    ) -> None:
        """`descriptors`: as many as each of the two servers may ever have open; 0: as many as the system allows."""
        self.stage = stage
        self.keys = KeyOptions(insecure=insecure)
        self._all_options = ("--insecure",) if insecure else ()
        self._limits = ("/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors)) if descriptors else ()
        self.port = stage.ports()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.storage_address = f"tcp://127.0.0.1:{self.port + 1}"
        self.monitor_address = f"tcp://127.0.0.1:{self.port + 2}"
        self._scheduler_options = scheduler
        self._worker_options = workers
        self._storage_options = storage
        self.storage = self.start_storage()
        self.scheduler = self.start_scheduler()
        self.workers: list[Command] = []
        if n_workers:
            self.start_workers(n_workers)
            self.wait_for_workers(n_workers)

    def start_storage(self) -> Command:
        self.storage = self._start_server("scaler_storage", self.storage_address, *self._storage_options)
        return self.storage

    def start_scheduler(self) -> Command:
        self.scheduler = self._start_server(
            "scaler_scheduler", self.address, "-osa", self.storage_address, *self._scheduler_options
        )
        return self.scheduler

    def _start_server(self, module: str, *arguments: str) -> Command:
        program, *words = (*self._limits, sys.executable, "-m", module, *arguments, *self._all_options)
        return self.stage.start_program_file(Path(program), *words)

    def start_workers(self, n_workers: int = 1, *options: str) -> Command:
        given = (*self._all_options, *self._worker_options, *options)
        command = self.stage.start("scaler_worker", self.address, "-n", str(n_workers), *given)
        self.workers.append(command)
        return command

    def wait_for_workers(self, n_workers: int, seconds: float = WAIT) -> float:
        with watching(self.address, self.keys) as watch:
            return until(lambda: len(watch.snapshot().workers) == n_workers, f"{n_workers} workers are there", seconds)

    def snapshot(self) -> ClusterStatus:
        with watching(self.address, self.keys) as watch:
            return watch.snapshot()

    def wait_until(self, is_so: Callable[[ClusterStatus], bool], what: str) -> float:
        with watching(self.address, self.keys) as watch:
            return until(lambda: is_so(watch.snapshot()), what)

    def processors(self) -> int:
        """How many processes the workers have at present, all in all."""
        return sum(len(self.stage.family(command)) for command in self.workers)

    def storage_status(self) -> StorageStatus:
        return storage_status(self.storage_address, self.keys)

    def wait_until_empty(self, seconds: float = WAIT) -> float:
        """No client, no task, no function, no object: nothing is remembered of anybody."""
        with watching(self.address, self.keys) as watch:
            found: list[object] = []

            def is_empty() -> bool:
                status, objects = watch.snapshot(), self.storage_status()
                counts = {count.name: count.value for count in status.task_counts if count.value}
                found[:] = [status.clients, counts, status.object_count, status.function_counts, objects]
                # Those who ask are owners of nothing.
                return not (status.clients or task_total(status) or objects.object_count)

            try:
                return until(is_empty, "all tables are empty", seconds)
            except AssertionError as error:
                raise AssertionError(f"{error}: {found}") from None

    def stop(self) -> None:
        for command in (*reversed(self.workers), self.scheduler, self.storage):
            command.end(signal.SIGTERM)


def offered(worker: WorkerEntry) -> dict[str, int]:
    """What the worker itself offers: in a cluster with keys the scheduler adds whose it is."""
    return {one.name: one.amount for one in worker.capabilities if not one.name.startswith("user:")}


def task_total(status: ClusterStatus) -> int:
    """Tasks that the scheduler still holds; its counts also tell how all others have ended."""
    return sum(count.value for count in status.task_counts if count.name in LIVING)


def storage_status(address: str, keys: KeyOptions = KeyOptions()) -> StorageStatus:  # noqa: B008 (frozen)
    client = ObjectClient(address, codes.ROLE_MONITOR, "scaler-tests", WAIT, shown=keys.find_pass(address, WAIT))
    try:
        return client.status()
    finally:
        client.close()


class Watch:
    """A monitor's session: asks, and waits for the answer."""

    def __init__(self, address: str, keys: KeyOptions) -> None:
        hello = Hello(1, 1, role=codes.ROLE_MONITOR, peer_id=new_peer_id())
        dialer = SessionDialer(hello=hello, server_name="scheduler")
        self._endpoint = DealerEndpoint(address, dialer, keys.find_pass(address, WAIT))
        self._number = 0

    def snapshot(self) -> ClusterStatus:
        self._number += 1
        is_asked = False
        end_at = time.monotonic() + WAIT
        while True:
            now = time.monotonic()
            assert now < end_at, "the scheduler did not tell its status"
            for event in self._endpoint.poll(now):
                assert not isinstance(event, Rejected), event.text
                message = event.message if isinstance(event, Received) else None
                if isinstance(message, ClusterStatus) and message.request_id == self._number:
                    return message
            if self._endpoint.is_open and not is_asked:
                self._endpoint.send(SnapshotRequest(self._number))
                is_asked = True
            if not self._endpoint.settle(now):
                self._wait()

    def _wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._endpoint.fileno(), selectors.EVENT_READ)
            selector.select(0.02)

    def close(self) -> None:
        self._endpoint.close()


@contextmanager
def watching(address: str, keys: KeyOptions = KeyOptions()) -> Iterator[Watch]:  # noqa: B008 (frozen)
    watch = Watch(address, keys)

    try:
        yield watch
    finally:
        watch.close()
