"""Values that a task has before it ends, as its client takes them (chapter 05, streams). A testee may leave out the
command that begins a stream."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.scheduler import ClientGuest
from scaler_conformance.play.testee import TesteeError
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task

from .client_calls import _begun_again, answer
from .worker_streams import BEGUN, CREDIT, VALUE, named, numbers_of

case = cases_for("client")
SOON_SECONDS = 10.0
MOST = 40
"""More values, and more credits, than any stream of these cases has."""


class Streaming:
    """A stream that the client has begun, and whose worker the suite plays."""

    def __init__(self, scene: Scene, client: ClientGuest, window: int) -> None:
        self.scene, self.client = scene, client
        self.task = scene.testee.stream("stream_n", window, b"9")
        (sent,) = client.wait_for_tasks(1)
        self.sent: Task = sent
        scene.equal([value for _, value in sent.parts[1:]], [b"%d" % window, b"9"], "window and arguments")
        self.id = sent.parts[0][1]
        self.store(BEGUN)

    def store(self, kind: int, number: int = 0) -> None:
        self.scene.storage.store(named(self.id, kind, number), b"%d" % number, self.client.peer_id)

    def is_owned(self, kind: int, number: int = 0) -> bool:
        return bool(self.scene.storage.owners.get(named(self.id, kind, number)))

    def take(self, number: int) -> None:
        """The client takes this value, which is not there before it has asked for it."""
        command = self.scene.testee.tell("take", task=self.task.hex())
        self.wait_for_get(number)
        self.store(VALUE, number)
        found = self.scene.testee.answer(command).get("value")
        self.scene.equal(found, (b"%d" % number).hex(), f"value {number}, as the program gets it", "CLI-29")

    def wait_for_get(self, number: int) -> None:
        wanted = named(self.id, VALUE, number)

        def is_asked_for() -> bool:
            return any(message["objectId"] == wanted for message in self.scene.storage.asked("get"))

        is_so = self.scene.pump.until(is_asked_for, SOON_SECONDS)
        self.scene.check(is_so, f"the client has not asked for value {number} within {SOON_SECONDS:g} s", "CLI-29")

    def end(self, status: int = CODES.STATUS_SUCCESS) -> None:
        is_success = status == CODES.STATUS_SUCCESS
        kind, value = (CODES.KIND_INLINE, b"9") if is_success else (CODES.KIND_NONE, b"")
        answer(self.client, Result(self.task, 1, status, kind, value))
        self.scene.testee.result(self.task)

    def left(self) -> list[str]:
        """What the client still owns of it."""
        rows = [("the mark", BEGUN, 0)]
        rows += [(f"value {number}", VALUE, number) for number in range(MOST)]
        rows += [(f"credit {number}", CREDIT, number) for number in range(MOST)]
        return [what for what, kind, number in rows if self.is_owned(kind, number)]

    def must_be_gone(self) -> None:
        self.scene.pump.until(lambda: not self.left(), SOON_SECONDS)
        self.scene.equal(self.left(), [], "what is left of a stream that has ended", "CLI-29")


def begun(scene: Scene, window: int) -> Streaming:
    return Streaming(scene, scene.client_under_test(), window)


@case("CLI-27")
def a_stream_is_submitted_to_run_once(scene: Scene) -> None:
    stream = begun(scene, window=4)
    header = stream.sent.header
    found = header["retries"], header["lostProcessorsLimit"]
    scene.equal(found, (0, 1), "retries and lostProcessorsLimit of a task that streams")
    stream.end()


@case("CLI-27", "CLI-8", fresh=True, seconds=40.0)
def a_stream_is_not_submitted_again(scene: Scene) -> None:
    stream = begun(scene, window=4)
    other = scene.testee.submit("echo", b"again")
    stream.client.wait_for_tasks(1)
    stream.client.lose()
    again = _begun_again(scene, stream.client)
    tasks: list[Task] = []

    def is_there() -> bool:
        tasks.extend(again.submitted())
        return bool(tasks)

    scene.pump.until(is_there, SOON_SECONDS)
    again.fence()
    tasks += again.submitted()
    scene.equal([task.id for task in tasks], [other], "the tasks submitted again, after a stream and another")
    told = scene.testee.result(stream.task, clause="CLI-27")
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "a stream whose session was lost is told as a success")
    answer(again, Result(other, value=b"again"))
    scene.testee.result(other)


@case("CLI-28", seconds=40.0)
def a_credit_is_stored_when_its_values_were_taken(scene: Scene) -> None:
    client = scene.client_under_test()
    for window, step in ((1, 1), (2, 1), (5, 2), (7, 3)):
        stream = Streaming(scene, client, window)
        for number in range(3 * step):
            stream.take(number)
            due = list(range(1, (number + 1) // step + 1))

            def is_stored(stream: Streaming = stream, due: list[int] = due) -> bool:
                return len(numbers_of(scene, stream.id, CREDIT, MOST)) >= len(due)

            scene.pump.until(is_stored, SOON_SECONDS)
            stored = numbers_of(scene, stream.id, CREDIT, MOST)
            scene.equal(stored, due, f"the credits with window {window}, when {number + 1} values were taken")
        stream.end()
        scene.equal(scene.testee.take(stream.task), None, "a value behind the last one", "CLI-29")


@case("CLI-29", seconds=40.0)
def what_was_taken_is_released_while_the_task_runs(scene: Scene) -> None:
    stream = begun(scene, window=2)
    for number in range(6):
        stream.take(number)

    def are_gone() -> bool:
        values = any(stream.is_owned(VALUE, number) for number in range(4))
        return not values and not any(stream.is_owned(CREDIT, number) for number in range(1, 4))

    is_so = scene.pump.until(are_gone, SOON_SECONDS)
    scene.check(is_so, f"6 values were taken, and there are still {', '.join(stream.left())}")
    scene.check(stream.is_owned(BEGUN), "the mark of a stream is released while its task runs")
    stream.end()
    scene.equal(scene.testee.take(stream.task), None, "a value behind the last one")


@case("CLI-29", "CLI-28", seconds=40.0)
def a_stream_that_has_ended_leaves_nothing(scene: Scene) -> None:
    client = scene.client_under_test()
    for count in (0, 3):
        stream = Streaming(scene, client, 4)
        for number in range(count):
            stream.take(number)
        for number in range(count, 4):
            stream.store(VALUE, number)
        stream.end()
        for number in range(count, 4):
            scene.equal(scene.testee.take(stream.task), b"%d" % number, "a value that was stored before the result")
        scene.equal(scene.testee.take(stream.task), None, "a value behind the last one")
        stream.must_be_gone()


@case("CLI-29", "CAN-14", seconds=40.0)
def what_a_dropped_stream_has_left_is_released_when_its_task_has_ended(scene: Scene) -> None:
    """The worker may store one more value until then."""
    stream = begun(scene, window=4)
    stream.take(0)
    for number in (1, 2):
        stream.store(VALUE, number)
    scene.testee.drop(stream.task)
    stream.client.expect("cancel", clause="CAN-1")
    stream.client.fence()
    scene.check(stream.is_owned(BEGUN), "the mark is released before the task of a dropped stream has ended")
    stream.store(VALUE, 3)
    stream.client.send("cancelReply", ids=stream.task, outcomes=bytes([CODES.CANCEL_CANCELED]))
    stream.end(CODES.STATUS_CANCELED)
    stream.must_be_gone()


@case("LIM-28", seconds=40.0)
def a_window_outside_of_its_bounds_is_refused(scene: Scene) -> None:
    client = scene.client_under_test()
    for window in (0, 65_537):
        try:
            scene.testee.stream("stream_n", window, b"9")
        except TesteeError:
            client.fence()
            scene.equal(client.submitted(), [], f"the tasks that were submitted for a window of {window}")
        else:
            scene.check(False, f"a stream with a window of {window:,} was taken")
    for window in (1, 65_536):
        stream = Streaming(scene, client, window)
        stream.end()
