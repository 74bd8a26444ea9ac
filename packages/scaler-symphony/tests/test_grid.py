"""The thread that calls `soamapi`, against the fake: orders in, events out."""

from __future__ import annotations

import queue
import sys
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import symphony

from scaler_symphony import grid
from scaler_symphony.core import events
from scaler_symphony.grid import Grid, GridOptions, outcome_of
from scaler_symphony.payload import BadReply, unpack_reply
from scaler_symphony.soam import import_soamapi, payload_class

import symphony_world as fake  # isort: skip

WAIT = 30.0

ECHO = """
import array, soamapi
class Message(soamapi.Message):
    def on_serialize(self, stream):
        stream.write_byte_array(self.content, 0, len(self.content))
    def on_deserialize(self, stream):
        self.content = stream.read_byte_array("b")
class Container(soamapi.ServiceContainer):
    def on_invoke(self, task_context):
        message = Message()
        task_context.populate_task_input(message)
        task_context.set_task_output(message)
Container().run()
"""
"""Answers what it was asked, which is a reply when it is asked with one."""


class Scene:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, **faults: Any) -> None:
        program = directory / "echo.py"
        program.write_text(ECHO, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(symphony.FAKE))
        self.world = symphony.new_world(directory, services=1, command=[sys.executable, str(program)], **faults)
        monkeypatch.setattr(fake, "library", fake.Library())
        fake.library.use(self.world)
        self._events: queue.SimpleQueue[events.Event] = queue.SimpleQueue()
        self.grid = Grid(import_soamapi(), GridOptions(symphony.APPLICATION), self._events.put)
        self.grid.start()

    def next(self) -> events.Event:
        return self._events.get(timeout=WAIT)

    def open(self, number: int = 1) -> None:
        self.grid.open_session(number)
        assert isinstance(self.next(), events.SessionOpened)

    def close(self) -> None:
        self.grid.stop()
        assert self.grid.join(WAIT)
        assert not Path(self.world.breaches).exists()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    scenes: list[Scene] = []

    def new(**faults: Any) -> Scene:
        scenes.append(Scene(tmp_path, monkeypatch, **faults))
        return scenes[-1]

    yield new
    for one in scenes:
        one.close()


def reply(value: bytes = b"value") -> bytes:
    import pickle

    return pickle.dumps((0, 0, value, b"", []))


def test_a_task_goes_and_comes_back(scene: Any) -> None:
    it = scene()
    it.open()
    it.grid.send(1, 7, reply(bytes(range(256))))
    sent, responded = sorted((it.next(), it.next()), key=lambda event: type(event).__name__, reverse=True)
    assert sent == events.TaskSent(1, 7, "1")
    assert responded == events.Responded(1, "1", events.Reply(0, 0, bytes(range(256)), b"", ()))


def test_a_response_may_come_before_its_send_returns(scene: Any) -> None:
    it = scene(is_early=True)
    it.open()
    for number in range(3):  # the first has to wait for its instance
        it.grid.send(1, number, reply())
    kinds = [type(it.next()) for _ in range(6)]
    assert kinds[-2:] == [events.Responded, events.TaskSent]


def test_no_reply_is_a_text(scene: Any) -> None:
    it = scene()
    it.open()
    it.grid.send(1, 1, b"nonsense")
    (responded,) = [event for event in (it.next(), it.next()) if isinstance(event, events.Responded)]
    assert "did not answer as scaler-symphony's does" in responded.outcome  # type: ignore[operator]


def test_a_send_that_is_refused(scene: Any) -> None:
    it = scene(refuse_sends=1)
    it.open()
    it.grid.send(1, 1, reply())
    assert it.next() == events.SendFailed(1, 1, "the message was refused")


