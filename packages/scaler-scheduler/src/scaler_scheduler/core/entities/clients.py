"""A client, and its chunks: the tasks of one accepted Submit, kept as the columns they came in.

The scheduler cuts chunks and never looks into arguments (BAT-1). The columns stay until the last task has ended, so
that a task can be dispatched again after its worker was lost (SCH-7).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise, repeat

from scaler_protocol.codes import KIND_TASK, TASK_UNWANTED
from scaler_protocol.columns import join_u16, join_u32, most_results, split_u16, split_u32
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId, TaskId, family_in, result_object_id
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Buffer, Dispatch, Limits, Message, Software, Submit, TaskBatch, TaskHeader
from scaler_scheduler.core.entities.columns import (
    Indexes,
    Inputs,
    contiguous,
    gather,
    starts_of,
    task_ids,
    without_repeats,
)
from scaler_scheduler.core.entities.combinations import UserCombinations
from scaler_scheduler.core.entities.function_counts import FunctionCounts
from scaler_scheduler.core.entities.headers import LentHeaders
from scaler_scheduler.core.entities.moments import NOT_YET, Moments
from scaler_scheduler.core.entities.shares import Share


@lru_cache(maxsize=256)
def _without_priority(header: TaskHeader) -> TaskHeader:
    """Returns one object for equal headers: one comes with thousands of batches."""
    return replace(header, priority=0)


#: Of all chunks of which nothing was dropped: a set of its own would be the largest part of a chunk of one.
NONE_DROPPED: frozenset[int] = frozenset()


class Chunk:
    """`ids` in the order of submission; `unfinished` of them have not ended; `dropped` indexes left the queue early."""

    __slots__ = (
        "__dict__", "batch", "client", "combination", "counts", "dispatched", "dropped", "has_dependencies", "header",
        "ids", "is_plain", "submitted_at", "unfinished",
    )  # fmt: skip

    #: of a graph: tasks that ended, and not well. In the instance once there are any
    failed_count = 0
    canceled_count = 0
    #: of a part of another: the ids of that
    whole_ids: tuple[TaskId, ...] = ()
    #: the first of those that ran and failed
    first_failed: tuple[TaskId, ...] = ()
    #: of several functions: what is counted of each, in the order of `batch.functions`, and of which each task is
    rows: Sequence[FunctionCounts] = ()
    row_numbers: Sequence[int] = ()
    #: when the last task that each waited for ended
    ready: Moments = NOT_YET
    #: its tasks are a worker's from a predecessor of this scheduler, in which they were submitted first
    is_adopted = False

    def __init__(self, client: Client, header: TaskHeader, batch: TaskBatch) -> None:
        self.client = client
        self.combination = client.combinations.of(header, client.share.of_user.user)
        self.header = header
        self.has_dependencies = bool(batch.dependency_counts)
        self.batch = without_repeats(batch) if self.has_dependencies else batch
        # A chunk of one shares what it can: a million of them may wait, each submitted by itself.
        one = (TaskId(batch.ids),) if len(batch.ids) == ID_BYTES else None
        self.ids: tuple[TaskId, ...] = one or task_ids(batch.ids)
        self.unfinished = len(self.ids)
        self.dropped: frozenset[int] | set[int] | range = NONE_DROPPED
        #: what is counted of its function; None: it has several, or was not accepted yet
        self.counts: FunctionCounts | None = None
        self.submitted_at = 0.0
        #: when each was given to a worker last
        self.dispatched: Moments = NOT_YET
        #: no task here depends on another or is kept for others, none has a parent, and every result is wanted
        self.is_plain = not (self.has_dependencies or batch.task_flags or header.graph_id or header.parent_task)

    def rows_at(self, indexes: Sequence[int]) -> list[tuple[FunctionCounts, int]]:
        """In a batch of several functions: what is counted of each function that these tasks have, and how many of
        them have it. A row that stands for several functions may come several times."""
        rows, of_all = self.rows, self.row_numbers
        if isinstance(indexes, range):
            numbers = of_all[indexes.start : indexes.stop]
        else:
            numbers = [of_all[index] for index in indexes]
        if len(set(numbers)) == 1:  # as most often: a Counter costs more than all else here
            return [(rows[numbers[0]], len(numbers))]
        return [(rows[number], tasks) for number, tasks in Counter(numbers).items()]

    def told_header(self) -> TaskHeader:
        """Returns the header for workers, which know no users: without a priority that another user's tasks, at the
        same worker, would wait for. (SCH-98)"""
        header, identity = self.header, self.client.identity
        return header if identity is None or identity.is_operator else _without_priority(header)

    def value_id(self, task_id: TaskId, attempt: int) -> ObjectId:
        """Where this attempt of one of these tasks stores a large value. (OWN-6)"""
        return result_object_id(task_id, attempt, self.header.result_salt, self.client.peer_id)

    def drop(self, index: int) -> None:
        self.drop_all((index,))

    def drop_all(self, indexes: Sequence[int]) -> None:
        if len(indexes) == len(self.ids):
            self.dropped = range(len(self.ids))
            return
        if not isinstance(self.dropped, set):
            self.dropped = set(self.dropped)
        self.dropped.update(indexes)

    @cached_property
    def index_of(self) -> dict[TaskId, int]:
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    def places(self, ids: Sequence[TaskId]) -> list[int]:
        """The index of each. Our clients number the tasks of a batch: no table of all tasks is made for a few."""
        own = self.ids
        first = int.from_bytes(own[0][8:], "little")
        guesses = [int.from_bytes(one[8:], "little") - first for one in ids]
        if min(guesses) >= 0 and max(guesses) < len(own) and list(map(own.__getitem__, guesses)) == list(ids):
            return guesses
        return list(map(self.index_of.__getitem__, ids))

    @cached_property
    def _part_starts(self) -> Sequence[int]:
        """Index of the first part of each task, and the number of all parts."""
        if not self.batch.part_counts:
            return range(len(self.ids) + 1)
        return starts_of(split_u16(self.batch.part_counts))

    @cached_property
    def _byte_starts(self) -> Sequence[int]:
        """Where each part begins in the payload, and where the last ends."""
        return starts_of(split_u32(self.batch.part_sizes))

    @cached_property
    def _dependency_starts(self) -> Sequence[int]:
        return starts_of(split_u16(self.batch.dependency_counts))

    def dependencies(self, index: int) -> tuple[TaskId, ...]:
        """Each once, however often it was named."""
        if not self.has_dependencies:
            return ()
        start, stop = self._dependency_starts[index], self._dependency_starts[index + 1]
        return task_ids(self.batch.dependencies[ID_BYTES * start : ID_BYTES * stop])

    def dependency_count(self, index: int) -> int:
        return self._dependency_starts[index + 1] - self._dependency_starts[index] if self.has_dependencies else 0

    def dependencies_of(self, indexes: Sequence[int]) -> tuple[TaskId, ...]:
        """Of all these tasks, one after another."""
        starts = self._dependency_starts
        runs = [range(starts[run.start], starts[run.stop]) for run in contiguous(indexes)]
        return task_ids(gather(self.batch.dependencies, runs, ID_BYTES))

    def referred(self, indexes: Sequence[int]) -> Iterable[TaskId]:
        """The tasks whose values these take as arguments, each once. A mere order brings no value. (BAT-9)"""
        starts, payload, kinds = self._byte_starts, self.batch.payload, self.batch.part_kinds
        found: list[Buffer] = []
        for run in contiguous(indexes):
            first, behind = self._part_starts[run.start], self._part_starts[run.stop]
            own = kinds[first:behind]
            if own and own.count(KIND_TASK) == len(own):  # nothing but results of others, as in most of a large graph
                found.append(payload[starts[first] : starts[behind]])
                continue
            part = kinds.find(KIND_TASK, first, behind)
            while part >= 0:
                found.append(payload[starts[part] : starts[part] + ID_BYTES])
                part = kinds.find(KIND_TASK, part + 1, behind)
        return dict.fromkeys(task_ids(b"".join(found)))

    @property
    def payload_bytes(self) -> int:
        return len(self.batch.payload)

    def forget_payload(self) -> None:
        """All its tasks have ended: what is still told of them needs no arguments."""
        self.batch = replace(self.batch, payload=b"")

    @cached_property
    def envelope_bytes_per_task(self) -> int:
        """On average, and rounded up: what one task adds to the envelope of a Dispatch."""
        columns = (self.batch.functions, self.batch.ids, self.batch.function_indexes, self.batch.part_counts)
        size = sum(map(len, (*columns, self.batch.part_kinds, self.batch.part_sizes)))
        return 2 + -(-size // len(self.ids))

    def every_need(self) -> tuple[TaskId, ...]:
        """What all tasks depend on, one task after another."""
        return task_ids(self.batch.dependencies) if self.has_dependencies else ()

    def every_needing(self) -> Iterator[int]:
        """For each of `every_need` the index of the task that needs it."""
        return chain.from_iterable(map(repeat, range(len(self.ids)), split_u16(self.batch.dependency_counts)))

    def need_starts(self) -> Sequence[int]:
        """Where the dependencies of each task begin there, and where the last end."""
        return self._dependency_starts

    def every_dependency(self) -> Iterator[tuple[TaskId, ...]]:
        """What `dependencies` tells of each task in turn."""
        ids = task_ids(self.batch.dependencies)
        return (ids[start:stop] for start, stop in pairwise(self._dependency_starts))

    def bytes_of(self, indexes: Sequence[int]) -> int:
        """Of all their parts."""
        parts, starts = self._part_starts, self._byte_starts
        return sum([starts[parts[run.stop]] - starts[parts[run.start]] for run in contiguous(indexes)])

    def bytes_of_each(self, indexes: Sequence[int]) -> list[int]:
        parts, starts = self._part_starts, self._byte_starts
        return [starts[parts[index + 1]] - starts[parts[index]] for index in indexes]

    def function_id(self, index: int) -> bytes:
        indexes = self.batch.function_indexes
        position = int.from_bytes(indexes[2 * index : 2 * index + 2], "little") if indexes else 0
        return self.batch.functions[ID_BYTES * position : ID_BYTES * (position + 1)]

    @cached_property
    def _key_starts(self) -> Sequence[int]:
        return starts_of(self.batch.key_sizes)

    def key(self, index: int) -> bytes:
        """What its client's program calls this task, for people; empty: nothing. (MON-61)"""
        if not self.batch.keys:
            return b""
        return self.batch.keys[self._key_starts[index] : self._key_starts[index + 1]]

    def is_wanted(self, index: int) -> bool:
        """Whether its client is to be told of its success (SCH-14)."""
        flags = self.batch.task_flags
        return not flags or not flags[index] & TASK_UNWANTED

    def cut(
        self,
        header: TaskHeader,
        indexes: Indexes,
        attempts: bytes,
        inputs: Inputs,
        awaited: Sequence[tuple[TaskId, ...]] = (),
    ) -> Dispatch:
        """The Dispatch of these tasks, with what each of them awaits if they are sent ahead. A range is cut with one
        slice per column, whatever its length."""
        batch = self.batch
        if len(indexes) == len(self.ids) and isinstance(indexes, range) and not inputs.ids:
            return Dispatch(
                header=header,
                functions=batch.functions,
                function_indexes=batch.function_indexes,
                ids=batch.ids,
                part_counts=batch.part_counts,
                part_kinds=batch.part_kinds,
                part_sizes=batch.part_sizes,
                attempts=attempts,
                payload=batch.payload,
            )
        runs = contiguous(indexes)
        parts = self._parts(runs)
        payload = self._pieces(parts)
        functions, function_indexes = self._functions(runs)
        return Dispatch(
            header=header,
            functions=functions,
            function_indexes=function_indexes,
            ids=gather(batch.ids, runs, ID_BYTES),
            part_counts=gather(batch.part_counts, runs, 2),
            part_kinds=gather(batch.part_kinds, parts, 1),
            part_sizes=gather(batch.part_sizes, parts, 4),
            attempts=attempts,
            payload=payload[0] if len(payload) == 1 and not inputs.ids else b"".join([*payload, *inputs.values]),
            input_ids=b"".join(inputs.ids),
            input_kinds=bytes(inputs.kinds) if any(inputs.kinds) else b"",
            input_sizes=join_u32([len(value) for value in inputs.values]) if inputs.ids else b"",
            awaited_counts=join_u16([len(own) for own in awaited]) if awaited else b"",
            awaited=b"".join([other for own in awaited for other in own]),
        )

    def outline(self, indexes: list[int]) -> Submit:
        """These tasks without their arguments: the payload is only the ids of the tasks whose values are arguments."""
        runs = contiguous(indexes)
        kinds = self.batch.part_kinds
        parts = self._parts(runs)
        referring = [part for run in parts for part in run if kinds[part] == KIND_TASK] if KIND_TASK in kinds else []
        functions = self.batch.functions, gather(self.batch.function_indexes, runs, 2)
        return self._submit(self.header, functions, runs, parts, [self._part_id(part) for part in referring])

    def part(self, indexes: list[int]) -> Chunk:
        """A chunk of its own of these tasks."""
        runs = contiguous(indexes)
        parts = self._parts(runs)
        own = self._submit(self.batch.header, self._functions(runs), runs, parts, self._pieces(parts))
        part = Chunk(self.client, self.header, own)
        part.counts, part.submitted_at, part.whole_ids = self.counts, self.submitted_at, self.ids
        if self.rows:
            part.rows, part.row_numbers = self.rows, [self.row_numbers[index] for index in indexes]
        return part

    def _submit(
        self,
        header: TaskHeader,
        functions: tuple[bytes, bytes],
        runs: Sequence[range],
        parts: Sequence[range],
        payload: Iterable[Buffer],
    ) -> Submit:
        """These tasks and their arguments, with this payload."""
        batch = self.batch
        needs = []
        if self.has_dependencies:
            needs = [range(self._dependency_starts[run.start], self._dependency_starts[run.stop]) for run in runs]
        keys = [range(self._key_starts[run.start], self._key_starts[run.stop]) for run in runs] if batch.keys else []
        return Submit(
            header=header,
            functions=functions[0],
            function_indexes=functions[1],
            ids=gather(batch.ids, runs, ID_BYTES),
            part_counts=gather(batch.part_counts, runs, 2),
            part_kinds=gather(batch.part_kinds, parts, 1),
            part_sizes=gather(batch.part_sizes, parts, 4),
            dependency_counts=gather(batch.dependency_counts, runs, 2),
            dependencies=gather(batch.dependencies, needs, ID_BYTES),
            task_flags=gather(batch.task_flags, runs, 1),
            key_sizes=gather(batch.key_sizes, runs, 1),
            keys=gather(batch.keys, keys, 1),
            payload=b"".join(payload),
        )

    def _parts(self, runs: Sequence[range]) -> list[range]:
        """The arguments of each run of tasks."""
        return [range(self._part_starts[run.start], self._part_starts[run.stop]) for run in runs]

    def _pieces(self, parts: Sequence[range]) -> list[memoryview]:
        """Their bytes."""
        view = memoryview(self.batch.payload)
        return [view[self._byte_starts[part.start] : self._byte_starts[part.stop]] for part in parts]

    def _part_id(self, part: int) -> bytes:
        start = self._byte_starts[part]
        return bytes(self.batch.payload[start : start + ID_BYTES])

    def _functions(self, runs: Sequence[range]) -> tuple[bytes, bytes]:
        """Only the functions these tasks use: a chunk may name thousands, one for each closure of a loop."""
        batch = self.batch
        if not batch.function_indexes:
            return batch.functions, b""
        wanted = split_u16(gather(batch.function_indexes, runs, 2))
        position = {old: new for new, old in enumerate(dict.fromkeys(wanted))}
        functions = b"".join([batch.functions[ID_BYTES * old : ID_BYTES * (old + 1)] for old in position])
        if len(position) == 1:
            return functions, b""
        return functions, join_u16([position[old] for old in wanted])


