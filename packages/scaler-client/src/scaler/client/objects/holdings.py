"""What the cluster stores in our name, and what is kept here to store or make it again when the cluster has lost it.

Theory of operation. A client that was silent for longer than its lease loses its objects, and so does a storage that is
restarted. Three kinds of objects come back: what the program gave as `bytes`, of which the client keeps a reference;
what was shared with a storage on the same host, whose memory file the client keeps open; and results, of which the
client keeps the call, to be made again (CLI-8). All of this is bounded. The memory of the program's own arrays is not
kept: it may change. What cannot come back is *lost*, and a call that needs it fails at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from scaler.client.core.records import Definition, Outcomes, Submission
from scaler_protocol import values, waits
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Buffer

KEPT_BYTES = 1152 * 1024 * 1024
"""How many bytes of stored objects are kept, all kinds together: a little more than one `map` has on its way. None of
them is a copy: of bytes there is a reference, and a shared file is the one that the storage has."""


def most_files() -> int:
    """A memory file that is kept open costs a descriptor, of which the program has other uses."""
    try:
        import resource
    except ImportError:  # Windows, where there are none
        return 0
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 128 if limit == resource.RLIM_INFINITY else min(128, limit // 8)


class File(Protocol):
    """A memory file that is open as long as it is referred to."""

    size: int

    def content(self) -> Buffer: ...


class Keepsake:
    """What is kept of one object: its bytes, or an open file with them, or the call that made it."""

    __slots__ = ("call", "file", "pieces", "size")

    def __init__(
        self,
        size: int = 0,
        pieces: Sequence[Buffer] | None = None,
        file: File | None = None,
        call: FinishedCall | None = None,
    ) -> None:
        self.size = size
        self.pieces = pieces
        self.file = file
        self.call = call

    @property
    def can_return(self) -> bool:
        return self.pieces is not None or self.file is not None

    def bytes_again(self) -> Sequence[Buffer] | None:
        """To be stored again. None: that cannot be done."""
        if self.pieces is not None or self.file is None:
            return self.pieces
        return (self.file.content(),)


class FinishedCall:
    """A task whose value is an object that was not fetched yet. It counts as unfinished if that is lost. (CLI-8)"""

    __slots__ = ("again", "arguments", "submission", "task_id")

    def __init__(
        self, task_id: TaskId, submission: Submission | Definition, arguments: dict[ObjectId, Keepsake]
    ) -> None:
        self.task_id = task_id
        #: of this task, and perhaps of others; of a node, that of its graph
        self.submission = submission
        #: the future of its second run
        self.again: Any = None
        #: of its stored arguments, as far as they are kept: they were released when it ended
        self.arguments = arguments


class _Nobody:
    def complete(self, outcomes: Outcomes) -> None:
        raise AssertionError("a kept submission is sent with another collector")


_NOBODY = _Nobody()
_NOTHING = Keepsake()
_NO_ARGUMENTS: dict[ObjectId, Keepsake] = {}


class Holdings:
    """Safe in any thread. A destructor may call it in the middle of another call of the same thread, so what is looped
    over is a copy."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, kept_files: int | None = None) -> None:
        self.lock = waits.RLock()
        self._most_bytes = kept_bytes
        self._most_files = most_files() if kept_files is None else kept_files
        #: all that the cluster keeps in our name
        self._held: dict[ObjectId, Keepsake] = {}
        #: of these, what is on its way to the storage
        self._in_progress: set[ObjectId] = set()
        #: of these, what is neither there any more nor can be stored again
        self._lost: set[ObjectId] = set()
        #: how many kept calls use each payload, by its identity: one that is held keeps all arguments of its batch
        self._payloads: Counter[int] = Counter()
        #: of all keepsakes, also those of the arguments of finished calls
        self._kept_bytes = 0
        self._file_count = 0

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    def add(self, object_id: ObjectId, pieces: Sequence[Buffer], *, is_essential: bool = False) -> None:
        """It is being stored, until `stored`. An object that is there already stays what it was. Functions are kept
        beyond all bounds: every task of theirs would fail."""
        size = values.size_of(pieces)
        is_constant = all(map(_is_constant, pieces))
        with self.lock:
            self._lost.discard(object_id)
            if object_id in self._held:
                return
            is_kept = is_constant and (is_essential or self._kept_bytes + size <= self._most_bytes)
            keepsake = self._held[object_id] = Keepsake(size, pieces=tuple(pieces)) if is_kept else _NOTHING
            self._in_progress.add(object_id)
            self._count(keepsake, 1)

    def stored(self, object_id: ObjectId, file: File | None = None) -> None:
        """The put is answered; perhaps its bytes are in this file."""
        with self.lock:
            self._in_progress.discard(object_id)
            held = self._held.get(object_id)
            if file is None or held is not _NOTHING or self._file_count >= self._most_files:
                return
            if self._kept_bytes + file.size <= self._most_bytes:
                keepsake = self._held[object_id] = Keepsake(file.size, file=file)
                self._count(keepsake, 1)

    def add_results(
        self, results: Iterable[tuple[TaskId, ObjectId]], submission: Submission | Definition | None
    ) -> None:
        """Workers have stored these in our name; the submission is that of their tasks, where it can be sent again."""
        with self.lock:
            for task_id, object_id in results:
                self._lost.discard(object_id)
                if object_id not in self._held:
                    keepsake = self._held[object_id] = self._call_kept(task_id, submission)
                    self._count(keepsake, 1)

    def _call_kept(self, task_id: TaskId, submission: Submission | Definition | None) -> Keepsake:
        if submission is None:
            return _NOTHING
        if isinstance(submission, Definition):
            return self._node_kept(task_id, submission)
        payload = submission.payload
        if id(payload) not in self._payloads and self._kept_bytes + len(payload) > self._most_bytes:
            return _NOTHING
        arguments = {one: self._held.get(one, _NOTHING) for one in submission.objects}
        # The collector is the future, which is to be dropped by the program and not kept alive by us.
        submission = submission._replace(collector=_NOBODY)
        return Keepsake(0, call=FinishedCall(task_id, submission, arguments or _NO_ARGUMENTS))

    def _node_kept(self, task_id: TaskId, definition: Definition) -> Keepsake:
        """Its graph is kept once, however many of its results are held."""
        if not definition.holders:
            if self._kept_bytes + definition.size > self._most_bytes:
                return _NOTHING
            definition.arguments = {one: self._held.get(one, _NOTHING) for one in definition.objects}
        return Keepsake(0, call=FinishedCall(task_id, definition, definition.arguments))

    def remove(self, ids: Iterable[ObjectId]) -> None:
        with self.lock:
            for object_id in ids:
                self._lost.discard(object_id)
                self._in_progress.discard(object_id)
                keepsake = self._held.pop(object_id, None)
                if keepsake is not None:
                    self._count(keepsake, -1)

    def all(self) -> list[tuple[ObjectId, Keepsake]]:
        with self.lock:
            return [(one, found) for one in tuple(self._held) if (found := self._held.get(one)) is not None]

    def call_of(self, object_id: ObjectId) -> FinishedCall | None:
        with self.lock:
            return self._held.get(object_id, _NOTHING).call

    def lose(self, ids: Iterable[ObjectId]) -> list[ObjectId]:
        """They are not there any more. Returns those among them that we still hold, and that are not on their way."""
        with self.lock:
            lost = [one for one in ids if one in self._held and one not in self._in_progress]
            self._lost.update(lost)
            return lost

    def is_there(self, object_id: ObjectId) -> bool:
        """As far as is known here."""
        return object_id in self._held and object_id not in self._lost

    def is_held(self, object_id: ObjectId) -> bool:
        return object_id in self._held

    def is_lost(self, object_id: ObjectId) -> bool:
        return object_id in self._lost

    def lost_calls(self) -> list[tuple[ObjectId, FinishedCall]]:
        """Of the results that are lost, those that can be made again."""
        with self.lock:
            found = [(object_id, self._held.get(object_id, _NOTHING).call) for object_id in tuple(self._lost)]
        return [(object_id, call) for object_id, call in found if call is not None]

    def results_of(self, definition: Definition) -> list[ObjectId]:
        """Of this graph."""
        with self.lock:
            calls = [(one, self._held.get(one, _NOTHING).call) for one in tuple(self._held)]
        return [object_id for object_id, call in calls if call is not None and call.submission is definition]

    def check(self) -> None:
        """Derive again what is counted along the way."""
        assert (self._kept_bytes, self._file_count) == self._counted()
        assert self._lost <= self._held.keys() and self._in_progress <= self._held.keys()
        assert self._lost.isdisjoint(self._in_progress)

    def count_again(self) -> None:
        """An interrupt may have come between a change and its count."""
        with self.lock:
            calls = [one.call for one in tuple(self._held.values()) if one.call]
            holders = Counter(one.submission for one in calls if isinstance(one.submission, Definition))
            for definition, count in holders.items():
                definition.holders = count
            plain = [one.submission for one in calls if not isinstance(one.submission, Definition)]
            self._payloads = Counter(id(one.payload) for one in plain)
            self._kept_bytes, self._file_count = self._counted()

    def _counted(self) -> tuple[int, int]:
        """The bytes and the files of all keepsakes."""
        every = list(self._held.values())
        calls = [one.call for one in every if one.call]
        definitions = {id(one.submission): one.submission for one in calls if isinstance(one.submission, Definition)}
        plain = [one for one in calls if not isinstance(one.submission, Definition)]
        every += [argument for one in plain for argument in one.arguments.values()]
        every += [argument for one in definitions.values() for argument in one.arguments.values()]
        batches = [one.submission for one in calls if not isinstance(one.submission, Definition)]
        payloads = {id(one.payload): one.payload for one in batches}
        shared_bytes = sum(one.size for one in definitions.values()) + sum(map(len, payloads.values()))
        return shared_bytes + sum(one.size for one in every), sum(one.file is not None for one in every)

    def _count(self, keepsake: Keepsake, by: int) -> None:
        if keepsake is _NOTHING:
            return
        self._kept_bytes += by * keepsake.size
        self._file_count += by * (keepsake.file is not None)
        call = keepsake.call
        if call is None:
            return
        if isinstance(call.submission, Definition):
            definition = call.submission
            was_held, definition.holders = bool(definition.holders), definition.holders + by
            if was_held and definition.holders:
                return
            self._kept_bytes += by * definition.size
        else:
            self._count_payload(call.submission.payload, by)
        for argument in call.arguments.values():
            self._count(argument, by)

    def _count_payload(self, payload: Buffer, by: int) -> None:
        count = self._payloads.pop(id(payload), 0)
        if count + by:
            self._payloads[id(payload)] = count + by
        if not count or not count + by:
            self._kept_bytes += by * len(payload)


def _is_constant(piece: Buffer) -> bool:
    """Bytes, or a view of some, as which large ones travel."""
    return type(piece) is bytes or (type(piece) is memoryview and type(piece.obj) is bytes)
