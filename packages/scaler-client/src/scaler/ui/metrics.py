"""The cluster in the words of Prometheus, in its text format or that of OpenMetrics. Read anew at each scrape; what has
to be added up for it is in `tally`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition
from prometheus_client.registry import Collector

from scaler.monitoring import ClusterState, FunctionFigures, UserFigures, functions_of, users_of
from scaler.monitoring.functions import OTHERS, counts_of
from scaler.ui.model import names_of
from scaler.ui.tally import Tally
from scaler_protocol.columns import BUCKET_BOUNDS_SECONDS
from scaler_protocol.errors import readable
from scaler_protocol.messages import ClusterStatus, UserEntry, WorkerEntry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE = exposition.CONTENT_TYPE_LATEST
_Entry = TypeVar("_Entry")
UNFINISHED = ("waiting", "queued", "dispatched", "canceling")


def is_open_metrics(accept: str) -> bool:
    """Whether a caller that sends this header Accept gets the format of OpenMetrics; all others read the older one."""
    return "application/openmetrics-text" in accept


def text_of(state: ClusterState, tally: Tally, *, open_metrics: bool = False) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Cluster(state, tally))
    if open_metrics:
        encoded: bytes = exposition.generate_latest(registry)  # type: ignore[no-untyped-call]
        return encoded
    return generate_latest(registry)


class _Cluster(Collector):
    def __init__(self, state: ClusterState, tally: Tally) -> None:
        self._state = state
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        state = self._state
        yield _gauge("scaler_up", "Whether the scheduler is heard: 1, or 0 when what is shown is old.", state.is_live)
        yield _counter(
            "scaler_monitor_missed_publications", "Publications that were lost on the way here.", state.missed_count
        )
        yield _counter("scaler_scheduler_restarts", "Other schedulers that took the address over.", state.restart_count)
        if state.status is not None and state.is_live:
            yield from _scheduler(state.status, self._tally)
            yield from _events(self._tally)
            yield from _tasks(state.status)
            yield from _functions(state.status)
            yield from _users(state.status)
            yield from _quotas(state.status)
            yield from _storage(state.status)
            yield from _managers(state.status)
            yield from _workers(state.status, self._tally)


def _scheduler(status: ClusterStatus, tally: Tally) -> Iterable[Metric]:
    info = InfoMetricFamily("scaler_scheduler", "The scheduler.")
    info.add_metric([], {"version": readable(status.software.version), "host": readable(status.software.host)})
    yield info
    yield _gauge("scaler_scheduler_start_time_seconds", "When it started, in seconds of the epoch.", tally.started_at)
    yield _counter("scaler_scheduler_cpu_seconds", "Processor time of the scheduler.", tally.scheduler_cpu_seconds)
    yield _gauge("scaler_scheduler_resident_memory_bytes", "Memory of the scheduler.", status.rss_bytes)
    yield _gauge("scaler_scheduler_host_free_memory_bytes", "Memory that is free on its host.", status.host_free_bytes)
    yield _counter("scaler_messages_rejected", "Messages that the scheduler refused.", status.rejected_count)
    for direction, counts in (("sent", status.sent_counts), ("received", status.received_counts)):
        family = CounterMetricFamily(
            f"scaler_messages_{direction}", f"Messages the scheduler has {direction}.", labels=["kind"]
        )
        for count in counts:
            family.add_metric([readable(count.name)], count.value)
        yield family
    yield _gauge("scaler_scheduler_is_standby", "Whether it waits for another one.", bool(status.standby_of))
    yield _gauge("scaler_scheduler_standbys", "Schedulers that wait to follow on it.", len(status.standbys))
    yield _gauge("scaler_scheduler_recovering", "Whether it waits for workers to present.", status.is_recovering)
    yield _gauge("scaler_clients", "Clients that are connected.", len(status.clients))
    yield _gauge("scaler_workers", "Workers that are connected.", len(status.workers))
    yield _counter("scaler_balancing_recalled_tasks", "Tasks that workers were asked back.", status.recalled_count)
    yield _counter("scaler_balancing_returned_tasks", "Tasks that workers gave back.", status.returned_count)


def _events(tally: Tally) -> Iterable[Metric]:
    events = CounterMetricFamily("scaler_cluster_events", "What happened to the cluster as a whole.", labels=["kind"])
    rerun = CounterMetricFamily("scaler_tasks_run_again", "Tasks that run again because of that.", labels=["kind"])
    for kind, count in tally.events.items():
        events.add_metric([kind], count)
        rerun.add_metric([kind], tally.rerun_tasks[kind])
    yield from (events, rerun)


def _tasks(status: ClusterStatus) -> Iterable[Metric]:
    unfinished = GaugeMetricFamily("scaler_tasks", "Unfinished tasks by state.", labels=["state"])
    ended = CounterMetricFamily("scaler_tasks_ended", "Tasks that have ended, by how.", labels=["outcome"])
    for count in status.task_counts:
        (unfinished if count.name in UNFINISHED else ended).add_metric([readable(count.name)], count.value)
    yield unfinished
    yield ended
    text = "Attempts of tasks that were followed by another one, by why."
    repeated = CounterMetricFamily("scaler_tasks_repeated", text, labels=["reason"])
    for count in status.repeat_counts[:REASONS_LIMIT]:
        repeated.add_metric([readable(count.name)], count.value)
    yield repeated
    waits = HistogramMetricFamily("scaler_tasks_queued_seconds", "From the submission of a task to its dispatch.")
    counts = counts_of(status.queued_buckets, status.queued_bucket_counts)
    waits.add_metric([], _cumulative(counts), status.queued_seconds)
    yield waits
    submitted = sum(count.value for count in status.task_counts)
    yield _counter("scaler_tasks_submitted", "Tasks that were submitted.", submitted)
    names = names_of(status.function_names)
    by_name: dict[str, int] = {}
    for count in status.function_counts:
        name = readable(names.get(count.name, "(unnamed)"))
        by_name[name] = by_name.get(name, 0) + count.value
    functions = GaugeMetricFamily("scaler_function_tasks", "Unfinished tasks by function.", labels=["function"])
    for name, value in by_name.items():
        functions.add_metric([name], value)
    yield functions
    stuck = sum(one.task_count for one in status.waiting_classes if not one.able_count)
    yield _gauge("scaler_tasks_unplaceable", "Queued tasks that none of the connected workers could ever take.", stuck)


REASONS_LIMIT = 16
HISTOGRAM_BUCKETS = range(0, len(BUCKET_BOUNDS_SECONDS), 4)
"""Of the buckets that workers tell, those whose bounds are told: each four times the one before."""
_FUNCTION_COUNTERS: tuple[tuple[str, str, Callable[[FunctionFigures], float]], ...] = (
    ("scaler_function_tasks_submitted", "Tasks of a function that were submitted.", lambda one: one.submitted_count),
    ("scaler_function_cpu_seconds", "Processor time of its runs, where measured.", lambda one: one.cpu_seconds),
    ("scaler_function_queued_seconds", "Time that its tasks were with no worker.", lambda one: one.queued_seconds),
)
_OUTCOMES: tuple[tuple[str, Callable[[FunctionFigures], int]], ...] = (
    ("success", lambda one: one.success_count),
    ("failed", lambda one: one.failed_count),
    ("canceled", lambda one: one.canceled_count),
    ("worker_lost", lambda one: one.worker_lost_count),
    ("refused", lambda one: one.refused_count),
)


def _functions(status: ClusterStatus) -> Iterable[Metric]:
    """Of those that are told apart: counts of all others together fall when one of them is told apart again, and a
    counter must not."""
    by_name = {readable(one.name): one for one in functions_of(status) if one.name != OTHERS}
    for name, text, value in _FUNCTION_COUNTERS:
        family = CounterMetricFamily(name, text, labels=["function"])
        for label, one in by_name.items():
            family.add_metric([label], value(one))
        yield family
    ended = CounterMetricFamily(
        "scaler_function_tasks_ended", "Tasks of a function that have ended, by how.", labels=["function", "outcome"]
    )
    times = HistogramMetricFamily("scaler_function_run_seconds", "How long its tasks ran.", labels=["function"])
    for label, one in by_name.items():
        for outcome, count in _OUTCOMES:
            ended.add_metric([label, outcome], count(one))
        times.add_metric([label], _cumulative(one.runs), one.run_seconds)
    yield ended
    yield times


def _cumulative(runs: dict[int, int]) -> list[tuple[str, float]]:
    bounds = [
        (f"{BUCKET_BOUNDS_SECONDS[last]:g}", float(sum(count for bucket, count in runs.items() if bucket <= last)))
        for last in HISTOGRAM_BUCKETS
    ]
    return [*bounds, ("+Inf", float(sum(runs.values())))]


_USER_GAUGES: tuple[tuple[str, str, Callable[[UserFigures], float]], ...] = (
    ("scaler_user_clients", "Clients of a user.", lambda one: one.client_count),
    ("scaler_user_workers", "Workers of a user.", lambda one: one.worker_count),
    ("scaler_user_tasks", "Unfinished tasks of a user's clients.", lambda one: one.task_count),
    ("scaler_user_objects", "Objects in the storage that a user's clients own.", lambda one: one.object_count),
    ("scaler_user_object_bytes", "Values of these objects.", lambda one: one.object_bytes),
)

_QUOTAS: tuple[tuple[str, str, str, Callable[[UserEntry], float]], ...] = (
    ("task_bytes", "task_limit_bytes", "Arguments of a user's unfinished tasks", lambda one: one.task_bytes),
    ("stored_bytes", "stored_limit_bytes", "Values of a user in the storage", lambda one: one.object_bytes),
)


def _users(status: ClusterStatus) -> Iterable[Metric]:
    """No series in a cluster without keys."""
    named = list(_labelled(((one.name,), one) for one in users_of(status)))
    for name, text, value in _USER_GAUGES if named else ():
        family = GaugeMetricFamily(name, text, labels=["user"])
        for values, one in named:
            family.add_metric(values, value(one))
        yield family


def _quotas(status: ClusterStatus) -> Iterable[Metric]:
    """What users have of what each user may have. The scheduler tells of those that are nearest to a limit (MON-68)."""
    if not status.users:
        return
    yield _gauge("scaler_user_task_limit", "Unfinished tasks that each user may have.", status.user_task_limit)
    named = list(_labelled(((one.user,), one) for one in status.users))
    limits = (status.user_task_bytes_limit, status.storage.user_limit_bytes)
    for (name, limit_name, text, value), limit in zip(_QUOTAS, limits, strict=True):
        if not limit:
            continue  # a storage without a quota does not count what users have
        yield _gauge(f"scaler_user_{limit_name}", f"{text}: as much as each may have.", limit)
        family = GaugeMetricFamily(f"scaler_user_{name}", f"{text}, as its quota counts them.", labels=["user"])
        for values, one in named:
            family.add_metric(values, value(one))
        yield family


def _storage(status: ClusterStatus) -> Iterable[Metric]:
    storage = status.storage
    yield _gauge("scaler_storage_up", "Whether the scheduler is connected to its storage.", status.is_storage_connected)
    yield _gauge("scaler_storage_objects", "Objects in the storage.", storage.object_count)
    yield _gauge("scaler_storage_memory_bytes", "Values that the storage holds in memory.", storage.memory_bytes)
    yield _gauge("scaler_storage_disk_bytes", "Files on the disk with values of the storage.", storage.disk_bytes)
    yield _gauge("scaler_storage_moving_bytes", "Values on their way from memory to the disk.", storage.moving_bytes)
    yield _gauge("scaler_storage_memory_limit_bytes", "Most of that; 0: no limit.", storage.memory_limit_bytes)
    yield _gauge("scaler_storage_disk_limit_bytes", "Most of these files; 0: no limit.", storage.disk_limit_bytes)
    yield _gauge("scaler_storage_disk_room_bytes", "What may still be moved to the disk.", storage.disk_room_bytes)
    yield _gauge("scaler_storage_disk_trouble", "Whether the last move failed.", bool(storage.disk_trouble))
    received = sum(one.put_bytes for one in storage.traffic)
    sent = sum(one.got_bytes for one in storage.traffic)
    yield _counter("scaler_storage_received_bytes", "Bytes of values that peers have stored.", received)
    yield _counter("scaler_storage_sent_bytes", "Bytes of values that peers have read.", sent)
    yield _gauge("scaler_storage_waiters", "Requests that wait for an object.", storage.waiter_count)


def _managers(status: ClusterStatus) -> Iterable[Metric]:
    target = GaugeMetricFamily("scaler_manager_target_workers", "Workers wanted from a manager.", labels=["manager"])
    units = GaugeMetricFamily("scaler_manager_units", "Units of a manager by state.", labels=["manager", "state"])
    trouble = GaugeMetricFamily("scaler_manager_trouble", "1 while a manager cannot start units.", labels=["manager"])
    for (name,), entry in _labelled(((one.name,), one) for one in status.managers):
        target.add_metric([name], entry.target_count)
        trouble.add_metric([name], bool(entry.trouble))
        units.add_metric([name, "starting"], entry.starting_count)
        units.add_metric([name, "running"], entry.running_count)
        units.add_metric([name, "stopping"], entry.stopping_count)
    yield from (target, units, trouble)


_WORKER_GAUGES: tuple[tuple[str, str, Callable[[WorkerEntry], float]], ...] = (
    ("scaler_worker_resident_memory_bytes", "Memory of agent and processors.", lambda one: _rss(one)),
    (
        "scaler_worker_host_free_memory_bytes",
        "Memory that is free on its host.",
        lambda one: one.status.host_free_bytes,
    ),
    (
        "scaler_worker_host_memory_bytes",
        "All memory of its host; 0: not told.",
        lambda one: one.status.host_memory_bytes,
    ),
    ("scaler_worker_held_tasks", "Tasks given to it that have not ended.", lambda one: one.held_count),
    ("scaler_worker_queued_tasks", "Tasks it holds that have not begun.", lambda one: one.status.queued_count),
    ("scaler_worker_blocked_tasks", "Tasks that wait for their children.", lambda one: one.status.blocked_count),
    ("scaler_worker_processors", "Processors it has.", lambda one: len(one.status.processors)),
    ("scaler_worker_lag_seconds", "Round trip between it and the scheduler.", lambda one: one.lag_seconds),
)
_WORKER_COUNTERS: tuple[tuple[str, str, Callable[[WorkerEntry], float]], ...] = (
    ("scaler_worker_completed_tasks", "Tasks it has completed.", lambda one: one.completed_count),
    (
        "scaler_worker_recycled_processors",
        "Processors it has replaced between two tasks.",
        lambda one: one.status.recycled_count,
    ),
    (
        "scaler_worker_limited_tasks",
        "Tasks it has ended because of their memory.",
        lambda one: one.status.limited_count,
    ),
)


def _workers(status: ClusterStatus, tally: Tally) -> Iterable[Metric]:
    by_age = sorted(status.workers, key=lambda one: one.software.process_id)
    named = list(_labelled(((one.name, one.software.host), one) for one in by_age))
    labels = ["worker", "host"]
    for name, text, value in _WORKER_GAUGES:
        family = GaugeMetricFamily(name, text, labels=labels)
        for values, entry in named:
            family.add_metric(values, value(entry))
        yield family
    heard = GaugeMetricFamily(
        "scaler_worker_last_heard_timestamp_seconds", "When it was last heard, in seconds of the epoch.", labels=labels
    )
    for values, entry in named:
        heard.add_metric(values, tally.at - entry.silent_seconds)
    yield heard
    for name, text, value in _WORKER_COUNTERS:
        counter = CounterMetricFamily(name, text, labels=labels)
        for values, entry in named:
            counter.add_metric(values, value(entry))
        yield counter
    cpu = CounterMetricFamily("scaler_worker_cpu_seconds", "Processor time of agent and processors.", labels=labels)
    for values, entry in named:
        cpu.add_metric(values, tally.worker_cpu_seconds.get(entry.peer_id, 0.0))
    yield cpu


def _labelled(items: Iterable[tuple[tuple[str, ...], _Entry]]) -> Iterable[tuple[list[str], _Entry]]:
    """Names need not be unique, label values must be: two series of one name would spoil the whole scrape. A name may
    also be the one that another has been given here."""
    used: set[tuple[str, ...]] = set()
    numbers: dict[tuple[str, ...], int] = {}
    for values, entry in items:
        first, *others = wanted = tuple(map(readable, values))
        while (label := (first, *others)) in used:
            numbers[wanted] = numbers.get(wanted, 1) + 1
            first = f"{wanted[0]}#{numbers[wanted]}"
        used.add(label)
        yield list(label), entry


def _rss(entry: WorkerEntry) -> int:
    return entry.status.agent_rss_bytes + sum(one.rss_bytes for one in entry.status.processors)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], float(value))
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], float(value))
    return family