class Window:
    __slots__ = ("limit", "sent_bytes", "waiting", "waiting_bytes")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: an upper bound of what is on its way to this client and not acknowledged
        self.sent_bytes = 0
        #: what it is to be sent when it has read more, in order
        self.waiting: deque[Message] = deque()
        self.waiting_bytes = 0


class Client:
    __slots__ = (
        "_last_header", "_own", "chunks", "combinations", "generation", "given_bytes", "grant", "graphs", "holds",
        "identity", "inline_limit", "is_gone", "is_held", "is_told_of_kept", "lent", "number", "object_bytes",
        "object_count", "payload_limit", "peer_id", "rows_limit", "share", "software", "unfinished_count",
        "user_object_bytes", "window",
    )  # fmt: skip

    def __init__(
        self,
        peer_id: PeerId,
        number: int,
        software: Software,
        limits: Limits,
        share: Share,
        combinations: UserCombinations,
        identity: Identity | None = None,
        grant: bytes = b"",
    ) -> None:
        self.peer_id = peer_id
        #: what its program has had of the workers (SCH-91)
        self.share = share
        #: whose session it is, which rights depend on: in a task the user of the worker. None: the cluster has no keys
        self.identity = identity
        #: with which it names itself to the storage; empty where there are no keys (OWN-16)
        self.grant = grant
        #: with which workers name it, by the workers' user (OWN-24)
        self.lent: dict[bytes, LentHeaders] = {}
        #: rises with each session that a client opens: only a later one takes over the tasks of another (SCH-8)
        self.number = number
        self.software = software
        #: results in one message to it, bytes of one payload frame, and bytes of one error (LIM-3, PAY-2)
        self.rows_limit = most_results(limits)
        self.payload_limit = limits.payload_frame_bytes
        self.inline_limit = limits.inline_bytes
        #: chunks with unfinished tasks, oldest first
        self.chunks: dict[Chunk, None] = {}
        #: graphs that this client has not sealed -> their ended tasks whose results are kept (SCH-18)
        self.graphs: dict[GraphId, dict[TaskId, None]] = {}
        self.unfinished_count = 0
        self.is_gone = False
        #: none of its queued tasks is given to a worker: many of them are just being ended (CAN-11), or it does not
        #: read its results (SCH-46); `holds` counts these reasons
        self.is_held = False
        self.holds = 0
        #: what it lets be on its way; None: any amount, for it has not the feature (SCH-45)
        self.window: Window | None = None
        #: it is told of results that are kept for its tasks, and may give some (SCH-51, SCH-53)
        self.is_told_of_kept = False
        #: of all results that it has given in this session (SCH-54)
        self.given_bytes = 0
        #: what it owns in the storage, as that has said last (MON-27)
        self.object_count = 0
        self.object_bytes = 0
        self.user_object_bytes = 0  #: what its user has there of its quota (MON-69)
        self._last_header = self._own = TaskHeader(client=peer_id)
        self.combinations = combinations  #: those of its user
        #: of the scheduler, as headers of this client's tasks carry it (SCH-61)
        self.generation = 0

    def own(self, header: TaskHeader) -> TaskHeader:
        """The header of its tasks (SCH-3, SCH-61). Programs use one header again and again."""
        if header is not self._last_header or self._own.generation != self.generation:
            own = replace(header, client=self.peer_id, owner_grant=b"", generation=self.generation)
            self._last_header, self._own = header, own
        return self._own

    def begin(self, chunk: Chunk, tasks: int) -> None:
        """Counts so many tasks of this chunk as unfinished from now on."""
        self.unfinished_count += tasks
        self.combinations.task_count += tasks
        if chunk not in self.chunks:
            self.chunks[chunk] = None
            if not chunk.combination.is_listed:
                chunk.combination = self.combinations.enter(chunk.combination)
            chunk.combination.batch_count += 1
            self.combinations.task_bytes += len(chunk.batch.payload)

    @property
    def user(self) -> str:
        """Returns the user of its program, for whom its tasks count, as monitors are shown it. (MON-25)"""
        return self.share.user

    @property
    def proven_family(self) -> bytes:
        """Empty where there are no keys."""
        return family_in(self.grant, self.peer_id)

    @property
    def family(self) -> bytes:
        """For whom its objects may be read: itself, or the program in whose task it is. (STO-33)"""
        return self.proven_family or self.peer_id
