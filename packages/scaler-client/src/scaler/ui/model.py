"""What the page shows, made of what was heard: plain values, ready for JSON. No socket, no clock."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from scaler.monitoring import ClusterState, FunctionFigures, Heard, UserFigures, functions_of, users_of
from scaler.monitoring.functions import object_text
from scaler.monitoring.profiles import Profile
from scaler.monitoring.succession import succession_text
from scaler.ui.blocked import Blocked
from scaler.ui.events import Events, Failures
from scaler.ui.graph_nodes import gone, graph_of
from scaler.ui.ring import Ring
from scaler.ui.running import RunningNames
from scaler.ui.samples import TaskRun, ended_count, runs
from scaler.ui.tally import Tally
from scaler.ui.utilisation import Utilisation
from scaler_protocol.codes import LOG_PREPARATION, LOG_STDERR
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    NO_PEER,
    Capability,
    ClientEntry,
    ClusterStatus,
    FunctionName,
    GraphShapes,
    ManagerEntry,
    ObjectEntry,
    ProcessorStatus,
    StackSamples,
    TaskLog,
    TaskSamples,
    WorkerEntry,
)

Json = dict[str, Any]

HISTORY_POINTS = 900  #: publications: a quarter of an hour, for charts
RUNS_KEPT = 40_000  #: a scheduler tells of 2,000 a second at most
RUNS_KEPT_BYTES = 16 * 1024 * 1024
LOGS_KEPT = 500
GRAPHS_KEPT = 4  #: of those that no longer run


class Model:
    """Takes what was heard, answers what pages that are open have to be told, and what a new one has to know."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.state: ClusterState = ClusterState(label)
        self.status: Json = {}
        #: the last task runs: one JSON list for those that were heard together
        self.runs = Ring(RUNS_KEPT, RUNS_KEPT_BYTES)
        self.sampled_count = 0
        self.ended_count = 0
        self.utilisation = Utilisation()
        self.tally = Tally()
        self._blocked = Blocked()
        self.running = RunningNames()
        self.failures = Failures()
        self.events = Events()
        self.profile = Profile()
        #: for each TaskSamples: when it came, how many tasks it shows, and of how many that ended
        self._shares: deque[tuple[float, int, int]] = deque(maxlen=HISTORY_POINTS)
        self._history: deque[Json] = deque(maxlen=HISTORY_POINTS)
        self._logs: deque[Json] = deque(maxlen=LOGS_KEPT)
        self.graphs: list[Json] = []
        #: by graph, the display id of its client
        self.graph_clients: dict[str, PeerId] = {}
        self._graphs_server = NO_PEER
        self._told_condition: Json = {}

    def take(self, state: ClusterState, heard: Iterable[Heard], at: float) -> list[tuple[str, Json]]:
        """Kind and content of what to tell. `at`: seconds of the epoch."""
        self.state = state
        told: list[tuple[str, Json]] = []
        lines: list[Json] = []
        for one in heard:
            message = one.message
            if isinstance(message, ClusterStatus):
                self.tally.take(message, at)
                if message is state.status or not self.status:
                    told.append(("status", self._take_status(message, at)))
                told += _unless_empty("events", self.events.take(message.server_id, message.events, at))
            elif isinstance(message, TaskSamples):
                failures = self.failures.take(message.failures, message.function_names, message.failed_count, at)
                told += _unless_empty("failures", failures)
                told += _unless_empty("events", self.events.take(message.server_id, message.events, at))
                if message.blocks and not (message.is_history and self.sampled_count):
                    told.append(("tasks", self._take_samples(message, at)))
            elif isinstance(message, GraphShapes):
                if self._take_graphs(message):
                    told.append(("graphs", {"graphs": self.graphs}))
            elif isinstance(message, StackSamples):
                self.profile.take(message, at)
            elif isinstance(message, TaskLog) and message.text:
                lines.append(_line(message, at))
        if lines:  # as one, however many there are: a page that reads in time must not lose any
            self._logs.extend(lines)
            told.append(("logs", {"lines": lines[-LOGS_KEPT:]}))
        condition = self.condition()
        if condition != self._told_condition:
            self._told_condition = condition
            told.append(("condition", condition))
        return told

    def condition(self) -> Json:
        state = self.state
        return {
            "condition": state.condition.value,
            "text": state.text,
            "address": self.label,
            "missed": state.missed_count,
            "restarts": state.restart_count,
        }

    def kept_runs(self) -> Iterator[TaskRun]:
        """Those of now. Runs that are forgotten while a reader takes its time are left out."""
        number, end = self.runs.first, self.runs.end
        while number < end:
            number, texts = self.runs.read(number, end, 1)
            for text in texts:
                for run in json.loads(text):
                    yield TaskRun(*run)

    def beginning(self) -> Json:
        """What a page which is opened now shows at once. It is told next what was before, and the runs in parts."""
        return {**self.condition(), "status": self.status, "graphs": self.graphs}

    def past(self) -> Json:
        """`runs`: how many follow."""
        past: Json = {"history": list(self._history), "shares": list(self._shares), "logs": list(self._logs)}
        return {**past, "runs": len(self.runs), "failures": self.failures.all(), "events": self.events.all()}

    def _take_status(self, status: ClusterStatus, at: float) -> Json:
        self._blocked.take(status, at)
        self.utilisation.take(status, at)
        self.status = {**cluster(status, at), "use": self.utilisation.told(), "running": self.running.told()}
        self._history.append(point(self.status))
        return {"status": self.status, "point": self._history[-1]}

    def _take_samples(self, message: TaskSamples, at: float) -> Json:
        new = [
            run._replace(blocked=self._blocked.of(run.task_id, run.begun_at, run.seconds)) for run in runs(message, at)
        ]
        # What was before is told of in part, and it is not known how large the part is: it is no share of anything.
        ended = len(new) if message.is_history else ended_count(message)
        if new:
            self.runs.add(json.dumps(new, separators=(",", ":")).encode(), len(new))
        self.sampled_count += len(new)
        self.ended_count += ended
        self._shares.append((at, len(new), ended))
        return {"runs": [list(run) for run in new], "share": self._shares[-1], "end": self.runs.end}

    def _take_graphs(self, message: GraphShapes) -> bool:
        """Whether there is anything new. Those that run come first, then the last that did, the latest first."""
        clients = self.state.status.clients if self.state.status is not None else ()
        users = {client.peer_id: client.user for client in clients}
        running = {shape.graph_id.hex(): graph_of(shape, users.get(shape.client_id, "")) for shape in message.graphs}
        # A scheduler that is another one cannot know what became of the tasks of the one before.
        have_ended = message.server_id == self._graphs_server
        ended = [gone(one, have_ended=have_ended) for one in self.graphs if one["id"] not in running]
        before = self.graphs
        self.graphs = [*running.values(), *ended[:GRAPHS_KEPT]]
        self._graphs_server = message.server_id
        clients_of = {shape.graph_id.hex(): shape.client_id for shape in message.graphs} | self.graph_clients
        self.graph_clients = {one["id"]: clients_of[one["id"]] for one in self.graphs}
        return self.graphs != before


