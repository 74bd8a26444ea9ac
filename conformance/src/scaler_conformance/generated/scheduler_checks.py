"""What has come after a step, held against what the model says is due."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scaler_conformance.play.roles import ids_of
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Task, code_name
from scaler_conformance.wire.codes import OUTCOMES, STATUSES

if TYPE_CHECKING:
    from .scheduler_player import SchedulerPlayer


def compare(player: SchedulerPlayer) -> None:
    _results(player)
    _dispatches(player)
    _cancels(player)
    _replies(player)
    _rest(player)
    player.model.check_conservation()
    player.model.maybe_lost.clear()


def _name(player: SchedulerPlayer, identifier: bytes) -> str:
    return player.scene.transcript.known(identifier)


def _results(player: SchedulerPlayer) -> None:
    model = player.model
    seen: Counter[tuple[bytes, bytes, int]] = Counter()
    rows = [(client, row) for client in player.clients for row in client.results("SCH-13")]
    for client, row in rows:
        if row.status == CODES.STATUS_WORKER_LOST and row.id in model.tasks:
            model.lost(row.id)
        seen[client.peer_id, row.id, row.status] += 1
    for (peer, task, status), count in (seen - model.results).items():
        entry = model.tasks.get(task)
        clause = "SCH-22" if entry is not None and entry.is_orphan else "SCH-6" if count else "SCH-13"
        if entry is not None and entry.is_unwanted and status == CODES.STATUS_SUCCESS:
            clause = "SCH-14"
        text = f"{_name(player, peer)} was sent a result {STATUSES[status]} of {_name(player, task)}, and none is due"
        raise Breach(text, clause)
    for peer, task, status in model.results - seen:
        event = model.tasks[task]
        clause = "SCH-19" if event.task.dependencies and event.worker == b"" and status in (2, 6) else "SCH-13"
        text = f"{_name(player, peer)} was not sent the result {STATUSES[status]} of {_name(player, task)}"
        raise Breach(text, "CAN-2" if status == CODES.STATUS_CANCELED else clause)
    model.results.clear()


def _dispatches(player: SchedulerPlayer) -> None:
    given: list[tuple[bytes, str, list[Task]]] = []
    for worker in player.workers:
        tasks = worker.dispatched("SCH-23")
        for task in tasks:
            if task.header["generation"] < player.generation:
                text = f"a Dispatch has generation {task.header['generation']}, and {player.generation} was told"
                raise Breach(text, "SCH-61")
            player.model.dispatched(worker.peer_id, task, _name(player, task.id))
        given.append((worker.peer_id, worker.name, tasks))
    for peer, name, tasks in given:
        player.model.check_order(peer, tasks, name)


def _cancels(player: SchedulerPlayer) -> None:
    seen: Counter[tuple[bytes, bytes]] = Counter()
    for worker in player.workers:
        for cancel in worker.take("cancel"):
            seen.update((worker.peer_id, name) for name in set(ids_of(cancel["ids"])))
        for _ in worker.take("recall"):
            worker.give_back(is_answer=True)  # it has begun them all
    # A second Cancel may be passed on as well: it may shorten the grace. What was never canceled may not.
    for peer, task in player.model.told - seen:
        raise Breach(f"{_name(player, peer)} was not told to cancel {_name(player, task)}", "CAN-6")
    for peer, task in seen - player.model.told:
        entry = player.model.tasks.get(task)
        if entry is None or entry.worker != peer or not (entry.cancels > 1 or entry.is_orphan):
            text = f"{_name(player, peer)} was told to cancel {_name(player, task)}, which nobody asked for"
            raise Breach(text, "CAN-6")
    player.model.told.clear()


def _replies(player: SchedulerPlayer) -> None:
    model = player.model
    seen: Counter[tuple[bytes, bytes, int]] = Counter()
    unknown: Counter[tuple[bytes, bytes]] = Counter()
    empty: Counter[bytes] = Counter()
    for client in player.clients:
        for reply in client.take("cancelReply"):
            ids = ids_of(reply["ids"])
            empty[client.peer_id] += not ids
            for name, outcome in zip(ids, reply["outcomes"] or bytes(len(ids)), strict=True):
                if _is_unknown(player, client.peer_id, name, outcome):
                    unknown[client.peer_id, name] += 1
                else:
                    seen[client.peer_id, name, outcome] += 1
    due = +model.replies
    if seen != due:
        missing, more = due - seen, seen - due
        for peer, task, outcome in missing:
            text = f"{_name(player, peer)} was not answered {OUTCOMES[outcome]} for {_name(player, task)}"
            raise Breach(text, "CAN-8" if seen[peer, task, outcome] else "CAN-1")
        for peer, task, outcome in more:
            told = f"{OUTCOMES.get(outcome, outcome)} for {_name(player, task)}"
            raise Breach(f"{_name(player, peer)} was answered {told}, and that is not due", "CAN-1")
    if unknown != +player.unknown:
        raise Breach("a Cancel of an unknown id was not answered UNKNOWN exactly once", "CAN-1")
    if empty != +player.empty:
        raise Breach("an empty CancelReply answers only a Cancel of everything where there is nothing", "CAN-3")
    model.replies.clear()
    player.unknown.clear()
    player.empty.clear()


def _is_unknown(player: SchedulerPlayer, client: bytes, task: bytes, outcome: int) -> bool:
    """UNKNOWN; or TOO_LATE for a task that has ended and that the scheduler happens to remember."""
    is_ended = player.unknown[client, task] > 0 and not player.model.replies[client, task, outcome]
    return outcome == CODES.CANCEL_UNKNOWN or (outcome == CODES.CANCEL_TOO_LATE and is_ended)


def _rest(player: SchedulerPlayer) -> None:
    """Errors that were asked for, logs of current tasks, and nothing else at all."""
    errors: Counter[tuple[bytes, int, int]] = Counter()
    logs: Counter[tuple[bytes, bytes]] = Counter()
    for client in player.clients:
        errors.update((client.peer_id, error["code"], error["refSeq"]) for error in client.take("error"))
        logs.update((client.peer_id, log["taskId"]) for log in client.take("taskLog"))
    for peer, code, seq in +player.errors - errors:
        raise Breach(f"{_name(player, peer)} was not sent Error {code_name(code)} for message {seq}", "ERR-1")
    for peer, code, seq in errors - player.errors:
        text = f"{_name(player, peer)} was sent Error {code_name(code)} for message {seq}, which is legal"
        raise Breach(text, "SCH-1")
    if logs != +player.logs:
        raise Breach("the logs that came are not those of current tasks", "SCH-28")
    player.errors.clear()
    player.logs.clear()
    for client in player.clients:
        client.expect_nothing(clause="SCH-22")
    for worker in player.workers:
        worker.take("delivered")
        worker.expect_nothing(clause="SCH-6")
