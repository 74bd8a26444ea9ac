"""A task as spans, on a real cluster; and the trace context that travels into it."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("opentelemetry.sdk", reason="spans need the extra [opentelemetry]")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, StatusCode

from scaler import Client, trace_context
from scaler.monitoring import Subscription
from scaler.telemetry import TracedClient
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until


def test_a_task_is_a_span(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    def span(name: str) -> ReadableSpan:
        found: list[ReadableSpan] = []

        def is_there() -> bool:
            found[:] = [one for one in exporter.get_finished_spans() if one.name == name]
            return bool(found)

        until(is_there, f"the span {name!r} has ended")
        return found[0]

    with TracedClient(cluster.address, tracer_provider=provider) as client:
        with tracer.start_as_current_span("program") as program:
            future = client.submit(tasks.square, 4)
            assert future.result(WAIT) == 16
            assert client.map(tasks.square, range(5)) == [0, 1, 4, 9, 16]
            with pytest.raises(ZeroDivisionError):
                client.submit(divmod, 1, 0).result(WAIT)
        task, run = span("square"), span("run square")
        assert task.parent is not None and task.parent.span_id == program.get_span_context().span_id
        assert run.parent is not None and run.parent.span_id == task.context.span_id
        assert task.attributes is not None and run.attributes is not None
        assert task.attributes["scaler.task.id"] == future.task_id.hex()
        assert task.attributes["scaler.task.outcome"] == "success"
        assert isinstance(run.attributes["scaler.task.cpu_seconds"], float)
        assert run.end_time == task.end_time
        several = span("map square")
        assert several.attributes is not None and several.attributes["scaler.task.count"] == 5
        assert span("divmod").status.status_code is StatusCode.ERROR
        assert type(pickle.loads(pickle.dumps(client))) is Client
    with TracedClient(cluster.address, tracer_provider=TracerProvider(sampler=ALWAYS_OFF)) as client:
        assert client.submit(tasks.square, 5).result(WAIT) == 25
    cluster.stop()


def headers_of(context: SpanContext) -> dict[str, str]:
    return {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}


def test_the_trace_context_travels_into_tasks(stage: Stage) -> None:
    cluster = RealCluster(stage, 2)
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with TracedClient(cluster.address, tracer_provider=provider) as client:
        with tracer.start_as_current_span("program") as program:
            own = program.get_span_context()
            known = [client.submit(tasks.traced).result(WAIT) for _ in range(3)]
            shown, parent = client.submit(tasks.traced_span).result(WAIT)
            mapped = client.map(tasks.traced, range(50))
            started = client.starmap(tasks.traced, [(1,), (2,)])
            graph = client.get({"a": (tasks.traced,), "b": (lambda found: found, "a")}, ["b"])["b"]
            later = client.get({"a": (tasks.traced,)}, "a", block=False).result(WAIT)
            streamed = [*client.imap(tasks.traced, range(5)), *client.stream(tasks.traced_stream)]
            captured = client.submit(lambda: [own.trace_id, tasks.traced()]).result(WAIT)
            keyword = client.submit(tasks.traced, _value=3).result(WAIT)
        assert client.submit(tasks.traced).result(WAIT)["traceparent"].split("-")[1] != f"{own.trace_id:032x}"

    spans = {
        name: [headers_of(one.context) for one in exporter.get_finished_spans() if one.name == name]
        for name in {one.name for one in exporter.get_finished_spans()}
    }
    with Subscription(cluster.address) as watcher:
        status = watcher.first(WAIT).status
        assert status is not None
        names = {one.name for one in status.functions}
    assert names >= {"traced", "traced_span"} and not names & {"call", "call_in"}
    assert known == spans["traced"][:3] and keyword == spans["traced"][3]
    assert shown == own.trace_id and f"{parent:016x}" in spans["traced_span"][0]["traceparent"]
    assert mapped == [spans["map traced"][0]] * 50 and started == [spans["starmap traced"][0]] * 2
    assert graph == spans["get graph"][0]
    assert later == headers_of(own) and streamed == [headers_of(own)] * 7
    assert captured[1]["traceparent"].split("-")[1] == f"{own.trace_id:032x}"
    assert trace_context() == {}
    cluster.stop()


def test_nested_tasks_belong_to_the_trace(stage: Stage) -> None:
    """With the client that travelled, and with one that the task makes; each below the span that submits it."""
    cluster = RealCluster(stage, 1)
    provider = TracerProvider()
    tracer = provider.get_tracer("test")
    with (
        TracedClient(cluster.address, tracer_provider=provider) as client,
        tracer.start_as_current_span("program") as program,
    ):
        trace_id = program.get_span_context().trace_id
        for found in (
            client.submit(tasks.traced_children, client).result(WAIT),
            client.submit(lambda: tasks.traced_children(Client())).result(WAIT),
        ):
            assert len(found) == 3
            for shown, span_id, headers in found:
                assert shown == trace_id
                assert headers["traceparent"].startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    with Client(cluster.address) as plain:
        assert plain.submit(tasks.traced).result(WAIT) == {}, "nothing is left in a processor"
        assert plain.map(tasks.traced, range(10)) == [{}] * 10
    cluster.stop()


def test_without_a_provider_nothing_travels(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    with TracedClient(cluster.address) as client:
        assert client.submit(tasks.traced).result(WAIT) == {}
        assert client.map(tasks.traced, range(3)) == [{}] * 3
    cluster.stop()
