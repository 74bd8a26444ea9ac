"""Graphs as the page draws them, made of what the scheduler tells: plain values, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, repeat
from typing import Any

from scaler_protocol.codes import STATUS_CANCELED, STATUS_REFUSED
from scaler_protocol.columns import offsets, split_ids, split_u16
from scaler_protocol.messages import GraphShape

Json = dict[str, Any]

STATES = ("waiting", "queued", "dispatched", "canceling", "ended", "failed", "skipped", "canceled")
"""Of a task in a picture. One that never ran, because another failed, is grey as a canceled one."""
UNFINISHED = STATES[:4]
_ENDED, _FAILED, _SKIPPED, _CANCELED = range(4, 8)
_BY_OUTCOME = {0: _ENDED, STATUS_REFUSED: _SKIPPED, STATUS_CANCELED: _CANCELED}


def graph_of(shape: GraphShape, user: str) -> Json:
    """Columns that do not agree are a broken scheduler's: then there is a graph without a picture."""
    return {
        "id": shape.graph_id.hex(),
        "client": shape.client_id.hex()[:8],
        "user": user,
        "tasks": shape.task_count,
        "unfinished": shape.unfinished_count,
        "failed": shape.failed_count,
        "canceled": shape.canceled_count,
        "runs": shape.unfinished_count > 0 or not shape.task_count,
        "nodes": nodes_of(shape, len(split_ids(shape.ids))),
    }


def nodes_of(shape: GraphShape, count: int) -> list[list[Any]]:
    """For each task its id, name, state, the indexes of what it needs, and its key. `count`: one more than the highest
    index."""
    names: dict[bytes, str] = {one.function_id: one.name for one in shape.function_names}
    ids, functions, states = split_ids(shape.ids), split_ids(shape.functions), states_of(shape)
    counts, targets = split_u16(shape.dependency_counts), split_u16(shape.dependencies)
    if not len(ids) == len(functions) == len(counts) == len(states) or sum(counts) != len(targets):
        return []
    needs = ([one for one in targets[start:end] if one < count] for start, end in pairwise(offsets(counts)))
    called = (names.get(function) or function.hex()[:8] for function in functions)
    named = (one.hex() for one in ids)
    columns = zip(named, called, map(STATES.__getitem__, states), needs, _keys(shape, len(ids)), strict=True)
    return [list(one) for one in columns]


def states_of(shape: GraphShape) -> bytes:
    """Of each task, as an index of STATES; empty: the columns do not agree."""
    if len(shape.outcomes) not in (0, len(shape.states)):
        return b""
    return bytes(map(_state_of, shape.states, shape.outcomes or repeat(0)))


def _state_of(state: int, outcome: int) -> int:
    """`outcome`: a status, if it has ended."""
    return state if state < _ENDED else _BY_OUTCOME.get(outcome, _FAILED)


def _keys(shape: GraphShape, count: int) -> Iterator[str]:
    """What their program calls the tasks, if it does."""
    if len(shape.key_sizes) != count:
        return repeat("", count)
    return (shape.keys[start:end].decode(errors="replace") for start, end in pairwise(offsets(shape.key_sizes)))


def gone(graph: Json, *, have_ended: bool) -> Json:
    """A graph that runs no longer. `have_ended`: so have all its tasks, as far as is known."""
    if not graph["runs"]:
        return graph
    nodes = [
        [task, name, "ended" if have_ended and state in UNFINISHED else state, *others]
        for task, name, state, *others in graph["nodes"]
    ]
    return {**graph, "runs": False, "unfinished": 0 if have_ended else graph["unfinished"], "nodes": nodes}
