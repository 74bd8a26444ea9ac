"""The table of workers: its columns, its rows, and the order they are in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.top.formats import byte_text, count_text, cpu_text, lag_text, name_text
from scaler.top.meters import bar
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import NO_PEER, WorkerEntry

SILENT_SECONDS = 5.0
"""A worker that was not heard for longer carries it in front of its name. Heartbeats come every two seconds or so."""
STILL_SECONDS = 10.0
"""A worker that has ended nothing for longer, and has tasks that have not begun, carries that in front of its name."""
BAR_COLUMNS = 10
_NUMBERS = re.compile(r"([0-9]{1,18})")
_IDLE, _RUNNING, _BLOCKED = 1, 2, 3  # states of a processor, as in ProcessorStatus


@dataclass(frozen=True, slots=True)
class WorkerRow:
    name: str
    silent_seconds: float
    agent_cpu: float
    agent_rss_bytes: int
    cpu: float
    rss_bytes: int
    host_free_bytes: int
    free_count: int
    sent_count: int
    queued_count: int
    suspended_count: int
    lag_seconds: float
    itl: str
    manager: str
    user: str
    recycled_count: int = 0
    peer_id: PeerId = NO_PEER
    processor_count: int = 0
    still_seconds: float = 0.0
    begun_count: int = 0

    @property
    def cpu_share(self) -> float:
        """Of the processors that it has."""
        return self.cpu / self.processor_count if self.processor_count else 0.0

    @property
    def memory_share(self) -> float:
        """Of what it could have: what it and its processors take, and what is free on its host."""
        taken = self.agent_rss_bytes + self.rss_bytes
        return taken / (taken + self.host_free_bytes) if taken else 0.0

    @property
    def is_silent(self) -> bool:
        return self.silent_seconds > SILENT_SECONDS

    @property
    def is_still(self) -> bool:
        """Returns whether it gives signs of life, ends nothing, and has tasks that it has not begun."""
        is_old = self.still_seconds > STILL_SECONDS and self.sent_count > self.begun_count
        return is_old and not self.is_silent


def row_of(worker: WorkerEntry, manager: str = "") -> WorkerRow:
    status = worker.status
    states = {processor.state for processor in status.processors}
    return WorkerRow(
        name=_name_of(worker),
        silent_seconds=worker.silent_seconds,
        agent_cpu=status.agent_cpu,
        agent_rss_bytes=status.agent_rss_bytes,
        cpu=sum(processor.cpu for processor in status.processors),
        rss_bytes=sum(processor.rss_bytes for processor in status.processors),
        host_free_bytes=status.host_free_bytes,
        free_count=max(0, worker.credit_limit - worker.held_count),
        sent_count=worker.held_count,
        queued_count=status.queued_count,
        suspended_count=status.blocked_count,
        lag_seconds=worker.lag_seconds or status.lag_seconds,
        itl=_itl(states),
        manager=manager,
        user=worker.user,
        recycled_count=status.recycled_count,
        peer_id=worker.peer_id,
        processor_count=len(status.processors),
        still_seconds=worker.still_seconds,
        begun_count=sum(bool(processor.task_id) for processor in status.processors),
    )


def _name_of(worker: WorkerEntry) -> str:
    """With host and process, which a short name does not tell."""
    name, software = worker.name or worker.peer_id.hex(), worker.software
    return f"{name}|{software.host}|{software.process_id}" if software.host and software.host not in name else name


def _itl(states: set[int]) -> str:
    """Of its processors: one is initialized, one has a task, one holds the lock of a task that waits for others."""
    facts = (states & {_IDLE, _RUNNING, _BLOCKED}, states & {_RUNNING, _BLOCKED}, states & {_BLOCKED})
    return "".join("1" if fact else "0" for fact in facts)


def _worker_text(row: WorkerRow) -> str:
    if row.is_silent:
        return name_text(f"({row.silent_seconds:.0f}s) {row.name}")
    return name_text(f"(still {row.still_seconds:.0f}s) {row.name}" if row.is_still else row.name)


def _natural(name: str) -> tuple[list[str], list[int]]:
    """Worker 9 comes before worker 10."""
    pieces = _NUMBERS.split(name)
    return pieces[::2], [int(piece) for piece in pieces[1::2]]


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    key: str  #: that sorts by it; empty: none does
    value: Callable[[WorkerRow], Any]
    text: Callable[[WorkerRow], str]
    #: where there is no room for all, those with the highest go first
    rank: int = 0
    #: the first press of its key shows the largest first
    is_descending: bool = True
    is_right: bool = True


COLUMNS = (
    Column("worker", "n", lambda row: _natural(row.name), _worker_text, is_descending=False),
    Column("agt_cpu", "C", lambda row: row.agent_cpu, lambda row: cpu_text(row.agent_cpu), 4),
    Column("agt_rss", "M", lambda row: row.agent_rss_bytes, lambda row: byte_text(row.agent_rss_bytes), 5),
    Column("cpu", "c", lambda row: row.cpu, lambda row: cpu_text(row.cpu), 0),
    Column("use", "", lambda row: row.cpu_share, lambda row: bar(row.cpu_share, BAR_COLUMNS), 6, is_right=False),
    Column("rss", "m", lambda row: row.rss_bytes, lambda row: byte_text(row.rss_bytes), 1),
    Column("mem", "", lambda row: row.memory_share, lambda row: bar(row.memory_share, BAR_COLUMNS), 11, is_right=False),
    Column("os_rss_free", "F", lambda row: row.host_free_bytes, lambda row: byte_text(row.host_free_bytes), 8),
    Column("free", "f", lambda row: row.free_count, lambda row: count_text(row.free_count), 2),
    Column("sent", "w", lambda row: row.sent_count, lambda row: count_text(row.sent_count), 1),
    Column("queued", "d", lambda row: row.queued_count, lambda row: count_text(row.queued_count), 1),
    Column("suspended", "s", lambda row: row.suspended_count, lambda row: count_text(row.suspended_count), 7),
    Column("lag", "l", lambda row: row.lag_seconds, lambda row: lag_text(row.lag_seconds), 3),
    Column(
        "user",
        "u",
        lambda row: _natural(row.user),
        lambda row: name_text(row.user) or "-",
        5,
        is_descending=False,
        is_right=False,
    ),
    Column("recycled", "R", lambda row: row.recycled_count, lambda row: count_text(row.recycled_count), 10),
    Column("ITL", "", lambda row: row.itl, lambda row: row.itl, 6),
    Column(
        "manager",
        "g",
        lambda row: _natural(row.manager),
        lambda row: name_text(row.manager),
        9,
        is_descending=False,
        is_right=False,
    ),
)
BY_TITLE = {column.title: column for column in COLUMNS}
BY_KEY = {column.key: column for column in COLUMNS if column.key}


@dataclass(frozen=True, slots=True)
class Sorting:
    title: str = "cpu"
    is_descending: bool = True

    def pressed(self, key: str) -> Sorting:
        """The key of another column sorts by that; the same key again turns the order round."""
        column = BY_KEY[key]
        if column.title == self.title:
            return replace(self, is_descending=not self.is_descending)
        return Sorting(column.title, column.is_descending)

    def order(self, rows: Sequence[WorkerRow]) -> list[int]:
        """Indexes of the rows. Equal ones are in the order of their names, so that they do not jump about."""
        value = BY_TITLE[self.title].value
        by_name = sorted(range(len(rows)), key=lambda index: _natural(rows[index].name))
        return sorted(by_name, key=lambda index: value(rows[index]), reverse=self.is_descending)
