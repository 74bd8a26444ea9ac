"""Stands in for IBM Symphony's `soamapi` in tests: the members known from public use, and no others.

Any other name raises, so code that invents one fails here as it would there. The behaviour is in `symphony_world`,
which the real product does not have. Every call checks what the product checks, or suffers from: the order of calls,
registered names, real streams of typed records, and a session that is closed by one of the library's own threads.
"""

from __future__ import annotations

import symphony_world as _world
from symphony_world import InputStream as _InputStream
from symphony_world import OutputStream as _OutputStream
from symphony_world import SoamException

__all__ = [
    "DefaultSecurityCallback",
    "DefaultTextMessage",
    "Message",
    "ServiceContainer",
    "SessionCallback",
    "SessionCloseFlags",
    "SessionCreationAttributes",
    "SessionFlags",
    "SoamException",
    "TaskSubmissionAttributes",
    "connect",
    "initialize",
    "uninitialize",
]


def __getattr__(name: str):
    raise AttributeError(f"soamapi has no {name!r}, as far as public use of it shows")


class Message:
    def on_serialize(self, stream: _OutputStream) -> None:
        raise NotImplementedError

    def on_deserialize(self, stream: _InputStream) -> None:
        raise NotImplementedError


class DefaultTextMessage(Message):
    def __init__(self) -> None:
        self._text = ""

    def set_text(self, text: str) -> None:
        self._text = text

    def get_text(self) -> str:
        return self._text

    def on_serialize(self, stream: _OutputStream) -> None:
        stream.write_string(self._text)

    def on_deserialize(self, stream: _InputStream) -> None:
        self._text = stream.read_string()


class SessionFlags:
    RECEIVE_SYNC = 1
    PARTIAL_ASYNC = 2


class SessionCloseFlags:
    DESTROY_ON_CLOSE = 1


class SessionCallback:
    def on_response(self, task_output_handle: object) -> None:
        raise NotImplementedError

    def on_exception(self, exception: SoamException) -> None:
        raise NotImplementedError


class DefaultSecurityCallback:
    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password


class SessionCreationAttributes:
    def __init__(self) -> None:
        self._name = self._type = ""
        self._flags = SessionFlags.RECEIVE_SYNC
        self._callback: SessionCallback | None = None

    def set_session_name(self, name: str) -> None:
        self._name = name

    def set_session_type(self, name: str) -> None:
        self._type = name

    def set_session_flags(self, flags: int) -> None:
        self._flags = flags

    def set_session_callback(self, callback: SessionCallback) -> None:
        if not isinstance(callback, SessionCallback):
            raise TypeError("a session callback is a SessionCallback")
        self._callback = callback

    def set_max_services(self, count: int) -> None:
        self._max_services = count


class TaskSubmissionAttributes:
    def __init__(self) -> None:
        self._input: Message | None = None

    def set_task_input(self, message: Message) -> None:
        if not isinstance(message, Message):
            raise TypeError("a task input is a Message")
        self._input = message


class _Session:
    def __init__(self, inner: _world.Session) -> None:
        self._inner = inner

    def get_id(self) -> str:
        return self._inner.id

    def send_task_input(self, attributes: TaskSubmissionAttributes) -> _TaskInputHandle:
        stream = _OutputStream()
        attributes._input.on_serialize(stream)  # in the caller's thread
        return _TaskInputHandle(self._inner.send(stream.content()))

    def close(self, flags: int = SessionCloseFlags.DESTROY_ON_CLOSE) -> None:
        self._inner.close()


class _TaskInputHandle:
    def __init__(self, task_id: str) -> None:
        self._id = task_id

    def get_id(self) -> str:
        return self._id


class _TaskOutputHandle:
    def __init__(self, answer: _world.Answer) -> None:
        self._answer = answer

    def get_id(self) -> str:
        return self._answer.task_id

    def is_successful(self) -> bool:
        return self._answer.error is None

    def populate_task_output(self, message: Message) -> None:
        if self._answer.error is not None:
            raise self._answer.error
        message.on_deserialize(_InputStream(self._answer.content))

    def get_exception(self) -> SoamException | None:
        return self._answer.error


class _Connection:
    def __init__(self, application: _world.Application) -> None:
        self._application = application
        self._is_closed = False

    def get_id(self) -> str:
        return "connection-1"

    def create_session(self, attributes: SessionCreationAttributes) -> _Session:
        if self._is_closed:
            raise SoamException("the connection is closed")
        callback = attributes._callback
        if attributes._flags == SessionFlags.PARTIAL_ASYNC and callback is None:
            raise SoamException("a session that receives asynchronously needs a callback")
        inner = _world.library.create_session(
            self._application,
            attributes._type,
            lambda answer: callback.on_response(_TaskOutputHandle(answer)),
            lambda error: callback.on_exception(error),
        )
        return _Session(inner)

    def close(self) -> None:
        self._is_closed = True


def initialize() -> None:
    _world.library.initialize()


def uninitialize() -> None:
    _world.library.uninitialize()


def connect(application: str, security_callback: DefaultSecurityCallback) -> _Connection:
    if not isinstance(security_callback, DefaultSecurityCallback):
        raise TypeError("connect wants a security callback")
    return _Connection(_world.library.application(application))


class ServiceContainer:
    def run(self) -> int:
        return _world.serve(self, _TaskContext)

    def on_create_service(self, service_context: object) -> None:
        pass

    def on_session_enter(self, session_context: object) -> None:
        pass

    def on_invoke(self, task_context: _TaskContext) -> None:
        raise NotImplementedError

    def on_session_leave(self) -> None:
        pass

    def on_destroy_service(self) -> None:
        pass


class _TaskContext:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._output: Message | None = None

    def populate_task_input(self, message: Message) -> None:
        message.on_deserialize(_InputStream(self._content))

    def set_task_output(self, message: Message) -> None:
        self._output = message
