"""One ZeroMQ context per process."""

from __future__ import annotations

import atexit
import os

import zmq

Context = zmq.Context[zmq.Socket[bytes]]

#: By process id. A context and its thread do not survive fork, so a child makes its own; the parent's stays in this
#: table for ever, because to collect it in the child would close descriptors that the child only borrowed.
_contexts: dict[int, Context] = {}

#: How many endpoints of this process are open, by process id.
_open_counts: dict[int, int] = {}


_io_threads = 1


def use_io_threads(count: int) -> None:
    """How many threads move messages for the context of this process and of those it forks. Before the first socket."""
    global _io_threads
    _io_threads = count


def zmq_context() -> Context:
    pid = os.getpid()
    context = _contexts.get(pid)
    if context is None or context.closed:
        if context is None:
            atexit.register(_terminate, pid)
        context = _contexts[pid] = zmq.Context(_io_threads)
    return context


def count_endpoint(difference: int) -> None:
    pid = os.getpid()
    _open_counts[pid] = _open_counts.get(pid, 0) + difference


def _terminate(pid: int) -> None:
    """Let the last goodbyes out: bounded, because every endpoint closes its socket with a bounded linger. With an
    endpoint still open this would wait for ever, so then the goodbyes are lost instead."""
    context = _contexts.get(pid)
    if pid == os.getpid() and context is not None and not context.closed and _open_counts.get(pid, 0) == 0:
        context.term()
