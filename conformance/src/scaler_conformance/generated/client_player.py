"""Plays steps against a client, with a model of what its user was promised.

The suite is the scheduler, so it decides how each task ends; what is checked is that the user is told that, and once,
however the results come: in any order, cut into any batches, twice, after a resume, or in another session.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scaler_conformance.play.host import Guest
from scaler_conformance.play.scheduler import ClientGuest
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Result, encode_task_error, write_results

from .dialer_player import DialerPlayer

WEIGHTS = {
    "submit": 8,
    "map": 5,
    "results": 12,
    "fail": 4,
    "twice": 3,
    "strange": 2,
    "resume": 3,
    "lose": 1,
    "fence": 3,
}
TELL_SECONDS = 10.0


@dataclass(eq=False)
class Promised:
    task: bytes
    argument: bytes
    #: how the suite has ended it; None: not yet
    status: int | None = None
    value: bytes = b""


class ClientPlayer(DialerPlayer):
    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        super().__init__(scene, edges)
        self.client: ClientGuest = scene.client_under_test()
        self.tasks: dict[bytes, Promised] = {}
        #: tasks that this session's scheduler knows
        self.known: set[bytes] = set()
        self.told: set[bytes] = set()

    def end(self) -> None:
        while open_tasks := self._open():
            self._answer(open_tasks[:5])
        wanted = self.tasks.keys()

        def is_over() -> bool:
            self._look()
            return wanted <= self.told

        if not self.scene.pump.until(is_over, TELL_SECONDS):
            raise Breach(f"the user was not told how {len(wanted - self.told)} tasks have ended", "CLI-5")
        self.client.fence()
        self._look()

    # ------------------------------------------------------------ steps

    def _submit(self, size: int, *_: int) -> None:
        argument = b"%d" % len(self.tasks) + bytes(size % 50)
        self._wait_for({self.scene.testee.submit("echo", argument): argument})

    def _map(self, count: int, *_: int) -> None:
        arguments = [b"%d of map" % number for number in range(1 + count % 6)]
        tasks = self.scene.testee.map("echo", [[argument] for argument in arguments])
        self._wait_for(dict(zip(tasks, arguments, strict=True)))

    def _wait_for(self, tasks: dict[bytes, bytes]) -> None:
        """They are submitted, each once, and nothing else."""
        for task, argument in tasks.items():
            if task in self.tasks:
                raise Breach("an id was given to two tasks", "CLI-1")
            self.scene.transcript.name(task, "t")
            self.tasks[task] = Promised(task, argument)
        self._expect_submitted(set(tasks), "CLI-3")

    def _expect_submitted(self, tasks: set[bytes], clause: str) -> None:
        for task in self.client.wait_for_tasks(len(tasks), TELL_SECONDS, clause):
            if task.id not in tasks or task.id in self.known:
                raise Breach(f"{self.scene.transcript.known(task.id)} was submitted, and not due", "CLI-2")
            if task.parts and task.parts[0] != (CODES.KIND_INLINE, self.tasks[task.id].argument):
                raise Breach(f"the argument of {self.scene.transcript.known(task.id)} is another", "BAT-6")
            self.known.add(task.id)

    def _open(self) -> list[Promised]:
        return [each for each in self.tasks.values() if each.status is None]

    def _results(self, number: int, count: int, _: int, __: int) -> None:
        open_tasks = self._open()
        if open_tasks:
            first = number % len(open_tasks)
            self._answer([*open_tasks[first:], *open_tasks[:first]][: 1 + count % 5])

    def _answer(self, chosen: list[Promised]) -> None:
        for each in chosen:
            each.status, each.value = CODES.STATUS_SUCCESS, b"value of " + each.argument[:20]
        self.client.send_batch("results", write_results([Result(each.task, value=each.value) for each in chosen]))

    def _fail(self, number: int, *_: int) -> None:
        open_tasks = self._open()
        if open_tasks:
            each = open_tasks[number % len(open_tasks)]
            each.status = CODES.STATUS_FAILED
            error = {"code": CODES.TASK_RAISED, "typeName": "X", "message": "went wrong", "text": "X"}
            row = Result(each.task, 1, each.status, CODES.KIND_INLINE, encode_task_error(error))
            self.client.send_batch("results", write_results([row]))

    def _twice(self, number: int, *_: int) -> None:
        if self.client.sent:
            seq, frames = self.client.sent[-1 - number % min(len(self.client.sent), 4)]
            self.client.raw(frames, f"#{seq}   once more")

    def _strange(self, number: int, *_: int) -> None:
        """A result of a task that has ended, or that nobody knows."""
        ended = [each.task for each in self.tasks.values() if each.status is not None]
        task = ended[number % len(ended)] if ended else bytes(range(16))
        self.client.send_batch("results", write_results([Result(task, value=b"forged")]))

    def _resume(self, *_: int) -> None:
        self.client.resume_after_error(TELL_SECONDS)

    def _lose(self, *_: int) -> None:
        """Another life of the scheduler: what is unfinished comes again, and only that."""
        self.client.fence()
        unfinished = {each.task for each in self._open()}
        if not unfinished:
            return  # it has nothing to come back for
        guests, known = self.scene.scheduler.guests, len(self.scene.scheduler.guests)
        self.client.lose()

        def others() -> list[Guest]:
            """It may first have asked for the old session once more."""
            return [guest for guest in guests[known:] if guest.peer_id != self.client.peer_id]

        if not self.scene.pump.until(lambda: bool(others()), 2 * TELL_SECONDS):
            raise Breach(f"it did not begin again under a new peerId within {2 * TELL_SECONDS:g} s", "CLI-8")
        again = others()[0]
        assert isinstance(again, ClientGuest)
        self.client = again
        self.known -= unfinished
        self._expect_submitted(unfinished, "CLI-8")

    def _fence(self, *_: int) -> None:
        self.client.fence()

    # ------------------------------------------------------------ what the user is told

    def _look(self) -> None:
        testee = self.scene.testee
        testee.take_lines()
        events, testee.events = testee.events, []
        for event in events:
            if event["event"] == "result":
                self._is_told(bytes.fromhex(event["task"]), event)
        for task in self.client.submitted():
            raise Breach(f"{self.scene.transcript.known(task.id)} was submitted, and not due", "CLI-2")
        for error in self.client.take("error"):
            raise Breach(f"nothing was wrong, and it sent {self.scene.transcript.describe(error)}", "ERR-1")

    def _is_told(self, task: bytes, event: dict[str, object]) -> None:
        name, promised = self.scene.transcript.known(task), self.tasks.get(task)
        if promised is None or promised.status is None or task in self.told:
            raise Breach(f"the user was told of {name} once too often, or before its result came", "CLI-5")
        self.told.add(task)
        is_success = promised.status == CODES.STATUS_SUCCESS
        if (event.get("status") == CODES.STATUS_SUCCESS) != is_success:
            said = CODES.STATUS_SUCCESS.name_of(event["status"])
            due = CODES.STATUS_SUCCESS.name_of(promised.status)
            raise Breach(f"the user was told status {said} of {name}, which has {due}", "CLI-7")
        if is_success and event.get("value") != promised.value.hex():
            raise Breach(f"the user was told another value of {name}", "CLI-5")
