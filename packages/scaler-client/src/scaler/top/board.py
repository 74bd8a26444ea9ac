"""What there is to show of one status, before it is known how large the screen is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from scaler.monitoring import ClusterState, FunctionFigures, functions_of, users_of
from scaler.monitoring.succession import duty_text, standbys_text, succession_text
from scaler.top.columns import COLUMNS, Sorting, WorkerRow, row_of
from scaler.top.formats import byte_text, columns_of, count_text, cpu_text, cut, duration_text, name_text, plain
from scaler.top.meters import Meter, meters_of
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    NO_PEER,
    Capability,
    ClientEntry,
    ClusterEvent,
    ClusterStatus,
    Count,
    StorageStatus,
    WorkerEntry,
)

OTHER_FUNCTIONS = "(other)"
USER_COLUMNS = 10
"""Of a user's name before that of a client, so that there is room for the client's."""
STATES = ("queued", "dispatched", "success", "failed", "canceled")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, with names and values below it."""

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Board:
    #: sections that stand above each other, from left to right
    blocks: tuple[tuple[Section, ...], ...]
    #: right of the table of workers, where there is room
    panes: tuple[Section, ...]
    total: str
    #: what is wrong, for people; empty while all is well
    trouble: str
    #: which schedulers would follow on this one, for people; empty where there are none
    standbys: str
    rows: tuple[WorkerRow, ...]
    meters: tuple[Meter, ...] = ()
    #: queued tasks that no worker can run, for people
    warnings: tuple[str, ...] = ()
    workers: tuple[WorkerEntry, ...] = ()  #: one for each row
    functions: tuple[FunctionFigures, ...] = ()
    events: tuple[ClusterEvent, ...] = ()  #: the latest first
    storage: StorageStatus | None = None
    #: what people call each client
    clients: tuple[tuple[PeerId, str], ...] = ()
    #: what the scheduler sent and received, by kind: in a report, and on a page of its own
    messages: tuple[Section, ...] = ()

    @cached_property
    def cells(self) -> dict[str, list[str]]:
        """The texts of each column: made once, as what is below, however often they are scrolled."""
        return {column.title: [column.text(row) for row in self.rows] for column in COLUMNS}

    @cached_property
    def widths(self) -> dict[str, int]:
        return {title: max(map(columns_of, texts), default=0) for title, texts in self.cells.items()}

    @cached_property
    def _orders(self) -> dict[Sorting, list[int]]:
        return {}

    def order(self, sorting: Sorting) -> list[int]:
        """Indexes of the rows."""
        if sorting not in self._orders:
            self._orders[sorting] = sorting.order(self.rows)
        return self._orders[sorting]

    def found(self, sorting: Sorting, search: str) -> list[int]:
        """Of these, the indexes of the rows in which each word of `search` is."""
        words = search.lower().split()
        if not words:
            return self.order(sorting)
        texts = [f"{row.name} {row.user} {row.manager}".lower() for row in self.rows]
        return [index for index in self.order(sorting) if all(word in texts[index] for word in words)]


def board_of(state: ClusterState) -> Board:
    status = state.status or ClusterStatus()
    managers = {manager.manager_id: plain(manager.name) for manager in status.managers}
    rows = tuple(row_of(worker, _manager_of(worker.manager_id, worker.unit_id, managers)) for worker in status.workers)
    scheduler = Section(
        "scheduler",
        (
            ("cpu", cpu_text(status.cpu)),
            ("rss", byte_text(status.rss_bytes)),
            ("rss_free", byte_text(status.host_free_bytes)),
            *_duty(status),
        ),
    )
    objects = Section(
        "object_manager",
        (
            ("num_of_objs", count_text(status.storage.object_count)),
            ("memory", byte_text(status.storage.memory_bytes)),
            *_on_disk(status.storage),
        ),
    )
    return Board(
        blocks=(
            (scheduler, objects),
            (Section("task_manager", _by_state(status.task_counts)),),
        ),
        messages=(
            Section("scheduler_sent", _most_first(status.sent_counts)),
            Section("scheduler_received", _most_first(status.received_counts)),
        ),
        panes=(
            *_users(status),
            Section("client_manager", _most_first(Count(_client_text(one), one.task_count) for one in status.clients)),
            Section("func_to_num_tasks", _most_first(function_counts(status))),
            *_functions(status),
        ),
        total=_total(status, rows),
        trouble=plain(state.text or succession_text(status)),
        standbys=plain(standbys_text(status)),
        rows=rows,
        meters=meters_of(status),
        warnings=tuple(_warnings(status)),
        workers=status.workers,
        functions=tuple(functions_of(status)),
        events=tuple(reversed(status.events)),
        storage=status.storage,
        clients=tuple((one.peer_id, _client_text(one)) for one in status.clients),
    )


def capabilities_text(capabilities: Iterable[Capability]) -> str:
    return ", ".join(plain(one.name) if one.amount < 0 else f"{plain(one.name)}={one.amount}" for one in capabilities)


