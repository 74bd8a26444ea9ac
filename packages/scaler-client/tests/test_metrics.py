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
    ClusterEvent,
    ClusterStatus,
    Count,
    FunctionEntry,
    FunctionName,
    HostTraffic,
    ManagerEntry,
    ProcessorStatus,
    Software,
    StorageStatus,
    UserEntry,
    WaitingClass,
    WorkerEntry,
    WorkerStatus,
)

pytest.importorskip("prometheus_client", reason="metrics need the extra [ui]")
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from scaler.ui import metrics
from scaler.ui.tally import Tally

FILES = ROOT / "docs" / "operations" / "prometheus"
FUNCTION = ObjectId(b"f" * 16)
AWKWARD = 'w"0\\\n{}é'


def worker(name: str, host: str, process_id: int) -> WorkerEntry:
    status = WorkerStatus(0.25, 1000, 5000, 3, 1, (ProcessorStatus(7, 2, 0.5, 2000),), host_memory_bytes=8000)
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
    storage=StorageStatus(0, 6, traffic=(HostTraffic("a", 70, 5), HostTraffic("", 30, 1 << 40))),
    is_storage_connected=True,
    repeat_counts=(Count("worker_lost", 3),),
    queued_buckets=bytes((0, 5, 60)),
    queued_bucket_counts=join_u64([4, 2, 1]),
    queued_seconds=12.5,
)
TAKEN = replace(STATUS, workers=tuple(worker(name, "a", 1) for name in ("w", "w", "w#2", "w", "w#2", "w#2#2")))
LIVE = ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=STATUS)


def tally_of(*statuses: ClusterStatus) -> Tally:
    """After statuses that came at 1,000 s of the epoch, and as much later as their uptimes differ."""
    tally = Tally()
    for status in statuses:
        tally.take(status, 1000.0 + status.uptime_seconds - statuses[0].uptime_seconds)
    return tally


def told(state: ClusterState) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found: dict[Any, float] = {}
    for family in text_string_to_metric_families(metrics.text_of(state, tally_of(STATUS)).decode()):
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


def test_users_have_series_of_their_quotas() -> None:
    """Not without keys; and not of the storage if it has no quota, for then it does not count what users have."""
    users = (UserEntry("ana", 7, 300, 50), UserEntry(AWKWARD, 1, 0, 0), UserEntry(readable(AWKWARD), 2, 9, 9))
    limits = {"task_limit": 10, "task_limit_bytes": 400, "stored_limit_bytes": 100}
    status = replace(STATUS, users=users, user_task_limit=10, user_task_bytes_limit=400)
    state = replace(LIVE, status=replace(status, storage=replace(status.storage, user_limit_bytes=100)))
    assert {name: value(state, f"scaler_user_{name}") for name in limits} == limits
    names = ("tasks", "task_bytes", "stored_bytes")
    assert [value(state, f"scaler_user_{name}", user="ana") for name in names] == [7, 300, 50]
    awkward = readable(AWKWARD)
    assert [value(state, "scaler_user_task_bytes", user=user) for user in (awkward, f"{awkward}#2")] == [0, 9]
    assert not [name for name, _ in told(replace(LIVE, status=status)) if name.startswith("scaler_user_stored")]


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
    assert value(LIVE, "scaler_storage_received_bytes_total") == 100
    assert value(LIVE, "scaler_storage_sent_bytes_total") == (1 << 40) + 5, "of all hosts"
    assert value(LIVE, "scaler_worker_resident_memory_bytes", worker="0", host="b") == 3000
    assert value(LIVE, "scaler_worker_host_memory_bytes", worker="0", host="b") == 8000
    bounds = ("0.0001", "0.0004", "0.0016", "+Inf")
    waits = [value(LIVE, "scaler_tasks_queued_seconds_bucket", le=bound) for bound in bounds]
    assert waits == [4, 4, 6, 7] and value(LIVE, "scaler_tasks_queued_seconds_sum") == 12.5


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
    return set(re.findall(r"\bscaler_\w+", text)) - {"scaler_docs"}


def panels() -> list[dict[str, Any]]:
    """All of the dashboard; those of a collapsed row are inside the row."""
    dashboard = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    return [one for panel in dashboard["panels"] for one in (panel, *panel.get("panels", ()))]


