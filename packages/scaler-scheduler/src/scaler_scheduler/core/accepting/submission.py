"""A client submits: all of a batch is accepted, or nothing (SCH-1, BAT-2)."""

from __future__ import annotations

from scaler_protocol.codes import BAD_BATCH, OVERLOADED, QUOTA
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Error, Submit
from scaler_scheduler.core.accepting import admission
from scaler_scheduler.core.accepting.admitting import (
    CIRCLE,
    Admission,
    Refusal,
    duplicate,
    is_known_to,
    line_up,
    unknown,
)
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.succession import presenting
from scaler_scheduler.core.tables import rights
from scaler_scheduler.core.tables.backlog import Job
from scaler_scheduler.core.tables.tables import Tables

_LIMITS = {OVERLOADED: "combinations of tasks", QUOTA: "quota of a user"}
"""Refusals that the operator is told of, since another limit would help."""


def submit(tables: Tables, client: Client, seq: int, batch: Submit) -> Job | None:
    is_nested = batch.header.parent_task or batch.header.depth
    header = rights.own_header(tables, client, batch.header) if is_nested else client.own(batch.header)
    if header.code_set:
        tables.known_objects.note_code_set(header.code_set)
    chunk = Chunk(client, header, batch)
    if _is_much(tables, chunk):
        return _submit_in_slices(tables, client, seq, chunk, batch)
    known = _known(tables, chunk)
    error = _refusal(tables, chunk, known)
    if error is not None:
        _refuse(tables, client, seq, error)
        return None
    if known:
        # Tasks of a client that came back under a new id before its former self was given up end there. (SCH-8)
        endings.abandon_all(tables, known)
    _register(tables, chunk)
    tables.functions.accept(chunk, tables.history.now)
    if chunk.has_dependencies or (tables.abandoned and not tables.abandoned.keys().isdisjoint(chunk.ids)):
        _admit_one_by_one(tables, chunk)
    else:
        tables.move(State.NEW, Move.SUBMIT_READY, len(chunk.ids))
        tables.enqueue(chunk, range(len(chunk.ids)))
    _track_graph(tables, client, batch)
    if tables.presentation.tasks:
        presenting.match(tables, chunk.ids)
    if chunk.header.parent_task:
        endings.cancel_late(tables, chunk)
    if tables.policy.waiting_limit >= 0:
        tables.arrived.append(chunk)
    return None


def _is_much(tables: Tables, chunk: Chunk) -> bool:
    """To look at each task and each dependency would take long, or some of it has to wait."""
    if tables.failing and not tables.failing.keys().isdisjoint(chunk.ids):
        return True
    if not chunk.has_dependencies and len(chunk.ids) <= tables.backlog.units_at_once:
        return False
    if len(chunk.ids) + len(chunk.batch.dependencies) // ID_BYTES <= tables.backlog.units_at_once:
        return False
    known = (tables.where, tables.abandoned, tables.presentation.tasks)
    return chunk.has_dependencies or not all(table.keys().isdisjoint(chunk.ids) for table in known if table)


def _submit_in_slices(tables: Tables, client: Client, seq: int, chunk: Chunk, batch: Submit) -> Job:
    job = Admission(tables, client, chunk, is_graph_sealed=batch.is_graph_sealed)
    job.refusal = _wrong_client(chunk)
    if job.refusal is None and not chunk.combination.is_listed:
        job.refusal = _too_many_combinations(chunk)
    job.refusal = job.refusal or admission.beyond_quota(tables, chunk)
    yield from job.look()
    if job.refusal is not None:
        _refuse(tables, client, seq, job.refusal)
    else:
        yield from job.accept()


def _refuse(tables: Tables, client: Client, seq: int, refusal: Refusal) -> None:
    code, text, clause = refusal
    tables.refused_count += 1
    if code in _LIMITS:
        name = tables.display.of(client.peer_id).hex()[:8]
        tables.events.note_limit(_LIMITS[code], f"client {name}: {text}")
    if not client.is_gone:
        tables.answer(client, Error(code=code, ref_seq=seq, fatal=False, text=text, clause=clause))


