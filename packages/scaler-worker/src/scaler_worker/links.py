"""An agent's ends of the channels to its processors: bytes in and out, without blocking, and nothing decided."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scaler_protocol.codes import KIND_INLINE, KIND_TASK
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, TaskId, family_in
from scaler_protocol.messages import TaskHeader
from scaler_protocol.running.output import LINE_CHARACTERS
from scaler_worker import channel
from scaler_worker.channel import ChannelError, Report, ReportReader, pack_order
from scaler_worker.code import Code
from scaler_worker.core.events import (
    Event,
    GaveBack,
    ProcessorBroken,
    ProcessorReady,
    ResumeWanted,
    StacksSampled,
    StackTaken,
    TaskBlocked,
    TaskEnd,
    TaskPrinted,
    TasksEnded,
)

READS_AT_ONCE = 32
REMEMBERED_CONTEXTS = 256
REMEMBERED_FUNCTIONS = 4096
LARGEST_PROCESS_ID = 2**31 - 1
STACK_BYTES = 64 * 1024
"""Of a stack's text. (WRK-57)"""

PRINTED_BYTES = 4 * LINE_CHARACTERS
"""The largest size of one report of what a task prints."""

_Key = tuple[object, ...]
_NONE: set[ObjectId] = set()


def _parts_behind(task: Task, numbers: Mapping[TaskId, int]) -> list[object]:
    """Of a task that takes results of others in the same processor: their numbers, and pieces with numbers for ids."""
    assert task.awaits is not None
    pieces = [
        (kind, numbers[TaskId(data)] if kind == KIND_TASK else data)
        for kind, data in ([(KIND_INLINE, task.parts)] if isinstance(task.parts, bytes) else task.parts)
    ]
    return [[numbers[other] for other in task.awaits], pieces]


