"""Clients and workers come and go (SCH-3, SCH-7, SCH-21 to SCH-23)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice

from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, PeerId, TaskId, family_in, shown_task
from scaler_protocol.keys import Identity, lent_to, user_of
from scaler_protocol.messages import Hello, Returned, Welcome, WorkerStatus
from scaler_protocol.session import Opened
from scaler_scheduler.core.actions import SendToStorage
from scaler_scheduler.core.ending import adopted, endings, forgetting
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.results import canceled_row, lost_row
from scaler_scheduler.core.entities.shares import Share
from scaler_scheduler.core.entities.states import Move
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.cluster_events import WORKER_TROUBLE
from scaler_scheduler.core.placing import lending, recalling
from scaler_scheduler.core.succession import recovering
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.tables import Tables

HELD_AT_ONCE = 16_384
"""The ids of so many tasks are read in one slice."""
HELD_PER_STEP = 64
KNOWN_STORIES = 1_000
HELD_SHOWN, HELD_CHARACTERS = 3, 40
"""Of a worker that is gone: so many of its tasks are named, with so much of their functions' names."""


def client_joined(tables: Tables, event: Opened) -> Client:
    tables.client_sessions += 1
    peer_id, hello, grant = event.peer_id, event.hello, event.welcome.owner_grant
    share = _share_of(tables, event)
    limits = event.welcome.limits
    of_user = tables.combinations.join(share.user or peer_id)
    client = Client(peer_id, tables.client_sessions, hello.software, limits, share, of_user, event.identity, grant)
    tables.clients[peer_id] = client
    client.generation = tables.generation
    return client


def _share_of(tables: Tables, event: Opened) -> Share:
    """A client in a task has that of its program: the grant tells which, or the task where there are no keys."""
    hello, parent = event.hello, event.hello.parent_task
    family = family_in(event.welcome.owner_grant, event.peer_id)
    if not family:
        family = tables.chunk_of(TaskId(parent)).client.share.family if parent in tables.where else event.peer_id
    return tables.shares.join(family, user_of(event.identity), hello.share_weight, is_in_task=bool(parent))


def note_status(tables: Tables, worker: Worker, status: WorkerStatus) -> None:
    """Keeps what a worker tells of itself. A trouble that lasts is an event once."""
    if status.trouble and status.trouble != worker.status.trouble:
        tables.events.note(WORKER_TROUBLE, worker.name, status.trouble)
    worker.status, worker.status_at = status, worker.heard_at
    if status.blocked_count or worker.lenders:
        lending.note_blocked(tables, worker, status)


def client_left(tables: Tables, client: Client, *, is_replaced: bool) -> None:
    """By Bye or by silence: its tasks end, its objects go (SCH-22, OWN-9). A replaced session's pass to the next."""
    client.is_gone = True
    tables.shares.leave(client.share)
    del tables.clients[client.peer_id]
    tables.forget_peer(client.peer_id)
    tables.delivery.forget(client)
    tables.backlog.pressure.forget(client.peer_id)
    recovering.client_left(tables, client)
    tables.backlog.start(client, forgetting.forget_client(tables, client))
    if is_replaced:
        return
    if tables.presentation.is_recovering or tables.presentation.is_pending(client.peer_id):
        # Tasks that a worker has presented, or may present, store values for it: the storage has to take these.
        tables.presentation.departed[client.peer_id] = client.grant
    else:
        tables.act(SendToStorage(tables.gone_owners.add(client.peer_id, client.grant)))


def worker_joined(tables: Tables, peer_id: PeerId, hello: Hello, welcome: Welcome, now: float) -> Worker:
    worker = tables.workers[peer_id] = Worker(peer_id, hello, welcome, now)
    tables.load_indexes.join(worker)
    return worker


def note_identity(worker: Worker, identity: Identity | None) -> None:
    """Notes whose ticket the worker has; None: the cluster has no keys."""
    worker.user, worker.lent_to = user_of(identity), lent_to(identity)
    worker.is_of_operator = identity is None or identity.is_operator


def parting_text(tables: Tables, worker: Worker, text: str) -> str:
    """For people: why a worker is gone, and what it held."""
    shown = []
    for task_id, chunk in islice(worker.held.items(), HELD_SHOWN):
        name = tables.function_names.of(chunk.function_id(chunk.index_of[task_id]))[:HELD_CHARACTERS]
        shown.append(f"{name} {shown_task(task_id)}".lstrip())
    left = len(worker.held) - len(shown)
    more = [f"and {left:,} more"] if left else []
    held = f"it held {', '.join([*shown, *more])}" if shown else ""
    return "; ".join(filter(None, (text, held)))


def worker_left(tables: Tables, worker: Worker, text: str, *, is_orderly: bool) -> None:
    """Its tasks go back to the queue. Only a loss uses up an attempt; a worker that says Bye has begun none (WRK-9)."""
    del tables.workers[worker.peer_id]
    worker.leave()
    tables.forget_peer(worker.peer_id)
    tables.followable.pop(worker, None)
    tables.lending.pop(worker, None)
    if worker.is_presenter:
        tables.presentation.has_changed_presenters = tables.presentation.has_news = True
        adopted.worker_left(tables, worker)
    if worker.held or worker in tables.backlog:
        tables.backlog.start(worker, _leaving(tables, worker, text, is_counted=not is_orderly))


