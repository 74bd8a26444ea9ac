"""The scheduler that the suite plays around a worker, a client or a manager under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import (
    CODES,
    KeptResult,
    Message,
    Result,
    Task,
    Unreadable,
    read_kept,
    read_results,
    read_tasks,
    write_tasks,
)

from .conversation import ANSWER_SECONDS
from .host import Guest, Host
from .ids import new_id
from .manager import ManagerGuest
from .roles import RAW, ids_of, outcomes_of
from .samples import may_send

BACK_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Presented:
    """One row of Holding."""

    task_id: bytes
    attempt: int
    state: int
    client: bytes


class SchedulerHost(Host):
    """Says Welcome and keeps sessions; what is dispatched and answered is for the cases to say."""

    role = "scheduler"
    storage_address = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.features = frozenset({"samples", "stacks", "stack-samples", "kept-results", "code-sets"})
        #: for cases: what its Welcomes tell
        self.generation = 0
        self.is_standby = False

    def may_send(self, role: str) -> frozenset[str]:
        return frozenset(may_send("scheduler", role))

    def welcome(self, hello: Message) -> dict[str, Any]:
        features = [name for name in hello["features"] if name in ("chains", *self.features)]
        own: dict[str, Any] = {"storageAddress": self.storage_address, "isProtected": False, "features": features}
        if self.generation:
            own["generation"] = self.generation
        if self.is_standby:
            own["isStandby"] = True
        if self.pump.key is not None and hello["role"] == CODES.ROLE_CLIENT:
            own["ownerGrant"] = self.pump.key.grant(hello["peerId"])
        return own

    def new_guest(self, name: str, hello: Message, routing_id: bytes) -> Guest:
        return KINDS.get(hello["role"], Guest)(self, name, hello, routing_id)

    def next_session(self, worker: WorkerGuest, *, is_successor: bool = False) -> WorkerGuest:
        """The session is lost: this scheduler has given the worker up, or another one has followed."""
        known = len(self.guests)
        if is_successor:
            self.server_id = new_id()
            self.generation += 1
        worker.lose()
        if not self.pump.until(lambda: len(self.guests) > known, BACK_SECONDS):
            raise Breach(f"{worker.name} did not begin another session within {BACK_SECONDS:g} s", "SES-11")
        again = self.guests[-1]
        assert isinstance(again, WorkerGuest)
        again.fence()
        return again

    def on_message(self, guest: Guest, message: Message) -> None:
        if isinstance(guest, ManagerGuest) and message.kind == "managerStatus":
            guest.take_status(message)
        else:
            super().on_message(guest, message)


class WorkerGuest(Guest):
    """A worker under test, as its scheduler sees it."""

    @property
    def credit(self) -> int:
        """The last limit that it told, the offer in its Hello at first."""
        limit = int(self.hello["worker"]["credit"])
        for message in self.history:
            if message.kind == "credit":
                limit = message["limit"]
            elif message.kind == "results" and message["credit"]:
                limit = message["credit"]
        return limit

    @property
    def nested_reserve(self) -> int:
        """The last one that it told."""
        told = [message["nestedReserve"] for message in self.history if message.kind == "credit"]
        return int(told[-1] if told else self.hello["worker"]["nestedReserve"])

    def dispatch(self, tasks: Sequence[Task], client: bytes, **header: Any) -> int:
        full = {"callFormat": RAW, "client": client, **header, **self.grant_of(client)}
        return self.send_batch("dispatch", write_tasks(tasks, full))

    def grant_of(self, client: bytes) -> dict[str, bytes]:
        """What a header of this client's tasks says besides, in a cluster with a key (OWN-24)."""
        return {} if self.pump.key is None else {"ownerGrant": self.pump.key.lent(client, client)}

    def results(self) -> list[Result]:
        """Of all Results that have come and that nobody has looked at."""
        try:
            return [row for message in self.take("results") for row in read_results(message)]
        except Unreadable as problem:
            raise Breach(f"{self.name} sent Results that break their rules: {problem.text}", problem.clause) from None

    def wait_for_results(self, *tasks: Task, seconds: float = 2 * ANSWER_SECONDS, clause: str = "") -> list[Result]:
        """One result for each of these tasks, in their order; no other comes."""
        wanted = {task.id: task.attempt for task in tasks}
        found: dict[bytes, Result] = {}

        def all_there() -> bool:
            for row in self.results():
                self._note(row, wanted, found)
            return wanted.keys() <= found.keys()

        if not self.pump.until(all_there, seconds):
            missing = ", ".join(self.transcript.known(name) for name in wanted.keys() - found.keys())
            raise Breach(f"no result of {missing} came within {seconds:g} s", clause or "WRK-2")
        return [found[task.id] for task in tasks]

    def _note(self, row: Result, wanted: Mapping[bytes, int], found: dict[bytes, Result]) -> None:
        name = self.transcript.known(row.id)
        if row.id not in wanted:
            raise Breach(f"a result of {name} came, which this worker does not hold", "WRK-2")
        if row.id in found:
            raise Breach(f"a second result of {name} came", "WRK-2")
        if row.attempt != wanted[row.id]:
            text = f"the result of {name} is of attempt {row.attempt}, and attempt {wanted[row.id]} was dispatched"
            raise Breach(text, "WRK-2")
        found[row.id] = row

    def holdings(self) -> list[Message]:
        """All of them come first in the session, and the last says so."""
        spoken = [message for message in self.history if message.kind not in ("ping", "pong", "acknowledge")]
        count = next((place for place, message in enumerate(spoken) if message.kind != "holding"), len(spoken))
        if not count:
            raise Breach(f"the session of {self.name} does not begin with a Holding", "WRK-35")
        if any(message.kind == "holding" for message in spoken[count:]):
            raise Breach(f"{self.name} sent a Holding after other messages", "WRK-35")
        lasts = [bool(message["isLast"]) for message in spoken[:count]]
        if lasts != [False] * (count - 1) + [True]:
            raise Breach(f"isLast of the Holdings of {self.name} is {lasts}: only the last one has it", "WRK-35")
        return spoken[:count]

    def presented(self) -> dict[bytes, Presented]:
        rows: dict[bytes, Presented] = {}
        for message in self.holdings():
            ids, clients = ids_of(message["ids"]), ids_of(message["clients"])
            attempts = message["attempts"] or b"\1\0" * len(ids)
            states = message["states"] or bytes(len(ids))
            for place, task_id in enumerate(ids):
                if task_id in rows:
                    raise Breach(f"{self.name} names {self.transcript.known(task_id)} twice in its Holding", "WRK-36")
                attempt = int.from_bytes(attempts[2 * place : 2 * place + 2], "little")
                rows[task_id] = Presented(task_id, attempt, states[place], clients[place])
        return rows

    def cancel(self, *tasks: Task, grace: float = 1.0) -> int:
        return self.send("cancel", ids=b"".join(task.id for task in tasks), graceSeconds=grace)

    def cancel_outcomes(self) -> dict[bytes, int]:
        pairs = [pair for message in self.take("cancelReply") for pair in outcomes_of(message)]
        if len(dict(pairs)) != len(pairs):
            raise Breach("a task of a Cancel was answered twice", "CAN-1")
        return dict(pairs)

    def returned(self, clause: str = "WRK-9") -> list[bytes]:
        """What was given back unasked."""
        messages = self.take("returned")
        if any(message["isRecallAnswer"] for message in messages):
            raise Breach("a Returned calls itself the answer to a Recall, and there was none", clause)
        return [name for message in messages for name in ids_of(message["ids"])]


