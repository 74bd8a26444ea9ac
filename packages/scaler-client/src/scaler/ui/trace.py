"""Task runs in the trace format of Chrome, which Perfetto and `about:tracing` open: a row for each processor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scaler.ui.samples import TaskRun

Json = dict[str, Any]


def trace_text(runs: Iterable[TaskRun], sampled: Callable[[], str]) -> Iterator[str]:
    """In pieces, because a trace may be much larger than memory. `sampled` is called when all runs are told."""
    yield '{"displayTimeUnit": "ms", "traceEvents": ['
    comma = "\n"
    for event in trace_events(runs):
        yield comma + json.dumps(event)
        comma = ",\n"
    yield '\n], "otherData": {"sampled": ' + json.dumps(sampled()) + "}}\n"


def trace_events(runs: Iterable[TaskRun]) -> Iterator[Json]:
    """One for each run, and before the first of a worker or a processor what to call it."""
    workers: dict[str, int] = {}
    processors: set[tuple[int, int]] = set()
    for run in runs:
        if run.worker not in workers:
            workers[run.worker] = len(workers) + 1
            yield _name("process_name", workers[run.worker], 0, f"worker {run.worker}")
        place = workers[run.worker], run.process_id
        if place not in processors:
            processors.add(place)
            yield _name("thread_name", *place, f"processor {run.process_id}")
        yield {
            "name": run.function,
            "cat": run.status,
            "ph": "X",
            "ts": run.begun_at * 1e6,
            "dur": run.seconds * 1e6,
            "pid": place[0],
            "tid": place[1],
            "args": {"task": run.task_id, "status": run.status},
        }


def _name(kind: str, process: int, thread: int, text: str) -> Json:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": text}}
