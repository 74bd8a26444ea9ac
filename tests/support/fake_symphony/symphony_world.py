"""What is behind the fake `soamapi`: applications, sessions, service instances as processes, and what may go wrong.

A `World` is read from the JSON file that FAKE_SYMPHONY names. Every breach of the product's rules is appended to its
`breaches` file, whatever becomes of the process that has committed it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import random
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from struct import Struct

VARIABLE = "FAKE_SYMPHONY"
CHANNEL = "FAKE_SYMPHONY_CHANNEL"
HOST = "FAKE_SYMPHONY_HOST"
LEAVE = "FAKE_SYMPHONY_LEAVE"
TAKEN_SECONDS = 0.02
EARLY_SECONDS = 0.3
SHUFFLE_SECONDS = 0.02
_LENGTH = Struct("<I")


class SoamException(Exception):
    def __init__(self, text: str = "", embedded: BaseException | None = None) -> None:
        super().__init__(text)
        self._embedded = embedded

    def get_embedded_exception(self) -> BaseException | None:
        return self._embedded


@dataclass
class Application:
    command: list[str]
    session_types: tuple[str, ...] = ("RecoverableAllHistoricalData", "UnrecoverableNoHistoricalData")
    services: int = 4
    retry_limit: int = 1


@dataclass
class World:
    breaches: str
    applications: dict[str, Application] = field(default_factory=dict)
    is_early: bool = False  #: responses come before the send that caused them returns
    is_shuffled: bool = False  #: responses come in another order
    is_twice: bool = False  #: every response comes twice
    callback_threads: int = 1
    lose_session_after: int = 0  #: so many responses, once
    lost_flag: str = ""  #: a file that says it has been lost already
    fail_task: int = 0  #: Symphony itself fails the task of this number, without an embedded exception
    refuse_sends: int = 0  #: so many sends raise
    taken_hosts: str = ""  #: a directory; while it has a file with the number of a service instance, its host is taken
    leave_flag: str = ""  #: the first instance that has run a task exits before it answers, and leaves this file

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_world() -> World:
    fields = json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
    fields["applications"] = {name: Application(**one) for name, one in fields["applications"].items()}
    return World(**fields)


# ---------------------------------------------------------------- streams


class OutputStream:
    def __init__(self) -> None:
        self._records: list[tuple[str, str, bytes]] = []

    def write_byte_array(self, content: array, offset: int, length: int) -> None:
        if not isinstance(content, array) or content.typecode not in "bB":
            raise TypeError(f"write_byte_array takes an array.array of bytes, not {type(content).__name__}")
        self._records.append(("bytes", content.typecode, content[offset : offset + length].tobytes()))

    def write_string(self, text: str) -> None:
        self._records.append(("string", "", text.encode()))

    def content(self) -> bytes:
        return pickle.dumps(self._records)


class InputStream:
    """Reads must mirror writes, in order."""

    def __init__(self, content: bytes) -> None:
        self._records = pickle.loads(content)

    def read_byte_array(self, type_code: str) -> array:
        return array(type_code, self._next("bytes"))

    def read_string(self) -> str:
        return self._next("string").decode()

    def _next(self, kind: str) -> bytes:
        if not self._records or self._records[0][0] != kind:
            raise SoamException(f"the stream holds no {kind} here")
        return self._records.pop(0)[2]


# ---------------------------------------------------------------- the client's side


@dataclass
class Answer:
    task_id: str
    content: bytes = b""
    error: SoamException | None = None


class Library:
    def __init__(self) -> None:
        self._is_initialized = False
        self._sessions: list[Session] = []
        self._world: World | None = None

    @property
    def world(self) -> World:
        if self._world is None:
            self._world = read_world()
        return self._world

    def use(self, world: World) -> None:
        self._world = world

    def breach(self, text: str) -> None:
        with open(self.world.breaches, "a", encoding="utf-8") as file:
            file.write(text + "\n")
        raise SoamException(text)

    def initialize(self) -> None:
        if self._is_initialized:
            self.breach("initialize was called twice")
        self._is_initialized = True

    def uninitialize(self) -> None:
        if any(not session.is_closed for session in self._sessions):
            self.breach("uninitialize was called with an open session")
        self._is_initialized = False

    def application(self, name: str) -> Application:
        if not self._is_initialized:
            self.breach("connect was called before initialize")
        if name not in self.world.applications:
            raise SoamException(f"there is no enabled application <{name}>")
        return self.world.applications[name]

    def create_session(
        self,
        application: Application,
        session_type: str,
        on_response: Callable[[Answer], None],
        on_exception: Callable[[SoamException], None],
    ) -> Session:
        if session_type not in application.session_types:
            raise SoamException(f"session type <{session_type}> is not in the application profile")
        session = Session(self.world, application, str(101 + len(self._sessions)), on_response, on_exception)
        self._sessions.append(session)
        return session


class Session:
    def __init__(
        self,
        world: World,
        application: Application,
        session_id: str,
        on_response: Callable[[Answer], None],
        on_exception: Callable[[SoamException], None],
    ) -> None:
        self.id = session_id
        self.is_closed = False
        self._is_lost = False
        self._world = world
        self._application = application
        self._on_response = on_response
        self._on_exception = on_exception
        self._sent_count = 0
        self._response_count = 0
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | SoamException | None] = queue.SimpleQueue()
        self._answered: dict[str, threading.Event] = {}
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._callers = [threading.Thread(target=self._call_back, daemon=True) for _ in range(world.callback_threads)]
        instances = [
            threading.Thread(target=self._instance, args=(number,), daemon=True)
            for number in range(application.services)
        ]
        for thread in (*self._callers, *instances):
            thread.start()

    def send(self, content: bytes) -> str:
        if self.is_closed or self._is_lost:
            raise SoamException("the session is not open")
        if self._world.refuse_sends:
            self._world.refuse_sends -= 1
            raise SoamException("the message was refused")
        self._sent_count += 1
        task_id = str(self._sent_count)
        self._answered[task_id] = threading.Event()
        self._tasks.put((task_id, content))
        if self._world.is_early:
            self._answered[task_id].wait(EARLY_SECONDS)
        return task_id

    def close(self) -> None:
        if threading.current_thread() in self._callers:
            library.breach("a session was closed inside a callback: the product deadlocks")
        if self.is_closed:
            library.breach("a session was closed twice")
        self.is_closed = True
        self._end_instances()
        for _ in self._callers:
            self._answers.put(None)
        for caller in self._callers:
            caller.join(10)

    def lose(self) -> None:
        """As when an operator kills it."""
        self._is_lost = True
        self._end_instances()
        self._answers.put(SoamException("the session was aborted"))

    # ------------------------------------------------------------ instances

    def _end_instances(self) -> None:
        for _ in range(self._application.services):
            self._tasks.put(None)
        with self._lock:
            for process in self._processes:
                process.kill()

    def _instance(self, number: int) -> None:
        """One service instance at a time, as many as it takes, on a host of this number."""
        instance: Instance | None = None
        while (task := self._tasks.get()) is not None and not self._is_over:
            if self._is_taken(number):
                self._tasks.put(task)
                time.sleep(TAKEN_SECONDS)
                continue
            task_id, content = task
            answer: Answer | None = Answer(task_id, error=SoamException("the task was failed by the system"))
            if task_id != str(self._world.fail_task):
                instance, answer = self._run(instance, number, task_id, content)
            if answer is None:
                self._tasks.put(task)
            elif not self._is_over:
                self._answers.put(answer)
        if instance is not None:
            self._drop(instance)

    def _is_taken(self, number: int) -> bool:
        return bool(self._world.taken_hosts) and Path(self._world.taken_hosts, str(number)).exists()

    @property
    def _is_over(self) -> bool:
        return self.is_closed or self._is_lost

    def _run(
        self, instance: Instance | None, number: int, task_id: str, content: bytes
    ) -> tuple[Instance | None, Answer | None]:
        """As often as the profile's retry limit allows, in other instances when one has exited. None: the host is taken
        away, so the task goes back to the session, and that is no retry."""
        error = SoamException("there was no attempt")
        for _ in range(self._application.retry_limit + 1):
            if self._is_over:
                break
            if instance is None:
                instance = Instance(self._application.command, number, self._world.leave_flag)
                with self._lock:
                    self._processes.add(instance.process)
            try:
                is_done, answered = instance.invoke(content)
            except OSError:
                self._drop(instance)
                instance, error = None, SoamException("the service instance exited")
                if self._is_taken(number):
                    return None, None
                continue
            if is_done:
                return instance, Answer(task_id, answered)
            error = SoamException("the service failed", RuntimeError(answered.decode()))
        return instance, Answer(task_id, error=error)

    def _drop(self, instance: Instance) -> None:
        instance.close()
        with self._lock:
            self._processes.discard(instance.process)

    # ------------------------------------------------------------ callbacks

    def _call_back(self) -> None:
        while (answer := self._answers.get()) is not None:
            if isinstance(answer, SoamException):
                self._on_exception(answer)
                continue
            for one in self._shuffled(answer):
                if self._is_over:
                    break
                self._deliver(one)

    def _deliver(self, answer: Answer) -> None:
        self._on_response(answer)
        if self._world.is_twice:
            self._on_response(answer)
        self._answered[answer.task_id].set()
        self._response_count += 1
        if self._response_count == self._world.lose_session_after and not Path(self._world.lost_flag).exists():
            Path(self._world.lost_flag).touch()
            self.lose()

    def _shuffled(self, first: Answer) -> list[Answer]:
        """With those that come within a moment, as long as nothing else comes."""
        answers = [first]
        if self._world.is_shuffled:
            end_at = time.monotonic() + SHUFFLE_SECONDS
            with contextlib.suppress(queue.Empty):
                while isinstance(answer := self._answers.get(timeout=max(0.0, end_at - time.monotonic())), Answer):
                    answers.append(answer)
            random.shuffle(answers)
        return answers


library = Library()


# ---------------------------------------------------------------- service instances


class Instance:
    """The session manager's end of a service instance."""

    def __init__(self, command: list[str], host: int, leave_flag: str) -> None:
        self._end, other = socket.socketpair()
        environment = {**os.environ, CHANNEL: str(other.fileno()), HOST: str(host), LEAVE: leave_flag}
        self.process = subprocess.Popen(command, env=environment, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)
        other.close()

    def invoke(self, content: bytes) -> tuple[bool, bytes]:
        _write(self._end, content)
        answer = _read(self._end)
        return answer[:1] == b"+", answer[1:]

    def close(self) -> None:
        self._end.close()
        self.process.kill()
        self.process.wait()


