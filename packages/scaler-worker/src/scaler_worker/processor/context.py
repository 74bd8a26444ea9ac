"""The task context inside a processor: see `scaler_protocol.task_context`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler_protocol import waits
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.keys import Pass
from scaler_protocol.running.calls import Context, Objects

if TYPE_CHECKING:
    from scaler_protocol.running.streaming import Outlet


class ProcessorTask:
    """One object for the life of the processor; what it says is about the task that is running now."""

    def __init__(
        self,
        block: Callable[[], None],
        unblock: Callable[[], None],
        is_running: Callable[[], bool],
        objects: Objects,
        shown: Pass | None = None,
    ) -> None:
        self._task: tuple[TaskId, ObjectId, Context | None] = (TaskId(b""), ObjectId(b""), None)
        self.scheduler_address = ""
        self.storage_address = ""
        self.shown = shown
        self._send_block = block
        self._wait_for_place = unblock
        self._is_running = is_running
        self._objects = objects
        self._lock = waits.Lock()
        self._blocked_count = 0

    def begin(self, task_id: TaskId, function: ObjectId, context: Context) -> None:
        """Called for every task; few ask for what it is."""
        self._task = (task_id, function, context)
        self._blocked_count = 0

    @property
    def task_id(self) -> TaskId:
        return self._task[0]

    @property
    def function(self) -> ObjectId | None:
        return self._task[1] if self._is_running() else None

    @property
    def last_function(self) -> ObjectId:
        """Also between two tasks."""
        return self._task[1]

    @property
    def outlet(self) -> Outlet | None:
        context = self._task[2]
        if context is None or not self._is_running():
            return None
        from scaler_protocol.running.streaming import Outlet  # few tasks stream

        return Outlet(self._objects, context)

    @property
    def family(self) -> bytes:
        context = self._task[2]
        return context.family if context is not None else b""

    @property
    def code_set(self) -> ObjectId:
        context = self._task[2]
        return context.code_set if context is not None else ObjectId(b"")

    @property
    def depth(self) -> int:
        context = self._task[2]
        return context.depth if context is not None else 0

    @property
    def priority(self) -> int:
        context = self._task[2]
        return context.priority if context is not None else 0

    def block(self) -> None:
        with self._lock:
            self._blocked_count += 1
            if self._blocked_count == 1:
                self._send_block()

    def unblock(self) -> None:
        with self._lock:
            if self._blocked_count == 0:
                return  # the task that blocked has ended meanwhile
            self._blocked_count -= 1
            if self._blocked_count == 0:
                self._wait_for_place()
