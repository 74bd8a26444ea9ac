"""Calls of functions by name, with bytes for arguments and result: no serializer, so workers in any language can serve
them. (BAT-6, BAT-12)"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from scaler.client.core.events import Named
from scaler.client.future import ScalerFuture
from scaler.client.objects.functions import StoredFunction
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.deferred import Call
from scaler.client.submitting.options import CallOptions
from scaler.client.submitting.parts import Part
from scaler_protocol import codes, waits
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import TaskHeader

PREFIX = b"name:"
REMEMBERED_NAMES = 128
"""So many stay in the storage although no task needs them. (OWN-13)"""
BYTES = (bytes, bytearray, memoryview)


class Raw:
    """In place of a serializer: what such a future holds means nothing in a call that has one."""

    deserialize = bytes


class NamedCalls:
    """What one client handle knows of the functions it calls by name."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._lock = waits.RLock()
        #: the one used last comes last
        self._functions: OrderedDict[str, StoredFunction] = OrderedDict()
        #: equal calls share one header object: the outbox compares identities
        self._headers: dict[int, tuple[TaskHeader, TaskHeader]] = {}

    def submit(
        self, name: Any, arguments: tuple[Any, ...], options: CallOptions, keeper: object
    ) -> ScalerFuture[bytes]:
        if not isinstance(name, str) or not name:
            raise TypeError(f"the first argument is the name of a function, not {name!r}")
        parts = [self._part(index, argument) for index, argument in enumerate(arguments, start=1)]
        calls = self.calls
        connection = calls.connection
        future: ScalerFuture[bytes] = ScalerFuture(connection.new_task_ids(1)[0], connection, Raw, keeper)
        call = Call(self._header(options), self._function(name), future.task_id, parts, future)
        with connection.storage.puts() as puts:
            submission = calls.submission(call, puts)
        if not parts:
            submission = submission._replace(part_counts=(0,))
        try:
            connection.post(submission)
            puts.hand_over()
        except BaseException:
            connection.cancel(submission.ids)  # the program has no future of it
            raise
        return future

    @staticmethod
    def _part(index: int, argument: Any) -> Part:
        if not isinstance(argument, BYTES):
            what = type(argument).__name__
            raise TypeError(f"argument {index} of a function called by name must be bytes, not {what}: encode it first")
        return Part((bytes(argument),), memoryview(argument).nbytes)

    def _function(self, name: str) -> StoredFunction:
        with self._lock:
            known = self._functions.get(name)
            if known is not None:
                self._functions.move_to_end(name)
                return known
        connection = self.calls.connection
        known, _ = connection.storage.functions.put([PREFIX + name.encode()], has_code=False)
        connection.post(Named(known.object_id, name), is_batch=True)
        with self._lock:
            self._functions[name] = known
            if len(self._functions) > REMEMBERED_NAMES:
                self._functions.popitem(last=False)
        return known

    def _header(self, options: CallOptions) -> TaskHeader:
        usual = self.calls.header(options, has_code=False)
        kept = self._headers.get(id(usual))
        if kept is None:
            if len(self._headers) > 256:
                self._headers.clear()
            # The usual one is kept with it, so that its id stays its own.
            kept = self._headers[id(usual)] = (
                usual,
                replace(usual, call_format=codes.CALL_RAW, serializer=ObjectId(b""), code_tag=""),
            )
        return kept[1]
