"""What waits to be sent, and how submissions with equal headers become one Submit. (CLI-4)"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import accumulate, chain, repeat

from scaler.client.core.records import Entry, Graph, GraphBatch, Submission
from scaler.client.core.states import Move, State, after
from scaler_protocol import codes, columns
from scaler_protocol.ids import ID_BYTES, ObjectId, TaskId
from scaler_protocol.messages import Limits, Submit, TaskHeader

BATCH_TASKS = 8_192
"""More in one message would hold up the scheduler's other peers and save nothing."""
BATCH_BYTES = 8 * 1024 * 1024


class Outbox:
    """Entries in state QUEUED, by header, in the order of submission; and whole graphs."""

    def __init__(self) -> None:
        self._groups: dict[TaskHeader, list[Entry]] = {}
        self._graphs: list[Graph] = []
        # Programs submit with the same header again and again: comparing identities spares hashing its twelve fields.
        self._last_header: TaskHeader | None = None
        self._last_group: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._groups or self._graphs)

    def __iter__(self) -> Iterator[Entry]:
        return chain(chain.from_iterable(self._groups.values()), *[graph.entries for graph in self._graphs])

    def add(self, entry: Entry) -> None:
        header = entry.submission.header
        if header is not self._last_header:
            self._last_group = self._groups.setdefault(header, [])
            self._last_header = header
        self._last_group.append(entry)

    def add_graph(self, graph: Graph) -> None:
        self._graphs.append(graph)

    def clear(self) -> None:
        self._groups = {}
        self._graphs = []
        self._last_header = None
        self._last_group = []  # not to keep what has been sent

    def take(self, limits: Limits, pending: Container[TaskId]) -> list[Submit]:
        """Everything as messages, in order; each entry is SENT afterwards. Tasks no longer pending are left out."""
        groups, graphs = self._groups, self._graphs
        self.clear()
        messages: list[Submit] = []
        for header, entries in groups.items():
            queued = [entry for entry in entries if entry.state is State.QUEUED]
            for batch in (queued,) if len(queued) == 1 else _split(queued, limits):
                for entry in batch:
                    entry.state = after(entry.state, Move.SEND)
                messages.append(_submit(header, [_unfinished(entry, pending) for entry in batch]))
        for graph in graphs:
            if not graph.is_ended:
                graph.is_sent = True
                for entry in graph.entries:
                    entry.state = after(entry.state, Move.SEND)
                messages += [_due(batch, pending) for batch in graph.batches]
        return messages


def _split(entries: list[Entry], limits: Limits) -> Iterator[list[Entry]]:
    """Runs of entries that fit into one message each."""
    max_tasks = min(BATCH_TASKS, limits.batch_tasks)
    max_bytes = min(BATCH_BYTES, limits.payload_frame_bytes)
    max_columns = limits.envelope_bytes // 2
    batch: list[Entry] = []
    tasks = payload_bytes = column_bytes = 0
    for entry in entries:
        submission = entry.submission
        count, size = len(submission.ids), len(submission.payload)
        # id, function, index, counts; then the parts
        width = 36 * count + 5 * len(submission.part_sizes)
        if batch and (
            tasks + count > max_tasks or payload_bytes + size > max_bytes or column_bytes + width > max_columns
        ):
            yield batch
            batch = []
            tasks = payload_bytes = column_bytes = 0
        batch.append(entry)
        tasks += count
        payload_bytes += size
        column_bytes += width
    if batch:
        yield batch


def _due(batch: GraphBatch, pending: Container[TaskId]) -> Submit:
    """All of its tasks, finished or not. UNWANTED are also those whose result we have already. (SCH-14)"""
    ended = [index for index, task_id in batch.wanted if task_id not in pending]
    if not ended:
        return batch.message
    flags = bytearray(batch.message.task_flags or bytes(len(batch.message.ids) // ID_BYTES))
    for index in ended:
        flags[index] = codes.TASK_UNWANTED
    return replace(batch.message, task_flags=bytes(flags))


def _unfinished(entry: Entry, pending: Container[TaskId]) -> Submission:
    """What of this entry is to be sent: all of it, or the tasks that are still pending."""
    if entry.unfinished_count == len(entry.submission.ids):
        return entry.submission
    return narrowed(entry.submission, pending)


def narrowed(submission: Submission, pending: Container[TaskId]) -> Submission:
    """The same submission without the tasks that have ended. Only tasks of one part each come in numbers."""
    assert not submission.part_counts and len(submission.part_sizes) == len(submission.ids)
    keep = [index for index, task_id in enumerate(submission.ids) if task_id in pending]
    sizes = submission.part_sizes
    ends = list(accumulate(sizes))
    view = memoryview(submission.payload)
    return Submission(
        header=submission.header,
        function=submission.function,
        ids=tuple(submission.ids[index] for index in keep),
        payload=b"".join([view[ends[index] - sizes[index] : ends[index]] for index in keep]),
        part_sizes=tuple(sizes[index] for index in keep),
        collector=submission.collector,
        owner=submission.owner,
        part_kinds=bytes(submission.part_kinds[index] for index in keep) if submission.part_kinds else b"",
        objects=submission.objects,
    )


def _submit(header: TaskHeader, parts: list[Submission]) -> Submit:
    """One message. Empty columns mean the default for every task, and most columns of most messages are. (BAT-2)"""
    if len(parts) == 1 and not parts[0].part_counts:
        return _submit_one(header, parts[0])
    functions, function_indexes = _functions(parts)
    return Submit(
        header=header,
        functions=functions,
        ids=columns.join_ids(chain.from_iterable([part.ids for part in parts])),
        payload=parts[0].payload if len(parts) == 1 else b"".join([part.payload for part in parts]),
        part_sizes=columns.join_u32(list(chain.from_iterable([part.part_sizes for part in parts]))),
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
    table: dict[ObjectId, int] = {}
    for part in parts:
        table.setdefault(part.function, len(table))
    if len(table) == 1:
        return parts[0].function, b""
    indexes = chain.from_iterable(repeat(table[part.function], len(part.ids)) for part in parts)
    return columns.join_ids(table), columns.join_u16(list(indexes))


def _part_counts(parts: list[Submission]) -> bytes:
    if not any(part.part_counts for part in parts):
        return b""
    counts = chain.from_iterable(part.part_counts or repeat(1, len(part.ids)) for part in parts)
    return columns.join_u16(list(counts))


def _part_kinds(parts: list[Submission]) -> bytes:
    if not any(part.part_kinds for part in parts):
        return b""
    return b"".join(part.part_kinds or bytes((codes.KIND_INLINE,)) * len(part.part_sizes) for part in parts)
