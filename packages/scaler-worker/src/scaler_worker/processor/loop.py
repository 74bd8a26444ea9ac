"""A processor: runs one task after another in its main thread, and writes each result as soon as there is one.

Signals. The agent interrupts a task, or reclaims what has not begun, by writing what it wants into our slot of the
signal page and sending one signal. The handler may run between any two bytecodes, so it acts only while user code runs
(`_running` is its task's number, else 0) and never inside a half-written frame or while we read an order: there it only
leaves `_is_signalled` set, and the code that was in the way attends to it when done. An interrupt is raised once in a
task, but not in the middle of what cannot be cut off, and once more if it was raised in a destructor, where it is lost.

Void orders. A blocked task has told the agent that it dropped everything handed to it after that task. Slices that were
already on their way are therefore dropped too, up to the order to resume; likewise up to the mark of a reclaim. The
agent knows exactly the same, so no task is lost and none runs twice.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from scaler_protocol import classes, task_context, waits
from scaler_protocol.codes import KIND_INLINE, KIND_TASK, LOG_PREPARATION, STATUS_SUCCESS
from scaler_protocol.ids import ObjectId
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Limits
from scaler_protocol.running.calls import (
    PLAIN_TYPES,
    Context,
    Objects,
    Pieces,
    arguments_of,
    result_of,
    store_exception,
)
from scaler_protocol.running.ends import call_with_flags, failed_end, measured_failure
from scaler_protocol.running.errors import Store, before_call
from scaler_protocol.running.kept import KeptValues
from scaler_protocol.running.loaded import Anew
from scaler_protocol.running.named import NamedFunctions
from scaler_protocol.values import PROTOCOL, loads
from scaler_worker import channel
from scaler_worker.channel import HEAD, OrderReader, SignalPage, pack_report
from scaler_worker.children import end_fork
from scaler_worker.code import LARGEST_BYTES
from scaler_worker.core.events import INTERRUPTED
from scaler_worker.processor.context import ProcessorTask
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.interrupts import can_interrupt, signal_again
from scaler_worker.processor.sampling import StackSampler
from scaler_worker.processor.stacks import stack_text
from scaler_worker.zygote import SIGNAL_NUMBER

if TYPE_CHECKING:
    from scaler_worker.code_sets.entering import CodeSets

dumps_plain = pickle.dumps
classes_read = classes.read
perf_counter_ns = time.perf_counter_ns

IDLE_COLLECT_SECONDS = (0.5, 10.0, 60.0)
"""After so long without a task a processor collects its garbage, because then no task waits for it. Not only once: the
first time other threads may still refer to what is garbage a moment later, such as a client with its connection."""

END_SECONDS = 1.5
"""What the values of `scaler.worker_state` get for their end: less than a worker that ends waits for us."""

REMEMBERED_CONTEXTS = 4096
"""More than a slice has tasks, so that one is never forgotten before its task has run."""

Row = tuple[int, Any, int, int, Any, Any]  # number, task id, attempt, context number, function, parts


class TaskInterrupted(KeyboardInterrupt):
    """The task was canceled or has timed out. Code that cleans up on Ctrl-C cleans up on this."""


class ProcessorLoop:
    def __init__(
        self,
        end: socket.socket,
        page: SignalPage,
        slot: int,
        housekeeping: Housekeeping,
        named: NamedFunctions | None = None,
        shown: Pass | None = None,
        code_sets: Callable[[], CodeSets] | None = None,
        kept: KeptValues | None = None,
        hides_streamed_output: bool = False,
    ) -> None:
        self._end = end
        self._descriptor = end.fileno()
        self._page = page
        self._slot = slot
        self._reader = OrderReader()
        self._read_lock = waits.Lock()  #: one thread reads orders at a time
        self._write_lock = waits.Lock()  #: frames are written whole
        self._waiting: deque[Row] = deque()  #: handed over, not begun
        self._contexts: OrderedDict[int, Context] = OrderedDict()
        self._inline_bytes = Limits().inline_bytes
        self._objects = Objects(named, self._send_fetched, shown, kept)
        self._housekeeping = housekeeping
        self._code_sets = code_sets  #: makes them for the first task that has one
        self._hides_streamed_output = hides_streamed_output
        self._family = self._objects.family
        self._functions = self._objects.shelf.loaded
        self._task = ProcessorTask(
            self._send_block, self._wait_for_place, lambda: bool(self._running), self._objects, shown
        )
        self._objects.place = self._task
        self._begun = page.begun_cell(slot)  #: the last task that was begun: its number, and nanoseconds
        self._running = 0  #: number of the task whose code runs, 0 between tasks
        self._is_fork = False  #: this is a child that a task has forked
        self._is_reading = False  #: in `_wait_for_place`: an exception there could lose bytes
        self._is_signalled = False
        #: results that rows of `_waiting` take, by the number of the task; and how often they will be taken
        self._results: dict[int, tuple[int, bytes]] = {}
        self._uses: dict[int, int] = {}
        self._last_result: tuple[int, int, bytes] = (0, KIND_INLINE, b"")
        self._ended_ns = 0  #: when the task before ended: what we do between two tasks counts as the second's
        self._interrupted = 0  #: the last task number we raised in: once per task, unless it was lost
        self._stack_serial = 0  #: the last question for the stack that was answered
        self._answered_serial = 0  #: the last reclaim that was answered
        self._void_serial = 0  #: slices are void until the mark of this reclaim
        self._read_serial = 0  #: the last reclaim's mark that was read
        self._is_blocked = False  #: slices are void until RESUME
        self._sampler = StackSampler(
            lambda: page.sample_until_ns, self._sampled, self._send_samples, (ProcessorLoop._run_first.__code__,)
        )
        self._obey: dict[int, Callable[..., None]] = {
            channel.RUN: self._on_run,
            channel.CONTEXT: self._on_context,
            channel.RESUME: self._on_resume,
            channel.RECLAIM: self._on_reclaim,
            channel.CONFIGURE: self._on_configure,
            channel.CODE: self._on_code,
            channel.DEVICES: os.environ.update,
        }

    def run(self) -> None:
        """Until the agent closes its end."""
        signal.signal(SIGNAL_NUMBER, self._on_signal)
        sys.unraisablehook = partial(self._on_unraisable, sys.unraisablehook)
        os.register_at_fork(after_in_child=self._leave_in_fork)
        task_context.set_current(self._task)
        self._write(pack_report(channel.READY, os.getpid()))
        self._sampler.begin()
        try:
            while True:
                self._receive_and_obey()
                self._run_waiting()
        except BaseException as error:
            if self._is_fork:
                end_fork(error)
            raise

    # ------------------------------------------------------------ orders

    def _receive_and_obey(self) -> None:
        with self._read_lock:
            while (order := self._reader.next()) is None:
                self._reader.append(self._receive())
        self._obey[order[0]](*order[1:])

    def _receive(self) -> bytes:
        if not self._running:
            self._tidy_up()
        if self._is_fork:
            end_fork()
        try:
            data = self._end.recv(channel.RECEIVE_BYTES)
        except ConnectionError:
            data = b""  # the agent was killed before it had read all that we wrote
        if not data:
            self._leave()
        return data

    def _leave(self) -> NoReturn:
        """The agent wants us gone, or is gone itself: no process is left to report to."""
        if not self._running:
            watchdog = threading.Timer(END_SECONDS, os._exit, (0,))
            watchdog.daemon = True
            watchdog.start()
            task_context.end_process()
        os._exit(0)

    def _tidy_up(self) -> None:
        """Between two tasks. A busy processor does it seldom; an idle one at once, because then no task waits."""
        now = time.monotonic()
        if self._is_readable(0 if self._housekeeping.is_due(now) else IDLE_COLLECT_SECONDS[0]):
            if self._housekeeping.is_due(now):
                self._objects.forget_unused(now)
                self._objects.kept.age()
                self._housekeeping.collect(now)
            return
        self._objects.kept.clear()
        classes.end_call()
        self._housekeeping.collect(time.monotonic())
        again_at = [now + seconds for seconds in IDLE_COLLECT_SECONDS[1:]]
        while not self._is_readable(self._seconds_to_tidy(again_at)):
            now = time.monotonic()
            if again_at and again_at[0] <= now:
                del again_at[0]
            self._objects.forget_unused(now)
            self._housekeeping.collect(now)

    def _seconds_to_tidy(self, again_at: list[float]) -> float | None:
        """Until an idle processor has something to forget or to collect."""
        now = time.monotonic()
        forget = self._objects.seconds_to_forget(now)
        waits = [max(0.0, at - now) for at in again_at]
        return min(waits if forget is None else [*waits, forget], default=None)

    def _is_readable(self, seconds: float | None) -> bool:
        if self._is_fork:
            end_fork()
        return bool(select.select([self._end], [], [], seconds)[0])

    def _on_run(self, rows: list[Row], uses: dict[int, int]) -> None:
        """Read when nothing waits, so all that is kept of earlier rows is the last result."""
        if not self._is_blocked and self._read_serial >= self._void_serial:
            self._waiting.extend(rows)
            self._uses = uses
            number, kind, data = self._last_result
            self._results = {number: (kind, data)} if number in uses else {}

    def _on_context(self, number: int, *fields: Any) -> None:
        self._contexts[number] = Context(*fields)
        if len(self._contexts) > REMEMBERED_CONTEXTS:
            self._contexts.popitem(last=False)

    def _on_resume(self) -> None:
        self._is_blocked = False

    def _on_reclaim(self, serial: int) -> None:
        """The mark behind the last slice that the reclaim is about. Unless a signal was faster, all of that has run."""
        self._read_serial = serial
        if serial > self._answered_serial:
            self._answered_serial = serial
            self._write(pack_report(channel.GAVE_BACK, self._running, amount=serial))

    def _on_configure(
        self, scheduler_address: str, storage_address: str, inline_bytes: int, retention_seconds: float
    ) -> None:
        self._task.scheduler_address = scheduler_address
        self._task.storage_address = storage_address
        self._objects.use_storage(storage_address)
        self._objects.retention_seconds = retention_seconds
        self._inline_bytes = inline_bytes

    def _on_code(self, family: bytes, object_id: ObjectId, content: bytes) -> None:
        """Read when a task needs it: reading it may run code of its own, and fail."""
        self._objects.bring(family, object_id, content)

    # ------------------------------------------------------------ tasks

    def _run_waiting(self) -> None:
        self._ended_ns = 0
        while self._waiting:
            if classes_read:
                classes.end_call()  # of the task before, which has no part in what the next one reads
            try:
                self._run_first()
            except TaskInterrupted as error:
                # Raised at the very moment when the task ended by an error of its own.
                number, self._running = self._running, 0
                status, kind, _ = self._failure(error)
                self._write(pack_report(channel.ENDED, number, status=status, value_kind=kind))

    def _run_first(self) -> None:
        """This is where the rate of tiny tasks is decided: what every task does not need is behind an `if`."""
        number, task_id, attempt, context_number, function_id, parts = self._waiting.popleft()
        if type(parts) is list:
            parts = self._with_results(*parts)
            if parts is None:
                return
        context = self._contexts[context_number]
        profile, arguments = b"", None
        started_ns = self._ended_ns or perf_counter_ns()
        self._running = number
        self._begun[1], self._begun[0] = started_ns, number
        try:
            if self._is_signalled and not self._attend_before(number):
                return
            self._task.begin(task_id, function_id, context)
            function = self._functions.get(function_id) if context.family == self._family else None
            if function is None or type(function) is Anew:
                function = self._load_function(function_id, context)
                started_ns = perf_counter_ns()  # fetching it says nothing about the next call
            if context.is_plain and type(parts) is bytes:
                arguments, keywords = loads(parts)
            else:
                arguments, keywords = arguments_of(parts, context, self._objects)
            self._running or end_fork()  # reading a function or an argument has forked, and the child came here
            if context.flags:
                send_line = partial(self._send_printed, number)
                value, profile = call_with_flags(
                    context.flags, function, arguments, keywords, send_line, self._hides_streamed_output
                )
            else:
                value = function(*arguments, **keywords)
            self._running or end_fork()
            kind = KIND_INLINE
            if context.is_plain and type(value) in PLAIN_TYPES:
                data = dumps_plain(value, PROTOCOL)
                if len(data) > self._inline_bytes:
                    kind, data = result_of(value, context, self._objects, task_id, attempt, self._inline_bytes)
            else:
                kind, data = result_of(value, context, self._objects, task_id, attempt, self._inline_bytes)
            status = STATUS_SUCCESS
            value = function = arguments = keywords = None  # what their destructors do is still this task's
            self._running = 0
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like of a task are the task's failure
            self._running = 0
            error, profile = measured_failure(error, profile)
            store = partial(store_exception, self._objects, context, task_id, attempt)
            status, kind, data = self._failure(error if arguments is not None else before_call(error), store)
            value = function = arguments = keywords = None
        self._ended_ns = ended_ns = perf_counter_ns()
        busy_ns = ended_ns - started_ns
        head = HEAD.pack(len(profile) + len(data), channel.ENDED, status, kind, len(profile), number, busy_ns)
        self._write(head + profile + data)
        if status == STATUS_SUCCESS:
            self._last_result = (number, kind, data)
            if number in self._uses:
                self._results[number] = (kind, data)

    def _load_function(self, function_id: ObjectId, context: Context) -> Callable[..., Any]:
        """It is not loaded, was loaded for another family (WRK-43), or is read anew for each call."""
        self._objects.use_family(context.family)
        if context.code_set:  # the same for all tasks of this processor (WRK-50)
            self._enter_code_set(context)
        self._family, self._functions = context.family, self._objects.shelf.loaded
        return self._objects.load_function(function_id, context.owner)

    def _enter_code_set(self, context: Context) -> None:
        assert self._code_sets is not None, "the processor of a worker reads code sets"
        tell = partial(self._send_printed, self._running, LOG_PREPARATION)
        self._code_sets().enter(context.code_set, context.owner, self._objects.fetch, tell)

    def _with_results(self, numbers: list[int], pieces: list[tuple[int, Any]]) -> Pieces | None:
        """The parts of a task that takes what was returned here. None: something it awaits did not succeed, so it is
        passed over, and the agent knows (decision 0009)."""
        results, uses = self._results, self._uses
        parts = None
        if all(number in results for number in numbers):
            parts = tuple([results[data] if kind == KIND_TASK else (kind, data) for kind, data in pieces])
        for number in numbers:
            uses[number] -= 1
            if not uses[number]:
                results.pop(number, None)
        return parts

    def _attend_before(self, number: int) -> bool:
        """A signal came between two tasks. False when it took this one, and all after it, back."""
        answered_serial = self._answered_serial
        self._running = 0
        self._attend()
        if self._answered_serial != answered_serial:
            return False
        self._running = number
        self._raise_if_interrupted(None)
        return True

    def _failure(self, error: BaseException, store: Store | None = None) -> tuple[int, int, bytes]:
        if self._is_fork:
            end_fork(error)
        if isinstance(error, TaskInterrupted):
            # It may have hit in the middle of a request to the storage: begin anew on another socket.
            self._objects.close()
            return INTERRUPTED, KIND_INLINE, b""
        return failed_end(error, self._inline_bytes, store)

    # ------------------------------------------------------------ blocking

    def _send_block(self) -> None:
        if self._running:
            self._is_blocked = True
            self._waiting.clear()
            self._write(pack_report(channel.BLOCKED, self._running))

    def _wait_for_place(self) -> None:
        if not self._running or not self._is_blocked:
            return
        self._write(pack_report(channel.RESUME_WANTED, self._running))
        self._is_reading = True
        try:
            while self._is_blocked:
                self._receive_and_obey()
        finally:
            self._is_reading = False
        if self._is_signalled:
            signal.raise_signal(SIGNAL_NUMBER)

    # ------------------------------------------------------------ signals and writing

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        self._is_signalled = True
        self._sampler.begin()
        self._objects.kept.give_back()
        self._show_stack(frame)
        # Again when there was another signal while we attended to this one.
        while self._is_signalled and self._running and not self._is_reading and self._attend():
            self._raise_if_interrupted(frame)
            self._show_stack(frame)

    def _show_stack(self, frame: FrameType | None) -> None:
        """Not while a frame is being written: its writer will see that we were signalled."""
        if self._page.stack_serial(self._slot) == self._stack_serial or not self._write_lock.acquire(blocking=False):
            return
        try:
            self._stack_serial = self._page.stack_serial(self._slot)
            text = stack_text(frame) if self._running else ""
            self._send(pack_report(channel.STACK, self._running, text.encode(), amount=self._stack_serial))
        finally:
            self._write_lock.release()

    def _attend(self) -> bool:
        """Answer a reclaim. False while a frame is being written: its writer will see that we were signalled."""
        if not self._write_lock.acquire(blocking=False):
            return False
        try:
            self._is_signalled = False
            _, serial = self._page.read(self._slot)
            if serial > self._answered_serial:
                self._answered_serial = self._void_serial = serial
                self._waiting.clear()
                self._send(pack_report(channel.GAVE_BACK, self._running, amount=serial))
        finally:
            self._write_lock.release()
        return True

    def _raise_if_interrupted(self, frame: FrameType | None) -> None:
        number, _ = self._page.read(self._slot)
        if number and number == self._running and number != self._interrupted:
            if not can_interrupt(frame):
                return signal_again()
            self._interrupted = number
            raise TaskInterrupted("the task was canceled, or ran longer than its timeout")

    def _on_unraisable(self, report: Callable[[Any], object], unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, TaskInterrupted):
            self._interrupted = 0
            signal_again()
        else:
            report(unraisable)

    def _write(self, frame: bytes) -> None:
        with self._write_lock:
            self._send(frame)
        if self._is_signalled and self._running:
            signal.raise_signal(SIGNAL_NUMBER)

    def _send(self, frame: bytes) -> None:
        try:
            sent = os.write(self._descriptor, frame)
            while sent < len(frame):
                sent += os.write(self._descriptor, frame[sent:])
        except OSError:
            if self._is_fork:
                end_fork()
            os._exit(1)  # the agent is gone, or user code has closed our socket: either way there is no way to report

    def _send_printed(self, number: int, stream: int, text: str) -> None:
        if self._is_fork:
            return  # what a task prints goes where it would go without us, too
        value = text.encode("utf-8", "replace")
        self._write(pack_report(channel.PRINTED, number, value, status=stream))

    def _sampled(self) -> tuple[int, ObjectId]:
        """A blocked task has lent its place: what it waits for is not its own time."""
        return 0 if self._is_blocked else self._running, self._task.last_function

    def _send_samples(self, trees: bytes) -> None:
        """In the thread that samples, which takes no signals."""
        with self._write_lock:
            self._send(pack_report(channel.SAMPLES, value=trees))
        if self._is_signalled and self._running:
            os.kill(os.getpid(), SIGNAL_NUMBER)

    def _send_fetched(self, family: bytes, object_id: ObjectId, content: bytes) -> None:
        if len(content) <= LARGEST_BYTES:
            self._write(pack_report(channel.FETCHED, self._running, object_id + content, profile=family))

    def _leave_in_fork(self) -> None:
        """A child that the task forks is no processor: what it does must not reach the agent. If it comes back into our
        code, it ends there. The number of the closed channel is not used on: the child's next file gets it."""
        signal.signal(SIGNAL_NUMBER, signal.SIG_DFL)
        task_context.set_current(None)
        self._running, self._is_fork, self._descriptor = 0, True, -1
        self._write_lock = waits.Lock()  # a thread that the child does not have may hold it
        self._end.close()
