"""Symphony's client library at the adapter's end: orders in, events out.

All calls are made by one thread of ours, in the order of the orders: several of them block until Symphony acknowledges,
and a session must never be closed by one of the library's own threads, which call `on_response` and `on_exception`:
that is a deadlock. Those threads only read what they are given and pass it on. There is no lock here, so none is ever
held over a call that blocks. That a response overtakes the return of the call that sent its task, the core knows.
Whatever a call raises is an event too: if the thread ended by it, its orders would never be answered.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler_protocol.process import end_process
from scaler_symphony.core.events import (
    Event,
    Reply,
    Responded,
    SendFailed,
    SessionFailed,
    SessionLost,
    SessionOpened,
    TaskSent,
)
from scaler_symphony.payload import BadReply, unpack_reply
from scaler_symphony.soam import describe, payload_class

logger = logging.getLogger("scaler.symphony")

Report = Callable[[Event], None]
"""Called from any thread; must not wait."""


@dataclass(frozen=True, slots=True)
class GridOptions:
    application: str
    user: str = "Guest"
    password: str = "Guest"
    session_type: str = "RecoverableAllHistoricalData"
    session_name: str = "ScalerSession"


class Grid:
    def __init__(self, soamapi: Any, options: GridOptions, report: Report) -> None:
        self._soamapi = soamapi
        self._options = options
        self._report = report
        self._payload = payload_class(soamapi)
        self._callback = callback_class(soamapi, self._payload, report)
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._sessions: dict[int, tuple[Any, Any, Any]] = {}  #: connection, session, and what must outlive them
        self._is_initialized = False
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="symphony", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def open_session(self, number: int) -> None:
        self._orders.put(lambda: self._open(number))

    def close_session(self, number: int) -> None:
        self._orders.put(lambda: self._close(number))

    def send(self, session: int, number: int, content: bytes) -> None:
        self._orders.put(lambda: self._send(session, number, content))

    def stop(self) -> None:
        """Closes everything in order, in the background. What was not sent is not sent any more."""
        self._is_stopping = True
        self._orders.put(None)

    def join(self, seconds: float) -> bool:
        """True when that is done."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ------------------------------------------------------------ in the thread

    def _run(self) -> None:
        try:
            self._follow_orders()
        except BaseException as error:  # noqa: BLE001 its orders would be under way for ever; the tasks run again elsewhere (SCH-7)
            end_process(self._thread.name, error)

    def _follow_orders(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
        for number in list(self._sessions):
            self._close(number)
        if self._is_initialized:
            _try("the end of its library", self._soamapi.uninitialize)

    def _open(self, number: int) -> None:
        """With a connection of its own: what has ended the session before may have ended its connection too."""
        soamapi, options = self._soamapi, self._options
        try:
            if not self._is_initialized:
                soamapi.initialize()
                self._is_initialized = True
            security = soamapi.DefaultSecurityCallback(options.user, options.password)
            connection = soamapi.connect(options.application, security)
        except Exception as error:  # noqa: BLE001 - also what the library raises of the system
            self._report(SessionFailed(number, f"application {options.application!r}: {describe(error)}"))
            return
        callback = self._callback(number)
        try:
            session = connection.create_session(self._attributes(callback))
            session_id = str(session.get_id())
        except Exception as error:  # noqa: BLE001
            self._report(SessionFailed(number, f"session type {options.session_type!r}: {describe(error)}"))
            _try("closing the connection", connection.close)
            return
        self._sessions[number] = (connection, session, (callback, security))
        self._report(SessionOpened(number, session_id))

    def _attributes(self, callback: Any) -> Any:
        attributes = self._soamapi.SessionCreationAttributes()
        attributes.set_session_type(self._options.session_type)
        attributes.set_session_name(self._options.session_name)
        attributes.set_session_flags(self._soamapi.SessionFlags.PARTIAL_ASYNC)
        attributes.set_session_callback(callback)
        return attributes

    def _close(self, number: int) -> None:
        connection, session, _ = self._sessions.pop(number, (None, None, None))
        if connection is not None:
            _try("closing the session", session.close)
            _try("closing the connection", connection.close)

    def _send(self, number: int, run: int, content: bytes) -> None:
        if number not in self._sessions or self._is_stopping:
            return  # it was closed before this order came, and the core has seen to the task
        try:
            attributes = self._soamapi.TaskSubmissionAttributes()
            attributes.set_task_input(self._payload(content))
            handle = self._sessions[number][1].send_task_input(attributes)
            self._report(TaskSent(number, run, str(handle.get_id())))
        except Exception as error:  # noqa: BLE001
            self._report(SendFailed(number, run, describe(error)))


def _try(what: str, call: Callable[[], object]) -> None:
    """Something that has gone wrong may well go on doing so while it is closed."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        logger.warning("Symphony: %s failed: %s", what, describe(error))


def callback_class(soamapi: Any, payload: Any, report: Report) -> Any:
    class Callback(soamapi.SessionCallback):  # type: ignore[misc]
        """Called by threads of the library, perhaps by several at once. Nothing may be raised into them."""

        def __init__(self, session: int) -> None:
            super().__init__()
            self._session = session

        def on_response(self, task_output_handle: Any) -> None:
            try:
                handle = str(task_output_handle.get_id())
            except Exception as error:  # noqa: BLE001
                logger.error("Symphony: a response without an id: %s", describe(error))
                return
            report(Responded(self._session, handle, outcome_of(task_output_handle, payload)))

        def on_exception(self, exception: Any) -> None:
            report(SessionLost(self._session, describe(exception)))

    return Callback


def outcome_of(handle: Any, payload: Any) -> Reply | str:
    """A text when there is no result: as text, because no other module knows Symphony's exceptions."""
    try:
        if not handle.is_successful():
            return describe(handle.get_exception())
        message = payload()
        handle.populate_task_output(message)
        return unpack_reply(message.content)
    except BadReply as error:
        return str(error)
    except Exception as error:  # noqa: BLE001
        return f"its output cannot be read: {describe(error)}"
