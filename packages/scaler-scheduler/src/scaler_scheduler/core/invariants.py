"""What must hold between events: every index derived again from the tables it indexes. For tests and the simulator."""

from __future__ import annotations

from collections import Counter

from scaler_protocol.ids import TaskId
from scaler_scheduler.core.core import SchedulerCore
from scaler_scheduler.core.entities import combinations
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.combinations import UserCombinations
from scaler_scheduler.core.entities.requirements import class_key
from scaler_scheduler.core.entities.shares import UserShare
from scaler_scheduler.core.entities.states import FINISHED, UNFINISHED, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.function_counts import ROWS_MAX
from scaler_scheduler.core.tables.delivery import size_of
from scaler_scheduler.core.tables.dependencies import listed
from scaler_scheduler.core.tables.tables import Tables


def check(core: SchedulerCore) -> None:
    """Raises AssertionError with the fact that does not hold."""
    tables = core.tables
    _check_places(tables)
    _check_counts(tables)
    _check_functions(tables)
    _check_clients(tables)
    _check_workers(tables)
    _check_dependencies(tables)
    _check_sparse(tables)
    _check_delivery(tables)
    _check_aside(tables)
    _check_lines(tables)
    tables.backlog.check()
    _check_presentation(tables)


def _queued(tables: Tables) -> list[TaskId]:
    return [chunk.ids[i] for chunk, indexes in tables.ready.runs() for i in indexes if i not in chunk.dropped]


def _check_places(tables: Tables) -> None:
    queued, waiting = _queued(tables), tables.dependencies.waiting
    assert len(queued) == len(set(queued)), "a task is queued twice"
    assert len(queued) == len(tables.ready), f"{len(queued)} tasks are queued but the queue counts {len(tables.ready)}"
    assert not waiting.keys() & set(queued), "a task is both waiting and queued"
    unplaced = {task_id for task_id, place in tables.where.items() if isinstance(place, Chunk)}
    assert unplaced == waiting.keys() | set(queued), "a task without a worker is neither waiting nor queued"
    for task_id, place in tables.where.items():
        if isinstance(place, Worker):
            is_here = tables.workers.get(place.peer_id) is place
            assert is_here or (place.is_gone and place in tables.backlog), "a task is with a worker that is gone"
            assert task_id in place.held, "a task is said to be with a worker that does not hold it"
            client = place.held[task_id].client
            assert not client.is_gone or client in tables.backlog, "a client is gone, and its task still in `where`"


def _check_lines(tables: Tables) -> None:
    """Checks that what can be taken is found without looking at every line."""
    in_reach = {id(ready) for ready, _ in tables.ready.placeable(is_lending=False)}
    for ready in tables.ready.classes.values():
        assert not ready.count or ready in ready.index.lines, "a line has tasks that can be taken, and is not found"
        is_placeable = ready.count > 0 and bool(ready.index.heap)
        assert is_placeable == (id(ready) in in_reach), "a line that may find a place is not looked at"


def _check_aside(tables: Tables) -> None:
    for ready in tables.ready.classes.values():
        for chunk in ready.set_aside_chunks:
            is_ending = tables.families.looked_up(chunk)[0] or bool(tables.backlog)
            assert is_ending, "tasks are set aside that nothing is going to end"


def every_worker(tables: Tables) -> list[Worker]:
    """Also those that have left, as long as they hold something."""
    return list(dict.fromkeys((*tables.workers.values(), *tables.backlog.workers())))


def _check_counts(tables: Tables) -> None:
    held = [task_id for worker in every_worker(tables) for task_id in worker.held]
    canceling = len(tables.canceling) + len(tables.abandoned)
    expected = {
        State.WAITING: len(tables.dependencies.waiting),
        State.QUEUED: len(tables.ready),
        State.DISPATCHED: len(held) - canceling,
        State.CANCELING: canceling,
    }
    actual = {state: tables.counts[state] for state in UNFINISHED}
    assert actual == expected, f"counted {actual}, but there are {expected}"
    assert len(held) == len(set(held)), "two workers hold one task"
    by_share = Counter(chunk.client.share for worker in every_worker(tables) for chunk in worker.held.values())
    for share in (client.share for client in tables.clients.values()):
        assert share.held == by_share[share], f"a program is said to have {share.held} tasks with workers"
    by_user = Counter[UserShare]()
    for share, tasks in by_share.items():
        by_user[share.of_user] += tasks
    for of_user in (client.share.of_user for client in tables.clients.values()):
        assert of_user.held == by_user[of_user], f"a user is said to have {of_user.held} tasks with workers"


