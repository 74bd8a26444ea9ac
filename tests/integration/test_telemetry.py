"""A task as spans, on a real cluster."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("opentelemetry.sdk", reason="spans need the extra [opentelemetry]")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from scaler import Client
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
