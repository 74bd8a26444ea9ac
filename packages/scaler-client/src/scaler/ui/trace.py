"""Task runs in the trace format of Chrome, which Perfetto and `about:tracing` open: a row for each processor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.ui.samples import TaskRun


def chrome_trace(runs: Iterable[TaskRun], sampled_count: int, ended_count: int) -> dict[str, Any]:
    workers: dict[str, int] = {}
    events: list[dict[str, Any]] = []
    threads: dict[tuple[int, int], str] = {}
    for run in runs:
        process = workers.setdefault(run.worker, len(workers) + 1)
        threads[(process, run.process_id)] = f"processor {run.process_id}"
        events.append(
            {
                "name": run.function,
                "cat": run.status,
                "ph": "X",
                "ts": run.begun_at * 1e6,
                "dur": run.seconds * 1e6,
                "pid": process,
                "tid": run.process_id,
                "args": {"task": run.task_id, "status": run.status},
            }
        )
    names = [_name("process_name", process, 0, f"worker {worker}") for worker, process in workers.items()]
    names += [_name("thread_name", process, thread, text) for (process, thread), text in threads.items()]
    return {
        "traceEvents": names + events,
        "displayTimeUnit": "ms",
        "otherData": {"sampled": f"{sampled_count} of {ended_count} tasks that ended"},
    }


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": text}}