def _leaving(tables: Tables, worker: Worker, text: str, *, is_counted: bool) -> Job:
    """The newest first, as each goes to the front of the queue."""
    held = yield from _all_held(worker)
    losses = _Losses(f"{worker.name}: {text}")
    most = tables.backlog.slice_tasks
    for stop in range(len(held), 0, -most):
        left = [task_id for task_id in reversed(held[max(0, stop - most) : stop]) if task_id in worker.held]
        for task_id in left:
            chunk = tables.take_back(worker, task_id)
            if task_id in tables.abandoned:
                endings.end_abandoned(tables, task_id, chunk)
            elif task_id in tables.canceling:
                _release_attempt(tables, task_id, chunk)
                endings.end_started(tables, chunk, canceled_row(task_id, tables.attempt(task_id)), Move.CONFIRM)
            else:
                _lose(tables, task_id, chunk, losses, is_counted=is_counted)
        yield 1 + 2 * STEPS_PER_TASK * len(left)


def _all_held(worker: Worker) -> Generator[int, None, Sequence[TaskId]]:
    """Oldest first: a part in each turn, because a worker may hold a million tasks."""
    held: list[TaskId] = []
    left = iter(worker.held)
    try:
        while part := tuple(islice(left, HELD_AT_ONCE)):
            held += part
            if len(part) == HELD_AT_ONCE:
                yield HELD_AT_ONCE // HELD_PER_STEP
    except RuntimeError:  # some have left the worker meanwhile
        return tuple(worker.held)
    return held


class _Losses:
    """What is remembered of each task that is lost with one worker: one object for all tasks with the same story. A
    list for each would make the garbage collector stop the scheduler for tenths of a second."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def after(self, earlier: tuple[str, ...]) -> tuple[str, ...]:
        lost = self._known.get(earlier)
        if lost is None:
            if len(self._known) >= KNOWN_STORIES:
                self._known.clear()
            lost = self._known[earlier] = (*earlier, self.text)
        return lost


def _lose(tables: Tables, task_id: TaskId, chunk: Chunk, losses: _Losses, *, is_counted: bool) -> None:
    attempt = tables.attempt(task_id)
    _release_attempt(tables, task_id, chunk)
    if is_counted and not tables.unfinished(chunk.dependencies(chunk.index_of[task_id])):
        lost = tables.lost_workers[task_id] = losses.after(tables.lost_workers.get(task_id, ()))
        if len(lost) >= tables.policy.lost_workers_limit:
            endings.end_started(tables, chunk, lost_row(task_id, attempt, lost), Move.GIVE_UP)
            return
    if not tables.begin_attempt(task_id, attempt):
        row = lost_row(task_id, attempt, losses.after(tables.lost_workers.get(task_id, ())))
        endings.end_started(tables, chunk, row, Move.GIVE_UP)
        return
    tables.repeat_counts["worker_lost" if is_counted else "worker_left"] += 1
    endings.requeue(tables, task_id, chunk, Move.LOSE_WORKER)
    endings.cancel_children(tables, task_id)


def _release_attempt(tables: Tables, task_id: TaskId, chunk: Chunk) -> None:
    """The worker may have stored a large result that it never reported: its id is known all the same (OWN-6, OWN-7)."""
    attempt = tables.attempt(task_id)
    owner = tables.presentation.disown(task_id)
    if owner is None:
        tables.release([(chunk, chunk.value_id(task_id, attempt))])
    else:
        adopted.release_attempt(tables, chunk, task_id, attempt, owner)


def returned(tables: Tables, worker: Worker, message: Returned) -> Job:
    """Tasks the worker has not begun and will not (WRK-9). Their attempt is not used up."""
    ids = split_ids(message.ids)
    if message.is_recall_answer and ids and worker.still is not None:
        recalling.gave_back(tables, worker)
    if tables.presentation.tasks:
        adopted.returned(tables, worker, ids)  # type: ignore[arg-type]
    most = tables.backlog.slice_tasks
    for stop in range(len(ids), 0, -most):
        run = [TaskId(task_id) for task_id in reversed(ids[max(0, stop - most) : stop]) if task_id in worker.held]
        for task_id in dict.fromkeys(run):
            chunk = tables.take_back(worker, task_id)
            if tables.presentation.owners:
                tables.presentation.disown(task_id)
            if task_id in tables.abandoned:
                endings.end_abandoned(tables, task_id, chunk)
            elif task_id in tables.canceling:
                endings.end_started(tables, chunk, canceled_row(task_id, tables.attempt(task_id)), Move.CONFIRM)
            else:
                endings.requeue(tables, task_id, chunk, Move.GIVE_BACK)
        worker.load_changed()
        yield 1 + most // 8 + STEPS_PER_TASK * len(run)
    if message.is_recall_answer:
        tables.returned_count += len(message.ids) // ID_BYTES
        worker.recalling.clear()
    worker.load_changed()
