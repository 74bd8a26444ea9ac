"""Where a role is tested: its process, and the standing peers around it that outlive single cases."""

from __future__ import annotations

from .launch import Subject, free_ports
from .manifest import Manifest
from .play.dialer import Dialer
from .play.pump import Pump
from .play.storage import StorageHost
from .transcript import Transcript
from .verdicts import Breach, Ended, Unsupported


class Arena:
    """One process under test at a time. `start` begins a new one, `close` ends everything."""

    def __init__(self, manifest: Manifest, role: str) -> None:
        self.manifest = manifest
        self.role = role
        self.entry = manifest.role(role)
        self.pump = Pump()
        self.subject: Subject | None = None
        self.variant = ""
        self.starts = 0
        self.storage: StorageHost | None = None
        self.address = self.monitor_address = ""
        self.transcript = Transcript(role)

    @property
    def log(self) -> tuple[str, ...]:
        return tuple(self.subject.log) if self.subject else ()

    def start(self, variant: str = "") -> None:
        if variant and variant not in self.entry.variants:
            raise Unsupported(f"the manifest has no variants.{variant} for this role")
        self.stop()
        self.variant = variant
        self.starts += 1
        port = free_ports(3)
        self.address, self.monitor_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
        places = {"bind": self.address}
        if self.role == "scheduler":
            self.storage = StorageHost(self.pump, self.transcript, "storage")
            places |= {"monitor": self.monitor_address, "storage": self.storage.address}
        self.subject = Subject(self.entry, places, variant)
        self.pump.watch = self.subject.check
        self._until_ready()

    def _until_ready(self) -> None:
        """A server is ready when it answers a Hello."""
        probe = Dialer(self.pump, self.transcript, "probe", "client", self.address, self.role)
        try:
            probe.dial()
            answer = probe.expect("welcome", "reject", "error", seconds=self.entry.ready_seconds, clause="HSK-10")
            if answer.kind == "welcome":
                probe.leave()
        except Ended:
            raise
        except Breach as breach:
            raise Ended(f"the process under test was not ready: {breach.text}") from None
        finally:
            probe.close()

    def stop(self) -> int | None:
        code = None
        self.pump.watch = lambda: None
        if self.subject is not None:
            code = self.subject.stop()
            self.subject = None
        if self.storage is not None:
            self.storage.close()
            self.storage = None
        return code

    def close(self) -> None:
        self.stop()
        self.pump.close()

    def use(self, transcript: Transcript) -> None:
        """From now on this is where the standing peers write."""
        self.transcript = transcript
        if self.storage is not None:
            self.storage.transcript = transcript
            for guest in self.storage.guests:
                guest.transcript = transcript
            self.storage.requests.clear()
