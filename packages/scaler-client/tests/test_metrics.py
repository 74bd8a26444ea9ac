"""What Prometheus is told; and that the dashboard and the alerts in docs/ ask for nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.architecture.sources import ROOT

from scaler.monitoring import ClusterState, Condition
from scaler_protocol.codec import encode
from scaler_protocol.columns import join_u64
from scaler_protocol.errors import readable
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import (
    ClientEntry,
    ClusterStatus,
    Count,
    FunctionEntry,
    FunctionName,
    ManagerEntry,
    ProcessorStatus,
    Software,
    StorageStatus,
    WaitingClass,
    WorkerEntry,
    WorkerStatus,
)

pytest.importorskip("prometheus_client", reason="metrics need the extra [ui]")
from prometheus_client.parser import text_string_to_metric_families

from scaler.ui import metrics

FILES = ROOT / "docs" / "operations" / "prometheus"
FUNCTION = ObjectId(b"f" * 16)
AWKWARD = 'w"0\\\n{}é'


def worker(name: str, host: str, process_id: int) -> WorkerEntry:
    status = WorkerStatus(0.25, 1000, 5000, 3, 1, (ProcessorStatus(7, 2, 0.5, 2000),))
    software = Software("scaler-worker", "1", "Python", host, process_id)
    return WorkerEntry(PeerId(b"w" * 16), name, software, completed_count=process_id, status=status)


STATUS = ClusterStatus(
    server_id=PeerId(b"s" * 16),
    task_counts=(Count("queued", 5), Count("success", 7), Count("worker_lost", 0), Count("news", 1)),
    sent_counts=(Count("Dispatch", 3),),
    received_counts=(Count("Results", 4),),
    function_counts=(Count(FUNCTION.hex(), 3), Count("ff" * 16, 1), Count("", 1)),
    function_names=(FunctionName(FUNCTION, AWKWARD),),
    functions=(
        FunctionEntry(
            FUNCTION,
            AWKWARD,
            submitted_count=9,
            success_count=4,
            failed_count=2,
            queued_seconds=12.5,
            run_seconds=3.5,
            cpu_seconds=2.5,
            buckets=bytes((0, 5, 60)),
            bucket_counts=join_u64((3, 2, 1)),
        ),
        FunctionEntry(
            ObjectId(b"g" * 16),
            AWKWARD,
            submitted_count=1,
            success_count=1,
            run_seconds=0.5,
            buckets=bytes((4,)),
            bucket_counts=join_u64((1,)),
        ),
        FunctionEntry(submitted_count=50, run_seconds=99.0, buckets=b"12", bucket_counts=b"not as many"),
    ),
    workers=(worker("0", "b", 12), worker("0", "a", 11), worker("0", "a", 10), worker(AWKWARD, "a", 9)),
    waiting_classes=(WaitingClass(task_count=4), WaitingClass(task_count=9, able_count=1)),
    managers=(ManagerEntry(PeerId(b"m" * 16), "grid", target_count=3, running_count=2, trouble="no quota"),),
    storage=StorageStatus(0, 6),
    is_storage_connected=True,
)
TAKEN = replace(STATUS, workers=tuple(worker(name, "a", 1) for name in ("w", "w", "w#2", "w", "w#2", "w#2#2")))
LIVE = ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=STATUS)


def told(state: ClusterState) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found: dict[Any, float] = {}
    for family in text_string_to_metric_families(metrics.text_of(state).decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is told twice"
            found[key] = sample.value
    return found


def test_users_have_series_where_there_are_users() -> None:
    assert not [name for name, _ in told(LIVE) if name.startswith("scaler_user_")]
    clients = (
        ClientEntry(PeerId(b"c" * 16), task_count=3, user="ana", object_count=5, object_bytes=70),
        ClientEntry(PeerId(b"d" * 16), task_count=4, user="ana", object_count=1, object_bytes=0),
        ClientEntry(PeerId(b"e" * 16), task_count=9, user=AWKWARD),
    )
    state = replace(LIVE, status=replace(STATUS, clients=clients))
    names = ("clients", "workers", "tasks", "objects", "object_bytes")
    assert [value(state, f"scaler_user_{name}", user="ana") for name in names] == [2, 0, 7, 6, 70]
    assert sum(1 for name, _ in told(state) if name == "scaler_user_tasks") == 2


def value(state: ClusterState, name: str, /, **labels: str) -> float:
    return told(state)[name, tuple(sorted(labels.items()))]


def test_what_is_told() -> None:
    assert value(LIVE, "scaler_up") == 1
    assert value(LIVE, "scaler_tasks", state="queued") == 5
    assert value(LIVE, "scaler_tasks_ended_total", outcome="success") == 7
    assert value(LIVE, "scaler_function_tasks", function=readable(AWKWARD)) == 3
    assert value(LIVE, "scaler_function_tasks", function="(others)") == 1
    assert value(LIVE, "scaler_tasks_unplaceable") == 4
    assert value(LIVE, "scaler_manager_trouble", manager="grid") == 1
    assert value(LIVE, "scaler_storage_objects") == 6
    assert value(LIVE, "scaler_worker_cpu_ratio", worker=readable(AWKWARD), host="a") == 0.75
    assert value(LIVE, "scaler_worker_resident_memory_bytes", worker="0", host="b") == 3000


def test_workers_of_one_name_are_told_apart_in_the_same_way_each_time() -> None:
    for workers in (STATUS.workers, STATUS.workers[::-1]):
        state = replace(LIVE, status=replace(STATUS, workers=workers))
        assert value(state, "scaler_worker_completed_tasks_total", worker="0", host="a") == 10
        assert value(state, "scaler_worker_completed_tasks_total", worker="0#2", host="a") == 11
        assert value(state, "scaler_worker_completed_tasks_total", worker="0", host="b") == 12


@pytest.mark.parametrize("condition", [Condition.SILENT, Condition.CONNECTING])
def test_a_scheduler_that_is_gone_has_no_figures(condition: Condition) -> None:
    found = told(replace(LIVE, condition=condition, missed_count=2))
    assert found["scaler_up", ()] == 0 and found["scaler_monitor_missed_publications_total", ()] == 2
    assert not any(name.startswith(("scaler_workers", "scaler_tasks")) for name, _ in found)


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bscaler_\w+", text))


def test_dashboard_and_alerts_ask_for_what_there_is() -> None:
    there = {name for name, _ in told(LIVE)}
    dashboard = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    asked = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    alerts = re.findall(r"expr: ((?:>-\n(?: {10}.*\n)+)|.*)", (FILES / "alerts.yml").read_text(encoding="utf-8"))
    assert len(asked) > 20 and len(alerts) == 15
    for expression in (*asked, *alerts):
        assert names_in(expression) and names_in(expression) <= there, expression


def test_the_status_above_could_have_been_published() -> None:
    assert encode(STATUS)


def test_a_name_that_another_was_given_spoils_nothing() -> None:
    text = metrics.text_of(replace(LIVE, status=TAKEN)).decode()
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("scaler_worker_held_tasks{")]
    assert len(lines) == len(set(lines)) == 6, lines


def test_what_functions_cost() -> None:
    """Two functions of one name are one series, and what is not told apart is none: its counts may fall."""
    told = series(STATUS)
    label = ("function", readable(AWKWARD))
    assert told["scaler_function_tasks_submitted_total", frozenset({label})] == 10
    ended = {("outcome", one): told["scaler_function_tasks_ended_total", frozenset({label, ("outcome", one)})]
             for one in ("success", "failed", "canceled")}  # fmt: skip
    assert ended == {("outcome", "success"): 5, ("outcome", "failed"): 2, ("outcome", "canceled"): 0}
    assert told["scaler_function_cpu_seconds_total", frozenset({label})] == 2.5
    assert told["scaler_function_queued_seconds_total", frozenset({label})] == 12.5
    buckets = {
        dict(labels)["le"]: value for (name, labels), value in told.items() if name.endswith("run_seconds_bucket")
    }
    assert (buckets["0.0001"], buckets["0.0004"], buckets["0.0016"], buckets["+Inf"]) == (3, 4, 6, 7)
    assert len(buckets) == 16 and list(buckets.values()) == sorted(buckets.values())
    assert told["scaler_function_run_seconds_sum", frozenset({label})] == 4.0
    assert told["scaler_function_run_seconds_count", frozenset({label})] == 7
    assert told["scaler_tasks_submitted_total", frozenset()] == 13


def series(status: ClusterStatus) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = metrics.text_of(ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=status)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
