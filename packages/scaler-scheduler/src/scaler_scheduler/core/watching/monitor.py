"""What the tables look like from outside: a plain query, nothing is changed (MON-3)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice

from scaler_protocol.codes import UNIT_RUNNING, UNIT_STARTING, UNIT_STOPPING
from scaler_protocol.messages import (
    Capability,
    ClientEntry,
    ClusterStatus,
    Count,
    ManagerEntry,
    UserEntry,
    WaitingClass,
    WorkerEntry,
)
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.combinations import UserCombinations
from scaler_scheduler.core.entities.requirements import ClassKey, named_by_user
from scaler_scheduler.core.entities.states import FINISHED, UNFINISHED
from scaler_scheduler.core.notes.function_counts import bucket_columns
from scaler_scheduler.core.scaling.manager import Manager
from scaler_scheduler.core.tables.ready import ReadyClass
from scaler_scheduler.core.tables.tables import Tables

#: The status stays one small message however many functions are in use.
FUNCTIONS_LIMIT = 100
CLASSES_LIMIT = 20
USERS_LIMIT = 100


def snapshot(tables: Tables, managers: Iterable[Manager], now: float, told_event: int) -> ClusterStatus:
    """The part of a ClusterStatus that the core knows; the shell adds processor time, memory and message counts.
    Watchers know the events up to the number `told_event`."""
    functions = _functions(tables)
    queued_buckets, queued_counts = bucket_columns(tables.functions.queued_buckets)
    return ClusterStatus(
        task_counts=tuple(Count(state.value, tables.counts[state]) for state in (*UNFINISHED, *FINISHED)),
        function_counts=tuple(Count(function_id.hex(), tasks) for function_id, tasks in functions.items()),
        function_names=tables.function_names.of_all(functions),
        clients=tuple(_client(tables, client) for client in tables.clients.values()),
        workers=tuple(_workers(tables, now)),
        rejected_count=tables.refused_count,
        waiting_classes=tuple(islice(_waiting_classes(tables), CLASSES_LIMIT)),
        managers=tuple(_manager(tables, manager) for manager in managers),
        recalled_count=tables.recalled_count,
        returned_count=tables.returned_count,
        events=tables.events.since(told_event, now),
        event_count=tables.events.count,
        functions=tables.functions.shown(now),
        repeat_counts=tuple(Count(name, count) for name, count in tables.repeat_counts.items()),
        queued_buckets=queued_buckets,
        queued_bucket_counts=queued_counts,
        queued_seconds=tables.functions.queued_seconds,
        users=_users(tables),
        user_task_limit=tables.policy.user_tasks,
        user_task_bytes_limit=tables.policy.user_task_bytes,
    )


def _users(tables: Tables) -> tuple[UserEntry, ...]:
    """Returns what users have of their quotas, those nearest to a limit first. Without keys there are none. (MON-68)"""
    object_bytes: dict[UserCombinations, int] = {}
    for client in tables.clients.values():
        # The storage knows the user of those owners alone that own something.
        object_bytes[client.combinations] = max(object_bytes.get(client.combinations, 0), client.user_object_bytes)
    limits = tables.policy.user_tasks, tables.policy.user_task_bytes, tables.combinations.object_bytes_limit

    def nearness(one: UserEntry) -> float:
        had = one.task_count, one.task_bytes, one.object_bytes
        return max(has / limit for has, limit in zip(had, limits, strict=True) if limit)

    entries = (
        UserEntry(user, one.task_count, one.task_bytes, object_bytes.get(one, 0))
        for user, one in tables.combinations.users.items()
        if isinstance(user, str)
    )
    return tuple(nlargest(USERS_LIMIT, entries, key=nearness))


def _client(tables: Tables, client: Client) -> ClientEntry:
    return ClientEntry(
        peer_id=tables.display.of(client.peer_id),
        software=client.software,
        task_count=client.unfinished_count,
        user=client.user,
        object_count=client.object_count,
        object_bytes=client.object_bytes,
    )


def _workers(tables: Tables, now: float) -> Iterable[WorkerEntry]:
    for worker in tables.workers.values():
        yield WorkerEntry(
            peer_id=tables.display.of(worker.peer_id),
            name=worker.name,
            software=worker.software,
            capabilities=tuple(Capability(name, amount) for name, amount in worker.capabilities.items()),
            credit_limit=worker.limit,
            held_count=len(worker.held),
            completed_count=worker.completed_count,
            lag_seconds=worker.status.lag_seconds,
            silent_seconds=max(0.0, now - worker.heard_at),
            status=worker.status,
            unit_id=worker.unit_id,
            manager_id=tables.display.of(worker.manager_id),
            user=worker.user,
            still_seconds=worker.still_seconds(now),
        )


def _functions(tables: Tables) -> dict[bytes, int]:
    """Unfinished tasks by function, the most frequent first. What is left out, or is counted with others, stands under
    no id. (MON-14)"""
    counts = {row.function_id: row.unfinished_count for row in tables.functions.rows.values()}
    found = {one: counts[one] for one in nlargest(FUNCTIONS_LIMIT, counts, key=counts.__getitem__) if counts[one]}
    others = sum(tables.counts[state] for state in UNFINISHED) - sum(found.values())
    return found | {b"": others} if others > 0 else found


def _waiting_classes(tables: Tables) -> Iterable[WaitingClass]:
    """Yields those of all users together, as each has lines of its own."""
    found: dict[ClassKey, list[ReadyClass]] = {}
    for ready in tables.ready.waiting():
        found.setdefault(ready.key._replace(user=""), []).append(ready)
    for key, lines in found.items():
        yield WaitingClass(
            capabilities=named_by_user(key.requirement),
            priority=-key.negative_priority,
            depth=-key.negative_depth,
            task_count=sum(ready.count for ready in lines),
            able_count=len(lines[0].index.members),
        )


def _manager(tables: Tables, manager: Manager) -> ManagerEntry:
    status = manager.status
    states = manager.unit_counts
    return ManagerEntry(
        manager_id=tables.display.of(manager.manager_id),
        name=manager.name,
        capabilities=tuple(Capability(name, amount) for name, amount in manager.capabilities.items()),
        workers_per_unit=manager.workers_per_unit,
        target_count=manager.goal,
        max_workers=status.max_workers if status is not None else 0,
        starting_count=states[UNIT_STARTING],
        running_count=states[UNIT_RUNNING],
        stopping_count=states[UNIT_STOPPING],
        trouble=status.trouble if status is not None else "",
        user=manager.user,
    )