def serve(container: object, context_class: type) -> int:
    """Inside an instance: until the session manager closes its end."""
    end = socket.socket(fileno=int(os.environ[CHANNEL]))
    container.on_create_service(object())
    container.on_session_enter(object())
    while True:
        try:
            context = context_class(_read(end))
        except OSError:
            return 0
        try:
            container.on_invoke(context)
            _leave_once(os.environ[LEAVE])
            stream = OutputStream()
            context._output.on_serialize(stream)  # after on_invoke has returned
            answer = b"+" + stream.content()
        except Exception as error:
            answer = b"-" + f"{type(error).__name__}: {error}".encode()
        _write(end, answer)


def _leave_once(flag: str) -> None:
    if flag and not os.path.exists(flag):
        Path(flag).touch()
        os._exit(0)


def _write(end: socket.socket, content: bytes) -> None:
    end.sendall(_LENGTH.pack(len(content)) + content)


def _read(end: socket.socket) -> bytes:
    return _read_exactly(end, _LENGTH.unpack(_read_exactly(end, _LENGTH.size))[0])


def _read_exactly(end: socket.socket, count: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < count:
        piece = end.recv(count - len(pieces))
        if not piece:
            raise ConnectionError("the other end is gone")
        pieces += piece
    return bytes(pieces)


if sys.platform == "win32":
    raise ImportError("the fake needs POSIX")
