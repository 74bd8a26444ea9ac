"""Where the time of tasks goes: a thread that looks now and then at the stack of the running task (WRK-61).

The thread exists only while the time on the signal page is in the future, so nothing is paid in a cluster that is not
watched. What it must not change, and how it does not:

* Signals. The thread is started with all of them blocked, so each still comes to the main thread, where it
  interrupts a blocking system call.
* Locks. The thread holds no lock of ours but the one for writing a frame, which a signal handler only tries.
  `threading` does not know the thread, and a child that a task forks does not have it.
* Objects of the task. A look takes far less than the time after which the interpreter switches threads, because at most
  `CALLS_MAX` calls are looked at. So no call ends meanwhile, and no object is destroyed in this thread.
* Random numbers. The generator is the thread's own: a task that has seeded Python's gets the same numbers.
"""

from __future__ import annotations

import _thread
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType

from scaler_protocol.ids import ObjectId
from scaler_protocol.running import ends
from scaler_protocol.stack_trees import Frame, StackTrees

INTERVAL_SECONDS = 0.02
"""From one look to the next, on average: each wait is drawn anew, so that no rhythm of a task stays unseen."""
COST_SHARE = 0.005
"""Of a core that looks may take: deep stacks are looked at less often."""
TELL_SECONDS = 1.0
LONGEST_SECONDS = 1.0
"""A look stands for the time since the one before. After a longer time, for no more than this or than the processor
time that was used meanwhile: the process may have stood still, or have been in code that holds the interpreter's
lock."""
TELL_BYTES = 32 * 1024
CALLS_MAX = 2_000
PATH_MAX = 128
"""So many calls are told of one stack, the outermost ones. The rest counts to the last of them."""
CODES_MAX = 4_096

TOO_DEEP: Frame = ("(more than 2,000 calls)", "", 0)
COMPILED: Frame = ("(compiled code)", "", 0)
"""The function of the task is none of Python's own."""

#: threads of this process that belong to no task, for `stacks`
own_threads: set[int] = set()


class StackSampler:
    """Samples while `until_ns` is in the future, by the clock that all processes of a host share.

    `running` gives the function of the task that runs, and its number: a task that blocks, or none, has the number 0.
    `tell` sends trees to the agent. `base` are the calls below which the task's own begin.
    """

    def __init__(
        self,
        until_ns: Callable[[], int],
        running: Callable[[], tuple[int, ObjectId]],
        tell: Callable[[bytes], None],
        base: tuple[CodeType, ...],
    ) -> None:
        self._until_ns = until_ns
        self._running = running
        self._tell = tell
        self._begins = frozenset((*base, ends.call_with_flags.__code__))
        self._own_file = base[0].co_filename
        self._is_alive = _thread.allocate_lock()
        self._trees = StackTrees()
        self._frames: dict[int, tuple[CodeType, Frame]] = {}  #: by identity: to hash a code object takes long
        self._main_thread = _thread.get_ident()

    def begin(self) -> None:
        """In the main thread, also in a signal handler. Nothing happens if the thread exists, or its time is over."""
        if self._is_wanted() and _has_one_thread_at_a_time() and self._is_alive.acquire(blocking=False):
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._is_alive.release()  # no thread may be started: this process is not sampled
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _is_wanted(self) -> bool:
        return self._until_ns() > time.monotonic_ns()

    def _run(self) -> None:
        own_threads.add(_thread.get_ident())
        try:
            while True:
                try:
                    self._sample_until_over()
                finally:
                    self._is_alive.release()
                # The time may have been prolonged between the last look at it and the release.
                if not self._is_wanted() or not self._is_alive.acquire(blocking=False):
                    return
        finally:
            own_threads.discard(_thread.get_ident())

    def _sample_until_over(self) -> None:
        draw = random.Random(os.urandom(8)).uniform
        looked_at = told_at = time.monotonic()
        used_seconds = time.process_time()
        pause_seconds = INTERVAL_SECONDS
        while self._is_wanted():
            time.sleep(pause_seconds * draw(0.5, 1.5))
            now, used, begun = time.monotonic(), time.process_time(), time.thread_time()
            self.look(min(now - looked_at, max(LONGEST_SECONDS, used - used_seconds)))
            looked_at, used_seconds = now, used
            pause_seconds = max(INTERVAL_SECONDS, (time.thread_time() - begun) / COST_SHARE)
            if now - told_at >= TELL_SECONDS:
                told_at = now
                self._tell_all()
        self._tell_all()

    def look(self, seconds: float) -> None:
        """One sample, which stands for so many seconds."""
        number, function = self._running()
        if not number:
            return
        path = self._path(sys._current_frames().get(self._main_thread))
        if path is not None and self._running() == (number, function):
            self._trees.add(function, path, int(seconds * 1e6))

    def _tell_all(self) -> None:
        if self._trees:
            self._tell(self._trees.take(TELL_BYTES))
        self._frames.clear()

    def _path(self, frame: FrameType | None) -> list[Frame] | None:
        """The calls of the task's function, the first one first. None: the processor is at work for itself."""
        calls: deque[CodeType] = deque(maxlen=PATH_MAX)
        count = 0
        while frame is not None and frame.f_code not in self._begins:
            if frame.f_code.co_filename != self._own_file:
                calls.append(frame.f_code)
            elif frame.f_back is not None and frame.f_back.f_code in self._begins:
                return None  # it loads the function, which is not counted as the task's time either
            count += 1
            if count >= CALLS_MAX:
                return [TOO_DEEP]
            frame = frame.f_back
        if frame is None:
            return None
        return [self._frame(code) for code in reversed(calls)] or [COMPILED]

    def _frame(self, code: CodeType) -> Frame:
        known = self._frames.get(id(code))
        if known is None:
            if len(self._frames) >= CODES_MAX:
                self._frames.clear()
            name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
            known = code, (name, os.path.basename(code.co_filename), code.co_firstlineno)
            self._frames[id(code)] = known
        return known[1]


def _has_one_thread_at_a_time() -> bool:
    """Without a lock of the interpreter, frames of a thread that runs cannot be read."""
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or bool(is_enabled())
