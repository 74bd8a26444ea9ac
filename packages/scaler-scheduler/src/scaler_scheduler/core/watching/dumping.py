"""All that the core remembers, as plain values, to find a mistake in it: nothing is changed (MON-16).

Batches are told as the columns that they came in, without their arguments (MON-17): a dump of a million tasks takes
little longer than a look at each of them, and `tests/simulation` can make a scheduler of it that goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache, partial
from itertools import groupby
from typing import Any

from scaler_protocol.columns import split_ids
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import TaskHeader
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.states import FINISHED, UNFINISHED
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.scaling.manager import Manager
from scaler_scheduler.core.tables.tables import Tables

Json = dict[str, Any]

TASKS_LIMIT = 200_000
BATCHES_LIMIT = 10_000
"""More are left out, and the line `tables` says how many: no peer waits for more than some tenths of a second."""
SECRETS = frozenset(("result_salt", "owner_grant"))
"""Fields of headers that would tell a watcher where values lie, or let it take them. (OWN-15)"""
LEFT_OUT = SECRETS | {"generation"}
"""The line `tables` tells the generation once: what a header has of it is that of its submission. (SCH-61)"""


def lines(tables: Tables, managers: Iterable[Manager], now: float) -> Iterator[Json]:
    chunks, listed_count = _chosen(tables)
    yield {
        "kind": "tables",
        "policy": asdict(tables.policy),
        "counts": {state.value: tables.counts[state] for state in (*UNFINISHED, *FINISHED)},
        "unfinished": len(tables.where),
        "listed": listed_count,
        "refused": tables.refused_count,
        "recalled": tables.recalled_count,
        "returned": tables.returned_count,
        "unconfirmed_owners": len(tables.gone_owners),
        "generation": tables.generation,
        "is_recovering": tables.presentation.is_recovering,
        "presented": len(tables.presentation.tasks),
    }
    yield from (_client(tables, client) for client in tables.clients.values())
    yield from (_worker(tables, worker, now) for worker in tables.workers.values())
    yield from (_manager(tables, manager) for manager in managers)
    # Those that have left, and of which the tasks are just going back to the queue, have no line of their own.
    workers = dict.fromkeys((*tables.workers.values(), *tables.backlog.workers()))
    numbers = {worker: number for number, worker in enumerate(workers)}
    yield from _abandoned(tables, numbers)
    headers = cache(partial(_header, tables))  # batches of one program share theirs
    functions: dict[bytes, None] = {}
    for chunk in chunks:
        functions.update(dict.fromkeys(split_ids(chunk.batch.functions)))
        yield _batch(tables, chunk, headers(chunk.header), numbers)
    names = tables.function_names.of_all(functions)
    yield {"kind": "functions", "names": {one.function_id.hex(): one.name for one in names}}
    yield from _kept(tables)
    yield {"kind": "tasks", **_exceptions(tables)}


def _chosen(tables: Tables) -> tuple[list[Chunk], int]:
    """Whole batches, the oldest of each client first."""
    chunks: list[Chunk] = []
    count = 0
    for client in tables.clients.values():
        for chunk in client.chunks:
            if len(chunks) < BATCHES_LIMIT and count + chunk.unfinished <= TASKS_LIMIT:
                chunks.append(chunk)
                count += chunk.unfinished
    return chunks, count


def _client(tables: Tables, client: Client) -> Json:
    return {
        "kind": "client",
        "id": _shown(tables, client.peer_id),
        "user": client.user,
        "software": asdict(client.software),
        "unfinished": client.unfinished_count,
        "objects": client.object_count,
        "object_bytes": client.object_bytes,
        "open_graphs": [graph_id.hex() for graph_id in client.graphs],
    }


def _worker(tables: Tables, worker: Worker, now: float) -> Json:
    status = worker.status
    return {
        "kind": "worker",
        "id": _shown(tables, worker.peer_id),
        "name": worker.name,
        "user": worker.user,
        "software": asdict(worker.software),
        "capabilities": worker.capabilities,
        "code_tags": list(worker.code_tags),
        "takes_code_sets": worker.takes_code_sets,
        "free_amounts": worker.free_amounts,
        "credit": worker.limit,
        "nested_reserve": worker.nested_reserve,
        "held": len(worker.held),
        "recalling": [task_id.hex() for task_id in worker.recalling],
        "completed": worker.completed_count,
        "is_retired": worker.is_retired,
        "is_cut_off": worker.is_cut_off,
        "unit": worker.unit_id,
        "silent_seconds": max(0.0, now - worker.heard_at),
        "still_seconds": worker.still_seconds(now),
        "lag_seconds": status.lag_seconds,
        "queued": status.queued_count,
        "recycled": status.recycled_count,
        "limited": status.limited_count,
        "processors": [
            [one.process_id, one.state, one.task_id.hex(), one.running_seconds] for one in status.processors
        ],
    }


def _manager(tables: Tables, manager: Manager) -> Json:
    return {
        "kind": "manager",
        "id": _shown(tables, manager.manager_id),
        "name": manager.name,
        "user": manager.user,
        "goal": manager.goal,
        "units": {unit.unit_id: unit.state for unit in manager.status.units} if manager.status is not None else None,
        "stopped": list(manager.stopped),
        "retiring": list(manager.retiring),
    }


def _abandoned(tables: Tables, numbers: dict[Worker, int]) -> Iterator[Json]:
    for worker, number in numbers.items():
        for task_id, chunk in worker.held.items():
            if task_id in tables.abandoned:
                yield {
                    "kind": "abandoned",
                    "id": task_id.hex(),
                    "worker": number,
                    "attempt": tables.abandoned[task_id],
                    "header": _header(tables, chunk.header),
                }


def _batch(tables: Tables, chunk: Chunk, header: Json, numbers: dict[Worker, int]) -> Json:
    indexes = [index for index, task_id in enumerate(chunk.ids) if _is_in(tables, chunk, task_id)]
    places = [_place(tables, chunk.ids[index], numbers) for index in indexes]
    outline = chunk.outline(indexes)
    columns = {
        name: bytes(getattr(outline, name)).hex()
        for name in (
            "functions", "ids", "function_indexes", "part_counts", "part_kinds", "part_sizes", "dependency_counts",
            "dependencies", "task_flags",
        )
    }  # fmt: skip
    return {
        "kind": "batch",
        "client": _shown(tables, chunk.client.peer_id),
        "header": header,
        **{name: column for name, column in columns.items() if column},
        "inputs": bytes(outline.payload).hex(),
        "places": [[place, len(list(run))] for place, run in groupby(places)],
    }


def _is_in(tables: Tables, chunk: Chunk, task_id: TaskId) -> bool:
    place = tables.where.get(task_id)
    return place is chunk or (isinstance(place, Worker) and place.held.get(task_id) is chunk)


def _place(tables: Tables, task_id: TaskId, numbers: dict[Worker, int]) -> str | int:
    """The number of the worker that holds it, in the order in which they are told."""
    place = tables.where[task_id]
    if isinstance(place, Worker):
        return numbers[place]
    return "waiting" if task_id in tables.dependencies.waiting else "queued"


def _shown(tables: Tables, peer_id: PeerId) -> str:
    return tables.display.of(peer_id).hex()


def _header(tables: Tables, header: TaskHeader) -> Json:
    """A task's header without fields that have their default and without secrets. Keywords are names of arguments, not
    arguments, so they stay."""
    fields = {name: value for name, value in asdict(header).items() if value and name not in LEFT_OUT}
    if header.client:
        fields["client"] = tables.display.of(header.client)
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}


def _kept(tables: Tables) -> Iterator[Json]:
    """Results that unfinished tasks take, but not those of clients that have gone and are being forgotten."""
    for task_id, kept in list(tables.dependencies.kept.items())[:TASKS_LIMIT]:
        if kept.chunk.client.is_gone:
            continue
        yield {
            "kind": "kept",
            "id": task_id.hex(),
            "client": _shown(tables, kept.chunk.client.peer_id),
            "graph": kept.chunk.header.graph_id.hex(),
            "value_kind": kept.kind,
            "bytes": len(kept.value),
            "is_wanted": kept.is_wanted,
            "status": kept.status,
        }


def _exceptions(tables: Tables) -> Json:
    """What is remembered of few tasks only, but not of those of clients that have gone and are being forgotten."""
    leaving = {chunk for client in tables.backlog.clients() if client.is_gone for chunk in client.chunks}
    left_out = {task_id for chunk in leaving for task_id in chunk.ids if _is_in(tables, chunk, task_id)}
    return {
        name: {task_id.hex(): value for task_id, value in list(table.items())[:TASKS_LIMIT] if task_id not in left_out}
        for name, table in (
            ("attempts", tables.attempts),
            ("lost_workers", tables.lost_workers),
            ("retried", tables.retried),
            ("deaths", {task_id: deaths.told() for task_id, deaths in tables.deaths.items()}),
            ("canceling", tables.canceling),
        )
    }
