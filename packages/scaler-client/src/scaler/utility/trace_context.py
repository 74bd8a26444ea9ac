"""Which trace a task belongs to, for programs that write it into their logs. OpenTelemetry is not needed for that."""

from __future__ import annotations

from scaler_protocol import trace_context as contexts


def trace_context() -> dict[str, str]:
    """The trace context (W3C) of the running task: the headers `traceparent` and, if there is one, `tracestate`.

    Empty outside of a task, and in a task that was not submitted by `scaler.telemetry.TracedClient` or by such a task.
    """
    return contexts.headers_of(contexts.current())
