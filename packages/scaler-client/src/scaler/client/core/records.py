"""What the core keeps: submissions, their entries in the pending table, graphs, and how tasks ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, fields
from functools import partial
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Protocol

from scaler.client.core.states import State
from scaler_protocol import codes, columns
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import Buffer, KeptResults, Results, Submit, TaskError, TaskHeader
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """What running a task took. All zero for what did not run, such as a data node of a graph."""

    #: seconds by the clock
    duration_s: float = 0.0
    #: seconds of processor time
    cpu_time_s: float = 0.0
    #: bytes above what the processor used before the task
    memory_peak: int = 0

    @property
    def duration_us(self) -> float:
        """`duration_s` in microseconds."""
        return self.duration_s * 1e6

    @property
    def peak_memory(self) -> int:
        """The same as `memory_peak`."""
        return self.memory_peak


class Outcomes(NamedTuple):
    """How some tasks of one submission ended: columns cut from a Results message, or made up here (`error` is set)."""

    ids: tuple[TaskId, ...]
    #: u8 per task, or empty: all successful
    statuses: bytes = b""
    #: u8 per task, or empty: all inline
    kinds: bytes = b""
    sizes: tuple[int, ...] = ()
    payload: Buffer = b""
    #: 24 bytes per task, or empty: not measured
    profiles: bytes = b""
    error: TaskError | None = None


def outcome_of(task_id: TaskId, status: int, error: TaskError | None = None) -> Outcomes:
    """How one task ended that has no value, made up here."""
    return Outcomes((task_id,), bytes((status,)), bytes((codes.KIND_NONE,)), (0,), error=error)


def cut(
    results: Results, ids: tuple[Any, ...], sizes: tuple[int, ...], begin: int, end: int, offset: int, limit: int
) -> Outcomes:
    """Tasks begin … end of a message, whose values lie at offset … limit of its payload."""
    if begin == 0 and end == len(ids):
        return Outcomes(ids, results.statuses, results.kinds, sizes, results.payload, results.profiles)
    return Outcomes(
        ids[begin:end],
        results.statuses[begin:end],
        results.kinds[begin:end],
        sizes[begin:end],
        results.payload[offset:limit],
        results.profiles[24 * begin : 24 * end],
    )


def each_alone(results: Results, ids: tuple[Any, ...], sizes: tuple[int, ...]) -> Iterator[Outcomes]:
    """Each task of a message by itself, in loops of C: a program that submits one by one waits for each of them."""
    ends = columns.offsets(sizes)
    rows = zip(
        zip(ids),
        _cut(results.statuses, 1),
        _cut(results.kinds, 1),
        zip(sizes),
        [results.payload[begin:end] for begin, end in pairwise(ends)],
        _cut(results.profiles, columns.PROFILE_BYTES),
        repeat(None),
    )
    return map(partial(tuple.__new__, Outcomes), rows)


def _cut(column: bytes, width: int) -> Iterable[bytes]:
    """What of a column each task has; empty for all if it is."""
    return [column[at : at + width] for at in range(0, len(column), width)] if column else repeat(b"")


def stored_results(outcomes: Outcomes) -> list[tuple[TaskId, ObjectId]]:
    """The successful tasks whose values are too large to ride along, and where these lie."""
    if not outcomes.kinds:
        return []
    found: list[tuple[TaskId, ObjectId]] = []
    offset = 0
    for task_id, status, kind, size in zip(
        outcomes.ids, outcomes.statuses or bytes(len(outcomes.ids)), outcomes.kinds, outcomes.sizes, strict=True
    ):
        if kind == codes.KIND_OBJECT and status == codes.STATUS_SUCCESS:
            found.append((task_id, ObjectId(bytes(outcomes.payload[offset : offset + size]))))
        offset += size
    return found


class Fetch(Protocol):
    """Returns the bytes of the stored value of one task. NotInTime if they have not come by `end_at`."""

    @property
    def end_at(self) -> float: ...

    def __call__(self, outcomes: Outcomes) -> Buffer: ...


def brought(outcomes: Outcomes, fetch: Fetch) -> Outcomes:
    """The same outcomes of one task, with the bytes of its value in place of the object that has them."""
    if not outcomes.kinds or outcomes.kinds[0] != codes.KIND_OBJECT:
        return outcomes
    data = fetch(outcomes)
    return outcomes._replace(kinds=b"", sizes=(len(data),), payload=data)


def each_of(outcomes: Outcomes) -> Iterator[Outcomes]:
    """The same, each task by itself."""
    view, offset = memoryview(outcomes.payload), 0
    for index, (task_id, size) in enumerate(zip(outcomes.ids, outcomes.sizes, strict=True)):
        statuses, kinds = outcomes.statuses[index : index + 1], outcomes.kinds[index : index + 1]
        profiles = outcomes.profiles[columns.PROFILE_BYTES * index : columns.PROFILE_BYTES * (index + 1)]
        payload = bytes(view[offset : offset + size])
        yield Outcomes((task_id,), statuses, kinds, (size,), payload, profiles, outcomes.error)
        offset += size


def result_objects(outcomes: Outcomes) -> tuple[ObjectId, ...]:
    """Where the values of successful tasks lie that are too large to ride along."""
    return tuple([object_id for _, object_id in stored_results(outcomes)]) if outcomes.kinds else ()


class LargeError(TaskError):
    """Why a task failed, if its exception lies in the storage, where it is kept while this object lives."""

    __slots__ = ("__weakref__", "brought_data", "object_id")
    object_id: ObjectId
    brought_data: Buffer | None

    @classmethod
    def of(cls, error: TaskError, object_id: ObjectId) -> LargeError:
        large = cls(*[getattr(error, field.name) for field in fields(error)])
        object.__setattr__(large, "object_id", object_id)
        object.__setattr__(large, "brought_data", None)
        return large

    def bring(self, fetch: Fetch) -> None:
        """Fetches the exception, because its client leaves. The bytes are read when the program requests the
        exception."""
        object.__setattr__(self, "brought_data", fetch(outcome_stored(self.object_id)))


def outcome_stored(object_id: ObjectId) -> Outcomes:
    """Returns the outcomes of a task whose value is this object."""
    return Outcomes((), kinds=bytes((codes.KIND_OBJECT,)), sizes=(len(object_id),), payload=object_id)


class Collector(Protocol):
    """What waits for the tasks of a submission: one future, or one `map`."""

    def complete(self, outcomes: Outcomes) -> None: ...


class Submission(NamedTuple):
    """Tasks that share header, function and collector: a single call, or a slice of a map. As an event of the core:
    they are to run, and wait for the next `Flush`.

    A tuple, because every call makes one and a frozen dataclass takes four times as long to make.
    """

    header: TaskHeader
    function: ObjectId
    ids: tuple[TaskId, ...]
    payload: Buffer
    part_sizes: tuple[int, ...]
    collector: Collector
    #: which client handle submitted it; handles of one process share a connection inside a task
    owner: object = None
    #: what must live until these tasks have ended: the function, or a tuple of it and the references among the
    #: arguments; never read (OWN-2)
    kept: object = None
    #: u16 per task; empty: one part each
    part_counts: tuple[int, ...] = ()
    #: u8 per part; empty: all inline
    part_kinds: bytes = b""
    #: argument objects that only these tasks use: released when all of them have ended (OWN-2)
    objects: tuple[ObjectId, ...] = ()


class GraphBatch(NamedTuple):
    """Some tasks of a graph, in columns already: a large one is kept for as long as it runs."""

    #: UNWANTED is set for every task whose result is not wanted
    message: Submit
    #: the others, and where in the message they are
    wanted: tuple[tuple[int, TaskId], ...] = ()


class Definition:
    """Of a graph, for the time after its end: what is needed to run some of its nodes once more."""

    __slots__ = ("arguments", "batches", "holders", "is_ended", "kept", "objects", "size")

    def __init__(self, graph: Graph) -> None:
        self.batches = graph.batches
        self.objects = graph.objects
        self.kept = graph.kept
        self.size = sum([len(batch.message.payload) + 4 * len(batch.message.ids) for batch in graph.batches])
        #: the graph has ended, and its arguments were released
        self.is_ended = False
        #: how many results of it are held, and what is kept of its arguments as long as there are any
        self.holders = 0
        self.arguments: dict[ObjectId, Any] = {}


class Known(NamedTuple):
    """The result of a node that has ended."""

    kind: int
    value: bytes
    #: the program was told of it: an object is the client's to release, and else the scheduler's (OWN-5, OWN-10)
    is_wanted: bool


@dataclass(slots=True, eq=False)
class Graph:
    """Tasks with dependencies. They are kept all together, because a successor has none of their results, and what is
    not known here has to be made again."""

    graph_id: GraphId
    batches: tuple[GraphBatch, ...]
    #: one for each wanted task, until the graph has ended; the others are in no table, for nothing is heard of them
    entries: tuple[Entry, ...] = ()
    #: how many wanted tasks have not ended
    wanted_count: int = 0
    objects: tuple[ObjectId, ...] = ()
    #: as a submission's
    kept: tuple[object, ...] = ()
    #: of its large results, which run again if they are lost before the program has fetched them (CLI-8)
    definition: Definition | None = None
    #: wanted nodes that others depend on
    inputs: frozenset[TaskId] = frozenset()
    #: results of ended nodes that unfinished ones may need; the latest last (CLI-17)
    known: dict[TaskId, Known] = field(default_factory=dict)
    #: objects of known results that were a lost scheduler's to release, and are ours now (CLI-18)
    claimed: set[ObjectId] = field(default_factory=set)
    #: result objects that the program was told of
    told: list[ObjectId] = field(default_factory=list)
    #: objects of wanted results that the program needs no longer, while other nodes may (CLI-14)
    unneeded: list[ObjectId] = field(default_factory=list)
    #: how the task ended that did not succeed: everything that is unfinished ends the same way
    failure: Outcomes | None = None
    #: what of it leaves in this session, from the moment in which the first message does
    outgoing: list[GraphBatch | KeptResults] | None = None
    #: how many of these have been sent
    sent_count: int = 0
    #: each batch that leaves from now on is canceled at once
    is_canceling: bool = False
    grace_seconds: float = 1.0
    is_ended: bool = False
    #: values between its nodes may be lost: the storage was restarted since it was sent (CLI-23)
    may_miss_values: bool = False
    #: how often it has begun again in this session for that
    rerun_count: int = 0
    #: an argument is lost that was not kept: if it began again, it would fail for that
    is_doomed: bool = False

    @property
    def has_objects(self) -> bool:
        """Some known results are in the storage, as far as is known."""
        return any(known.kind == codes.KIND_OBJECT for known in self.known.values())

    def has_stored(self, task_id: TaskId) -> bool:
        """The program was told that its value is in the storage."""
        known = self.known.get(task_id)
        return known is not None and known.is_wanted and known.kind == codes.KIND_OBJECT


@dataclass(slots=True, eq=False)
class Entry:
    """A submission in the pending table, under each of its unfinished task ids."""

    submission: Submission
    state: State
    #: how many of its tasks have not ended
    unfinished_count: int
    graph: Graph | None = None
