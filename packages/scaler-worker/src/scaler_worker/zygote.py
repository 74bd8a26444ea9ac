"""The zygote: a warm, single-threaded process from which processors are forked.

An agent has ZeroMQ's threads, and forking a process with threads is a gamble. So before it has any, it forks this one,
which only forks, signals and buries processors. It alone may signal them: being their parent it knows that a process id
is still theirs, which no other process can.

No process outlives its parent: the kernel kills the zygote with its agent and the processors with the zygote. What
tasks have started, and a processor has left, becomes a child of the zygote, which ends it (`children`).
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from struct import Struct

from scaler_protocol.codec.registry import registry
from scaler_protocol.holding.tasks import Task
from scaler_protocol.process import adopt_orphans, die_with_parent
from scaler_protocol.running.calls import Context
from scaler_worker.children import EXIT_DONE, end_children, exited_children, in_child, kill_children
from scaler_worker.core import actions, events
from scaler_worker.core.deaths import fork_refused
from scaler_worker.core.events import ProcessorExited
from scaler_worker.core.processors import Processor
from scaler_worker.core.tables import Room, Settings, Tables

# Orders to the zygote.
SPAWN = 1  # with one file descriptor: the processor's end of its channel
SIGNAL = 2
KILL = 3
SUSPEND = 4
UNSUSPEND = 5

WARM_MODULES = ("scaler.client.client", "scaler.utility.worker_state")
"""What processors begin with, where it is installed. A task that submits tasks needs the client, and a deep recursion
starts a processor for every level: 60 ms for each of them are saved. The worker itself does without."""

RECORDS = (
    actions.Send, actions.StartProcessor, actions.Finish, events.Started, ProcessorExited, events.ProcessorReady,
    events.DrainRequested, Processor, Room, Settings, Tables, Task, Context,
)  # fmt: skip
"""What each agent makes, or each processor, and nothing before them."""

SIGNAL_NUMBER = signal.SIGURG
"""Ignored by default, so it can do no harm in a processor whose user code has removed our handler."""

_SIGNALS = {SIGNAL: SIGNAL_NUMBER, SUSPEND: signal.SIGSTOP, UNSUSPEND: signal.SIGCONT}

CLOSE_SECONDS = 3.0
END_SECONDS = 2.0
"""How long processors that run nothing may take to leave when the agent has: they may have something to close."""

_ORDER = Struct("<iii")
"""What to do, the processor, its slot of the signal page."""
_EXIT = Struct("<iiQ")
"""The fields of a ProcessorExited: all that the agent is told, for a processor says itself when it is ready."""

RunProcessor = Callable[[socket.socket, int], None]
"""What a processor does with its end of the channel and its slot of the signal page."""


class ZygoteClient:
    """The agent's handle on its zygote."""

    def __init__(self, process_id: int, control: socket.socket) -> None:
        self.process_id = process_id
        self.control = control
        self._kept = b""

    def spawn(self, processor: int, slot: int, processor_end: socket.socket) -> None:
        self._send(SPAWN, processor, slot, [processor_end.fileno()])

    def signal(self, processor: int) -> None:
        self._send(SIGNAL, processor, 0)

    def kill(self, processor: int) -> None:
        self._send(KILL, processor, 0)

    def suspend(self, processor: int) -> None:
        self._send(SUSPEND, processor, 0)

    def unsuspend(self, processor: int) -> None:
        self._send(UNSUSPEND, processor, 0)

    def close(self) -> None:
        """The zygote ends when its control socket does, and kills what it has forked. The wait for it is bounded."""
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        give_up_at = time.monotonic() + CLOSE_SECONDS
        try:
            self.control.shutdown(socket.SHUT_WR)
            while (left := give_up_at - time.monotonic()) > 0:
                poller.poll(left * 1000)
                self.read()
            os.kill(self.process_id, signal.SIGKILL)
        except (EOFError, OSError):
            pass  # it has closed its end, which is the last thing that it does, or has died
        self.control.close()
        os.waitpid(self.process_id, 0)

    def _send(self, kind: int, processor: int, slot: int, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self.control, [_ORDER.pack(kind, processor, slot)], descriptors or [])
        except ConnectionError:
            pass  # it has died: the next `read` says so

    def read(self) -> list[ProcessorExited]:
        """Everything it has said; raises EOFError when it is gone."""
        try:
            data = self.control.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError("the zygote has exited")
        data = self._kept + data
        whole = len(data) - len(data) % _EXIT.size
        self._kept = data[whole:]
        return [ProcessorExited(*fields) for fields in _EXIT.iter_unpack(data[:whole])]


def warm_up() -> None:
    """Before the first fork, so that all processes of all workers share the memory and none of them does it again:
    imports, and the schema, which every agent needs, and every processor that connects to anything."""
    registry().prepare(*RECORDS)
    for name in WARM_MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # not installed, or not whole: a task that needs it gets the error of its own import


