"""A cluster to be attacked, a client beside the attackers, and the judgement of what they have done to both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from scaler_protocol.process.ports import answers
from tests.fuzz.access import Access
from tests.fuzz.attack import PAGE_TOKEN, Scene
from tests.fuzz.attackers import Attackers, Outcome
from tests.fuzz.bystander import CAPABILITY
from tests.fuzz.forged import forged_lines
from tests.fuzz.timing import Calls, Medians, medians, spin
from tests.fuzz.watching import Numbers, Watch, is_quiet
from tests.support.processes import Command, Stage, until

MEMORY_BYTES = 64 << 20
"""No server may grow by more under one family."""
INSECURE_BYTES = 192 << 20
"""The same without keys: libzmq takes in what a server has no time to read, and a tiny message takes some thirty times
its bytes in there, before the peer that sends them is held back (LIM-34, chapter 18)."""
DESCRIPTORS = 64
"""No server may have more than so many above those before, once the hostile peers are gone and forgotten."""
CALLS_FACTOR = 10.0
CALLS_SECONDS = 0.002
"""The median call of the bystander takes at most so many times what it takes when nothing attacks, or this."""
LOADED_SECONDS = 0.25
"""Of a family that is not judged by it, the median call takes no longer than this all the same."""
SLOWEST_SECONDS = 5.0
FORGOTTEN_SECONDS = 20.0
"""How long after the hostile peers have gone a server may still be busy with them, or hold their descriptors."""
QUIET_SHARE = 0.5
FIRST_CALLS = 40
ONE_WORKER = "--max-task-concurrency", "1"
"""Of the manager: none of the bystander's tasks goes there."""


@dataclass(slots=True)
class Verdict:
    """What one family did."""

    name: str
    command: str = ""  #: that does the same again
    inputs: int = 0
    sessions: int = 0
    calls: int = 0
    #: of the bystander's calls, before and under the attack
    base: Medians = field(default_factory=Medians)
    medians: Medians = field(default_factory=Medians)
    slowest_seconds: float = 0.0
    #: inputs by the port that they went to, and the role of the session
    places: Counter[str] = field(default_factory=Counter)
    kept_bytes: int = 0  #: that the storage was asked to keep
    grown_bytes: dict[str, int] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    descriptors: int = 0  #: the most that a server had more than before
    #: what is wrong, each a sentence; empty: the cluster held
    troubles: list[str] = field(default_factory=list)
    #: how processes of the attackers ended that did not end by themselves
    deaths: list[str] = field(default_factory=list)

    @property
    def call_ratio(self) -> float:
        return self.medians.call / self.base.call if self.base.call else 0.0

    @property
    def map_ratio(self) -> float:
        return self.medians.map / self.base.map if self.base.map else 0.0


