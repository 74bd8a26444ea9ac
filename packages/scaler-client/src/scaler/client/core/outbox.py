"""What waits to be sent, and how submissions with equal headers become one Submit. (CLI-4)

What waits leaves in batches that fit the session, as far as the window allows; the rest waits for acknowledgements.
Headers take turns, and so do graphs: a gigabyte of one does not hold up the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import chain, repeat
from operator import attrgetter

from scaler.client.core.batching import PART_BYTES, TASK_BYTES, Bounds, has_room_for, pieces_of
from scaler.client.core.cutting import cut, cut_batch, fits, narrowed
from scaler.client.core.records import Entry, Graph, GraphBatch, Submission
from scaler.client.core.remaining import remaining
from scaler.client.core.states import Move, State, after
from scaler.client.core.table import Table
from scaler_protocol import codes, columns
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Cancel, KeptResults, Submit, TaskHeader

_IDS, _PAYLOAD, _FUNCTION = attrgetter("ids"), attrgetter("payload"), attrgetter("function")
_PART_SIZES, _COUNTS, _KINDS = attrgetter("part_sizes"), attrgetter("part_counts"), attrgetter("part_kinds")
_UNFINISHED_COUNT = attrgetter("unfinished_count")

WINDOW_BYTES = 64 * 1024 * 1024
"""So much may be sent and not yet acknowledged. A peer acknowledges at the latest after 32 MiB (SES-4), so it never has
to wait for more. Without a window, whatever piled up while the scheduler was away would leave at once, and exceed what
a session keeps. (CLI-16)"""
WINDOW_MESSAGES = 192
"""The same in messages, of which a peer acknowledges 64 at the latest."""


class Outbox:
    """Entries in state QUEUED, by header, in the order of submission; and graphs that have not been sent whole."""

    def __init__(self) -> None:
        self._groups: dict[TaskHeader, deque[Entry]] = {}
        self._graphs: deque[Graph] = deque()
        #: graphs that wait until it is known which of their results are still in the storage
        self._awaiting: list[Graph] = []
        #: the scheduler takes results of nodes that have ended elsewhere (CLI-17)
        self.may_give = False
        #: what no message of this session can carry; the caller of `take` empties it
        self.unsendable: list[Entry] = []
        # Programs submit with the same header again and again: comparing identities spares hashing its twelve fields.
        self._last_header: TaskHeader | None = None
        self._last_group: deque[Entry] = deque()
        #: the only entry that waits and belongs to no graph, in no group: a program that waits for each call before the
        #: next one needs no groups
        self._alone: Entry | None = None

    def __bool__(self) -> bool:
        return bool(self._alone or self._groups or self._graphs)

    def __iter__(self) -> Iterator[Entry]:
        alone = () if self._alone is None else (self._alone,)
        in_graphs = [graph.entries for graph in (*self._graphs, *self._awaiting)]
        return chain(alone, chain.from_iterable(self._groups.values()), *in_graphs)

    def add(self, entry: Entry) -> None:
        if self._alone is not None:
            alone, self._alone = self._alone, None
            self._line_up(alone)
        elif not self._groups:
            self._alone = entry
            return
        self._line_up(entry)

    def _line_up(self, entry: Entry) -> None:
        header = entry.submission.header
        if header is not self._last_header:
            self._last_group = self._groups.setdefault(header, deque())
            self._last_header = header
        self._last_group.append(entry)

    def add_graph(self, graph: Graph) -> None:
        self._graphs.append(graph)

    def clear(self) -> None:
        self._alone = None
        self._groups = {}
        self._graphs.clear()
        self._awaiting.clear()
        self._forget_last()

    def refill(self, table: Table) -> None:
        """The session is lost: all that is pending is to be sent again. Graphs that know of objects wait until it is
        known which of these are still there."""
        self.clear()
        for entry in table.calls_in_order():
            entry.state = after(entry.state, Move.LOSE_SESSION)
            self.add(entry)
        for graph in table.graphs.values():
            _rewind(graph, Move.LOSE_SESSION)
            graph.may_miss_values, graph.rerun_count = False, 0
            (self._awaiting if graph.has_objects else self._graphs).append(graph)

    def add_again(self, graph: Graph) -> None:
        """All that was sent of it has ended at the scheduler. (CLI-23)"""
        _rewind(graph, Move.BEGIN_AGAIN)
        self._graphs.append(graph)

    def let_go(self) -> list[Graph]:
        """The graphs that waited."""
        graphs, self._awaiting = self._awaiting, []
        self._graphs.extend(graphs)
        return graphs

    def _forget_last(self) -> None:
        self._last_header = None
        self._last_group = deque()  # not to keep what has been sent

    def take(
        self, bounds: Bounds, table: Table, room_bytes: int, room_messages: int
    ) -> list[Submit | KeptResults | Cancel]:
        """What leaves now, in order; each entry is SENT afterwards. Tasks no longer pending are left out."""
        messages: list[Submit | KeptResults | Cancel] = []
        if self._alone is not None and room_bytes > 0 and room_messages > 0:
            message = self._take_alone(bounds, table)
            if message is not None:
                messages.append(message)
                room_bytes -= _bytes_of(message)
        while (self._groups or self._graphs) and room_bytes > 0 and len(messages) < room_messages:
            begin = len(messages)
            if self._groups:
                messages += self._next_of_calls(bounds, table)
            if self._graphs:
                messages += self._next_of_graphs(bounds, table.pending)
            room_bytes -= sum([_bytes_of(message) for message in messages[begin:]])
        return messages

    # ------------------------------------------------------------ calls

    def _take_alone(self, bounds: Bounds, table: Table) -> Submit | None:
        """None: it was canceled meanwhile, or its size has to be looked at, as that of any other in a group."""
        entry, self._alone = self._alone, None
        assert entry is not None, "it is asked for while there is one"
        if entry.state is not State.QUEUED:
            return None
        submission = entry.submission
        header, count = submission.header, len(submission.ids)
        column_bytes = TASK_BYTES * count + PART_BYTES * len(submission.part_sizes)
        if (
            header.keywords
            or header.capabilities
            or count > bounds.tasks
            or len(submission.payload) > bounds.payload_bytes
            or column_bytes > bounds.column_bytes
        ):
            self._line_up(entry)
            return None
        entry.state = after(entry.state, Move.SEND)
        return _submit(header, _unfinished([entry], table))

    def _next_of_calls(self, bounds: Bounds, table: Table) -> list[Submit | Cancel]:
        """One batch of the header whose turn it is."""
        header, entries = next(iter(self._groups.items()))
        if (header.keywords or header.capabilities) and not has_room_for(header, bounds):
            self.unsendable += [entry for entry in entries if entry.state is State.QUEUED]
            entries.clear()
        batch = _all_of(entries, bounds) or self._next_batch(entries, bounds, table)
        if len(self._groups) > 1:
            del self._groups[header]
            if entries:
                self._groups[header] = entries
        elif not entries:
            self._groups = {}
        if not entries and entries is self._last_group:
            self._forget_last()
        if not batch:
            return []
        sent = after(State.QUEUED, Move.SEND)
        for entry in batch:
            entry.state = sent
        return [_submit(header, _unfinished(batch, table))]

    def _next_batch(self, entries: deque[Entry], bounds: Bounds, table: Table) -> list[Entry]:
        """The first of these entries, as many as fit into one message. One that is too large for any is cut."""
        batch: list[Entry] = []
        queued = State.QUEUED
        room_tasks, room_bytes, room_columns = bounds
        while entries:
            entry = entries[0]
            if entry.state is not queued:
                entries.popleft()  # canceled meanwhile
                continue
            submission = entry.submission
            count = len(submission.ids)
            # Counted here and not by Filling: this is done for each single call of a program.
            room_tasks -= count
            room_bytes -= len(submission.payload)
            room_columns -= TASK_BYTES * count + PART_BYTES * len(submission.part_sizes)
            if room_tasks >= 0 and room_bytes >= 0 and room_columns >= 0:
                batch.append(entries.popleft())
            elif batch:
                break
            else:
                entries.popleft()
                if count > 1:
                    entries.extendleft(reversed(table.split(entry, cut(submission, table.ids_of(entry), bounds))))
                else:
                    self.unsendable.append(entry)
                room_tasks, room_bytes, room_columns = bounds
        return batch

    # ------------------------------------------------------------ graphs

    def _next_of_graphs(self, bounds: Bounds, pending: Container[TaskId]) -> list[Submit | KeptResults | Cancel]:
        """One message of the graph whose turn it is. A graph that has ended when some of it was sent is sent to its
        end, and canceled with it: only the last batch seals it, and until then the scheduler keeps results. (SCH-18)"""
        graph = self._graphs.popleft()
        if graph.is_ended and not graph.sent_count:
            return []
        outgoing = graph.outgoing
        if outgoing is None:
            outgoing = graph.outgoing = remaining(graph, may_give=self.may_give, bounds=bounds)
        batch = outgoing[graph.sent_count]
        if isinstance(batch, GraphBatch) and not fits(batch.message, bounds):
            pieces = cut_batch(batch, bounds)
            if not all(fits(piece.message, bounds) for piece in pieces):
                self.unsendable += [] if graph.is_ended else graph.entries[:1]
                return []
            batch = pieces[0]
            outgoing[graph.sent_count : graph.sent_count + 1] = pieces
        if not graph.sent_count:
            for entry in graph.entries:
                entry.state = after(entry.state, Move.SEND)
        graph.sent_count += 1
        if graph.sent_count < len(outgoing):
            self._graphs.append(graph)
        if not isinstance(batch, GraphBatch):
            return [batch]
        return [
            _due(batch, graph, pending),
            *(cancels_of(batch.message.ids, graph, bounds) if graph.is_canceling else ()),
        ]


def _rewind(graph: Graph, move: Move) -> None:
    """As if nothing of it had been sent."""
    graph.sent_count = 0
    graph.outgoing = None
    for entry in graph.entries:
        entry.state = after(entry.state, move)


def sent_ids(graph: Graph) -> bytes:
    """Of the nodes that were submitted in this session."""
    sent = (graph.outgoing or [])[: graph.sent_count]
    return b"".join([batch.message.ids for batch in sent if isinstance(batch, GraphBatch)])


def cancels_of(column: bytes, graph: Graph, bounds: Bounds) -> list[Cancel]:
    """Of these tasks of a graph. What of it has ended is not known here: that is answered TOO_LATE or UNKNOWN."""
    return [Cancel(ids=ids, grace_seconds=graph.grace_seconds) for ids in pieces_of(column, bounds.ids)]


_HEADER_BYTES = 512


def _bytes_of(message: Submit | KeptResults | Cancel) -> int:
    """About as many as it will have, so that a flush keeps within its window."""
    if isinstance(message, Cancel):
        return _HEADER_BYTES + len(message.ids)
    if isinstance(message, KeptResults):
        return _HEADER_BYTES + len(message.payload) + 2 * len(message.ids)
    return _HEADER_BYTES + len(message.payload) + 3 * len(message.ids) + 2 * len(message.part_sizes)


def _due(batch: GraphBatch, graph: Graph, pending: Container[TaskId]) -> Submit:
    """UNWANTED are also those whose result we have already (SCH-14). But not those that the program has not fetched
    from the storage: another run may store under the same id (OWN-6), not to be released with the last dependent."""
    ended = [index for index, task_id in batch.wanted if task_id not in pending and not graph.has_stored(task_id)]
    if not ended:
        return batch.message
    flags = bytearray(batch.message.task_flags or bytes(len(batch.message.ids) // ID_BYTES))
    for index in ended:
        flags[index] = codes.TASK_UNWANTED
    return replace(batch.message, task_flags=bytes(flags))


def _all_of(entries: deque[Entry], bounds: Bounds) -> list[Entry]:
    """These entries without those that were canceled meanwhile, if one message carries them all. Else none."""
    if len(entries) > bounds.tasks:
        return []
    queued = State.QUEUED
    batch = [entry for entry in entries if entry.state is queued]
    # In loops of C: this is done for each single call of a program.
    submissions = [entry.submission for entry in batch]
    count, part_count = (sum(map(len, map(column, submissions))) for column in (_IDS, _PART_SIZES))
    if (
        count > bounds.tasks
        or sum(map(len, map(_PAYLOAD, submissions))) > bounds.payload_bytes
        or TASK_BYTES * count + PART_BYTES * part_count > bounds.column_bytes
    ):
        return []
    entries.clear()
    return batch


def _unfinished(batch: list[Entry], table: Table) -> list[Submission]:
    """What of these entries is to be sent: all of them, without the tasks that have ended."""
    submissions = [entry.submission for entry in batch]
    if sum(map(_UNFINISHED_COUNT, batch)) == sum(map(len, map(_IDS, submissions))):
        return submissions
    return [
        one if entry.unfinished_count == len(one.ids) else narrowed(one, table.ids_of(entry))
        for entry, one in zip(batch, submissions, strict=True)
    ]


def _submit(header: TaskHeader, parts: list[Submission]) -> Submit:
    """One message. Empty columns mean the default for every task, and most columns of most messages are. (BAT-2)"""
    if len(parts) == 1 and not parts[0].part_counts:
        return _submit_one(header, parts[0])
    functions, function_indexes = _functions(parts)
    return Submit(
        header=header,
        functions=functions,
        ids=columns.join_ids(chain.from_iterable(map(_IDS, parts))),
        payload=parts[0].payload if len(parts) == 1 else b"".join(map(_PAYLOAD, parts)),
        part_sizes=columns.join_u32(list(chain.from_iterable(map(_PART_SIZES, parts)))),
        function_indexes=function_indexes,
        part_counts=_part_counts(parts),
        part_kinds=_part_kinds(parts),
    )


def _submit_one(header: TaskHeader, part: Submission) -> Submit:
    """The most frequent message by far needs none of the joining."""
    return Submit(
        header=header,
        functions=part.function,
        ids=columns.join_ids(part.ids),
        payload=part.payload,
        part_sizes=columns.join_u32(part.part_sizes),
        part_kinds=part.part_kinds,
    )


def _functions(parts: list[Submission]) -> tuple[bytes, bytes]:
    """The function table, and which of it each task calls (empty when there is one)."""
    table = {function: index for index, function in enumerate(dict.fromkeys(map(_FUNCTION, parts)))}
    if len(table) == 1:
        return parts[0].function, b""
    indexes = chain.from_iterable(repeat(table[part.function], len(part.ids)) for part in parts)
    return columns.join_ids(table), columns.join_u16(list(indexes))


def _part_counts(parts: list[Submission]) -> bytes:
    if not any(map(_COUNTS, parts)):
        return b""
    counts = chain.from_iterable(part.part_counts or repeat(1, len(part.ids)) for part in parts)
    return columns.join_u16(list(counts))


def _part_kinds(parts: list[Submission]) -> bytes:
    if not any(map(_KINDS, parts)):
        return b""
    return b"".join(part.part_kinds or bytes((codes.KIND_INLINE,)) * len(part.part_sizes) for part in parts)
