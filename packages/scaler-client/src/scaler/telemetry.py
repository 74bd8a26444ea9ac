"""Tasks as spans of OpenTelemetry. Needs the extra `[opentelemetry]`, and a program that has set its provider up.

    from scaler.telemetry import TracedClient

    with TracedClient("tcp://127.0.0.1:2345") as client:
        client.submit(price, order)     # a span "price", from here until the result is back, below the current span

Spans are made here, by the client, of what it knows, so workers need neither OpenTelemetry nor a way to a collector.
With each call travels its trace context (W3C), some 60 bytes: in the task it is `scaler.trace_context()`, and where the
worker has OpenTelemetry it is its current context. Tasks that the task submits, with any client, belong to the same
trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.tracing import TracedCalls
from scaler_protocol import trace_context

try:
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError:
    raise ImportError("spans need OpenTelemetry: pip install 'scaler-client[opentelemetry]'") from None

__all__ = ["TracedClient"]


class SpanCalls(TracedCalls):
    """They carry the span that is current where they are submitted."""

    def _carrier(self) -> str:
        return trace_context.carrier_of_current_span() if self.serializer is None else ""


class TracedClient(Client):
    """A Client each of whose calls is a span: a submitted task, and as a whole a map or a graph that is waited for."""

    def __init__(self, *arguments: Any, tracer_provider: TracerProvider | None = None, **options: Any) -> None:
        """Connect, as `Client` does.

        Args:
            *arguments: of `Client`.
            tracer_provider: of OpenTelemetry. None: the program's global one.
            **options: of `Client`.

        Raises:
            Exception: as `Client` does.
        """
        super().__init__(*arguments, **options)
        self._tracer: Tracer = trace.get_tracer("scaler", tracer_provider=tracer_provider)

    def _submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> ScalerFuture[Any]:
        span = self._tracer.start_span(_name(function), kind=SpanKind.PRODUCER)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                future = super()._submit(function, *arguments, **options)
        except BaseException as error:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR)
            span.end()
            raise
        if span.is_recording():
            span.set_attribute("scaler.task.id", future.task_id.hex())
            future.add_done_callback(lambda _: self._ended(span, _name(function), future))
        return future

    # Keywords are handed on as they are, whatever there will be.

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> list[Any]:  # type: ignore[override]
        """As `Client.map`, as one span.

        Args:
            fn: as of `Client.map`.
            *iterables: as of `Client.map`.
            **options: of `Client.map`.

        Raises:
            Exception: as `Client.map` does.
        """
        with self._tracer.start_as_current_span(f"map {_name(fn)}", kind=SpanKind.CLIENT) as span:
            results = super().map(fn, *iterables, **options)
            span.set_attribute("scaler.task.count", len(results))
            return results

    def starmap(self, fn: Callable[..., Any], iterable: Any, **options: Any) -> list[Any]:
        """As `Client.starmap`, as one span.

        Args:
            fn: as of `Client.starmap`.
            iterable: as of `Client.starmap`.
            **options: of `Client.starmap`.

        Raises:
            Exception: as `Client.starmap` does.
        """
        with self._tracer.start_as_current_span(f"starmap {_name(fn)}", kind=SpanKind.CLIENT) as span:
            results = super().starmap(fn, iterable, **options)
            span.set_attribute("scaler.task.count", len(results))
            return results

    def get(self, graph: Any, keys: Any, block: bool = True, **options: Any) -> Any:
        """As `Client.get`, as one span. With `block=False` there is no span, because nothing lasts.

        Args:
            graph: as of `Client.get`.
            keys: as of `Client.get`.
            block: as of `Client.get`.
            **options: of `Client.get`.

        Raises:
            Exception: as `Client.get` does.
        """
        if not block:
            return super().get(graph, keys, block=False, **options)
        with self._tracer.start_as_current_span("get graph", kind=SpanKind.CLIENT):
            return super().get(graph, keys, **options)

    def _ended(self, span: Span, name: str, future: ScalerFuture[Any]) -> None:
        """The worker says for how long the task ran, not when; it is shown as if it had ended when that was heard."""
        ended_at = time.time_ns()
        profile = future.profiling_info()
        if profile.duration_s:
            run = self._tracer.start_span(
                f"run {name}",
                context=trace.set_span_in_context(span),
                kind=SpanKind.CONSUMER,
                attributes={
                    "scaler.task.cpu_seconds": profile.cpu_time_s,
                    "scaler.task.memory_growth_bytes": profile.memory_peak,
                },
                start_time=ended_at - int(profile.duration_s * 1e9),
            )
            run.end(ended_at)
        if future.cancelled():
            span.set_attribute("scaler.task.outcome", "canceled")
        elif future.has_failed():
            span.set_attribute("scaler.task.outcome", "failed")
            span.set_status(StatusCode.ERROR)
        else:
            span.set_attribute("scaler.task.outcome", "success")
        span.end(ended_at)

    def _calls_type(self) -> type[Calls]:
        return SpanCalls

    def __reduce__(self) -> Any:
        """Into a task it travels as a plain client, which carries contexts too: workers need not have OpenTelemetry."""
        return object.__new__, (Client,), self.__getstate__()


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
