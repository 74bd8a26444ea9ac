"""The layer `interop`: roles of several ports work together, each as its manifest starts it, and nobody is played.

A cast is a client, a scheduler with its storage, and a worker, of any ports; the client is a testee that is told what
to do. What goes wrong here is between programs that pass their own cases: a failure names the cast and shows all logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from .launch import STOP_SECONDS, Subject, free_ports
from .manifest import Manifest
from .play.dialer import Dialer
from .play.key_file import KeyFile
from .play.pump import Pump
from .play.testee import Testee, TesteeError
from .transcript import Transcript
from .verdicts import FAIL, PASS, Breach, Ended, NotReady, Outcome, Unsupported
from .wire import CODES
from .wire.codes import STATUSES

LAYER = "interop"
INSECURE = "insecure"
"""The variant of a role with keys in a cluster that has none."""
RESULT_SECONDS = 20.0
LARGE = bytes(range(256)) * 12_000
"""More than an inline value, and less than a chunk."""


@dataclass(frozen=True, slots=True)
class Cast:
    client: Manifest
    scheduler: Manifest
    storage: Manifest
    worker: Manifest

    @property
    def parts(self) -> dict[str, Manifest]:
        return {"storage": self.storage, "scheduler": self.scheduler, "worker": self.worker, "client": self.client}

    @property
    def name(self) -> str:
        return "-".join(f"{role}-of-{self.parts[role].name}" for role in ("client", "scheduler", "worker"))


def casts(port: Manifest, others: Sequence[Manifest], roles: Sequence[str]) -> list[Cast]:
    """All in which one of these roles of the port plays. Its storage is the scheduler's own, if there is one."""
    ports = [port, *others]

    def having(role: str) -> list[Manifest]:
        return [each for each in ports if role in each.roles]

    found = []
    for client, scheduler, worker in product(having("client"), having("scheduler"), having("worker")):
        for storage in [scheduler] if "storage" in scheduler.roles else having("storage"):
            cast = Cast(client, scheduler, storage, worker)
            if any(part is port and role in roles for role, part in cast.parts.items()):
                found.append(cast)
    return found


class Stage:
    """The four processes of a cast."""

    def __init__(self, cast: Cast) -> None:
        #: a port without keys can only be in a cluster without one
        self._key_file = KeyFile() if all(part.has_keys for part in cast.parts.values()) else None
        self.pump = Pump(key=self._key_file.key if self._key_file else None)
        self.transcript = Transcript("client")
        self._cast = cast
        self._subjects: dict[str, Subject] = {}
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        port = free_ports(4)
        address = {name: f"tcp://127.0.0.1:{port + at}" for at, name in enumerate(("scheduler", "monitor", "storage"))}
        self._begin("storage", {"bind": address["storage"]})
        self._until_it_answers("storage", address["storage"])
        places = {"bind": address["scheduler"], "monitor": address["monitor"], "storage": address["storage"]}
        self._begin("scheduler", places)
        self._until_it_answers("scheduler", address["scheduler"])
        self._begin("worker", {"scheduler": address["scheduler"], "storage": address["storage"], "name": "interop"})
        self.testee = Testee(self.pump, self._begin("client", {}), self.transcript)
        self.pump.watch = self._watch
        self.testee.ask(
            "connect", scheduler=address["scheduler"], seconds=self._cast.client.role("client").ready_seconds
        )

    def _begin(self, role: str, places: dict[str, str]) -> Subject:
        part = self._cast.parts[role]
        entry = part.role(role)
        variant = INSECURE if part.has_keys and self._key_file is None else ""
        if variant and variant not in entry.variants:
            raise NotReady(f"the {role} of {part.name} has no variants.{INSECURE}, which a port without keys needs")
        key_path = self._key_file.path if self._key_file else ""
        subject = Subject(entry, places, variant, is_testee=role == "client", key_file=key_path)
        self._subjects[role] = subject
        return subject

    def _until_it_answers(self, role: str, address: str) -> None:
        probe = Dialer(self.pump, self.transcript, "probe", "client", address, role)
        try:
            probe.dial()
            probe.expect_welcome(seconds=self._cast.parts[role].role(role).ready_seconds)
            probe.leave()
        except Breach as breach:
            raise NotReady(f"the {role} of {self._cast.parts[role].name} was not ready: {breach.text}") from None
        finally:
            probe.close()

    def _watch(self) -> None:
        for role, subject in self._subjects.items():
            if not subject.is_running:
                raise Ended(f"the {role} of {self._cast.parts[role].name} ended by itself; the end of its log says why")

    @property
    def log(self) -> tuple[str, ...]:
        return tuple(f"{role}: {line}" for role, subject in self._subjects.items() for line in list(subject.log)[-8:])

    def close(self) -> None:
        for role in ("client", "worker", "scheduler", "storage"):
            subject = self._subjects.get(role)
            if subject is not None:
                subject.ask_to_end()
                subject.stop(STOP_SECONDS)
        self.pump.close()
        if self._key_file is not None:
            self._key_file.close()