class ClientGuest(Guest):
    """A client under test, as its scheduler sees it."""

    def submitted(self, clause: str = "") -> list[Task]:
        """Of all Submits that have come and that nobody has looked at."""
        try:
            return [task for message in self.take("submit") for task in read_tasks(message)]
        except Unreadable as problem:
            text = f"{self.name} sent a Submit that breaks its rules: {problem.text}"
            raise Breach(text, clause or problem.clause) from None

    def given(self, clause: str = "CLI-17") -> list[tuple[bytes, KeptResult]]:
        """Results of tasks that have ended elsewhere, and the graph of each."""
        try:
            return [(message["graphId"], row) for message in self.take("keptResults") for row in read_kept(message)]
        except Unreadable as problem:
            raise Breach(f"{self.name} sent KeptResults that break their rules: {problem.text}", clause) from None

    def wait_for_tasks(self, count: int, seconds: float = 2 * ANSWER_SECONDS, clause: str = "CLI-3") -> list[Task]:
        found: list[Task] = []

        def all_there() -> bool:
            found.extend(self.submitted())
            return len(found) >= count

        if not self.pump.until(all_there, seconds):
            raise Breach(f"{count} tasks were to be submitted, and {len(found)} came within {seconds:g} s", clause)
        if len(found) > count:
            raise Breach(f"{count} tasks were to be submitted, and {len(found)} came", "CLI-2")
        return found


KINDS: dict[int, type[Guest]] = {
    CODES.ROLE_WORKER: WorkerGuest,
    CODES.ROLE_CLIENT: ClientGuest,
    CODES.ROLE_MANAGER: ManagerGuest,
}