@pytest.mark.parametrize("name", ["set_session_type", "set_session_callback"])
def test_an_attribute_of_a_session_that_is_refused(scene: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    it, soamapi = scene(), import_soamapi()
    with monkeypatch.context() as patch:
        patch.setattr(soamapi.SessionCreationAttributes, name, refusing(soamapi))
        it.grid.open_session(1)
        failed = it.next()
    assert isinstance(failed, events.SessionFailed) and "it is not taken" in failed.text
    it.open(2)


def test_an_attribute_of_a_task_that_is_refused(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    it, soamapi = scene(), import_soamapi()
    it.open()
    with monkeypatch.context() as patch:
        patch.setattr(soamapi.TaskSubmissionAttributes, "set_task_input", refusing(soamapi))
        it.grid.send(1, 1, reply())
        assert it.next() == events.SendFailed(1, 1, "it is not taken")
    it.grid.send(1, 2, reply())
    assert {type(it.next()), type(it.next())} == {events.TaskSent, events.Responded}


def refusing(soamapi: Any) -> Any:
    def refuse(_self: object, _value: object) -> None:
        raise soamapi.SoamException("it is not taken")

    return refuse


def test_a_session_that_is_lost_is_closed_by_our_own_thread(scene: Any) -> None:
    it = scene(lose_session_after=1)
    it.open()
    it.grid.send(1, 1, reply())
    seen = [it.next(), it.next(), it.next()]
    assert events.SessionLost(1, "the session was aborted") in seen
    it.grid.close_session(1)
    it.open(2)


def test_what_was_ordered_of_a_closed_session_is_not_done(scene: Any) -> None:
    it = scene()
    it.open()
    it.grid.close_session(1)
    it.grid.send(1, 1, reply())
    it.open(2)


def test_the_fake_detects_a_session_that_is_closed_inside_a_callback(scene: Any, tmp_path: Path) -> None:
    """What the product answers with a deadlock."""
    it = scene()
    soamapi = import_soamapi()
    soamapi.initialize()
    caught = threading.Event()

    class Callback(soamapi.SessionCallback):  # type: ignore[misc]
        def on_response(self, task_output_handle: Any) -> None:
            try:
                session.close()
            except soamapi.SoamException:
                caught.set()

    attributes = soamapi.SessionCreationAttributes()
    attributes.set_session_type("RecoverableAllHistoricalData")
    attributes.set_session_flags(soamapi.SessionFlags.PARTIAL_ASYNC)
    attributes.set_session_callback(Callback())
    connection = soamapi.connect(symphony.APPLICATION, soamapi.DefaultSecurityCallback("Guest", "Guest"))
    session = connection.create_session(attributes)
    submission = soamapi.TaskSubmissionAttributes()
    submission.set_task_input(payload_class(soamapi)(b"x"))
    session.send_task_input(submission)
    assert caught.wait(WAIT)
    session.close()
    soamapi.uninitialize()
    breaches = Path(it.world.breaches)
    assert "inside a callback" in breaches.read_text(encoding="utf-8")
    breaches.unlink()


def test_streams_carry_arrays_of_bytes_and_nothing_else() -> None:
    stream = fake.OutputStream()
    with pytest.raises(TypeError):
        stream.write_byte_array(b"bytes", 0, 5)
    stream.write_byte_array(array("b", b"\xff\x00"), 0, 2)
    found = fake.InputStream(stream.content()).read_byte_array("b")
    assert type(found) is array and found.tobytes() == b"\xff\x00"


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x05N.", reply()[:-3]])
def test_replies_that_are_none(content: bytes) -> None:
    with pytest.raises(BadReply):
        unpack_reply(content)


def test_a_reply_names_nothing() -> None:
    """Whoever answers cannot make the adapter call anything."""
    import os
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return os.system, ("true",)

    with pytest.raises(BadReply, match=r"it names posix\.system"):
        unpack_reply(pickle.dumps((0, 0, Evil(), b"", [])))


def test_a_handle_that_raises() -> None:
    class Handle:
        def is_successful(self) -> bool:
            raise ValueError("gone")

    assert outcome_of(Handle(), payload_class(import_soamapi())) == "its output cannot be read: gone"


@pytest.mark.parametrize("error", (MemoryError(), SystemExit(3), KeyboardInterrupt(), ValueError("unforeseen")))
def test_the_agent_ends_when_the_thread_of_the_grid_has_failed(error: BaseException, monkeypatch) -> None:
    """Checks that the agent ends, because its orders would be in flight for ever. An agent that ended is lost, and its
    tasks run elsewhere."""
    ended: list[BaseException] = []
    monkeypatch.setattr(grid, "end_process", lambda thread, error: ended.append(error))

    def broken() -> None:
        raise error

    made = Grid.__new__(Grid)
    made._orders, made._thread = queue.SimpleQueue(), threading.current_thread()
    made._orders.put(broken)
    made._run()
    assert ended == [error]