def _wrong_client(chunk: Chunk) -> Refusal | None:
    named, own = chunk.batch.header.client, chunk.client.peer_id
    if named and named != own:
        text = f"the header names client {named.hex()} and this session is that of {own.hex()}: leave it empty"
        return BAD_BATCH, text, "SCH-4"
    return None


def _too_many_combinations(chunk: Chunk) -> Refusal | None:
    of_user = chunk.combination.of_user
    if of_user.has_room(chunk.combination.key):
        return None
    text = (
        f"the unfinished tasks of this user have {len(of_user.listed)} different combinations of depth, priority and "
        "capabilities, and no further one is accepted now: use fewer of them, or submit this when some have ended"
    )
    return OVERLOADED, text, "SCH-49"


def _refusal(tables: Tables, chunk: Chunk, known: list[TaskId]) -> Refusal | None:
    wrong_client = _wrong_client(chunk)
    if wrong_client is not None:
        return wrong_client
    if not chunk.combination.is_listed and (refusal := _too_many_combinations(chunk)) is not None:
        return refusal
    if (refusal := admission.beyond_quota(tables, chunk)) is not None:
        return refusal
    if known or tables.dependencies.kept:
        refusal = rights.foreign_task(tables, chunk.client, chunk.ids)
        if refusal is not None:
            return refusal
    for task_id in known:
        # A session that was opened later may have taken the task over already; this batch was on its way. (SCH-48)
        if tables.chunk_of(task_id).client.number >= chunk.client.number:
            return duplicate(task_id)
    return _graph_refusal(tables, chunk) if chunk.has_dependencies else None


def _known(tables: Tables, chunk: Chunk) -> list[TaskId]:
    if tables.where.keys().isdisjoint(chunk.ids):
        return []
    return [task_id for task_id in chunk.ids if task_id in tables.where]


def _graph_refusal(tables: Tables, chunk: Chunk) -> Refusal | None:
    place_of = chunk.index_of.get
    is_in_order = True
    for index, needs in enumerate(chunk.every_dependency()):
        for other in needs:
            place = place_of(other)
            if place is not None:
                is_in_order = is_in_order and place < index
            elif not is_known_to(tables, chunk.client, other):
                return unknown(chunk.ids[index], other)
    if not is_in_order and _has_cycle(chunk):
        return CIRCLE
    return None


def _has_cycle(chunk: Chunk) -> bool:
    """Kahn's count: in an acyclic batch, taking tasks without dependencies away in turn leaves none."""
    own = chunk.index_of
    missing = [0] * len(chunk.ids)
    dependents: dict[TaskId, list[int]] = {}
    for index, needs in enumerate(chunk.every_dependency()):
        for other in needs:
            if other in own:
                missing[index] += 1
                dependents.setdefault(other, []).append(index)
    free = [index for index, count in enumerate(missing) if not count]
    done = 0
    while free:
        done += 1
        for dependent in dependents.get(chunk.ids[free.pop()], ()):
            missing[dependent] -= 1
            if not missing[dependent]:
                free.append(dependent)
    return done < len(chunk.ids)


def _register(tables: Tables, chunk: Chunk) -> None:
    client = chunk.client
    tables.where.update(dict.fromkeys(chunk.ids, chunk))
    client.begin(chunk, len(chunk.ids))
    if chunk.header.parent_task:
        tables.children.setdefault(chunk.header.parent_task, {}).update(dict.fromkeys(chunk.ids))


def _admit_one_by_one(tables: Tables, chunk: Chunk) -> None:
    """A task waits for its unfinished dependencies; and one submitted again waits for its own earlier life (SCH-8)."""
    tables.dependencies.users.update(chunk.every_need())
    needs = list(chunk.every_dependency()) if chunk.has_dependencies else [()] * len(chunk.ids)
    line_up(tables, chunk, range(len(chunk.ids)), needs)


def _track_graph(tables: Tables, client: Client, batch: Submit) -> None:
    graph_id = batch.header.graph_id
    if not graph_id:
        return
    if batch.is_graph_sealed:
        ended = client.graphs.pop(graph_id, {})
        tables.release(tables.dependencies.sealed(ended))
    else:
        client.graphs.setdefault(graph_id, {})
