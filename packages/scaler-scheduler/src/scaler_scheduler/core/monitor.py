"""What the tables look like from outside: a plain query, nothing is changed (MON-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scaler_protocol.messages import Capability, ClientEntry, ClusterStatus, Count, WorkerEntry
from scaler_scheduler.core.states import FINISHED, UNFINISHED
from scaler_scheduler.core.tables import Tables

#: The status stays one small message however many functions are in use.
FUNCTIONS_LIMIT = 100


def snapshot(tables: Tables, now: float) -> ClusterStatus:
    """The part of a ClusterStatus that the core knows; the shell adds processor time, memory and message counts."""
    return ClusterStatus(
        task_counts=tuple(Count(state.value, tables.counts[state]) for state in (*UNFINISHED, *FINISHED)),
        function_counts=tuple(_functions(tables)),
        clients=tuple(ClientEntry(c.peer_id, c.software, c.unfinished_count) for c in tables.clients.values()),
        workers=tuple(_workers(tables, now)),
        rejected_count=tables.refused_count,
    )


def _workers(tables: Tables, now: float) -> Iterable[WorkerEntry]:
    for worker in tables.workers.values():
        yield WorkerEntry(
            peer_id=worker.peer_id,
            name=worker.name,
            software=worker.software,
            capabilities=tuple(Capability(name, amount) for name, amount in worker.capabilities.items()),
            credit_limit=worker.limit,
            held_count=len(worker.held),
            completed_count=worker.completed_count,
            silent_seconds=max(0.0, now - worker.heard_at),
            status=worker.status,
        )


def _functions(tables: Tables) -> Iterable[Count]:
    """Unfinished tasks by function. A chunk of one function is counted whole; others by their first function."""
    counts: Counter[bytes] = Counter()
    for client in tables.clients.values():
        for chunk in client.chunks:
            counts[chunk.function_id(0)] += chunk.unfinished
    return (Count(function_id.hex(), tasks) for function_id, tasks in counts.most_common(FUNCTIONS_LIMIT))
