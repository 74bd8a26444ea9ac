"""The trace context of tasks, with and without OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import pytest

from scaler_protocol import trace_context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    trace_context._api.cache_clear()
    yield
    trace_context._api.cache_clear()


def shown(*arguments: object, **keywords: object) -> tuple[str, tuple[object, ...], dict[str, object]]:
    return trace_context.current(), arguments, keywords


@pytest.mark.usefixtures("without_opentelemetry")
def test_a_program_sees_the_context_without_opentelemetry() -> None:
    carrier = f"{PARENT} a=1,b=x y"
    assert trace_context.call_in(carrier, shown, 1, function=2) == (carrier, (1,), {"function": 2})
    assert trace_context.call(shown, 1, carrier, carrier=2) == (carrier, (1,), {"carrier": 2})
    assert trace_context.headers_of(carrier) == {"traceparent": PARENT, "tracestate": "a=1,b=x y"}
    assert trace_context.current() == ""


def test_nothing_is_left_behind_however_a_task_ends() -> None:
    def fails() -> None:
        assert trace_context.current() == PARENT
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace_context.call_in(PARENT, fails)
    assert trace_context.current() == ""


def test_it_is_the_current_context_of_opentelemetry() -> None:
    pytest.importorskip("opentelemetry", reason="needs the extra [opentelemetry]")
    from opentelemetry import trace

    def span() -> tuple[str, str]:
        context = trace.get_current_span().get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}", trace_context.current()

    assert trace_context.call_in(PARENT, span) == (PARENT, PARENT)
    assert trace_context.call_in(f"{PARENT} a=1", span) == (PARENT, f"{PARENT} a=1")
    assert trace_context.carrier_of_current_span() == ""


@pytest.mark.parametrize("carrier", ["", "nonsense", "00-zz-1-1", " ", PARENT + "é"])
def test_what_is_no_context_harms_no_task(carrier: str) -> None:
    assert trace_context.call_in(carrier, shown, 1)[1:] == ((1,), {})


def test_carriers() -> None:
    assert trace_context.carrier_from({}) == trace_context.carrier_from({"tracestate": "a=1"}) == ""
    assert trace_context.carrier_from({"traceparent": PARENT, "tracestate": "a=" + "1" * 2000}) == PARENT
    assert trace_context.headers_of("") == {}


def test_names_are_of_the_function_inside() -> None:
    assert trace_context.inner(partial(trace_context.call, shown)) is shown
    assert trace_context.inner(partial(trace_context.call_in, PARENT, shown)) is shown
    assert trace_context.inner(shown) is shown