# ---------------------------------------------------------------- what they do together


def _expect(testee: Testee, task: bytes, status: int, value: bytes | None = None) -> None:
    event = testee.result(task, RESULT_SECONDS)
    if event.get("status") != status:
        said = STATUSES.get(event["status"], event["status"])
        raise Breach(f"the result has status {said} and must have {STATUSES[status]}: {str(event)[:200]}")
    if value is not None and event.get("value") != value.hex():
        raise Breach(f"the value is {str(event.get('value'))[:80]} and must be {value.hex()[:80]}")


def _a_call_by_name(testee: Testee) -> None:
    _expect(testee, testee.submit("concat", b"one", b"", b"\x00two"), CODES.STATUS_SUCCESS, b"one\x00two")


def _many_calls(testee: Testee) -> None:
    tasks = testee.map("add", [[b"%d" % number, b"1"] for number in range(200)])
    for number, task in enumerate(tasks):
        _expect(testee, task, CODES.STATUS_SUCCESS, b"%d" % (number + 1))


def _a_large_value(testee: Testee) -> None:
    _expect(testee, testee.submit("reverse", LARGE), CODES.STATUS_SUCCESS, LARGE[::-1])


def _an_error(testee: Testee) -> None:
    _expect(testee, testee.submit("fail", b"as it must"), CODES.STATUS_FAILED)


def _a_cancel(testee: Testee) -> None:
    task = testee.submit("sleep_ms", b"60000")
    testee.ask("cancel", tasks=[task.hex()], grace=0.2)
    _expect(testee, task, CODES.STATUS_CANCELED)


def _a_task_of_a_task(testee: Testee) -> None:
    _expect(testee, testee.submit("submit_child", b"reverse", b"abc"), CODES.STATUS_SUCCESS, b"cba")


#: With the clause that is most likely broken when only this goes wrong.
STEPS: tuple[tuple[str, Callable[[Testee], None]], ...] = (
    ("BAT-12", _a_call_by_name),
    ("CLI-5", _many_calls),
    ("PAY-1", _a_large_value),
    ("BAT-10", _an_error),
    ("CAN-2", _a_cancel),
    ("CLI-9", _a_task_of_a_task),
)


def play(port: Manifest, cast: Cast) -> Iterator[Outcome]:
    """An outcome for each step; none is played after somebody has ended."""
    role = next(role for role in ("client", "worker", "scheduler", "storage") if cast.parts[role] is port)
    began_at = time.monotonic()
    stage: Stage | None = None
    try:
        stage = Stage(cast)
        for clause, step in STEPS:
            outcome = _outcome(cast, role, clause, step, stage, began_at)
            yield outcome
            if outcome.verdict == FAIL:
                return
            began_at = time.monotonic()
    except (Breach, TesteeError, Unsupported) as problem:
        yield _made(cast, role, "HSK-1", "they-meet", FAIL, f"they did not come together: {problem}", began_at, stage)
    finally:
        if stage is not None:
            stage.close()


def _outcome(
    cast: Cast, role: str, clause: str, step: Callable[[Testee], None], stage: Stage, began_at: float
) -> Outcome:
    verdict, text = PASS, ""
    try:
        step(stage.testee)
    except (Breach, TesteeError, Unsupported) as problem:
        parts = ", ".join(f"{part} of {port.name}" for part, port in cast.parts.items())
        verdict, text = FAIL, f"{problem} ({parts}); which of them is wrong, their own cases say"
    return _made(cast, role, clause, step.__name__.strip("_").replace("_", "-"), verdict, text, began_at, stage)


def _made(
    cast: Cast, role: str, clause: str, step: str, verdict: str, text: str, began_at: float, stage: Stage | None
) -> Outcome:
    shown = None if verdict == PASS else stage
    return Outcome(
        case=f"{clause}/{step}-{cast.name}",
        layer=LAYER,
        role=role,
        clauses=(clause,),
        verdict=verdict,
        seconds=round(time.monotonic() - began_at, 4),
        clause="" if verdict == PASS else clause,
        text=text,
        conversation=tuple(shown.transcript.lines()) if shown else (),
        log=shown.log if shown else (),
    )
