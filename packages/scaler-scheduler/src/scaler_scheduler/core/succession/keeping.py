"""Results of ended tasks that unfinished ones depend on: told to their client, and given back by it (SCH-51 to SCH-54).

Theory of operation. A successor of this scheduler knows nothing of a graph. Its client submits the graph again, and
could leave out what has ended if it had the results, of which it gets only the wanted ones. So each second in which
tasks have ended, the client is told of those results that have come since and that are still kept; most are needed no
more by then, and a graph of less than a second causes no message. The client gives them back to the successor, which
keeps them as if the tasks had ended there.

Nothing is done for this when a task ends. `Dependencies.kept` has the latest results last, so a look goes through it
from its end, back to where the look before ended. A burst of more results than one look takes is not told whole: those
tasks were short, and to run them again is cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from scaler_protocol.codes import BAD_GRAPH, STATUS_SUCCESS, TASK_UNWANTED, TOO_LARGE
from scaler_protocol.columns import join_u32, offsets, split_ids, split_u32
from scaler_protocol.ids import ID_BYTES, GraphId, TaskId
from scaler_protocol.messages import Error, KeptResults, Submit, TaskHeader
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.tables import rights
from scaler_scheduler.core.tables.dependencies import Kept
from scaler_scheduler.core.tables.tables import Tables

LOOK_SECONDS = 1.0
LOOKED_AT = 65_536
"""Results that one look goes through: some milliseconds."""
TOLD_RESULTS = 16_384
TOLD_BYTES = 4 * 1024 * 1024
"""What one look tells one client."""

GIVEN_BYTES = 256 * 1024 * 1024
"""What a client may give in one session: more than it keeps. Without a bound it could fill the memory (SCH-54)."""
ROW_BYTES = 256
MESSAGE_BYTES = 1024
"""What a result takes besides its value, and what all results of one message take together."""


class _Row(NamedTuple):
    task_id: TaskId
    kept: Kept


class Keeper:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: results that were looked at, in the order of `kept`; what of these is kept no more goes from time to time
        self._trail: list[TaskId] = []
        #: when the next look is due; None while no result is kept
        self.look_at: float | None = None
        #: how many tasks had succeeded at the last look
        self._seen_count = 0

    def next_deadline(self) -> float | None:
        """None when nothing has ended since the last look: the next look comes with the next end."""
        return None if self._tables.counts[State.SUCCESS] == self._seen_count else self.look_at

    def settle(self, now: float) -> None:
        """Once in each turn in which results are kept, or were."""
        if not self._tables.dependencies.kept:
            self.look_at = None
            self._trail.clear()
        elif self.look_at is None:
            self.look_at = now + LOOK_SECONDS
        elif now >= self.look_at:
            self.tell(now)

    def tell(self, now: float) -> None:
        """What has come since the last look."""
        if self._tables.dependencies.kept:
            self.look_at = now + LOOK_SECONDS
            self._seen_count = self._tables.counts[State.SUCCESS]
            self._tell(self._fresh())

    def _fresh(self) -> list[TaskId]:
        """What has come since the last look, and is still kept."""
        kept, trail = self._tables.dependencies.kept, self._trail
        while trail and trail[-1] not in kept:
            trail.pop()
        last = trail[-1] if trail else None
        fresh: list[TaskId] = []
        for task_id in islice(reversed(kept), LOOKED_AT):
            if task_id == last:
                break
            fresh.append(task_id)
        fresh.reverse()
        trail += fresh
        if len(trail) > 2 * len(kept) + TOLD_RESULTS:
            self._trail = [task_id for task_id in trail if task_id in kept]
        return fresh

    def _tell(self, ids: Iterable[TaskId]) -> None:
        kept_of = self._tables.dependencies.kept
        told: dict[Client, _Told] = {}
        for chunk, rows in groupby([_Row(task_id, kept_of[task_id]) for task_id in ids], _chunk_of):
            client = chunk.client
            if client.is_told_of_kept and not client.is_gone:
                told.setdefault(client, _Told()).add(chunk.header.graph_id, rows)
        for client, own in told.items():
            for graph_id, rows_of_graph in own.graphs.items():
                for piece in _pieces(client, rows_of_graph):
                    self._tables.tell(client.peer_id, _packed(graph_id, piece))


_chunk_of: Callable[[_Row], Chunk] = attrgetter("kept.chunk")


class _Told:
    """What one look tells one client."""

    def __init__(self) -> None:
        self.graphs: dict[GraphId, list[_Row]] = {}
        self._rows_left = TOLD_RESULTS
        self._bytes_left = TOLD_BYTES

    def add(self, graph_id: GraphId, rows: Iterable[_Row]) -> None:
        """As many of these as there is room for: the last one may be larger than what is left."""
        rows = [row for row in rows if row.kept.status == STATUS_SUCCESS and not row.kept.is_given]
        starts = offsets([len(row.kept.value) for row in rows])
        count = min(self._rows_left, bisect_left(starts, self._bytes_left, hi=len(rows)))
        if count:
            self._rows_left -= count
            self._bytes_left -= starts[count]
            self.graphs.setdefault(graph_id, []).extend(rows[:count])


def _pieces(client: Client, rows: list[_Row]) -> Iterator[list[_Row]]:
    """Rows for one message each. In a small window no message is larger than the window, if it can be."""
    most_bytes = min(client.payload_limit, TOLD_BYTES // 4)
    if client.window is not None:
        most_bytes = min(most_bytes, client.window.limit)
    piece: list[_Row] = []
    size = 0
    for row in rows:
        size += len(row.kept.value)
        if piece and (len(piece) == client.rows_limit or size > most_bytes):
            yield piece
            piece, size = [], len(row.kept.value)
        piece.append(row)
    yield piece


def _packed(graph_id: GraphId, rows: list[_Row]) -> KeptResults:
    kinds = bytes([row.kept.kind for row in rows])
    return KeptResults(
        ids=b"".join([row.task_id for row in rows]),
        payload=b"".join([row.kept.value for row in rows]),
        sizes=join_u32([len(row.kept.value) for row in rows]),
        kinds=kinds if any(kinds) else b"",
        graph_id=graph_id,
    )


# ------------------------------------------------------------ what a client gives


def restore(tables: Tables, client: Client, seq: int, message: KeptResults) -> None:
    """From now on these results are kept as if their tasks had ended in this session, but their client gets no Results
    for them."""
    error = _refusal(tables, client, message)
    if error is not None:
        code, text, clause = error
        tables.refused_count += 1
        tables.answer(client, Error(code=code, ref_seq=seq, fatal=False, text=text, clause=clause))
        return
    client.given_bytes += _size_of(message)
    chunk = _stand_in(client, message)
    starts, payload = offsets(split_u32(message.sizes)), bytes(message.payload)
    kinds, flags = message.kinds or bytes(len(chunk.ids)), message.task_flags or bytes(len(chunk.ids))
    for row, task_id in enumerate(chunk.ids):
        is_wanted = not flags[row] & TASK_UNWANTED
        value = payload[starts[row] : starts[row + 1]]
        tables.dependencies.keep(task_id, Kept(chunk, kinds[row], value, is_wanted, STATUS_SUCCESS, is_given=True))


def _refusal(tables: Tables, client: Client, message: KeptResults) -> tuple[int, str, str] | None:
    ids: tuple[TaskId, ...] = split_ids(message.ids)  # type: ignore[assignment]
    if not message.graph_id:
        text = "the graph of these results is not named: nothing would tell when they are needed no more"
        return BAD_GRAPH, text, "SCH-54"
    foreign = rights.foreign_task(tables, client, ids)
    if foreign is not None:
        return BAD_GRAPH, foreign[1], foreign[2]
    unfinished = tables.where.keys() & ids
    if unfinished:
        text = f"task {min(unfinished).hex()} is unfinished here, and a result of it was given: submit it or give it"
        return BAD_GRAPH, text, "SCH-54"
    kept_of = tables.dependencies.kept
    for task_id in ids:
        kept = kept_of.get(task_id)
        # A former self of this client, which is still believed alive, may have it: that one is out of date. (SCH-48)
        if kept is not None and kept.chunk.client.number >= client.number:
            return BAD_GRAPH, f"a result of task {task_id.hex()} is kept here already: give each once", "SCH-54"
    if client.given_bytes + _size_of(message) > GIVEN_BYTES:
        return (
            TOO_LARGE,
            f"more than {GIVEN_BYTES} bytes of results were given in this session: submit the tasks",
            "SCH-54",
        )
    return None


def _size_of(message: KeptResults) -> int:
    return MESSAGE_BYTES + len(message.payload) + ROW_BYTES * len(message.ids) // ID_BYTES


def _stand_in(client: Client, message: KeptResults) -> Chunk:
    """For the batch that these tasks came in once. Its graph is open from now on, until a batch seals it (SCH-18)."""
    header = client.own(TaskHeader(graph_id=message.graph_id))
    if message.graph_id:
        client.graphs.setdefault(message.graph_id, {})
    empty = bytes(4 * len(message.ids) // ID_BYTES)
    return Chunk(client, header, Submit(header, bytes(ID_BYTES), message.ids, b"", empty))
