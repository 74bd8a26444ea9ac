"""What can be opened instead of the table of workers: a worker's processors, functions, events, the keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scaler.monitoring import FunctionFigures
from scaler.monitoring.functions import object_text
from scaler.top.board import Board, capabilities_text
from scaler.top.columns import COLUMNS, STILL_SECONDS
from scaler.top.formats import (
    Line,
    byte_text,
    columns_of,
    count_text,
    cpu_text,
    duration_text,
    lag_text,
    name_text,
    padded,
    plain,
    wrapped,
)
from scaler.top.meters import bar
from scaler_protocol.ids import PeerId, TaskId, shown_task
from scaler_protocol.messages import ClusterEvent, ProcessorStatus, StorageStatus, WorkerEntry

WORKERS, FUNCTIONS, OBJECTS, EVENTS, MESSAGES = PAGES = ("workers", "functions", "objects", "events", "messages")
PROCESSOR_STATES = ("starting", "idle", "running", "blocked", "stopping")
_BAR_COLUMNS = 12
HOSTS_SHOWN = 5
HELP = (
    ("arrows, j k, pages, home, end, wheel", "move the cursor through the rows"),
    ("Enter", "the processors of the worker at the cursor, and what they run"),
    ("Tab", "workers, functions, objects, events, messages of the scheduler"),
    ("/", "show only rows with all these words; Enter keeps them, Escape shows all rows again"),
    ("p", "pause: the figures stand still until it is pressed again"),
    ("D", "let the worker at the cursor finish and leave, where the scheduler has --allow-control"),
    ("X", "cancel a task, or all tasks of a client, there as well"),
    ("t", "hide the upper part, and show it again"),
    ("?", "this help"),
    ("Escape", "back; at the table of workers: quit"),
    ("q", "quit"),
)
MEANINGS = (
    ("agt_cpu, agt_rss", "processor and memory use of the worker itself"),
    ("cpu, rss", "the same of its processors, which run the tasks"),
    ("use, mem", "cpu, of as many cores as it has processors; memory, of that and what is free"),
    ("os_rss_free", "free memory of its machine"),
    ("free", "how many more tasks it takes now"),
    ("sent", "tasks that it was sent and that have not ended"),
    ("queued, suspended", "of these, those that have not begun, and those that wait for tasks of their own"),
    ("lag", "the round-trip time to the worker"),
    ("ITL", "1 or 0: a processor is ready, one has a task, one waits for tasks of its own"),
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A table whose rows are few enough to be made anew with each key."""

    lead: tuple[str, ...]  #: lines above it
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: indexes of the columns that end at their right
    numbers: frozenset[int]
    #: in place of rows, where there are none
    empty: str

    def lines(self) -> list[Line]:
        """With its heading, the lines above it left out."""
        table = (self.titles, *self.rows)
        widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
        texts = [" ".join(self._cells(row, widths)).rstrip() for row in table]
        found: list[Line] = [[("header", texts[0])], *([("", text)] for text in texts[1:])]
        return found if self.rows else [*found, [("legend", self.empty)]]

    def _cells(self, row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
        for index, (text, width) in enumerate(zip(row, widths, strict=True)):
            yield padded(text, width, is_right=index in self.numbers)


def functions_page(functions: Sequence[FunctionFigures], search: str, rates: Mapping[str, float]) -> Listing:
    """`rates`: tasks of a function that ended per second, as far as they are known."""
    titles = ("function", "progress", "done/all", "failed", "running", "queued", "rate", "mean", "p50", "p99", "cpu",
              "share", "wait")  # fmt: skip
    words = search.lower().split()
    found = [one for one in functions if all(word in one.name.lower() for word in words)]
    all_cpu_seconds = sum(one.cpu_seconds for one in functions)
    rows = (
        (
            name_text(one.name),
            bar(one.ended_count / one.submitted_count if one.submitted_count else 0.0, _BAR_COLUMNS),
            f"{count_text(one.ended_count)}/{count_text(one.submitted_count)}",
            count_text(one.not_well_count),
            count_text(one.dispatched_count),
            count_text(one.queued_count),
            f"{rates[one.name]:,.1f}" if one.name in rates else "-",
            duration_text(one.mean_seconds),
            duration_text(one.quantile(0.5)),
            duration_text(one.quantile(0.99)),
            duration_text(one.cpu_seconds),
            cpu_text(one.cpu_seconds / all_cpu_seconds) if all_cpu_seconds else "-",
            duration_text(one.mean_queued_seconds),
        )
        for one in found
    )
    return Listing((), titles, tuple(rows), frozenset(range(2, len(titles))), "no function")


def objects_page(storage: StorageStatus, owners: Mapping[PeerId, str], search: str) -> Listing:
    words = search.lower().split()
    told = (
        (
            one.object_id.hex()[:8],
            name_text(object_text(one)),
            byte_text(one.total_bytes),
            duration_text(one.age_seconds),
            owners.get(PeerId(one.owner)) or one.owner.hex()[:8],
            count_text(one.owner_count),
            "disk" if one.is_on_disk else "memory",
        )
        for one in storage.largest
    )
    rows = tuple(row for row in told if all(word in " ".join(row).lower() for word in words))
    hosts = (
        f"{plain(one.host) or '(others)'}: {byte_text(one.put_bytes)} stored, {byte_text(one.got_bytes)} read"
        for one in storage.traffic
    )
    titles = ("object", "what it is", "size", "age", "owner", "owners", "where")
    return Listing(tuple(hosts)[:HOSTS_SHOWN], titles, rows, frozenset((2, 3, 5)), "no object has 64 KiB or more")


def events_page(events: Iterable[ClusterEvent], search: str) -> Listing:
    words = search.lower().split()
    rows = (
        (f"{duration_text(one.age_seconds)} ago", plain(one.kind), name_text(one.subject), plain(one.text))
        for one in events
        if all(word in f"{one.kind} {one.subject} {one.text}".lower() for word in words)
    )
    return Listing((), ("when", "event", "of", "what happened"), tuple(rows), frozenset((0,)), "no event")


def messages_page(board: Board, search: str) -> Listing:
    """Returns how often each kind of message was sent and received, as the sections of a report have it."""
    sent, received = (dict(section.entries) for section in board.messages)
    kinds = [
        kind for kind in dict.fromkeys((*sent, *received)) if all(w in kind.lower() for w in search.lower().split())
    ]
    rows = tuple((kind, sent.get(kind, "0"), received.get(kind, "0")) for kind in kinds)
    return Listing((), ("message", "sent", "received"), rows, frozenset((1, 2)), "no message")


def worker_page(worker: WorkerEntry, names: Mapping[TaskId, str]) -> Listing:
    """`names`: of the functions of its tasks, as far as they are known."""
    software = worker.software
    facts = (
        f"worker {plain(worker.name or worker.peer_id.hex())}",
        f"process {software.process_id} on {plain(software.host)}" if software.host else "",
        f"user {plain(worker.user)}" if worker.user else "",
        f"offers {capabilities_text(worker.capabilities)}" if worker.capabilities else "",
        f"round trip {lag_text(worker.lag_seconds)}",
        f"{count_text(worker.completed_count)} task(s) ended",
        f"silent for {worker.silent_seconds:.0f} s" if worker.silent_seconds > 1 else "",
        f"has ended nothing for {worker.still_seconds:.0f} s" if worker.still_seconds > STILL_SECONDS else "",
    )
    rows = (_processor(one, names) for one in worker.status.processors)
    titles = ("process", "state", "use", "cpu", "rss", "for", "task", "function")
    lead = (", ".join(filter(None, facts)), "")
    return Listing(lead, titles, tuple(rows), frozenset((0, 3, 4, 5)), "it has told of no processor yet")


def _processor(one: ProcessorStatus, names: Mapping[TaskId, str]) -> tuple[str, ...]:
    state = PROCESSOR_STATES[one.state] if one.state < len(PROCESSOR_STATES) else str(one.state)
    has_task = bool(one.task_id)
    return (
        str(one.process_id),
        state,
        bar(one.cpu, _BAR_COLUMNS),
        cpu_text(one.cpu),
        byte_text(one.rss_bytes),
        duration_text(one.running_seconds) if has_task else "-",
        shown_task(one.task_id) if has_task else "-",
        name_text(names.get(one.task_id, "")) if has_task else "",
    )


def help_lines() -> list[Line]:
    width = max(columns_of(key) for key, _ in (*HELP, *MEANINGS))
    sorting = " ".join(f"{column.title}[{column.key}]" for column in COLUMNS if column.key)
    return [
        [("title", "Keys")],
        *_named(HELP, width),
        [("name", padded("a letter", width, is_right=False)), ("", "  sorts by a column; again: the other way round")],
        *([("", " " * (width + 2) + text)] for text in wrapped(sorting.split(), 60)),
        [("", "")],
        [("title", "Columns")],
        *_named(MEANINGS, width),
        [("", "")],
        [("legend", "Any key closes this.")],
    ]


def _named(entries: Iterable[tuple[str, str]], width: int) -> list[Line]:
    return [[("name", padded(key, width, is_right=False)), ("", f"  {text}")] for key, text in entries]


def listing_of(board: Board, page: str, search: str, rates: Mapping[str, float]) -> Listing:
    if page == OBJECTS:
        return objects_page(board.storage or StorageStatus(0), dict(board.clients), search)
    if page == FUNCTIONS:
        return functions_page(board.functions, search, rates)
    if page == MESSAGES:
        return messages_page(board, search)
    return events_page(board.events, search)
