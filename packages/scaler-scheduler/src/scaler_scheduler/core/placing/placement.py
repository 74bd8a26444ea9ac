"""Which worker gets which tasks (SCH-9 to SCH-12)."""

from __future__ import annotations

from scaler_protocol.codes import TOO_LARGE
from scaler_protocol.messages import TaskError
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.columns import Indexes, Inputs
from scaler_scheduler.core.entities.requirements import ClassKey
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.placing import ahead, lending
from scaler_scheduler.core.tables.families import LOOKS_A_TURN
from scaler_scheduler.core.tables.ready import ReadyClass
from scaler_scheduler.core.tables.tables import DISPATCH_STEPS, TASKS_IN_A_MESSAGE, Tables
from scaler_scheduler.core.tables.turns import PORTION_TASKS


def place(tables: Tables) -> None:
    """Every class gets its turn, whether or not the one before it found a worker: none blocks the line (SCH-11). What
    is beyond the steps of a turn has the next one (LIM-25)."""
    tables.families.looks_left = LOOKS_A_TURN
    tables.placing_left = tables.placed_a_turn
    if tables.elsewhere:
        _place_elsewhere(tables)
    for ready, users in tables.ready.placeable(is_lending=bool(tables.lending)):
        _place_class(tables, ready, users)
    if tables.followable:
        ahead.send_ahead(tables)


def _place_class(tables: Tables, ready: ReadyClass, users: int) -> None:
    """Dispatches what has a place. If several users wait, that is some tasks for one worker: then another has its
    turn."""
    index = ready.index
    if not index.members:
        return
    share = -(-ready.count // len(index.members))
    while ready.count and tables.placing_left > 0:
        least_loaded = index.pop_least_loaded()
        if least_loaded is None:
            if tables.lending and ready.may_borrow:
                _place_borrowers(tables, ready)
            return
        worker, room = least_loaded
        room = min(share, room)
        if users > 1:
            room = min(room, max(PORTION_TASKS, room // users))
        while room > 0 and tables.placing_left > 0:
            taken = ready.take(min(room, TASKS_IN_A_MESSAGE))
            if taken is None:
                break
            if taken[0].header.parent_task:
                if tables.families.looks_left <= 0:
                    tables.enqueue(*taken, at_front=True)
                    worker.load_changed()
                    return
                if tables.families.may_not_begin(taken[0]):
                    tables.families.looks_left -= ready.set_aside(*taken)
                    continue
            room -= len(taken[1])
            _dispatch(tables, worker, *taken)
        worker.load_changed()
        if users > 1:
            return


def _place_borrowers(tables: Tables, ready: ReadyClass) -> None:
    """Tasks that need what their own blocked ancestors take (SCH-47)."""
    for chunk in dict.fromkeys([chunk for chunk, _ in ready.runs()]):
        if tables.families.may_not_begin(chunk):
            continue
        while (found := lending.offer(tables, chunk)) is not None:
            worker, lender, count = found
            indexes = ready.take_of(chunk, count)
            if not indexes:
                break
            _dispatch(tables, worker, chunk, indexes)
            given = [chunk.ids[index] for index in indexes if chunk.ids[index] in worker.held]
            worker.borrowers.update(dict.fromkeys(given, lender))
            worker.load_changed()


def _place_elsewhere(tables: Tables) -> None:
    elsewhere, tables.elsewhere = tables.elsewhere, []
    for chunk, index, worker in elsewhere:
        other = _other(tables, chunk.combination.key, worker)
        if other is None:
            continue
        if not tables.families.may_not_begin(chunk) and tables.ready.take_one(chunk, index):
            _dispatch(tables, other, chunk, range(index, index + 1))
        other.load_changed()


def _other(tables: Tables, key: ClassKey, worker: Worker) -> Worker | None:
    """Returns the least loaded worker besides this one. The caller reports `load_changed`."""
    if not tables.ready.comes_first(key):
        return None
    index = tables.load_indexes.of(key, tables.ready.indexes())
    is_passed = False
    while (found := index.pop_least_loaded()) is not None and found[0] is worker:
        is_passed = True
    if is_passed:
        worker.load_changed()
    return None if found is None else found[0]


def _dispatch(tables: Tables, worker: Worker, chunk: Chunk, indexes: Indexes) -> None:
    is_weighed = chunk.has_dependencies or chunk.payload_bytes > worker.payload_limit
    most = worker.most_in_a_dispatch(chunk) if len(indexes) > 1 else 1
    for start in range(0, len(indexes), most):
        group = indexes[start : start + most]
        if is_weighed:
            _dispatch_by_size(tables, worker, chunk, group)
        else:
            _dispatch_one_message(tables, worker, chunk, group, Inputs())


def _dispatch_by_size(tables: Tables, worker: Worker, chunk: Chunk, indexes: Indexes) -> None:
    """Each task may bring the results of thousands of others along, so messages are cut by size too (PAY-4, LIM-3)."""
    inputs = tables.dependencies.inputs(chunk, indexes)
    payload_bytes = chunk.bytes_of(indexes) + inputs.payload_bytes
    if worker.takes(payload_bytes, inputs.envelope_bytes):
        _dispatch_one_message(tables, worker, chunk, indexes, inputs)
    elif len(indexes) > 1:
        middle = len(indexes) // 2
        _dispatch_by_size(tables, worker, chunk, indexes[:middle])
        _dispatch_by_size(tables, worker, chunk, indexes[middle:])
    else:
        error = _too_large(worker, len(inputs.ids), payload_bytes)
        endings.refuse_queued(tables, chunk.ids[indexes[0]], chunk, error)


def _too_large(worker: Worker, inputs: int, payload_bytes: int) -> TaskError:
    text = (
        f"it takes {payload_bytes} bytes with the {inputs} results it depends on, and for one task a worker accepts "
        f"{worker.payload_limit} of payload and {worker.envelope_limit} of envelope: "
        "merge them in several steps, or let the tasks return larger values, which travel as objects"
    )
    return TaskError(code=TOO_LARGE, type_name="ValueError", message=text, text=text)


def _dispatch_one_message(tables: Tables, worker: Worker, chunk: Chunk, indexes: Indexes, inputs: Inputs) -> None:
    if isinstance(indexes, range):
        ids = chunk.ids[indexes.start : indexes.stop]
    else:
        ids = tuple([chunk.ids[index] for index in indexes])
    tables.give(worker, chunk, indexes, ids)
    tables.placing_left -= DISPATCH_STEPS + len(ids)
    header = tables.told_header(chunk, worker)
    tables.tell(worker.peer_id, chunk.cut(header, indexes, tables.attempts_column(ids), inputs))
