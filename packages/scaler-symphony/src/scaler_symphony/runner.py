"""What a Symphony service instance does with a task: the same that a processor of a worker does.

Nothing here needs Symphony. The instance is used for one task after another; what tasks have in common, functions and
connections, is kept between them.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from scaler_protocol import classes, codec, task_context
from scaler_protocol.codes import (
    BAD_BATCH,
    KIND_INLINE,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    STORAGE_UNREACHABLE,
    TASK_TIMED_OUT,
)
from scaler_protocol.ids import ObjectId, PeerId, Salt, TaskId, family_in
from scaler_protocol.keys import KeyFileError, KeyOptions, Pass
from scaler_protocol.messages import Limits, TaskError
from scaler_protocol.running.calls import Context, Objects, arguments_of, result_of, store_exception
from scaler_protocol.running.ends import call_with_flags, failed_end, measured_failure
from scaler_protocol.running.errors import Store, TaskFailed
from scaler_protocol.running.named import NamedFunctions
from scaler_protocol.running.streaming import Outlet
from scaler_symphony.request import FORMAT, Request
from scaler_symphony.time_limit import TimeIsUp, time_limit

PRINTED_CHARACTERS = 4 * 1024 * 1024
"""Of one task: its lines are in memory until it ends, for Symphony brings nothing before that."""

PackedReply = tuple[int, int, bytes, bytes, list[tuple[int, str]]]
"""Status, kind, value, profile, lines with their streams."""


class SymphonyTask:
    """The task context inside a service instance: see `scaler_protocol.task_context`."""

    def __init__(self, request: Request, shown: Pass | None) -> None:
        self.task_id = TaskId(request.task_id)
        self.function: ObjectId | None = ObjectId(request.function)
        self.family = family_in(request.owner_grant, PeerId(request.client))
        self.depth = request.depth
        self.code_set = ObjectId(b"")  # this worker has not the feature
        self.priority = request.priority
        self.scheduler_address = request.scheduler_address
        self.storage_address = request.storage_address
        self.shown = shown
        self.outlet: Outlet | None = None

    def block(self) -> None:
        """There is nothing to lend: the instance is held until the task ends. The adapter lets children pass."""

    def unblock(self) -> None:
        pass


class Printed:
    """What a task prints, up to a limit."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self._characters = 0

    def add(self, stream: int, text: str) -> None:
        before = self._characters
        self._characters += len(text)
        if self._characters <= PRINTED_CHARACTERS:
            self.lines.append((stream, text))
        elif before <= PRINTED_CHARACTERS:
            self.lines.append((stream, "[scaler: too much output, the rest of this task's is left out]\n"))


class Runner:
    def __init__(self) -> None:
        self._objects = Objects()
        self._modules: tuple[str, ...] = ()
        self._keys: tuple[str, KeyOptions] = ("", KeyOptions(insecure=True))
        self._shown: Pass | None = None

    def run(self, request: Request) -> PackedReply:
        printed = Printed()
        store: Store | None = None
        try:
            self._find_key(request)
            task = SymphonyTask(request, self._shown)
            store = partial(self._store_exception, request)
            task_context.set_current(task)
            with time_limit(request.timeout_seconds):
                kind, value, profile = self._call(request, task, printed)
            return STATUS_SUCCESS, kind, value, profile, printed.lines
        except BaseException as raised:  # noqa: BLE001 - SystemExit and the like of a task are the task's failure
            error, profile = measured_failure(raised)
            if isinstance(error, TimeIsUp):
                self._objects.close()  # it may have hit in the middle of a request
                return STATUS_TIMED_OUT, KIND_INLINE, _timed_out(request.timeout_seconds), profile, printed.lines
            return *failed_end(error, request.inline_bytes, store), profile, printed.lines
        finally:
            task_context.set_current(None)
            self._objects.forget_unused(time.monotonic())
            self._objects.kept.age()

    def _find_key(self, request: Request) -> None:
        """Of this host, once for each scheduler."""
        keys = request.scheduler_address, KeyOptions(request.key_file or None, request.is_insecure)
        if keys != self._keys:
            try:
                self._shown = keys[1].find_worker_pass(keys[0])
            except KeyFileError as error:
                raise TaskFailed(STORAGE_UNREACHABLE, f"this host has no usable key or ticket: {error}") from error
            self._keys = keys
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._objects.close()
        self._objects = Objects(NamedFunctions(self._modules), shown=self._shown)

    def _call(self, request: Request, task: SymphonyTask, printed: Printed) -> tuple[int, bytes, bytes]:
        classes.end_call()  # of the task before, which has no part in what this one reads
        objects = self._prepared(request)
        context = _context_of(request)
        task.outlet = Outlet(objects, context)
        function_id = ObjectId(request.function)
        function = objects.load_function(function_id, context.owner)
        arguments, keywords = arguments_of(request.parts, context, objects)
        value, profile = call_with_flags(request.flags, function, arguments, keywords, printed.add)
        task_id = TaskId(request.task_id)
        kind, data = result_of(value, context, objects, task_id, request.attempt, request.inline_bytes)
        return kind, bytes(data), profile

    def _store_exception(self, request: Request, serialized: bytes) -> ObjectId:
        self._objects.use_storage(request.storage_address)
        return store_exception(
            self._objects, _context_of(request), TaskId(request.task_id), request.attempt, serialized
        )

    def _prepared(self, request: Request) -> Objects:
        if request.modules != self._modules:
            self._modules = request.modules
            self._begin_anew()
        self._objects.use_storage(request.storage_address)
        family = family_in(request.owner_grant, PeerId(request.client))
        self._objects.brought = {(family, ObjectId(name)): content for name, content in request.brought.items()}
        return self._objects


def _context_of(request: Request) -> Context:
    return Context(
        PeerId(request.client), request.call_format, request.keywords, ObjectId(request.serializer),
        request.depth, request.priority, request.flags, Salt(request.result_salt), request.owner_grant,
    )  # fmt: skip


_runner: Runner | None = None


def run_call(fields: tuple[Any, ...]) -> PackedReply:
    """Named in every task that the adapter sends: it must stay where it is, under this name."""
    global _runner
    if fields[0] != FORMAT:
        text = f"the adapter speaks format {fields[0]} and this host {FORMAT}: give both one version of scaler-symphony"
        return *failed_end(TaskFailed(BAD_BATCH, text), Limits().inline_bytes), b"", []
    if _runner is None:
        _runner = Runner()
    return _runner.run(Request(*fields))


def _timed_out(seconds: float) -> bytes:
    text = f"the task ran longer than its timeout of {seconds:g} s and was stopped"
    return codec.encode_task_error(TaskError(TASK_TIMED_OUT, "builtins.TimeoutError", text))