def alert_rules() -> list[dict[str, str]]:
    """Name, expression and runbook of each alert, as Prometheus reads them."""
    text = (FILES / "alerts.yml").read_text(encoding="utf-8")
    rules = []
    for rule in re.split(r"\n {6}- alert: ", text)[1:]:
        expression = re.search(r"expr: ((?:>-\n(?: {10}.*\n)+)|.*)", rule)
        runbook = re.search(r"runbook_url: '(.*)'", rule)
        assert expression and runbook, rule
        rules.append({"name": rule.split("\n")[0], "expr": expression[1], "runbook": runbook[1]})
    return rules


def test_dashboard_and_alerts_ask_for_what_there_is() -> None:
    there = {name for name, _ in told(LIVE)}
    dashboard = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    asked = {target["expr"] for panel in panels() for target in panel.get("targets", ())}
    asked |= {one["expr"] for one in dashboard["annotations"]["list"]}
    asked |= {one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"}
    alerts = [rule["expr"] for rule in alert_rules()]
    assert len(asked) > 30 and len(alerts) == 24
    for expression in (*asked, *alerts):
        assert names_in(expression) and names_in(expression) <= there, expression


def test_every_metric_is_documented() -> None:
    page = (FILES.parent / "metrics.md").read_text(encoding="utf-8")
    families = {
        family.name: family.type for family in text_string_to_metric_families(metrics.text_of(LIVE, Tally()).decode())
    }
    for name, kind in families.items():
        full = f"{name}_total" if kind == "counter" else name
        short = "…_" + "_".join(full.split("_")[2:])
        assert f"`{full}`" in page or f"`{short}`" in page, full


def test_each_alert_leads_to_what_to_do() -> None:
    page = (FILES.parent / "alerts.md").read_text(encoding="utf-8")
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    leads = {rule["runbook"].partition("#")[2]: rule["runbook"].partition("#")[0] for rule in alert_rules()}
    assert set(leads) == sections == {rule["name"].lower() for rule in alert_rules()}
    assert set(leads.values()) == {"{{ $externalLabels.scaler_docs }}/operations/alerts.html"}


def test_no_alert_fires_for_each_worker() -> None:
    """A rack that fails is one page: what has a series per worker, host, manager or function is put together."""
    for rule in alert_rules():
        if re.search(r"scaler_(worker|manager|function|user)_", rule["expr"]):
            assert re.match(r"(>-\s+)?(count|sum) by \(job, instance\) \(", rule["expr"]), rule["name"]


PANELS = {"stat", "timeseries", "row"}
UNITS = {"short", "ops", "s", "bytes", "Bps", "percentunit"}
GRAFANA_VARIABLES = {"__rate_interval", "__all"}


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    """What Grafana's model of a dashboard (schema version 38) asks of the parts that are used here."""
    dashboard = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] == 38 and dashboard["uid"] and dashboard["title"]
    variables = {one["name"] for one in dashboard["templating"]["list"]} | GRAFANA_VARIABLES
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) <= variables
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        taken = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert panel["type"] in PANELS and panel["title"] and not taken & cells, panel["title"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        cells |= taken
        if panel["type"] == "row":
            assert panel["collapsed"] and panel["panels"] and panel["repeat"] in variables
            continue
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        letters = [target["refId"] for target in panel["targets"]]
        assert letters and len(set(letters)) == len(letters)
        assert all(one["datasource"]["uid"] == "${datasource}" for one in (panel, *panel["targets"]))


def test_conventions() -> None:
    """Of Prometheus: names of counters, base units, help; and both formats say the same."""
    text = metrics.text_of(LIVE, tally_of(STATUS))
    families = list(text_string_to_metric_families(text.decode()))
    for family in families:
        assert family.name.startswith("scaler_") and family.documentation.endswith("."), family.name
        assert not re.search(r"(milli|micro|minute|hour|ratio|percent|kib|mib)", family.name), family.name
        assert family.type in ("gauge", "counter", "histogram"), family.name
    open_text = metrics.text_of(LIVE, tally_of(STATUS), open_metrics=True)
    assert open_text.endswith(b"# EOF\n")
    parsed = list(open_metrics_families(open_text.decode()))  # type: ignore[no-untyped-call]
    assert {s for f in parsed for s in told_of(f)} == {s for f in families for s in told_of(f)}
    assert metrics.is_open_metrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert not metrics.is_open_metrics("text/plain") and not metrics.is_open_metrics("")


def told_of(family: Any) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
    """A histogram's bounds are compared as numbers: OpenMetrics writes 1.0 where the older format may write 1."""
    return {
        (one.name, frozenset((k, str(float(v))) if k == "le" else (k, v) for k, v in one.labels.items()), one.value)
        for one in family.samples
    }


def test_processor_time_is_added_up() -> None:
    def status(uptime: float, cpu: float, server: bytes = b"s" * 16) -> ClusterStatus:
        return replace(STATUS, server_id=PeerId(server), uptime_seconds=uptime, cpu=cpu, workers=STATUS.workers[3:])

    tally = tally_of(status(50, 0.9), status(51, 0.5), status(51, 0.7), status(53, 0.25))
    assert tally.scheduler_cpu_seconds == 1.0 and tally.started_at == 950
    assert tally.worker_cpu_seconds == {PeerId(b"w" * 16): 0.75 * 3}
    tally.take(status(500, 1.0), 1450.0)
    assert tally.scheduler_cpu_seconds == 1.0, "what was in so long a gap is not known"
    tally.take(status(2, 1.0, b"t" * 16), 1460.0)
    assert tally.scheduler_cpu_seconds == 1.0 and tally.started_at == 1458
    tally.take(replace(status(3, 0.5, b"t" * 16), workers=()), 1461.0)
    assert tally.scheduler_cpu_seconds == 1.5 and not tally.worker_cpu_seconds
    found = series(status(53, 0.25), tally)
    assert found["scaler_scheduler_cpu_seconds_total", frozenset()] == 1.5
    assert found["scaler_scheduler_start_time_seconds", frozenset()] == 1458
    worker = frozenset({("worker", readable(AWKWARD)), ("host", "a")})
    assert found["scaler_worker_last_heard_timestamp_seconds", worker] == 1461


def test_events_that_were_not_listed_are_counted() -> None:
    def status(uptime: float, count: int, *numbers: int) -> ClusterStatus:
        events = tuple(ClusterEvent(number, 1.0, "worker_lost", "w", "", 2) for number in numbers)
        return replace(STATUS, server_id=PeerId(b"s" * 16), uptime_seconds=uptime, events=events, event_count=count)

    tally = tally_of(status(1, 5, 4, 5), status(2, 45, 44, 45), status(3, 47), status(4, 48, 46, 47, 48))
    assert tally.events["worker_lost"] == 3 and tally.events["other"] == 38 + 2
    assert sum(tally.events.values()) == 48 - 5


def test_events_are_counted_once() -> None:
    def status(uptime: float, *events: ClusterEvent, server: bytes = b"s" * 16) -> ClusterStatus:
        count = events[-1].number if events else 0
        return replace(STATUS, server_id=PeerId(server), uptime_seconds=uptime, events=events, event_count=count)

    def event(number: int, kind: str, tasks: int = 0) -> ClusterEvent:
        return ClusterEvent(number, 1.0, kind, "w", "", tasks)

    before, lost, news = event(1, "worker_lost", 9), event(2, "worker_lost", 5), event(3, "news")
    tally = tally_of(status(1, before), status(2, before, lost), status(3, before, lost, news))
    assert tally.events["worker_lost"] == 1 and tally.rerun_tasks["worker_lost"] == 5, "what was before is not counted"
    assert tally.events["other"] == 1 and tally.events["limit_reached"] == 0
    tally.take(status(1, before, server=b"t" * 16), 2000.0)
    assert tally.events["worker_lost"] == 2, "events of a successor count from its first"
    found = series(status(3), tally)
    assert found["scaler_cluster_events_total", frozenset({("kind", "worker_lost")})] == 2
    assert found["scaler_tasks_run_again_total", frozenset({("kind", "worker_lost")})] == 14


def test_repeated_attempts_are_counted_by_reason() -> None:
    counts = (Count("worker_lost", 3), *(Count(f"new{number}", 1) for number in range(40)))
    found = series(replace(STATUS, repeat_counts=counts))
    repeated = {labels: value for (name, labels), value in found.items() if name == "scaler_tasks_repeated_total"}
    assert repeated[frozenset({("reason", "worker_lost")})] == 3
    assert len(repeated) == metrics.REASONS_LIMIT, "a scheduler cannot make series without end"


def test_the_status_above_could_have_been_published() -> None:
    assert encode(STATUS)


def test_a_name_that_another_was_given_spoils_nothing() -> None:
    text = metrics.text_of(replace(LIVE, status=TAKEN), Tally()).decode()
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


def series(status: ClusterStatus, tally: Tally | None = None) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = metrics.text_of(replace(LIVE, status=status), tally or tally_of(status)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
