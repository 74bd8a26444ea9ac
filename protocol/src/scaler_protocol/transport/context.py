"""One ZeroMQ context per process."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import Any

import zmq

from scaler_protocol.transport.descriptors import expect_room

Socket = zmq.Socket[bytes]


class Context(zmq.Context[Socket]):
    """Knows which of its sockets are open."""

    #: pyzmq takes an attribute for an option of libzmq unless the class names it
    _made: weakref.WeakSet[Socket] | None = None

    def socket(self, *arguments: Any, **options: Any) -> Socket:
        if self._made is None:
            self._made = weakref.WeakSet()
        socket: Socket = super().socket(*arguments, **options)
        self._made.add(socket)
        return socket

    def has_open_sockets(self) -> bool:
        """The one that answers libzmq about keys (REP) does not count: its thread closes it when the context ends."""
        return any(not socket.closed and socket.get(zmq.TYPE) != zmq.REP for socket in self._made or ())


#: By process id. A context and its thread do not survive fork, so a child makes its own; the parent's stays in this
#: table for ever, because to collect it in the child would close descriptors that the child only borrowed.
_contexts: dict[int, Context] = {}

_io_threads = 1
#: of a context with its first socket: libzmq aborts the process when it finds none for one of its threads
_DESCRIPTORS = 16


def use_io_threads(count: int) -> None:
    """How many threads move messages for the context of this process and of those it forks. Before the first socket."""
    global _io_threads
    _io_threads = count


def zmq_context() -> Context:
    """Raises TooManyOpenFilesError."""
    pid = os.getpid()
    context = _contexts.get(pid)
    if context is None or context.closed:
        expect_room(_DESCRIPTORS)
        if context is None:
            atexit.register(end_context)
        context = _contexts[pid] = Context(_io_threads)
    return context


#: when the last of what closed sockets have sent is given up, if it has not left by then
_leaves_by = 0.0


def let_out(seconds: float) -> None:
    """What a socket has sent that is just being closed may take so long to leave."""
    global _leaves_by
    _leaves_by = max(_leaves_by, time.monotonic() + seconds)


def end_context() -> None:
    """Let the last goodbyes out: bounded, because every endpoint closes its socket with a bounded linger. With a socket
    still open, of an endpoint or of any other program part, this would wait for ever, so then the goodbyes are lost
    instead. If there are none, the process just ends: libzmq takes itself apart in a row of threads that wake each
    other, which took ten milliseconds of the end of a cluster."""
    context = _contexts.get(os.getpid())
    if context is None or context.closed or time.monotonic() >= _leaves_by:
        return
    if not context.has_open_sockets():
        context.term()
