"""Task runs in the trace format of Chrome, which Perfetto and `about:tracing` open: a row for each processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scaler.ui.samples import TaskRun

Json = dict[str, Any]


def chrome_trace(runs: Iterable[TaskRun], sampled_count: int, ended_count: int) -> Json:
    return {
        "traceEvents": list(trace_events(runs)),
        "displayTimeUnit": "ms",
        "otherData": {"sampled": f"{sampled_count} of {ended_count} tasks that ended"},
    }


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
