"""Plays steps against a worker, with a model of what it holds.

Each task has one end: a result, or its way back after a Recall. When and in which order is the worker's affair, so the
model follows what it sees and holds it to what must have been: the value of that call, the answer to that Cancel.

Schedulers die as well: then the next one is presented what the worker holds, and the results that no Delivered has
counted, which come again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scaler_conformance.play.ids import content_id, named_function, new_id
from scaler_conformance.play.roles import ENDED, PRESENT_HELD, QUEUED, ids_of, outcomes_of
from scaler_conformance.play.scheduler import Presented, WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, Result, Task, Unreadable, read_results
from scaler_conformance.wire.codes import STATUSES

from .dialer_player import DialerPlayer

WEIGHTS = {
    "dispatch": 14,
    "cancel": 5,
    "recall": 4,
    "strange": 2,
    "twice": 2,
    "refused": 2,
    "resume": 3,
    "fence": 3,
    "deliver": 4,
    "succeed": 2,
    "lose": 1,
    "stale": 1,
}
MOST_AT_ONCE = 6
#: All that was dispatched has ended by then.
END_SECONDS = 10.0
FIRST_GENERATION = 7
RETURNED, DROPPED = -1, -2
"""Of tasks that have ended here without a result."""


@dataclass(eq=False)
class Held:
    task: Task
    status: int
    value: bytes
    #: was it asked for, and so may it end in this way
    is_canceled: bool = False
    is_recalled: bool = False
    #: it was dispatched by a scheduler that another one has followed
    is_stale: bool = False


class WorkerPlayer(DialerPlayer):
    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        super().__init__(scene, edges)
        self.worker: WorkerGuest = scene.worker_under_test()
        self.presents = PRESENT_HELD in self.worker.hello["features"]
        if self.presents and PRESENT_HELD not in scene.scheduler.features:
            scene.scheduler.features |= {PRESENT_HELD}
            scene.scheduler.generation = FIRST_GENERATION
            self.worker = scene.scheduler.next_session(self.worker)
        self.worker.inbox.clear()
        self.client = new_id()
        self.held: dict[bytes, Held] = {}
        self.ended: dict[bytes, int] = {}
        #: ids whose Cancel is not answered, and Recalls without an answer
        self.cancels: Counter[bytes] = Counter()
        self.recalls = 0
        #: the tasks of each Results message of this session; those of the first so many were told to be delivered
        self.reported: list[list[Held]] = []
        self.delivered_count = 0
        #: as the last Delivered told it
        self.worker_count = 0
        #: presented as queued, and not to begin before a Delivered
        self.unread: set[bytes] = set()
        self._deliver_all()

    def end(self) -> None:
        self._deliver_all()

        def is_over() -> bool:
            self._look()
            return not self.held

        if not self.scene.pump.until(is_over, END_SECONDS):
            raise Breach(f"{len(self.held)} tasks have no end after {END_SECONDS:g} s", "WRK-2")
        self._await_answers()
        self._deliver_all()

    def _await_answers(self) -> None:
        def is_over() -> bool:
            self._look()
            return not self.cancels and not self.recalls

        if not self.scene.pump.until(is_over, END_SECONDS):
            clause, what = ("CAN-1", "a Cancel") if self.cancels else ("WRK-9", "a Recall")
            raise Breach(f"{what} has no answer after {END_SECONDS:g} s", clause)
        self.worker.fence()
        self._look()

    # ------------------------------------------------------------ steps

    def _dispatch(self, count: int, function: int, size: int, attempt: int) -> None:
        if self.unread:
            return  # what is presented goes first
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

    # ------------------------------------------------------------ schedulers that die

    def _deliver(self, number: int, workers: int, *_: int) -> None:
        """So many of its Results are with their clients, and so many workers there are."""
        if not self.presents:
            return
        self.delivered_count += number % (len(self.reported) - self.delivered_count + 1)
        self.worker_count = workers
        self.worker.send("delivered", resultsCount=self.delivered_count, workerCount=workers)
        self.unread.clear()

    def _deliver_all(self) -> None:
        if self.presents:
            self.worker.fence()
            self._look()
            self.delivered_count = sum(message.kind == "results" for message in self.worker.history)
            self.reported = [[]] * self.delivered_count
            self._deliver(0, 0)
        self.worker.fence()
        self._look()

    def _stale(self, function: int, size: int, *_: int) -> None:
        """A task of a scheduler that another one has followed."""
        if self.presents and not self.unread and len(self.held) < self.worker.credit:
            task = self._task(function, size, 0)
            self.held[task.id].is_stale = True
            self.worker.dispatch([task], self.client, generation=FIRST_GENERATION - 1)

    def _lose(self, *_: int) -> None:
        """The scheduler has given the worker up: it drops what it holds."""
        if self.presents:
            self._await_answers()
            self.worker = self.scene.scheduler.next_session(self.worker)
            if any(message.kind == "holding" for message in self.worker.history):
                raise Breach("the scheduler that has given the worker up is presented what it held", "WRK-35")
            self.ended.update(dict.fromkeys(self.held, DROPPED))
            self.held.clear()
            self._begin_session()

    def _succeed(self, *_: int) -> None:
        """Another scheduler follows on this one."""
        if not self.presents:
            return
        self._await_answers()
        host, count = self.scene.scheduler, self.worker_count
        before = host.server_id, host.generation
        kept = {one.task.id: one for rows in self.reported[self.delivered_count :] for one in rows}
        self.worker = host.next_session(self.worker, is_successor=True)
        told = self.worker.hello["lastServerId"], self.worker.hello["generation"]
        if told != before:
            raise Breach("its Hello does not name the last scheduler and generation", "HSK-36")
        self.held.update(kept)
        rows = self.worker.presented()
        for identifier in rows.keys() ^ self.held.keys():
            what = "presents" if identifier in rows else "does not present"
            clause = "WRK-40" if identifier in self.ended else "WRK-36"
            raise Breach(f"it {what} {self.scene.transcript.known(identifier)}", clause)
        for row in rows.values():
            self._check_presented(row, is_kept=row.task_id in kept)
        self._check_last_holding(count)
        self._begin_session()
        self.unread = {row.task_id for row in rows.values() if row.state == QUEUED}

    def _check_presented(self, row: Presented, *, is_kept: bool) -> None:
        name, task = self.scene.transcript.known(row.task_id), self.held[row.task_id].task
        if (row.attempt, row.client) != (task.attempt, self.client):
            raise Breach(f"{name} is presented as attempt {row.attempt}, or for another client", "WRK-36")
        if is_kept and row.state != ENDED:
            raise Breach(f"{name} has ended, and is presented with state {row.state}", "WRK-36")

    def _check_last_holding(self, worker_count: int) -> None:
        """Of what it tells besides tasks."""
        grant = self.worker.grant_of(self.client).get("ownerGrant", b"")
        for message in self.worker.holdings():
            if message["ids"] and message["grants"] != grant:
                raise Breach("the grants of a Holding are not those of the clients that it names", "WRK-42")
        if message["workerCount"] != worker_count:
            text = f"workerCount of the last Holding is {message['workerCount']}, and {worker_count} was told"
            raise Breach(text, "HSK-37")

    def _begin_session(self) -> None:
        self.reported, self.delivered_count, self.worker_count = [], 0, 0
        self.unread.clear()

    # ------------------------------------------------------------ what comes

    def _look(self) -> None:
        inbox, self.worker.inbox = self.worker.inbox, []
        for message in inbox:
            if message.kind == "results":
                try:
                    rows = read_results(message)
                except Unreadable as problem:
                    raise Breach(f"it sent Results that break their rules: {problem.text}", problem.clause) from None
                ended = [(self._end(row), row.status) for row in rows]
                # What was canceled is presented to no scheduler (WRK-36).
                self.reported.append([each for each, status in ended if status != CODES.STATUS_CANCELED])
            elif message.kind == "returned":
                self._returned(message)
            elif message.kind == "cancelReply":
                for pair in outcomes_of(message):
                    self._cancel_answered(*pair)
            elif message.kind == "error":
                raise Breach(f"nothing was wrong, and it sent {self.scene.transcript.describe(message)}", "ERR-1")

    def _end(self, row: Result) -> Held:
        name = self.scene.transcript.known(row.id)
        held = self.held.pop(row.id, None)
        if held is None:
            what = "a second result" if row.id in self.ended else "a result of a task that it does not hold"
            clauses = {RETURNED: "WRK-15", DROPPED: "WRK-39"}
            raise Breach(f"{what} came: {name}", clauses.get(self.ended.get(row.id, 0), "WRK-2"))
        if held.is_stale:
            raise Breach(f"{name} is of a scheduler that another one has followed, and has run", "WRK-33")
        self.ended[row.id] = row.status
        if row.attempt != held.task.attempt:
            raise Breach(f"{name} was attempt {held.task.attempt}, and its result is of {row.attempt}", "WRK-2")
        if row.status == CODES.STATUS_CANCELED and held.is_canceled:
            return held
        if row.id in self.unread:
            raise Breach(f"{name} was presented as queued, and has begun before the first Delivered", "WRK-38")
        if row.status != held.status:
            wanted, told = STATUSES[held.status], STATUSES.get(row.status, str(row.status))
            raise Breach(f"{name} ended {told}, and its function ends {wanted}", "WRK-2")
        if row.status == CODES.STATUS_SUCCESS and (row.kind, row.value) != (CODES.KIND_INLINE, held.value):
            raise Breach(f"{name} has the value {row.value[:40]!r} and must have {held.value!r}", "BAT-6")
        return held

    def _returned(self, message: Message) -> None:
        if message["isRecallAnswer"]:
            self.recalls -= 1
        if self.recalls < 0:
            raise Breach("more Recalls were answered than were sent", "WRK-9")
        for identifier in ids_of(message["ids"]):
            held = self.held.pop(identifier, None)
            is_due = held is not None and (held.is_recalled if message["isRecallAnswer"] else held.is_stale)
            if not is_due:
                raise Breach(f"{self.scene.transcript.known(identifier)} came back, and was not asked for", "WRK-9")
            self.ended[identifier] = RETURNED

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