def _check_functions(tables: Tables) -> None:
    """What is counted by function adds up to what is counted by state."""
    every = list(tables.functions.every())
    dispatched = tables.counts[State.DISPATCHED] + tables.counts[State.CANCELING]
    queued = tables.counts[State.WAITING] + tables.counts[State.QUEUED]
    assert sum(row.dispatched for row in every) == dispatched, "functions have another number of dispatched tasks"
    assert sum(row.unfinished_count for row in every) == dispatched + queued, "functions have other unfinished tasks"
    for state in FINISHED:
        assert sum(row.ended[state] for row in every) == tables.counts[state], (
            f"functions have other {state.value} tasks"
        )
    assert len(tables.functions.rows) <= ROWS_MAX, "too many functions are counted"
    held = Counter[int]()
    for worker in every_worker(tables):
        for task_id, chunk in worker.held.items():
            held[id(chunk.counts or chunk.rows[chunk.row_numbers[chunk.index_of[task_id]]])] += 1
    for row in every:
        assert row.dispatched == held[id(row)], (
            f"a function has {row.dispatched} tasks with workers, not {held[id(row)]}"
        )


def _check_clients(tables: Tables) -> None:
    unfinished: Counter[Chunk] = Counter()
    for task_id, place in tables.where.items():
        unfinished[place.held[task_id] if isinstance(place, Worker) else place] += 1
    leaving = [client for client in tables.backlog.clients() if client.is_gone]
    listed = {chunk for client in (*tables.clients.values(), *leaving) for chunk in client.chunks}
    assert listed == set(unfinished), "clients list other chunks than those with unfinished tasks"
    for chunk, tasks in unfinished.items():
        assert chunk.unfinished == tasks, f"a chunk counts {chunk.unfinished} unfinished tasks and has {tasks}"
    for client in tables.clients.values():
        assert not client.is_gone
        is_held = (
            client in tables.backlog
            or client in tables.delivery.slow
            or client in tables.presentation.recovering_clients
        )
        assert client.is_held == is_held, "a client is held that nothing is done for"
    for client in (*tables.clients.values(), *leaving):
        assert client.unfinished_count == sum(chunk.unfinished for chunk in client.chunks)
    of_users = Counter[UserCombinations]()
    bytes_of_users = Counter[UserCombinations]()
    for client in (*tables.clients.values(), *leaving):
        of_users[client.combinations] += client.unfinished_count
        bytes_of_users[client.combinations] += sum(len(chunk.batch.payload) for chunk in client.chunks)
    for of_user in tables.combinations.users.values():
        assert of_user.task_count == of_users[of_user], f"a user is said to have {of_user.task_count} tasks"
        assert of_user.task_bytes == bytes_of_users[of_user], f"a user is said to have {of_user.task_bytes} bytes"
    _check_combinations(tables, [chunk for client in (*tables.clients.values(), *leaving) for chunk in client.chunks])


def _check_combinations(tables: Tables, chunks: list[Chunk]) -> None:
    batches = Counter(chunk.combination for chunk in chunks)
    every = [one for of_user in tables.combinations.users.values() for one in of_user.listed.values()]
    assert batches == +Counter({one: one.batch_count for one in every}), "batches are counted with another combination"
    for chunk in chunks:
        # Its user is the one that its program had then: a worker's, if only clients in tasks had come back (SCH-92).
        key = class_key(chunk.header, chunk.combination.key.user)
        assert chunk.combination.key == key, "a chunk has another combination"
    further = [max(0, len(one.listed) - combinations.FIRST_COMBINATIONS) for one in tables.combinations.users.values()]
    assert tables.combinations.further_count == sum(further), "further combinations are miscounted"


def _check_workers(tables: Tables) -> None:
    resting = {worker for worker in tables.workers.values() if worker.is_cut_off}
    assert resting <= tables.cut_off.keys(), "a worker rests for ever"
    lending = {worker for worker in tables.workers.values() if worker.lenders}
    assert lending <= tables.lending.keys() <= set(tables.workers.values()), "another worker lends"
    for worker in every_worker(tables):
        assert worker.lenders.keys() | worker.borrowers.keys() <= worker.held.keys(), "a task lends that is not held"
        assert worker.recalling <= worker.held.keys(), "a task is being recalled that is not held"
        assert worker.tails.keys() <= worker.held.keys(), "a task is followed that is not held"
        for chunk in set(worker.held.values()):
            assert worker.can_ever_run(chunk.combination.key.requirement), "a worker has what it cannot run"
        for task_id, chunk in worker.held.items():
            is_here = not chunk.client.is_gone or chunk.client in tables.backlog
            assert task_id in tables.abandoned or is_here, "a client is gone, its task not abandoned"
        for name, total in worker.capabilities.items():
            if total >= 0:
                taken = sum(
                    item.amount
                    for chunk in worker.held.values()
                    for item in chunk.header.capabilities
                    if item.name == name and item.amount > 0
                )
                assert worker.free_amounts[name] == total - taken, f"{name}: {worker.free_amounts[name]} is not free"


