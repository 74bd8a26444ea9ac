"""What became of tasks that failed, and what happened to the cluster: plain values of what a scheduler tells."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from scaler.monitoring.endings import status_name
from scaler_protocol.messages import ClusterEvent, FunctionName, TaskFailure

Json = dict[str, Any]

FAILURES_KEPT = 2_000
EVENTS_KEPT = 1_000


class Failures:
    """The last ones, each once: the history of a scheduler and its next publication may both have one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], Json] = OrderedDict()
        self.count = 0  #: since scaler_ui was started, those that were not described among them

    def take(self, failures: Iterable[TaskFailure], names: Iterable[FunctionName], count: int, at: float) -> list[Json]:
        """Those that are new."""
        called = {one.function_id: one.name for one in names}
        new = []
        for failure in failures:
            key = failure.task_id.hex(), failure.attempt
            if key in self._kept:
                count -= 1
                continue
            self._kept[key] = told = failure_of(failure, called.get(failure.function_id, ""), at)
            new.append(told)
        while len(self._kept) > FAILURES_KEPT:
            self._kept.popitem(last=False)
        self.count += max(count, len(new))
        return new

    def all(self) -> list[Json]:
        return list(self._kept.values())

    def of(self, task_id: str) -> Json | None:
        """The last attempt of this task that was told of."""
        return next((one for (known, _), one in reversed(self._kept.items()) if known == task_id), None)

    def ids(self) -> list[str]:
        return [task_id for task_id, _ in reversed(self._kept)]


def failure_of(failure: TaskFailure, function: str, at: float) -> Json:
    return {
        "task": failure.task_id.hex(),
        "function": function or failure.function_id.hex()[:8],
        "key": failure.key,
        "client": failure.client_id.hex()[:8],
        "user": failure.user,
        "worker": failure.worker,
        "status": status_name(failure.status),
        "attempt": failure.attempt,
        "type": failure.type_name.rpartition(".")[2] or failure.type_name,
        "line": failure.first_line,
        "text": failure.text,
        "accounts": list(failure.accounts),
        "at": at - failure.age_seconds,
        "lasted": failure.duration_seconds,
        "cpu": failure.cpu_seconds,
        "memory": failure.memory_bytes,
        "arguments": failure.argument_bytes,
        "graph": failure.graph_id.hex(),
        "parent": failure.parent_task.hex(),
        "submitted": _moment(at, failure.submitted_seconds),
        "ready": _moment(at, failure.ready_seconds),
        "dispatched": _moment(at, failure.dispatched_seconds),
        "result": failure.result_bytes,
        "stored": failure.is_result_stored,
    }


def _moment(at: float, seconds_ago: float) -> float:
    """Zero: it has not happened, or is not known. (MON-62)"""
    return at - seconds_ago if seconds_ago else 0.0


class Events:
    """The last ones of the present scheduler, and before them those of the schedulers before."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], Json] = OrderedDict()

    def take(self, server_id: bytes, events: Iterable[ClusterEvent], at: float) -> list[Json]:
        """Those that are new."""
        new = []
        for event in events:
            key = server_id.hex(), event.number
            if key not in self._kept:
                self._kept[key] = told = {
                    "server": key[0][:8],
                    "number": event.number,
                    "at": at - event.age_seconds,
                    "kind": event.kind,
                    "subject": event.subject,
                    "text": event.text,
                    "tasks": event.task_count,
                }
                new.append(told)
        while len(self._kept) > EVENTS_KEPT:
            self._kept.popitem(last=False)
        return new

    def all(self) -> list[Json]:
        return sorted(self._kept.values(), key=lambda one: float(one["at"]))
