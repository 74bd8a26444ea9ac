"""What clients and workers say to a scheduler, in the words of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import (
    CODES,
    KeptResult,
    Message,
    Result,
    Task,
    Unreadable,
    decode_task_error,
    encode_task_error,
    read_kept,
    read_results,
    read_tasks,
    write_kept,
    write_results,
    write_tasks,
)

from .dialer import Dialer
from .ids import content_id, named_function, new_id

PRESENT_HELD = "present-held"
QUEUED, RUNNING, ENDED = range(3)
"""States of a task in Holding."""
ECHO = content_id(named_function("echo"))
RAW = CODES.CALL_RAW


class ClientPeer(Dialer):
    def new_tasks(self, count: int = 1, **fields: Any) -> list[Task]:
        """Tasks nobody has heard of; RAW calls of `echo` with one inline part."""
        made = [Task(id=new_id(), **{"function": ECHO, "parts": ((0, b"x"),), **fields}) for _ in range(count)]
        for task in made:
            self.transcript.name(task.id, "t")
        return made

    def submit(self, tasks: int | Sequence[Task] = 1, *, sealed: bool = True, **header: Any) -> list[Task]:
        given = self.new_tasks(tasks) if isinstance(tasks, int) else list(tasks)
        self.submit_batch(given, sealed=sealed, **header)
        return given

    def submit_batch(self, tasks: Sequence[Task], *, sealed: bool = True, **header: Any) -> int:
        """The number of the message. The death of a processor ends these tasks unless the header says otherwise."""
        body = write_tasks(tasks, {"callFormat": RAW, "lostProcessorsLimit": 1, **header})
        return self.send_batch("submit", body, isGraphSealed=sealed)

    def results(self, clause: str = "") -> list[Result]:
        """Of all Results that have come and that nobody has looked at."""
        return _rows(self, "results", read_results, clause)

    def result_of(self, task: Task, clause: str = "") -> Result:
        """The one result of this task; other results are left for later."""
        rows = self.results(clause)
        mine = [row for row in rows if row.id == task.id]
        name = self.transcript.known(task.id)
        if len(mine) != 1:
            others = ", ".join(self.transcript.known(row.id) for row in rows) or "nothing"
            raise Breach(f"{self.name} expected one result of {name} and was sent {len(mine)} ({others} came)", clause)
        rest = [row for row in rows if row.id != task.id]
        if rest:
            self.inbox.append(_message("results", write_results(rest)))
        return mine[0]

    def expect_status(self, task: Task, *statuses: int, clause: str = "") -> Result:
        result = self.result_of(task, clause)
        if result.status not in statuses:
            from scaler_conformance.wire.codes import STATUSES

            wanted = " or ".join(STATUSES[status] for status in statuses)
            name = self.transcript.known(task.id)
            raise Breach(f"{name} ended {STATUSES[result.status]}, expected {wanted}", clause)
        return result

    def kept_results(self, clause: str = "") -> list[KeptResult]:
        """Of all KeptResults that have come and that no case has looked at."""
        return _rows(self, "keptResults", read_kept, clause)

    def give(self, graph_id: bytes, *results: KeptResult) -> int:
        """The number of the message."""
        return self.send_batch("keptResults", write_kept(graph_id, results))

    def cancel(self, *tasks: Task, is_all: bool = False, grace: float = 1.0) -> int:
        return self.send("cancel", ids=b"".join(task.id for task in tasks), isAll=is_all, graceSeconds=grace)

    def cancel_outcomes(self) -> list[tuple[bytes, int]]:
        """Of all CancelReplies that have come."""
        return [pair for message in self.take("cancelReply") for pair in outcomes_of(message)]


class WorkerPeer(Dialer):
    def dispatched(self, clause: str = "") -> list[Task]:
        """Of all Dispatches that have come and that nobody has looked at."""
        return _rows(self, "dispatch", read_tasks, clause)

    def expect_dispatch(self, count: int = 1, clause: str = "", why: str = "") -> list[Task]:
        """After a fence: exactly so many tasks are there."""
        tasks = self.dispatched(clause)
        if len(tasks) != count:
            names = ", ".join(self.transcript.known(task.id) for task in tasks) or "nothing"
            because = f": {why}" if why else ""
            raise Breach(f"{self.name} expected {count} tasks and was given {names}{because}", clause)
        return tasks

    def finish(
        self,
        *tasks: Task,
        status: int = 0,
        value: bytes = b"done",
        credit: int = 0,
        attempt: int = 0,
        code: int = 0,
        **error: Any,
    ) -> int:
        """Results; other statuses than SUCCESS come with a TaskError, CANCELED with nothing."""
        kind = CODES.KIND_INLINE
        if status == CODES.STATUS_CANCELED:
            kind, value = CODES.KIND_NONE, b""
        elif status:
            told = {"code": code or _CODE_OF[status], "typeName": "X", "message": "went wrong", "text": "X", **error}
            value = encode_task_error(told)
        rows = [Result(task.id, attempt or task.attempt, status, kind, value) for task in tasks]
        return self.send_batch("results", write_results(rows), credit=credit)

    def next_after(self, held: Task) -> Task:
        """Ends this task, and returns the one that is dispatched in its place. (SCH-25)"""
        self.finish(held)
        self.fence()
        (following,) = self.expect_dispatch(1, "SCH-25")
        return following

    def credit(self, limit: int, reserve: int = 0) -> int:
        return self.send("credit", limit=limit, nestedReserve=reserve)

    def give_back(self, *tasks: Task, is_answer: bool = False) -> int:
        return self.send("returned", ids=b"".join(task.id for task in tasks), isRecallAnswer=is_answer)

    def holds(
        self, *tasks: Task, owner: bytes, grant: bytes, state: int, is_last: bool = True, worker_count: int = 0
    ) -> int:
        """One Holding with these tasks, all of one client."""
        proof = grant if tasks else b""
        return self.send(
            "holding",
            ids=b"".join(task.id for task in tasks),
            attempts=b"".join(task.attempt.to_bytes(2, "little") for task in tasks),
            states=bytes([state] * len(tasks)),
            clients=owner * len(tasks),
            isLast=is_last,
            grants=proof,
            grantSizes=bytes([len(proof)]) if proof else b"",
            workerCount=worker_count,
        )

    def answer_cancel(self, *pairs: tuple[bytes, int]) -> int:
        ids, outcomes = b"".join(name for name, _ in pairs), bytes(outcome for _, outcome in pairs)
        return self.send("cancelReply", ids=ids, outcomes=outcomes)


_CODE_OF = {
    CODES.STATUS_FAILED: CODES.TASK_RAISED,
    CODES.STATUS_WORKER_LOST: CODES.WORKER_LOST,
    CODES.STATUS_PROCESSOR_DIED: CODES.PROCESSOR_DIED,
    CODES.STATUS_TIMED_OUT: CODES.TASK_TIMED_OUT,
    CODES.STATUS_REFUSED: CODES.FUNCTION_UNREADABLE,
}


def ids_of(column: bytes) -> list[bytes]:
    return [column[at : at + 16] for at in range(0, len(column), 16)]


def outcomes_of(message: Message) -> list[tuple[bytes, int]]:
    ids = ids_of(message["ids"])
    outcomes = message["outcomes"] or bytes(len(ids))
    if len(outcomes) != len(ids):
        raise Breach(f"a CancelReply has {len(ids)} ids and {len(outcomes)} outcomes", "BAT-1")
    return list(zip(ids, outcomes, strict=True))


def _rows(peer: Dialer, kind: str, read: Any, clause: str) -> list[Any]:
    try:
        return [row for message in peer.take(kind) for row in read(message)]
    except Unreadable as problem:
        raise Breach(
            f"{peer.name} was sent a batch that breaks its own rules: {problem.text}", problem.clause
        ) from None


def _message(kind: str, body: dict[str, Any]) -> Message:
    payload = body.pop("payload")
    return Message(kind, {"credit": 0, **body}, payload=(payload,))


def error_of(result: Result) -> dict[str, Any]:
    try:
        return decode_task_error(result.value)
    except Unreadable as problem:
        raise Breach(f"the value of a result that is no success is no TaskError: {problem.text}", "BAT-10") from None