def _check_dependencies(tables: Tables) -> None:
    dependencies = tables.dependencies
    users: Counter[TaskId] = Counter()
    for task_id, place in tables.where.items():
        chunk = place.held[task_id] if isinstance(place, Worker) else place
        users.update(chunk.dependencies(chunk.index_of[task_id]))
    if tables.admitting:  # what its tasks depend on is counted before they are there
        assert users <= dependencies.users, "the counts of users of results are wrong"
    else:
        assert dependencies.users == users, "the counts of users of results are wrong"
    assert not tables.admitting or tables.backlog, "a batch is not admitted any further"
    for task_id, kept in dependencies.kept.items():
        graph = kept.chunk.client.graphs.get(kept.chunk.header.graph_id)
        client = kept.chunk.client
        is_leaving = client in tables.backlog  # its graph has been sealed, and is being forgotten
        is_used = task_id in dependencies.users
        assert is_used or graph is not None or is_leaving, "a result is kept that nothing depends on"
        assert graph is None or task_id in graph, "a graph does not list a result that is kept for it"
    missing: Counter[TaskId] = Counter()
    for dependents in dependencies.dependents.values():
        assert dependents, "a listed result has dependents"
        missing.update(list(listed(dependents)))
    waiting = {task_id: one.missing for task_id, one in dependencies.waiting.items()}
    assert missing == waiting, "tasks do not wait for as many as they are listed with"


def _check_sparse(tables: Tables) -> None:
    assert not tables.failing or tables.backlog, "nothing is done for the dependents of what has failed"
    for name in ("attempts", "lost_workers", "retried", "deaths", "canceling"):
        assert getattr(tables, name).keys() <= tables.where.keys(), f"`{name}` remembers a task that has ended"
    for children in tables.children.values():
        assert children and children.keys() <= tables.where.keys(), "`children` remembers a task that has ended"


def _check_presentation(tables: Tables) -> None:
    presentation = tables.presentation
    held = {task_id for worker in every_worker(tables) for task_id in worker.held}
    assert presentation.owners.keys() <= held, "an owner is remembered of a task that no worker has"
    assert presentation.expected.keys() <= set(tables.workers.values()), "a worker is awaited that has left"
    assert presentation.recovering_clients.keys() <= set(tables.clients.values()), "a client is held that has left"
    for worker in tables.workers.values():
        unended = sum(not one.is_ended for one in presentation.of_worker.get(worker, {}).values())
        assert worker.presented_count == unended, f"{worker.presented_count} tasks count as presented, not {unended}"
    of_workers = {
        task_id + presented.family: presented
        for own in presentation.of_worker.values()
        for task_id, presented in own.items()
    }
    assert of_workers == presentation.tasks, "what was presented is listed by task and by worker"
    for worker, own in presentation.of_worker.items():
        is_here = tables.workers.get(worker.peer_id) is worker
        assert own and (is_here or worker in tables.backlog), "a worker that has left presents"
        for task_id, presented in own.items():
            place = tables.where.get(task_id)
            is_same = isinstance(place, Worker) and place.held[task_id].client.proven_family == presented.family
            assert presented.worker is worker and not is_same, "a task is presented and dispatched"
    pending = {*(one.owner for one in presentation.tasks.values()), *presentation.owners.values()}
    assert {*filter(any, pending)} == {*presentation.pending_owners()}, (
        "a former name is not kept as long as it is to be"
    )
    size = sum(len(one.row.value) for one in presentation.tasks.values() if one.row is not None)
    assert presentation.value_bytes == size, "the bytes of presented results are wrong"
    untold = Counter(one.worker for one in presentation.tasks.values() if one.row is not None)
    untold.update(claim.worker for claim in presentation.claims.values())
    assert presentation.untold == untold, "a worker may forget how a task ended before its client has been told"


def _check_delivery(tables: Tables) -> None:
    slow = tables.delivery.slow
    for client in tables.clients.values():
        window = client.window
        assert (client in slow) == (window is not None and bool(window.waiting)), "`slow` is who has results waiting"
    for client, window in slow.items():
        assert tables.clients.get(client.peer_id) is client, "results wait for a client that has gone"
        assert client.is_held, "a client that does not read is given more results to read"
        assert window.waiting_bytes == sum(map(size_of, window.waiting)), "`waiting_bytes` is their sum"


def is_empty(core: SchedulerCore) -> bool:
    """Nothing is left of any peer: the state after the last client and worker have gone."""
    tables, dependencies = core.tables, core.tables.dependencies
    remembered = (
        tables.clients, tables.workers, tables.where, tables.attempts, tables.lost_workers, tables.retried,
        tables.deaths, tables.canceling, tables.abandoned, tables.children, dependencies.waiting,
        dependencies.dependents, dependencies.users, dependencies.kept, tables.delivery.slow, tables.failing,
        tables.admitting, tables.backlog.pressure.answers.total,
        tables.admitting, tables.presentation.tasks, tables.presentation.owners, tables.presentation.departed,
    )  # fmt: skip
    return not any(remembered) and not len(tables.ready) and not tables.backlog
