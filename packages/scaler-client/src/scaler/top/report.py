"""For scripts: the whole state once, as text or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from scaler.monitoring import ClusterState, FunctionFigures, functions_of, users_of
from scaler.monitoring.functions import object_kind
from scaler.top.board import board_of, client_name, function_counts
from scaler.top.columns import row_of
from scaler.top.screen import View, draw, text_of
from scaler_protocol.messages import ClusterStatus, Count, ManagerEntry, ObjectEntry, WaitingClass, WorkerEntry

UNBOUNDED_COLUMNS = 1000


def as_text(state: ClusterState, width: int | None = None) -> str:
    """The screen, as long as it needs to be. Without a width nothing is left out."""
    board = board_of(state)
    if width is None:
        lines = draw(board, View(), UNBOUNDED_COLUMNS).lines
        width = max((len(text_of(line)) for line in lines if line[0][0] != "rule"), default=1)
    return "\n".join(text_of(line) for line in draw(board, View(), width).lines)


def as_json(state: ClusterState) -> str:
    """One object on one line. Keys are only ever added; seconds, bytes and shares of one core are plain numbers."""
    return json.dumps(_summary(state.status or ClusterStatus()), ensure_ascii=True)


def _summary(status: ClusterStatus) -> dict[str, Any]:
    return {
        "scheduler": {
            "id": status.server_id.hex(),
            "address": status.scheduler_address,
            "version": status.software.version,
            "uptime_seconds": round(status.uptime_seconds, 3),
            "cpu": round(status.cpu, 4),
            "rss_bytes": status.rss_bytes,
            "host_free_bytes": status.host_free_bytes,
            "standby_of": status.standby_of,
            "standbys": list(status.standbys),
            "is_recovering": status.is_recovering,
            "recovery_seconds": round(status.recovery_seconds, 3),
            "expected_count": status.expected_count,
            "presented_count": status.presented_count,
        },
        "storage": {
            "address": status.storage_address,
            "is_connected": status.is_storage_connected,
            "object_count": status.storage.object_count,
            "memory_bytes": status.storage.memory_bytes,
            "disk_bytes": status.storage.disk_bytes,
            "moving_bytes": status.storage.moving_bytes,
            "disk_room_bytes": status.storage.disk_room_bytes,
            "disk_trouble": status.storage.disk_trouble,
            "largest": [_object(one) for one in status.storage.largest],
            "traffic": [asdict(one) for one in status.storage.traffic],
        },
        "tasks": _counts(status.task_counts),
        "functions": [{"name": one.name, "task_count": one.value} for one in function_counts(status)],
        "function_figures": [_figures(one) for one in functions_of(status)],
        "sent": _counts(status.sent_counts),
        "received": _counts(status.received_counts),
        "clients": [
            {
                "id": one.peer_id.hex(),
                "name": client_name(one),
                "user": one.user,
                "task_count": one.task_count,
                "object_count": one.object_count,
                "object_bytes": one.object_bytes,
            }
            for one in status.clients
        ],
        "users": [asdict(one) for one in users_of(status)],
        "managers": [_manager(one) for one in status.managers],
        "waiting": [_waiting(one) for one in status.waiting_classes],
        "event_count": status.event_count,
        "events": [asdict(one) for one in status.events],
        "workers": [_worker(one) for one in status.workers],
    }


def _counts(counts: tuple[Count, ...]) -> dict[str, int]:
    return {one.name: one.value for one in counts}


def _figures(one: FunctionFigures) -> dict[str, Any]:
    """Since the scheduler's start. Times in seconds; null: no worker has told of a run."""
    mean, median, high = one.mean_seconds, one.quantile(0.5), one.quantile(0.99)
    return {
        "name": one.name,
        "submitted_count": one.submitted_count,
        "queued_count": one.queued_count,
        "dispatched_count": one.dispatched_count,
        "success_count": one.success_count,
        "failed_count": one.failed_count,
        "canceled_count": one.canceled_count,
        "worker_lost_count": one.worker_lost_count,
        "refused_count": one.refused_count,
        "mean_seconds": mean,
        "p50_seconds": median,
        "p99_seconds": high,
        "run_seconds": round(one.run_seconds, 6),
        "cpu_seconds": round(one.cpu_seconds, 6),
        "mean_queued_seconds": round(one.mean_queued_seconds, 6),
    }


def _object(one: ObjectEntry) -> dict[str, Any]:
    return {**asdict(one), "object_id": one.object_id.hex(), "owner": one.owner.hex(), "kind": object_kind(one)}


def _waiting(one: WaitingClass) -> dict[str, Any]:
    """Queued tasks that ask for the same."""
    return {**asdict(one), "capabilities": {need.name: need.amount for need in one.capabilities}}


def _manager(manager: ManagerEntry) -> dict[str, Any]:
    return {
        "id": manager.manager_id.hex(),
        "name": manager.name,
        "user": manager.user,
        "target_count": manager.target_count,
        "max_workers": manager.max_workers,
        "workers_per_unit": manager.workers_per_unit,
        "starting_count": manager.starting_count,
        "running_count": manager.running_count,
        "stopping_count": manager.stopping_count,
        "trouble": manager.trouble,
    }


def _worker(worker: WorkerEntry) -> dict[str, Any]:
    row = row_of(worker)
    return {
        "id": worker.peer_id.hex(),
        "name": row.name,
        "user": worker.user,
        "host": worker.software.host,
        "capabilities": {one.name: one.amount for one in worker.capabilities},
        "silent_seconds": round(row.silent_seconds, 3),
        "still_seconds": round(row.still_seconds, 3),
        "agent_cpu": round(row.agent_cpu, 4),
        "agent_rss_bytes": row.agent_rss_bytes,
        "cpu": round(row.cpu, 4),
        "rss_bytes": row.rss_bytes,
        "host_free_bytes": row.host_free_bytes,
        "free_count": row.free_count,
        "sent_count": row.sent_count,
        "queued_count": row.queued_count,
        "suspended_count": row.suspended_count,
        "recycled_count": row.recycled_count,
        "limited_count": worker.status.limited_count,
        "completed_count": worker.completed_count,
        "lag_seconds": round(row.lag_seconds, 6),
        "itl": row.itl,
        "manager_id": worker.manager_id.hex(),
        "unit_id": worker.unit_id,
        "processors": [
            {
                "process_id": one.process_id,
                "state": one.state,
                "cpu": round(one.cpu, 4),
                "rss_bytes": one.rss_bytes,
                "task_id": one.task_id.hex(),
                "running_seconds": round(one.running_seconds, 3),
            }
            for one in worker.status.processors
        ],
    }