class Arena:
    """To be entered in a Stage, which ends all processes."""

    def __init__(self, stage: Stage, access: str = "insecure") -> None:
        self.stage = stage
        self.access = Access(access, stage.directory)
        given = self.access.arguments()
        self._scene = scene = Scene(
            self.access, stage.directory, stage.ports(), stage.ports(), stage.ports(), stage.environment()
        )
        self.address = scene.address
        storage = f"tcp://127.0.0.1:{scene.port + 1}"
        ports = [scene.port, scene.port + 1, scene.page_port, scene.adapter_port]
        # With keys there is a standby, and the storage keeps its objects. Without, hostile peers may be the standby.
        keeping = () if self.access.is_insecure else ("--data-directory", str(stage.directory / "kept"))
        as_scheduler = "-osa", storage, "--protected", "--allow-control", "--monitor-texts", *given
        self.servers: dict[str, Command] = {
            "storage": stage.start("scaler_storage", storage, "--memory-limit", "512MiB", *keeping, *given),
            "scheduler": stage.start("scaler_scheduler", self.address, *as_scheduler),
            "manager": stage.start("scaler_worker.manager", "baremetal_native", self.address, *ONE_WORKER, *given),
        }
        if not self.access.is_insecure:
            waits = f"tcp://127.0.0.1:{scene.standby_port}"
            self.servers["standby"] = stage.start(
                "scaler_scheduler", waits, "--standby-of", self.address, *as_scheduler
            )
            ports.append(scene.standby_port)
        self.worker = stage.start(
            "scaler_worker", self.address, "-n", "1", f"--per-worker-capabilities={CAPABILITY}",
            *self.access.arguments(is_worker=True),
        )  # fmt: skip
        self.servers["page"] = stage.start(
            "scaler.ui", self.address, "--port", str(scene.page_port), "--token", PAGE_TOKEN, "--allow-control", *given
        )
        self.servers["adapter"] = stage.start(
            "scaler_worker.adapter", self.address, "--host", "127.0.0.1", "--port", str(scene.adapter_port),
            "--max-workers", "0", "--no-token", *given,
        )  # fmt: skip
        for port in ports:
            until(lambda port=port: answers(f"tcp://127.0.0.1:{port}"), f"port {port} is served")  # type: ignore[misc]
        self._attackers = Attackers(scene)
        self.bystander = stage.start("tests.fuzz.bystander", self.address, *given)
        self.watch = Watch(self.servers)
        until(lambda: len(self.bystander.lines) >= FIRST_CALLS, "the bystander is served")
        self.calls = Calls(self.bystander)
        #: when nothing attacks
        self.base = medians(self.calls.since(0.0)[FIRST_CALLS // 2 :])

    def close(self) -> None:
        self._attackers.close()
        self.watch.close()
        self.access.close()

    def attacked(self, family: str, seed: str, seconds: float) -> Outcome:
        """By this family, for so long. What attackers have started whose process has ended, ends with them."""
        outcome = self._attackers.run(family, seed, seconds)
        if outcome.deaths:
            for process in self.stage.processes():
                if process.pid not in self._own():
                    process.kill()
        return outcome

    def _own(self) -> set[int]:
        commands = [command for command in self._commands().values() if command.process.poll() is None]
        return {self._attackers.pid, *(one.pid for command in commands for one in self.stage.family(command))}

    @property
    def is_alive(self) -> bool:
        return all(command.process.poll() is None for command in self._commands().values())

    def measure_base(self, seconds: float) -> None:
        """Anew, because other programs of the machine come and go."""
        begun_at = time.monotonic()
        spin(seconds)
        found = medians(call for call in self.calls.since(begun_at) if call.begun_at >= begun_at)
        self.base = Medians(found.call or self.base.call, found.map or self.base.map)

    # ------------------------------------------------------------ one family

    @contextmanager
    def judged(self, verdict: Verdict, *, is_judged: bool) -> Iterator[None]:
        before, begun_at = self.watch.numbers(), time.monotonic()
        verdict.base = self.base
        self.watch.begin()
        yield
        attacked_until = time.monotonic()
        self._judge_calls(verdict, begun_at, attacked_until, is_judged)
        self._judge_servers(verdict, before)
        self._judge_logs(verdict)

    def _commands(self) -> dict[str, Command]:
        return {**self.servers, "worker": self.worker, "bystander": self.bystander}

    def _judge_calls(self, verdict: Verdict, begun_at: float, ended_at: float, is_judged: bool) -> None:
        """Also the call that was under way when the attack ended is waited for."""
        try:
            until(lambda: bool(self.calls.since(ended_at)), "the bystander is served again", SLOWEST_SECONDS)
        except AssertionError:
            verdict.troubles.append(f"the bystander was not served for {SLOWEST_SECONDS:g} s after the attack")
        calls = self.calls.since(begun_at)
        verdict.calls = len(calls)
        if not calls:
            return
        verdict.medians = medians(calls)
        verdict.slowest_seconds = max(call.seconds for call in calls)
        least = CALLS_SECONDS if is_judged else LOADED_SECONDS
        for kind, base, took in (
            ("call", verdict.base.call, verdict.medians.call),
            ("map", verdict.base.map, verdict.medians.map),
        ):
            if took > max(CALLS_FACTOR * base, least):
                verdict.troubles.append(f"the bystander's median {kind} took {took:.4f} s; before, {base:.4f} s")
        if verdict.slowest_seconds > SLOWEST_SECONDS:
            verdict.troubles.append(f"a call of the bystander took {verdict.slowest_seconds:.1f} s")
        for trouble in sorted({call.trouble for call in calls if call.trouble}):
            verdict.troubles.append(f"a call of the bystander failed: {trouble}")

    def _judge_servers(self, verdict: Verdict, before: dict[str, Numbers]) -> None:
        peaks = self.watch.peaks()
        most = self.watch.most_descriptors()
        for name, command in self.servers.items():
            if command.process.poll() is not None:
                killed = " (by us: it had grown too large)" if name in self.watch.killed else ""
                verdict.troubles.append(f"the {name} has ended with {command.process.poll()}{killed}")
        busy = is_quiet(self.watch, 0.3, QUIET_SHARE, FORGOTTEN_SECONDS)
        for name, share in busy.items():
            verdict.troubles.append(f"the {name} still uses {share:.0%} of a processor {FORGOTTEN_SECONDS:g} s later")
        for name, was in before.items():
            now = self.watch.numbers().get(name)
            if now is None:
                continue
            verdict.grown_bytes[name] = max(0, peaks.get(name, 0) - was.rss_bytes)
            verdict.descriptors = max(verdict.descriptors, most.get(name, 0) - was.descriptors)
            verdict.cpu_seconds[name] = now.cpu_seconds - was.cpu_seconds
            most_bytes = INSECURE_BYTES if self.access.is_insecure else MEMORY_BYTES
            if verdict.grown_bytes[name] > most_bytes + (verdict.kept_bytes if name == "storage" else 0):
                verdict.troubles.append(f"the {name} grew by {verdict.grown_bytes[name] >> 20} MiB")
            self._judge_descriptors(verdict, name, was.descriptors)

    def _judge_descriptors(self, verdict: Verdict, name: str, before: int) -> None:
        def are_few() -> bool:
            now = self.watch.numbers().get(name)
            return now is None or now.descriptors <= before + DESCRIPTORS

        try:
            until(are_few, "descriptors are closed", FORGOTTEN_SECONDS)
        except AssertionError:
            kept = self.watch.numbers()[name].descriptors - before
            verdict.troubles.append(f"the {name} keeps {kept} descriptors more than before")

    def _judge_logs(self, verdict: Verdict) -> None:
        for name, command in self._commands().items():
            if name == "bystander":
                continue
            lines = [*command.lines, *command.error_lines]
            command.lines.clear()
            command.error_lines.clear()
            text = "\n".join(lines)
            if "Traceback" in text or "Assertion" in text:
                at = max(text.find("Traceback"), text.find("Assertion"))
                verdict.troubles.append(f"the {name} logged a traceback: {text[at : at + 2000]}")
            for line in islice(forged_lines(lines), 3):
                verdict.troubles.append(f"a line in the log of the {name} is forged: {line!r:.200}")
