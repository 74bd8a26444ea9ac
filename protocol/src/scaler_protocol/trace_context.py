"""The trace context (W3C) of a task: which span of the submitting program it belongs to. It travels with the call.

A *carrier* is the text of the two headers with a space between them: `traceparent`, or `traceparent tracestate`. A
client that traces has `call` or `call_in` run in place of the task's function. Other tasks are as they always were, and
cost nothing more. A call runs in a copy of the processor's context, so that nothing of it is left to the next task,
however it ends.

Where OpenTelemetry's API can be imported, the carrier is also its current context: spans that the task starts are
children of the span that submitted it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
MOST_CHARACTERS = 1024
"""Of a carrier. W3C asks for 512 of a tracestate; a longer one is left out."""

_carrier: ContextVar[str] = ContextVar("scaler_trace_context", default="")


def call(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    """In a processor: of a function that is used again. The carrier is the last argument."""
    *given, carrier = arguments
    return call_in(carrier, function, *given, **keywords)


def call_in(carrier: str, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    """In a processor: of all tasks of one `map` or graph."""
    return copy_context().run(_enter_and_call, carrier, function, arguments, keywords)


def _enter_and_call(carrier: str, function: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> Any:
    _carrier.set(carrier)
    api = _api()
    if api is not None:
        api.context.attach(api.propagator.extract(headers_of(carrier)))  # left with the copy of the context
    return function(*arguments, **keywords)


def current() -> str:
    """The carrier for what is submitted here: of OpenTelemetry's current span, or else of this task. Empty: none."""
    carrier = _carrier.get()
    if not carrier:
        return ""
    api = _api()
    return (carrier_of_current_span(api) if api is not None else "") or carrier


class Api(NamedTuple):
    """What is used of OpenTelemetry."""

    context: ModuleType
    propagator: Any


@lru_cache(1)
def _api() -> Api | None:
    """None: it is not installed. Looked for once in a process, and only when something is traced."""
    try:
        context = import_module("opentelemetry.context")
        propagation = import_module("opentelemetry.trace.propagation.tracecontext")
    except ImportError:
        return None
    return Api(context, propagation.TraceContextTextMapPropagator())


def carrier_of_current_span(api: Api | None = None) -> str:
    """Of the span that is current for OpenTelemetry, which has to be installed. Empty: there is none."""
    api = api or _api()
    assert api is not None, "only who has OpenTelemetry asks"
    headers: dict[str, str] = {}
    api.propagator.inject(headers)
    return carrier_from(headers)


def carrier_from(headers: dict[str, str]) -> str:
    """Of what a program may have got from elsewhere."""
    parent, state = headers.get(TRACEPARENT, ""), headers.get(TRACESTATE, "")
    if not state or len(parent) + len(state) >= MOST_CHARACTERS:
        return parent
    return f"{parent} {state}" if parent else ""


def headers_of(carrier: str) -> dict[str, str]:
    parent, _, state = carrier.partition(" ")
    headers = {TRACEPARENT: parent} if parent else {}
    return {**headers, TRACESTATE: state} if state else headers


def inner(function: Any) -> Any:
    """The program's own function behind one that was made to carry a context."""
    if type(function) is partial and function.func in (call, call_in):
        return function.args[-1]
    return function
