"""Everything that must hold between two events, derived again from scratch."""

from __future__ import annotations

from collections import Counter

from scaler.client.core.core import ClientCore
from scaler.client.core.knowledge import ROW_BYTES
from scaler.client.core.states import State
from scaler_protocol.ids import ID_BYTES, TaskId


def check(core: ClientCore) -> None:
    table, outbox = core._table, core._outbox
    counts = Counter(id(entry) for entry in table.pending.values())
    for task_id, entry in table.pending.items():
        assert task_id in entry.submission.ids, "a task is filed under its own id"
        assert entry.unfinished_count == counts[id(entry)], "unfinished_count counts the pending tasks of an entry"
        assert entry.state is not State.ENDED, "what is pending has not ended"
        assert entry.graph is None or entry.graph.graph_id in table.graphs, "a pending node's graph is known"

    queued = {id(entry) for entry in outbox if entry.state is State.QUEUED}
    for entry in table.pending.values():
        assert (entry.state is State.QUEUED) == (id(entry) in queued), "the outbox holds all and only what is queued"

    assert core._cancels.waiting.keys() <= table.pending.keys(), "only what is pending can be on its way to be canceled"
    for task_id in core._cancels.waiting:
        assert table.pending[task_id].state is State.SENT, "what was never sent is canceled at once"

    for graph in table.graphs.values():
        assert graph.wanted_count == sum(entry.unfinished_count for entry in graph.entries) > 0, "ends with its wanted"
        assert graph.failure is None, "a graph that has failed has ended"
        sealed = [batch.message.is_graph_sealed for batch in graph.batches]
        assert sealed == [False] * (len(sealed) - 1) + [True], "its last batch says that a graph is whole"

    runs = [run[2] for block in table.places._blocks.values() for run in block]
    assert all(table.graphs.get(graph.graph_id) is graph for graph in runs), "only unfinished graphs are found"
    for graph in table.graphs.values():
        for batch in graph.batches:
            for one in {batch.message.ids[:ID_BYTES], batch.message.ids[-ID_BYTES:]}:
                assert table.places.graph_with(TaskId(one)) is graph, "each task of an unfinished graph is found"

    for graph in core._reruns.stops:
        assert graph.graph_id in table.graphs, "only an unfinished graph begins again"
        assert core._is_open, "without a session nothing of it has to end first"
        assert graph.is_canceling and graph.sent_count, "its tasks are being canceled"

    live = list(table.graphs.values())
    knowledge = core._knowledge
    assert all(graph in live for graph in knowledge.objects.values()), "results are kept for unfinished graphs only"
    known = [(task_id, one) for graph in live for task_id, one in graph.known.items()]
    assert knowledge.known_bytes == sum(ROW_BYTES + len(one.value) for _, one in known), "`known_bytes` is their sum"
    assert not any(task_id in table.pending for task_id, _ in known), "the result of a pending node is not known"

    if core._is_open:
        assert core._give_up_at is None, "a scheduler that is there is not given up"
    else:
        assert (core._give_up_at is not None) == bool(table.pending), "what waits for a scheduler waits a bounded time"