class ProcessorLink:
    def __init__(self, number: int, slot: int, end: socket.socket, code: Code) -> None:
        self.number = number
        self.slot = slot
        self.end = end
        self.descriptor = end.fileno()
        self.is_closed = False  #: its end was closed: nothing more comes
        self.look_at = 0.0  #: while results of tiny tasks pile up, it is not looked at before this
        self.interrupt_number = 0
        self.reclaim_serial = 0
        self.stack_serial = 0
        self._reader = ReportReader()
        self._code = code
        #: functions and serializers that it has been handed tasks of, by family
        self._told: dict[bytes, set[ObjectId]] = {}
        self._told_count = 0
        self._unsent = bytearray()
        #: what the processor has been told of headers: by which number it knows each, and of which family it is
        self._contexts: dict[_Key, tuple[int, bytes]] = {}
        self._last_context = 0
        self._last_header: TaskHeader | None = None
        self._last_header_context = 0
        self._last_family = b""
        self._switch_count = 0  #: how often the header of a task was not that of the task before

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def show(self, environment: dict[str, str]) -> None:
        """The devices of its tasks: before the first of them."""
        self.send(pack_order(channel.DEVICES, environment))

    def hand_over(self, tasks: Sequence[Task], numbers: Mapping[TaskId, int]) -> None:
        switch_count = self._switch_count
        rows = [
            (
                task.number, task.id, task.attempt, self._context(task.header), task.function,
                task.parts if task.awaits is None else _parts_behind(task, numbers),
            )
            for task in tasks
        ]  # fmt: skip
        if self._switch_count - switch_count > 1 or tasks[0].header is not self._last_header:
            self._tell_each(tasks)
        else:
            named = {task.function for task in tasks}
            if not self._told.get(self._last_family, _NONE).issuperset(named):
                self._tell(self._last_family, named)
        uses = Counter(numbers[other] for task in tasks for other in task.awaits or ()) if numbers else {}
        self.send(pack_order(channel.RUN, rows, dict(uses)))

    def _tell_each(self, tasks: Sequence[Task]) -> None:
        """Of several headers, and perhaps of several families."""
        for task in tasks:
            self._context(task.header)
            self._tell(self._last_family, (task.function,))

    def _tell(self, family: bytes, functions: Iterable[ObjectId]) -> None:
        """Also of serializers: it is about to need them, and has to fetch what no other processor has brought here."""
        if self._told_count > REMEMBERED_FUNCTIONS:
            self._told.clear()
            self._told_count = 0
        told = self._told.setdefault(family, set())
        for object_id in functions:
            if object_id in told:
                continue
            told.add(object_id)
            self._told_count += 1
            content = self._code.get(family, object_id)
            if content is not None:
                self.send(pack_order(channel.CODE, family, object_id, content))

    def _context(self, header: TaskHeader) -> int:
        """What the processor knows this header by. Tasks of a batch share one header, so the first test nearly always
        decides."""
        if header is self._last_header:
            return self._last_header_context
        key = (
            header.client, header.call_format, header.keywords, header.serializer, header.depth, header.priority,
            header.flags, header.result_salt, header.owner_grant, header.code_set,
        )  # fmt: skip
        known = self._contexts.get(key)
        if known is None:
            if len(self._contexts) >= REMEMBERED_CONTEXTS:
                self._contexts.clear()
            self._last_context += 1
            known = self._contexts[key] = self._last_context, family_in(header.owner_grant, header.client)
            if header.serializer:
                self._tell(known[1], (header.serializer,))
            self.send(pack_order(channel.CONTEXT, known[0], *key))
        self._last_header = header
        self._last_header_context, self._last_family = known
        self._switch_count += 1
        return known[0]

    def send(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self.end.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has died; the zygote will say so
        if sent < len(data):
            self._unsent += data[sent:]

    def flush(self) -> None:
        unsent, self._unsent = bytes(self._unsent), bytearray()
        self.send(unsent)

    def leave(self) -> None:
        """Tell it that nothing more will come: an idle processor then exits."""
        try:
            self.end.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has exited already

    def read(self, until_empty: bool = False) -> list[Event]:
        """What the processor has said. With `until_empty`, all of it: for one that has exited."""
        events: list[Event] = []
        count = 0
        while not self.is_closed and (until_empty or count < READS_AT_ONCE):
            count += 1
            try:
                data = self.end.recv(channel.RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.is_closed = True
                break
            try:
                events += self._events(self._reader.feed(data))
            except ChannelError as error:
                events += self._events(error.reports)
                events.append(ProcessorBroken(self.number, f"wrote {error}"))
                self.is_closed = True
            if len(data) < channel.RECEIVE_BYTES and not until_empty:
                break
        return events

    def _events(self, reports: list[Report]) -> list[Event]:
        events: list[Event] = []
        ends: list[TaskEnd] = []
        for report in reports:
            kind, status, value_kind, number, amount, profile, value = report
            if kind == channel.ENDED:
                ends.append((number, status, value_kind, amount * 1e-9, value, profile))
                continue
            if kind == channel.FETCHED:
                self._code.keep(profile, value)
                continue
            if ends:
                events.append(TasksEnded(self.number, ends))
                ends = []
            events.append(self._event(kind, number, amount, status, value))
        if ends:
            events.append(TasksEnded(self.number, ends))
        return events

    def _event(self, kind: int, number: int, amount: int, status: int, value: bytes) -> Event:
        if kind == channel.READY:
            if number > LARGEST_PROCESS_ID:
                return ProcessorBroken(self.number, f"said that it is process {number}")
            return ProcessorReady(self.number, number)
        if kind == channel.BLOCKED:
            return TaskBlocked(self.number, number)
        if kind == channel.RESUME_WANTED:
            return ResumeWanted(self.number)
        if kind == channel.GAVE_BACK:
            return GaveBack(self.number, amount, number)
        if kind == channel.STACK:
            return StackTaken(self.number, amount, number, value[:STACK_BYTES].decode("utf-8", "replace"))
        if kind == channel.SAMPLES:
            return StacksSampled(self.number, value)
        if len(value) > PRINTED_BYTES:
            return ProcessorBroken(self.number, f"printed {len(value)} bytes at once")
        return TaskPrinted(self.number, number, status, value.decode("utf-8", "replace"))