def _unless_empty(kind: str, found: list[Json]) -> list[tuple[str, Json]]:
    return [(kind, {kind: found})] if found else []


_STREAMS = {LOG_STDERR: "stderr", LOG_PREPARATION: "preparation"}


def _line(message: TaskLog, at: float) -> Json:
    return {
        "at": at,
        "task": message.task_id.hex(),
        "stream": _STREAMS.get(message.stream, "stdout"),
        "text": message.text[:4000],
        "worker": message.worker,
    }


def cluster(status: ClusterStatus, at: float) -> Json:
    names = names_of(status.function_names)
    return {
        "at": at,
        "sequence": status.sequence,
        "server": status.server_id.hex(),
        "interval": status.interval_seconds,
        "scheduler": {
            "address": status.scheduler_address,
            "version": status.software.version,
            "language": status.software.language,
            "host": status.software.host,
            "pid": status.software.process_id,
            "uptime": status.uptime_seconds,
            "cpu": status.cpu,
            "rss": status.rss_bytes,
            "free": status.host_free_bytes,
            "rejected": status.rejected_count,
            "standbys": list(status.standbys),
            "succession": succession_text(status),
        },
        "storage": {
            "address": status.storage_address,
            "connected": status.is_storage_connected,
            "objects": status.storage.object_count,
            "owners": status.storage.owner_count,
            "bytes": status.storage.memory_bytes,
            "disk": status.storage.disk_bytes,
            "moving": status.storage.moving_bytes,
            "room": status.storage.disk_room_bytes,
            "trouble": status.storage.disk_trouble,
            "waiters": status.storage.waiter_count,
            "largest": [_object(one) for one in status.storage.largest],
            "traffic": [
                {"host": one.host, "put": one.put_bytes, "got": one.got_bytes} for one in status.storage.traffic
            ],
        },
        "tasks": {count.name: count.value for count in status.task_counts},
        "sent": {count.name: count.value for count in status.sent_counts},
        "received": {count.name: count.value for count in status.received_counts},
        "balancing": {"recalled": status.recalled_count, "returned": status.returned_count},
        "functions": [[names.get(one.name, one.name[:8]), one.value] for one in status.function_counts],
        "work": [_work(one) for one in functions_of(status)],
        "clients": [_client(one) for one in status.clients],
        "users": [_user(one) for one in users_of(status)],
        "waiting": [
            {
                "capabilities": capabilities_text(one.capabilities),
                "priority": one.priority,
                "depth": one.depth,
                "tasks": one.task_count,
                "able": one.able_count,
            }
            for one in status.waiting_classes
        ],
        "managers": [_manager(one) for one in status.managers],
        "workers": [_worker(one) for one in status.workers],
    }


