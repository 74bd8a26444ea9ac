"""Calls that carry the trace context of the code that submits them: in programs that trace, and in tasks."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

from scaler.client.objects.functions import StoredFunction
from scaler.client.submitting.calls import Calls
from scaler_protocol import trace_context

REMEMBERED_FUNCTIONS = 512


class TracedCalls(Calls):
    """A serializer of the program's own gets what the program submits, and nothing of ours: then no context travels."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: by identity of the program's function, which is kept so that its id stays its own: what runs in its place.
        #: The same object each time, so that it is serialized as seldom as the function itself.
        self._carrying: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def _carrier(self) -> str:
        return trace_context.current() if self.serializer is None else ""

    def callee(
        self, function: Any, arguments: tuple[Any, ...], *, is_changed: bool = False
    ) -> tuple[StoredFunction, tuple[Any, ...]]:
        """The context is an argument, so that a function is stored once for all its calls."""
        carrier = self._carrier()
        if not carrier or not callable(function):
            return super().callee(function, arguments, is_changed=is_changed)
        return super().callee(self._carrier_of_calls(function), (*arguments, carrier), is_changed=is_changed)

    def function(self, function: Any, *, is_changed: bool = False) -> StoredFunction:
        """Of a `map` or a graph: all its tasks have one context, so it goes with the function."""
        carrier = self._carrier()
        if carrier and callable(function):
            function = partial(trace_context.call_in, carrier, function)
        return super().function(function, is_changed=is_changed)

    def name_of(self, function: Any) -> str:
        return super().name_of(trace_context.inner(function))

    def _carrier_of_calls(self, function: Any) -> Any:
        # No lock: another thread, or a destructor, may do the same between any two lines.
        _, made = self._carrying.pop(id(function), (None, None))
        made = made or partial(trace_context.call, function)
        self._carrying[id(function)] = function, made
        if len(self._carrying) > REMEMBERED_FUNCTIONS:
            self._carrying.popitem(last=False)
        return made
