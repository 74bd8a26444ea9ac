"""Graphs as a client's core takes them, made of single submissions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler.client.core.events import GraphSubmitted
from scaler.client.core.records import GraphBatch, Submission
from scaler_protocol import codes, columns
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import Submit


class GraphNode(NamedTuple):
    submission: Submission
    dependencies: tuple[TaskId, ...] = ()
    is_wanted: bool = True


def graph_of(
    graph_id: GraphId, nodes: Sequence[GraphNode], objects: tuple[ObjectId, ...] = (), batch_tasks: int = 100
) -> GraphSubmitted:
    """All nodes call one function and share one header."""
    groups = [nodes[begin : begin + batch_tasks] for begin in range(0, len(nodes), batch_tasks)]
    batches = tuple(_batch(group, is_last=group is groups[-1]) for group in groups)
    wanted = tuple(node.submission._replace(payload=b"", part_sizes=()) for node in nodes if node.is_wanted)
    needed = {other for node in nodes for other in node.dependencies}
    inputs = frozenset([one.ids[0] for one in wanted if one.ids[0] in needed])
    return GraphSubmitted(graph_id, batches, wanted, objects, inputs=inputs)


def _batch(nodes: Sequence[GraphNode], is_last: bool) -> GraphBatch:
    calls = [node.submission for node in nodes]
    message = Submit(
        header=calls[0].header,
        functions=calls[0].function,
        ids=columns.join_ids([call.ids[0] for call in calls]),
        payload=b"".join([call.payload for call in calls]),
        part_sizes=columns.join_u32([size for call in calls for size in call.part_sizes]),
        part_counts=columns.join_u16([len(call.part_sizes) for call in calls]),
        part_kinds=b"".join([call.part_kinds or bytes(len(call.part_sizes)) for call in calls]),
        dependency_counts=columns.join_u16([len(node.dependencies) for node in nodes]),
        dependencies=columns.join_ids([one for node in nodes for one in node.dependencies]),
        task_flags=bytes(0 if node.is_wanted else codes.TASK_UNWANTED for node in nodes),
        is_graph_sealed=is_last,
    )
    return GraphBatch(message, tuple((i, node.submission.ids[0]) for i, node in enumerate(nodes) if node.is_wanted))
