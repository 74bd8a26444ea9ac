"""Which functions go along with their call, because they are probably used once. (OWN-13)"""

from __future__ import annotations

from collections import OrderedDict
from types import FunctionType
from typing import Any

from scaler.client.objects.functions import StoredFunction, StoredFunctions
from scaler.client.submitting.functions import travels_by_name
from scaler_protocol import waits
from scaler_protocol.along import caller_of
from scaler_protocol.ids import ObjectId, content_id

ALONG_BYTES = 16 * 1024
"""Larger ones go through the storage: they would fill the scheduler's memory while they wait."""
SEEN_FUNCTIONS = 1024
"""One that comes a second time is used more than once: it is stored, and cached by those who run it."""
REMEMBERED_CALLERS = 128


class Along:
    """What one client handle has sent along lately. Safe in any thread."""

    def __init__(self, functions: StoredFunctions) -> None:
        self._functions = functions
        self._lock = waits.RLock()
        self._seen: OrderedDict[ObjectId, None] = OrderedDict()
        self._callers: OrderedDict[tuple[str, bool], StoredFunction] = OrderedDict()

    def takes(self, function: Any, content: bytes) -> bool:
        if len(content) > ALONG_BYTES or not _is_made_for_calls(function):
            return False
        object_id = content_id(content)
        with self._lock:
            if object_id in self._seen:
                return False
            self._seen[object_id] = None
            if len(self._seen) > SEEN_FUNCTIONS:
                self._seen.popitem(last=False)
        return True

    def caller(self, name: str, *, has_code: bool) -> tuple[StoredFunction, bool]:
        """The function that calls what goes along; and whether it had to be stored for that."""
        key = name, has_code
        with self._lock:
            caller = self._callers.get(key)
            if caller is not None:
                self._callers.move_to_end(key)
                return caller, False
        caller, is_new = self._functions.put([caller_of(name, has_code=has_code)], has_code=has_code)
        with self._lock:
            self._callers[key] = caller
            if len(self._callers) > REMEMBERED_CALLERS:
                self._callers.popitem(last=False)
        return caller, is_new


def _is_made_for_calls(function: Any) -> bool:
    """Partials, closures, methods of objects and callable objects: programs make such ones for single calls. What has
    no state of its own is used again."""
    if travels_by_name(function):
        return False
    if type(function) is FunctionType:
        return function.__closure__ is not None
    return not isinstance(function, type)
