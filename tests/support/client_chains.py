"""Chains of nodes at a client's core: what is sent of them, and what the scheduler tells of those that have ended."""

from __future__ import annotations

from dataclasses import replace

from scaler.client.core.actions import Send
from scaler.client.core.core import FEATURE_KEPT_RESULTS
from scaler.client.core.events import FLUSH, GraphSubmitted
from scaler.client.core.records import Submission
from scaler_protocol import codec, codes, columns
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId
from scaler_protocol.messages import KeptResults, Limits, Submit, TaskHeader, Welcome
from scaler_protocol.session import Opened, Received
from tests.support.client_core import FUNCTION, GRAPH, HELLO, SERVER, Told, Waiter, names_in, task
from tests.support.client_graphs import GraphNode, graph_of

HEADER = TaskHeader(call_format=codes.CALL_SEPARATE, graph_id=GRAPH)
NAME = HELLO.peer_id
STORED = ObjectId(b"stored".ljust(16, b"."))


def node(name: str, *needs: str, is_wanted: bool = False, collector: Waiter | None = None) -> GraphNode:
    """It takes its own name, and what the others return."""
    others = tuple(map(task, needs))
    submission = Submission(
        header=HEADER,
        function=FUNCTION,
        ids=(task(name),),
        payload=name.encode() + b"".join(others),
        part_sizes=(len(name), *(ID_BYTES for _ in needs)),
        part_counts=(1 + len(needs),),
        part_kinds=bytes([codes.KIND_INLINE, *(codes.KIND_TASK for _ in needs)]),
        collector=collector or Waiter(),
    )
    return GraphNode(submission, others, is_wanted)


def opened(*, may_give: bool = True, limits: Limits | None = None, name: PeerId = NAME) -> Opened:
    features = (FEATURE_KEPT_RESULTS,) if may_give else ()
    welcome = Welcome(1, SERVER, 1, 1, features=features, limits=limits or Limits())
    return Opened(SERVER, replace(HELLO, peer_id=name), welcome)


def kept(values: dict[str, bytes], *, kind: int = codes.KIND_INLINE, graph_id: GraphId = GRAPH) -> Received:
    message = KeptResults(
        ids=columns.join_ids(map(task, values)),
        payload=b"".join(values.values()),
        sizes=columns.join_u32([len(value) for value in values.values()]),
        kinds=bytes([kind]) * len(values),
        graph_id=graph_id,
    )
    codec.check(message, Limits())
    return Received(SERVER, 1, message)


def chain(*names: str, batch_tasks: int = 100) -> GraphSubmitted:
    nodes = [node(name, *names[max(0, index - 1) : index]) for index, name in enumerate(names)]
    return graph_of(GRAPH, [*nodes[:-1], nodes[-1]._replace(is_wanted=True)], batch_tasks=batch_tasks)


def begun(graph: GraphSubmitted) -> Told:
    """It has been sent."""
    told = Told(is_open=False)
    told(opened())
    assert told(graph) == []
    assert messages(told)
    return told


def messages(told: Told) -> list[Submit | KeptResults]:
    sent = [action.message for action in told(FLUSH) if isinstance(action, Send)]
    for message in sent:
        codec.check(message, Limits())
    assert all(isinstance(message, Submit | KeptResults) for message in sent)
    return sent  # type: ignore[return-value]


def lines(told: Told) -> list[str]:
    """What leaves, one readable line for each message."""
    found = []
    for message in messages(told):
        if isinstance(message, KeptResults):
            found.append("given " + " ".join(one.rstrip(b".").decode() for one in columns.split_ids(message.ids)))
        else:
            found.append("submit " + " ".join(names_in(message)) + (" sealed" if message.is_graph_sealed else ""))
    return found