def fork_zygote(run_processor: RunProcessor) -> ZygoteClient:
    """Call this before the process has a thread or a ZeroMQ context."""
    agent_end, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent_id = os.getpid()
    process_id = os.fork()
    if process_id == 0:
        agent_end.close()
        in_child(lambda: _Zygote(zygote_end, run_processor).run(parent_id))
    zygote_end.close()
    return ZygoteClient(process_id, agent_end)


class _Zygote:
    def __init__(self, control: socket.socket, run_processor: RunProcessor) -> None:
        self._control = control
        self._run_processor = run_processor
        self._processors: dict[int, int] = {}  #: process id of each that has not been buried
        self._ending: set[int] = set()  #: what processors have left, killed and not buried
        self._wake_reader, self._wake_writer = socket.socketpair()

    def run(self, agent_id: int) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        die_with_parent(agent_id)
        adopt_orphans()
        self._wake_writer.setblocking(False)
        self._wake_reader.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake_reader, select.POLLIN)
        try:
            while self._serve({descriptor for descriptor, _ in poller.poll()}):
                pass
        except ConnectionError:
            pass  # the agent has gone before it had read all that we told
        finally:
            self._wait_for_processors()
            for processor in list(self._processors):
                self._kill(processor)
            end_children(self._wake_reader)
            # The wake-ups are not read any more, and the deaths that follow would be written to a closed socket.
            signal.set_wakeup_fd(-1)
            self._close()
        return EXIT_DONE

    def _wait_for_processors(self) -> None:
        """Those that the agent has not killed see the end of their channels."""
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        give_up_at = time.monotonic() + END_SECONDS
        while True:
            for processor, process_id in list(self._processors.items()):
                if os.waitpid(process_id, os.WNOHANG)[0]:
                    self._kill_group(process_id)
                    del self._processors[processor]
            left = give_up_at - time.monotonic()
            if not self._processors or left <= 0:
                return
            if poller.poll(left * 1000):
                self._wake_reader.recv(4096)

    def _close(self) -> None:
        for end in (self._control, self._wake_reader, self._wake_writer):
            end.close()

    def _serve(self, ready: set[int]) -> bool:
        if self._wake_reader.fileno() in ready:
            self._wake_reader.recv(4096)
            self._bury()
        return self._control.fileno() not in ready or self._obey()

    def _obey(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _ORDER.size, 1, socket.MSG_WAITALL)
        if len(data) < _ORDER.size:
            return False
        kind, processor, slot = _ORDER.unpack(data)
        if kind == SPAWN and not descriptors:
            # The kernel drops a descriptor that has no place here.
            self._tell_exit(processor, fork_refused(OSError(errno.EMFILE, "")), 0)
        elif kind == SPAWN:
            channel = socket.socket(fileno=descriptors[0])
            # A descriptor that is sent is inheritable. The programs that tasks start must not have this one.
            channel.set_inheritable(False)
            self._spawn(processor, slot, channel)
        elif kind == KILL:
            self._kill(processor)
        elif processor in self._processors:
            os.kill(self._processors[processor], _SIGNALS[kind])
        return True

    def _spawn(self, processor: int, slot: int, channel: socket.socket) -> None:
        zygote_id = os.getpid()
        try:
            process_id = os.fork()
        except OSError as error:
            channel.close()
            self._tell_exit(processor, fork_refused(error), 0)
            return
        if process_id == 0:
            in_child(lambda: self._become_processor(zygote_id, channel, slot))
        channel.close()
        self._processors[processor] = process_id

    def _become_processor(self, zygote_id: int, channel: socket.socket, slot: int) -> int:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A group of its own: the terminal's Ctrl-C does not reach it, and killing it takes what its task has started.
        os.setpgid(0, 0)
        die_with_parent(zygote_id)
        self._close()
        self._run_processor(channel, slot)
        return EXIT_DONE

    def _kill(self, processor: int) -> None:
        process_id = self._processors.get(processor)
        if process_id is None:
            return
        for kill in (os.killpg, os.kill):
            try:
                kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                pass  # killed before it had made its group: then only the second hits

    def _bury(self) -> None:
        """Buries processors, and kills what they have left. A process that a task has made a daemon of is left alone
        until then: it is not looked at when another daemon ends, such as the one that started it."""
        exits = []
        has_left_some = False
        numbers = {process_id: processor for processor, process_id in self._processors.items()}
        for process_id, status, peak_kib in exited_children():
            processor = numbers.get(process_id)
            if processor is not None:
                self._kill_group(process_id)
                del self._processors[processor]
                exits.append((processor, os.waitstatus_to_exitcode(status), peak_kib * 1024))
            has_left_some |= processor is not None or process_id in self._ending
            self._ending.discard(process_id)
        if has_left_some:
            self._ending |= kill_children(self._processors.values())
        for exited in exits:
            self._tell_exit(*exited)

    def _kill_group(self, process_id: int) -> None:
        """What the processor's tasks had started, and left running, ends with it."""
        try:
            os.killpg(process_id, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def _tell_exit(self, processor: int, exit_code: int, peak_memory_bytes: int) -> None:
        self._control.sendall(_EXIT.pack(processor, exit_code, peak_memory_bytes))
