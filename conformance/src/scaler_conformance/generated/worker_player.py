"""Plays steps against a worker, with a model of what it holds.

Each task has one end: a result, or its way back after a Recall. When and in which order is the worker's affair, so the
model follows what it sees and holds it to what must have been: the value of that call, the answer to that Cancel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scaler_conformance.play.ids import content_id, named_function, new_id
from scaler_conformance.play.roles import ids_of, outcomes_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, Result, Task, Unreadable, read_results
from scaler_conformance.wire.codes import STATUSES

from .dialer_player import DialerPlayer

WEIGHTS = {"dispatch": 14, "cancel": 5, "recall": 4, "strange": 2, "twice": 2, "refused": 2, "resume": 3, "fence": 3}
MOST_AT_ONCE = 6
#: All that was dispatched has ended by then.
END_SECONDS = 10.0


@dataclass(eq=False)
class Held:
    task: Task
    status: int
    value: bytes
    #: was it asked for, and so may it end in this way
    is_canceled: bool = False
    is_recalled: bool = False


class WorkerPlayer(DialerPlayer):
    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        super().__init__(scene, edges)
        self.worker: WorkerGuest = scene.worker_under_test()
        self.worker.inbox.clear()
        self.client = new_id()
        self.held: dict[bytes, Held] = {}
        self.ended: dict[bytes, int] = {}
        #: ids whose Cancel is not answered, and Recalls without an answer
        self.cancels: Counter[bytes] = Counter()
        self.recalls = 0

    def end(self) -> None:
        def is_over() -> bool:
            self._look()
            return not self.held and not self.cancels and not self.recalls

        if not self.scene.pump.until(is_over, END_SECONDS):
            if self.held:
                raise Breach(f"{len(self.held)} tasks have no end after {END_SECONDS:g} s", "WRK-2")
            clause, what = ("CAN-1", "a Cancel") if self.cancels else ("WRK-9", "a Recall")
            raise Breach(f"{what} has no answer after {END_SECONDS:g} s", clause)
        self.worker.fence()
        self._look()

    # ------------------------------------------------------------ steps

    def _dispatch(self, count: int, function: int, size: int, attempt: int) -> None:
        room = max(0, min(self.worker.credit, MOST_AT_ONCE) - len(self.held))
        tasks = [self._task(function + number, size, attempt) for number in range(min(room, 1 + count % 4))]
        if tasks:
            self.worker.dispatch(tasks, self.client)

    def _task(self, function: int, size: int, attempt: int) -> Task:
        argument = b"%d" % (size * 7 + len(self.held) + len(self.ended))
        calls = {
            "echo": (CODES.STATUS_SUCCESS, argument),
            "reverse": (CODES.STATUS_SUCCESS, argument[::-1]),
            "fail": (CODES.STATUS_FAILED, b""),
            "sleep_ms": (CODES.STATUS_SUCCESS, b""),
        }
        name = list(calls)[function % len(calls)]
        status, value = calls[name]
        given = b"%d" % (size % 40) if name == "sleep_ms" else argument
        identifier = content_id(named_function(name))
        task = Task(id=new_id(), function=identifier, parts=((CODES.KIND_INLINE, given),), attempt=1 + attempt % 3)
        self.scene.transcript.name(task.id, "t")
        self.held[task.id] = Held(task, status, value)
        return task

    def _some(self, number: int, count: int) -> list[Held]:
        held = list(self.held.values())
        return [held[(number + at) % len(held)] for at in range(min(len(held), 1 + count % 3))]

    def _cancel(self, number: int, count: int, grace: int, _: int) -> None:
        chosen = self._some(number, count)
        for each in chosen:
            each.is_canceled = True
            self.cancels[each.task.id] += 1
        if chosen:
            self.worker.cancel(*(each.task for each in chosen), grace=grace % 3)

    def _recall(self, number: int, count: int, _: int, __: int) -> None:
        chosen = self._some(number, count)
        for each in chosen:
            each.is_recalled = True
        self.worker.send("recall", ids=b"".join(each.task.id for each in chosen))
        self.recalls += 1

    def _strange(self, *_: int) -> None:
        """A Cancel and a Recall of what was never here."""
        stranger = new_id()
        self.cancels[stranger] += 1
        self.worker.send("cancel", ids=stranger)
        self.worker.send("recall", ids=stranger)
        self.recalls += 1

    def _twice(self, number: int, *_: int) -> None:
        """What it has received comes again."""
        if self.worker.sent:
            seq, frames = self.worker.sent[-1 - number % min(len(self.worker.sent), 4)]
            self.worker.raw(frames, f"#{seq}   once more")

    def _refused(self, *_: int) -> None:
        seq = self.worker.send("recall", ids=b"half an id")
        self.worker.expect_error(CODES.BAD_ENVELOPE, CODES.BAD_BATCH, ref_seq=seq, fatal=False, clause="FRM-8")

    def _resume(self, *_: int) -> None:
        """A gap: it redials and resumes."""
        self.worker.resume_after_gap(END_SECONDS)

    def _fence(self, *_: int) -> None:
        self.worker.fence()

    # ------------------------------------------------------------ what comes

    def _look(self) -> None:
        inbox, self.worker.inbox = self.worker.inbox, []
        for message in inbox:
            if message.kind == "results":
                try:
                    rows = read_results(message)
                except Unreadable as problem:
                    raise Breach(f"it sent Results that break their rules: {problem.text}", problem.clause) from None
                for row in rows:
                    self._end(row)
            elif message.kind == "returned":
                self._returned(message)
            elif message.kind == "cancelReply":
                for pair in outcomes_of(message):
                    self._cancel_answered(*pair)
            elif message.kind == "error":
                raise Breach(f"nothing was wrong, and it sent {self.scene.transcript.describe(message)}", "ERR-1")

    def _end(self, row: Result) -> None:
        name = self.scene.transcript.known(row.id)
        held = self.held.pop(row.id, None)
        if held is None:
            what = "a second result" if row.id in self.ended else "a result of a task that it does not hold"
            raise Breach(f"{what} came: {name}", "WRK-15" if self.ended.get(row.id) == -1 else "WRK-2")
        self.ended[row.id] = row.status
        if row.attempt != held.task.attempt:
            raise Breach(f"{name} was attempt {held.task.attempt}, and its result is of {row.attempt}", "WRK-2")
        if row.status == CODES.STATUS_CANCELED and held.is_canceled:
            return
        if row.status != held.status:
            wanted, told = STATUSES[held.status], STATUSES.get(row.status, str(row.status))
            raise Breach(f"{name} ended {told}, and its function ends {wanted}", "WRK-2")
        if row.status == CODES.STATUS_SUCCESS and (row.kind, row.value) != (CODES.KIND_INLINE, held.value):
            raise Breach(f"{name} has the value {row.value[:40]!r} and must have {held.value!r}", "BAT-6")

    def _returned(self, message: Message) -> None:
        if message["isRecallAnswer"]:
            self.recalls -= 1
        if self.recalls < 0:
            raise Breach("more Recalls were answered than were sent", "WRK-9")
        for identifier in ids_of(message["ids"]):
            held = self.held.pop(identifier, None)
            if held is None or not (held.is_recalled and message["isRecallAnswer"]):
                raise Breach(f"{self.scene.transcript.known(identifier)} came back, and was not asked for", "WRK-9")
            self.ended[identifier] = -1

    def _cancel_answered(self, identifier: bytes, outcome: int) -> None:
        name = self.scene.transcript.known(identifier)
        if not self.cancels[identifier]:
            raise Breach(f"{name} was answered more often than canceled", "CAN-1")
        self.cancels[identifier] -= 1
        self.cancels += Counter()
        if (outcome == CODES.CANCEL_CANCELED) and self.ended.get(identifier, CODES.STATUS_CANCELED) >= 0:
            status = self.ended.get(identifier, CODES.STATUS_CANCELED)
            if status != CODES.STATUS_CANCELED:
                raise Breach(f"{name} is said to be canceled, and has ended {STATUSES[status]}", "CAN-1")