def _work(one: FunctionFigures) -> Json:
    return {
        "name": one.name,
        "submitted": one.submitted_count,
        "queued": one.queued_count,
        "dispatched": one.dispatched_count,
        "success": one.success_count,
        "failed": one.not_well_count,
        "canceled": one.canceled_count,
        "mean": one.mean_seconds,
        "p50": one.quantile(0.5),
        "p99": one.quantile(0.99),
        "ran": one.run_seconds,
        "cpu": one.cpu_seconds,
        "waited": one.mean_queued_seconds,
        "runs": sorted(one.runs.items()),
    }


def _client(one: ClientEntry) -> Json:
    return {
        "id": one.peer_id.hex()[:8],
        "user": one.user,
        "host": one.software.host,
        "pid": one.software.process_id,
        "language": one.software.language,
        "tasks": one.task_count,
        "objects": one.object_count,
        "bytes": one.object_bytes,
    }


def _object(one: ObjectEntry) -> Json:
    return {
        "id": one.object_id.hex()[:8],
        "client": one.owner.hex()[:8],
        "owners": one.owner_count,
        "bytes": one.total_bytes,
        "age": one.age_seconds,
        "disk": one.is_on_disk,
        "what": object_text(one),
    }


def _user(one: UserFigures) -> Json:
    quota, part = one.nearest()
    return {
        "name": one.name,
        "clients": one.client_count,
        "workers": one.worker_count,
        "tasks": one.task_count,
        "objects": one.object_count,
        "bytes": one.object_bytes,
        "arguments": one.task_bytes,
        "quota": quota,
        "part": part,
    }


def _manager(one: ManagerEntry) -> Json:
    return {
        "name": one.name,
        "user": one.user,
        "capabilities": capabilities_text(one.capabilities),
        "target": one.target_count,
        "max": one.max_workers,
        "per_unit": one.workers_per_unit,
        "starting": one.starting_count,
        "running": one.running_count,
        "stopping": one.stopping_count,
        "trouble": one.trouble,
    }


def names_of(found: Iterable[FunctionName]) -> dict[str, str]:
    """By id as ClusterStatus writes it; under no id everything that is not told apart."""
    return {one.function_id.hex(): one.name for one in found} | {"": "(others)"}


def capabilities_text(capabilities: Iterable[Capability]) -> str:
    return ", ".join(one.name if one.amount < 0 else f"{one.name}={one.amount}" for one in capabilities)


def _worker(entry: WorkerEntry) -> Json:
    status = entry.status
    return {
        "id": entry.peer_id.hex(),
        "name": entry.name,
        "user": entry.user,
        "host": entry.software.host,
        "pid": entry.software.process_id,
        "agent_cpu": status.agent_cpu,
        "agent_rss": status.agent_rss_bytes,
        "cpu": sum(one.cpu for one in status.processors),
        "rss": sum(one.rss_bytes for one in status.processors),
        "free_memory": status.host_free_bytes,
        "free": max(0, entry.credit_limit - entry.held_count),
        "held": entry.held_count,
        "queued": status.queued_count,
        "blocked": status.blocked_count,
        "recycled": status.recycled_count,
        "limited": status.limited_count,
        "completed": entry.completed_count,
        "lag": entry.lag_seconds,
        "silent": entry.silent_seconds,
        "still": entry.still_seconds,
        "capabilities": capabilities_text(entry.capabilities),
        "unit": entry.unit_id,
        "processors": [_processor(one) for one in status.processors],
    }


def _processor(one: ProcessorStatus) -> list[Any]:
    return [one.process_id, one.state, one.cpu, one.rss_bytes, one.task_id.hex(), one.running_seconds]


def point(status: Json) -> Json:
    """One point of the charts."""
    workers = status["workers"]
    return {
        "at": status["at"],
        "server": status["server"],
        "tasks": status["tasks"],
        "workers": len(workers),
        "worker_rss": sum(one["rss"] + one["agent_rss"] for one in workers),
        "storage_bytes": status["storage"]["bytes"],
        "scheduler_rss": status["scheduler"]["rss"],
        "scheduler_cpu": status["scheduler"]["cpu"],
        "worker_cpu": sum(one["cpu"] for one in workers),
    }
