"""Batches of a dump, as a client can submit them again.

An adopted task has left its batch for a batch of its own, so two batches of one graph may depend on each other. Then
neither can be submitted first: they are submitted as one, and taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from scaler_protocol.columns import join_u16, split_ids
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Submit
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.tables.tables import Tables


def in_order(batches: Sequence[Submit]) -> list[list[Submit]]:
    """Each list is submitted as one, behind those that it depends on."""
    groups = [[batch] for batch in batches]
    while True:
        home = {id_: number for number, group in enumerate(groups) for one in group for id_ in split_ids(one.ids)}
        needs = {
            number: {home[other] for one in group for other in split_ids(one.dependencies) if other in home} - {number}
            for number, group in enumerate(groups)
        }
        try:
            return [groups[number] for number in TopologicalSorter(needs).static_order()]
        except CycleError as error:
            circle = set(error.args[1])
            merged = [one for number in sorted(circle) for one in groups[number]]
            groups = [group for number, group in enumerate(groups) if number not in circle] + [merged]


def merged(batches: Sequence[Submit]) -> Submit:
    """One batch of the same tasks: all with the function of the first, until they are taken apart."""
    whole = [_written_out(batch) for batch in batches]
    names = ("ids", "part_counts", "part_kinds", "part_sizes", "dependency_counts", "dependencies", "task_flags")
    columns = {name: b"".join([getattr(batch, name) for batch in whole]) for name in names}
    payload = b"".join([bytes(batch.payload) for batch in whole])
    functions = batches[0].functions[:ID_BYTES]
    return replace(batches[0], functions=functions, function_indexes=b"", payload=payload, **columns)


def _written_out(batch: Submit) -> Submit:
    """Without empty columns that stand for a default."""
    count, parts = len(batch.ids) // ID_BYTES, len(batch.part_sizes) // 4
    return replace(
        batch,
        part_counts=batch.part_counts or join_u16([1] * count),
        part_kinds=batch.part_kinds or bytes(parts),
        dependency_counts=batch.dependency_counts or bytes(2 * count),
        task_flags=batch.task_flags or bytes(count),
    )


def take_apart(tables: Tables, batches: Sequence[Submit]) -> None:
    """What was submitted as one is as many chunks again as there are batches."""
    for batch in batches:
        whole = tables.chunk_of(TaskId(batch.ids[:ID_BYTES]))
        own = Chunk(whole.client, whole.header, batch)
        for index, task_id in enumerate(own.ids):
            tables.where[task_id] = own
            waiting = tables.dependencies.waiting.get(task_id)
            if waiting is not None:
                waiting.chunk, waiting.index = own, index
        tables.unfinish(whole, len(own.ids))
        own.client.begin(own, len(own.ids))
