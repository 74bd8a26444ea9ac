"""Where a role is tested: its process, and the standing peers around it that outlive single cases."""

from __future__ import annotations

import tempfile
from contextlib import suppress

from .clauses import SERVERS
from .launch import Subject, free_ports, is_listening
from .manifest import FUNCTIONS, Manifest
from .play.dialer import Dialer
from .play.ids import content_id, named_function, new_id
from .play.key_file import KeyFile
from .play.pump import Pump
from .play.scheduler import SchedulerHost, WorkerGuest
from .play.storage import StorageHost
from .play.testee import Testee, TesteeError
from .transcript import Transcript
from .verdicts import Breach, Ended, NotReady, Unsupported

#: In force for dialers under test: short, so that what takes time is soon seen.
DIALER_TIMERS = {"heartbeatSeconds": 0.25, "leaseSeconds": 3.0}
#: What the other scheduler tells, on which one under test follows.
OTHER_GENERATION = 7
#: A program that was asked to end and has not by then is killed.
STOP_SECONDS = 5.0
#: Who owns the functions by name.
SUITE = new_id()


class Arena:
    """One process under test at a time. `start` begins a new one, `close` ends everything."""

    def __init__(self, manifest: Manifest, role: str) -> None:
        self.manifest = manifest
        self.role = role
        self.entry = manifest.role(role)
        self.key_file = KeyFile() if manifest.has_keys else None
        self.pump = Pump(key=self.key_file.key if self.key_file else None)
        self.subject: Subject | None = None
        #: for what a storage keeps over the end of its process
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.variant = ""
        self.starts = 0
        self.storage: StorageHost | None = None
        self.scheduler: SchedulerHost | None = None
        self.testee: Testee | None = None
        self.address = self.monitor_address = ""
        self.transcript = Transcript(role)

    @property
    def log(self) -> tuple[str, ...]:
        return tuple(self.subject.log) if self.subject else ()

    @property
    def _key_path(self) -> str:
        return self.key_file.path if self.key_file else ""

    def start(self, variant: str = "", *, keeps_directory: bool = False) -> None:
        """`keeps_directory`: the process finds what the one before has left there."""
        if variant and variant not in self.entry.variants:
            raise Unsupported(f"the manifest has no variants.{variant} for this role")
        self.stop()
        if not keeps_directory:
            self._remove_directory()
        self.variant = variant
        self.starts += 1
        if self.role in SERVERS:
            self._start_server(variant)
        else:
            self._start_dialer(variant)

    def _start_server(self, variant: str) -> None:
        port = free_ports(3)
        self.address, self.monitor_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
        places = {"bind": self.address}
        if self.role == "scheduler":
            self.storage = StorageHost(self.pump, self.transcript, "storage")
            places |= {"monitor": self.monitor_address, "storage": self.storage.address}
            if self._has_another(variant):
                self.scheduler = SchedulerHost(self.pump, self.transcript, "other")
                self.scheduler.generation = OTHER_GENERATION
                places["other"] = self.scheduler.address
        else:
            places |= {"directory": self._own_directory()}
        self.subject = Subject(self.entry, places, variant, key_file=self._key_path)
        self.pump.watch = self.subject.check
        self._until_ready()

    def _has_another(self, variant: str) -> bool:
        """The scheduler under test is told the address of another one, which the suite plays."""
        words = (*self.entry.command, *self.entry.variants.get(variant, ()))
        return any("{other}" in word for word in words)

    def _own_directory(self) -> str:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="scaler-conformance-", ignore_cleanup_errors=True)
        return self._directory.name

    def _remove_directory(self) -> None:
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def replace_key(self) -> None:
        """What is started from now on is of a cluster with another key."""
        if self.key_file is not None:
            self.key_file.close()
            self.key_file = KeyFile()
            self.pump.key = self.key_file.key

    def _start_dialer(self, variant: str) -> None:
        """Workers and managers are started with our addresses; a client is a testee that is told with `connect`."""
        self.storage = StorageHost(self.pump, self.transcript, "storage")
        self.scheduler = SchedulerHost(self.pump, self.transcript, "scheduler")
        self.scheduler.storage_address = self.storage.address
        for host in (self.storage, self.scheduler):
            host.timers = dict(DIALER_TIMERS)
        if self.role != "client":
            self.store_functions()  # a client has to do that itself
        places = {"scheduler": self.scheduler.address, "storage": self.storage.address, "name": "conformance"}
        is_testee = self.role == "client"
        self.subject = Subject(
            self.entry, {} if is_testee else places, variant, is_testee=is_testee, key_file=self._key_path
        )
        self.pump.watch = self.subject.check
        if is_testee:
            self.testee = Testee(self.pump, self.subject, self.transcript)
            self._until_testee_answers(self.testee)
        else:
            self._until_it_is_there(self.scheduler)

    def store_functions(self) -> None:
        """So that a worker finds what it is called to do; after a storage has begun again, once more."""
        assert self.storage is not None
        for name in FUNCTIONS:
            self.storage.store(content_id(named_function(name)), named_function(name), SUITE)

    def _until_testee_answers(self, testee: Testee) -> None:
        try:
            testee.ask("info", seconds=self.entry.ready_seconds)
        except (Breach, Unsupported, TesteeError) as problem:
            raise NotReady(f"the testee did not answer `info`: {problem}") from None

    def _until_it_is_there(self, scheduler: SchedulerHost) -> None:
        try:
            guest = scheduler.guest(self.role, self.entry.ready_seconds)
        except Breach as breach:
            raise NotReady(f"the process under test was not ready: {breach.text}", breach.clause) from None
        if isinstance(guest, WorkerGuest):
            worker, seconds = guest, self.entry.ready_seconds
            if not self.pump.until(lambda: worker.credit > 0, seconds):
                raise NotReady(f"it said Hello, and had no place for a task within {seconds:g} s (ready_seconds)")

    def _until_ready(self) -> None:
        """A server is ready when it answers a Hello."""
        probe = Dialer(self.pump, self.transcript, "probe", "client", self.address, self.role)
        try:
            probe.dial()
            answer = probe.expect("welcome", "reject", "error", seconds=self.entry.ready_seconds, clause="HSK-10")
            if answer.kind == "welcome":
                with suppress(Breach):  # what it makes of a Bye is for the cases to judge
                    probe.leave()
        except Ended as ended:
            raise NotReady(f"the process under test was not ready: {ended.text}") from None
        except Breach as breach:
            seconds = f"{self.entry.ready_seconds:g} s (ready_seconds)"
            clause = breach.clause
            text = f"a Hello at {self.address} was not answered within {seconds}, though something listens there"
            if not is_listening(self.address):
                clause, text = "", f"nothing listens at {self.address}, which is {{bind}}, after {seconds}"
            raise NotReady(f"the process under test was not ready: {text}", clause) from None
        finally:
            probe.close()

    def stop(self) -> int | None:
        code = None
        self.pump.watch = lambda: None
        if self.subject is not None:
            subject, self.subject = self.subject, None
            subject.ask_to_end()
            try:
                # A dialer says Bye and waits to know that it has arrived: its hosts go on meanwhile.
                self.pump.until(lambda: not subject.is_running, 0.0 if self.role in SERVERS else STOP_SECONDS)
            except Breach:
                pass  # what it says at the end is nobody's concern any more
            code = subject.stop(STOP_SECONDS if self.role in SERVERS else 0.0)
        self.testee = None
        for host in (self.storage, self.scheduler):
            if host is not None:
                host.close()
        self.storage = self.scheduler = None
        return code

    def close(self) -> None:
        self.stop()
        self._remove_directory()
        self.pump.close()
        if self.key_file is not None:
            self.key_file.close()

    def use(self, transcript: Transcript) -> None:
        """From now on this is where the standing peers write."""
        self.transcript = transcript
        for host in (self.storage, self.scheduler):
            if host is not None:
                host.transcript = transcript
                for guest in host.guests:
                    guest.transcript = transcript
                    transcript.call(guest.peer_id, guest.name.rpartition("·")[2])
        if self.storage is not None:
            self.storage.requests.clear()
        if self.testee is not None:
            self.testee.transcript = transcript