def _warnings(status: ClusterStatus) -> Iterator[str]:
    for one in status.waiting_classes:
        if one.task_count and not one.able_count:
            wanted = f" that offers {capabilities_text(one.capabilities)}" if one.capabilities else ""
            yield f"{count_text(one.task_count)} queued task(s) wait for a worker{wanted}: none is connected"


def client_name(client: ClientEntry) -> str:
    """Clients have no name of their own; a host and a process are more to people than an id."""
    software = client.software
    return f"{software.process_id}|{software.host}" if software.host else client.peer_id.hex()


def _client_text(client: ClientEntry) -> str:
    user = cut(plain(client.user), USER_COLUMNS)
    return f"{user} {client_name(client)}" if user else client_name(client)


def _users(status: ClusterStatus) -> Iterable[Section]:
    """In a cluster with keys: the unfinished tasks of each user, its objects with their memory, and the largest part
    that it has of a quota, unless the scheduler tells of none."""
    users = users_of(status)
    if users:
        figures = [[count_text(u.task_count), count_text(u.object_count), byte_text(u.object_bytes)] for u in users]
        title = "user_to_tasks_objects_mem"
        if status.users:
            title += "_quota"
            for row, (quota, part) in zip(figures, (user.nearest() for user in users), strict=True):
                row.append(f"{part:.0%}" if quota else "-")
        widths = [max(map(len, texts)) for texts in zip(*figures, strict=True)]
        texts = [" ".join(map(str.rjust, row, widths)) for row in figures]
        names = [name_text(user.name) for user in users]
        yield Section(title, tuple(zip(names, texts, strict=True)))


def _functions(status: ClusterStatus) -> Iterable[Section]:
    """Of each function the tasks that have ended, of all; those of them that failed; mean and p99 of its runs. No
    section while no task was submitted."""
    rows = [
        (
            name_text(one.name),
            f"{count_text(one.ended_count)}/{count_text(one.submitted_count)}",
            count_text(one.not_well_count),
            duration_text(one.mean_seconds),
            duration_text(one.quantile(0.99)),
        )
        for one in functions_of(status)
    ]
    if rows:
        widths = [max(map(len, texts)) for texts in zip(*rows, strict=True)]
        entries = tuple((name, " ".join(map(str.rjust, texts, widths[1:]))) for name, *texts in rows)
        yield Section("func_done_failed_mean_p99", entries)


def function_counts(status: ClusterStatus) -> list[Count]:
    """Unfinished tasks of each function, by what people call it where that is known."""
    names = {one.function_id.hex(): one.name for one in status.function_names}
    return [Count(names.get(one.name) or one.name or OTHER_FUNCTIONS, one.value) for one in status.function_counts]


def _on_disk(storage: StorageStatus) -> Iterator[tuple[str, str]]:
    """Lines for a storage that moves values to a disk."""
    if storage.disk_bytes:
        yield "disk", byte_text(storage.disk_bytes)
    if storage.disk_trouble:
        yield "disk_trouble", plain(storage.disk_trouble)
    if storage.moving_bytes:
        yield "to_disk", byte_text(storage.moving_bytes)


def _duty(status: ClusterStatus) -> Iterator[tuple[str, str]]:
    """A line for a scheduler of several."""
    if duty := duty_text(status):
        yield "duty", duty


def _by_state(counts: Iterable[Count]) -> tuple[tuple[str, str], ...]:
    """Those that most people look for come first: on a small screen the last ones are left out."""
    ordered = sorted(counts, key=lambda one: STATES.index(one.name) if one.name in STATES else len(STATES))
    return tuple((plain(one.name), count_text(one.value)) for one in ordered)


def _most_first(counts: Iterable[Count]) -> tuple[tuple[str, str], ...]:
    ordered = sorted(counts, key=lambda one: (-one.value, one.name))
    return tuple((name_text(one.name), count_text(one.value)) for one in ordered)


def _manager_of(manager_id: PeerId, unit_id: str, managers: dict[PeerId, str]) -> str:
    if manager_id == NO_PEER:
        return plain(unit_id)
    name = managers.get(manager_id) or manager_id.hex()[:8]
    return f"{name}/{plain(unit_id)}" if unit_id else name


def _total(status: ClusterStatus, rows: tuple[WorkerRow, ...]) -> str:
    workers = f"{len(rows):,} worker(s)"
    silent = sum(row.is_silent for row in rows)
    parts = [
        f"Total {len(status.managers):,} worker manager(s) with {workers}" if status.managers else f"Total {workers}"
    ]
    pending = sum(manager.starting_count * manager.workers_per_unit for manager in status.managers)
    if pending:
        parts.append(f"{pending:,} pending")
    if silent:
        parts.append(f"{silent:,} silent")
    still = sum(row.is_still for row in rows)
    if still:
        parts.append(f"{still:,} ending nothing")
    return ", ".join(parts)
