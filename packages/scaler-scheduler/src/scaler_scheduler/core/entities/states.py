"""Every state of a task as the scheduler sees it, and every transition between them (`spec/states.toml`, SCH).

House rules of this package: nothing here reads a clock, a socket or a random source; time comes in as `now`. Tasks move
in bulk (a batch is one move of n tasks), so a task carries no state field: where it is kept *is* its state.

    WAITING     in `Tables.waiting`                 some dependency has not succeeded yet
    QUEUED      in `Tables.ready`                   could run, no worker has it
    DISPATCHED  in `Worker.held`                    given to a worker
    CANCELING   in `Worker.held` and `canceling`    given to a worker, which was told to end it

`Tables.counts` follows the same moves and `invariants.check` compares the two.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    __hash__ = object.__hash__  # members are single; Enum's own hash is a Python call for every count that moves

    NEW = "new"
    WAITING = "waiting"
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    CANCELING = "canceling"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    LOST = "worker_lost"
    REFUSED = "refused"


class Move(Enum):
    __hash__ = object.__hash__

    SUBMIT_READY = "submitted, nothing to wait for"
    SUBMIT_WAITING = "submitted, waits for others"
    DEPENDENCIES_MET = "the last dependency succeeded"
    DEPENDENCY_FAILED = "a dependency did not succeed"
    DISPATCH = "given to a worker"
    GIVE_BACK = "the worker returned it, not begun"
    WAIT_AGAIN = "its worker has it no longer, and it was sent ahead of its time"
    SUCCEED = "the worker reported success"
    FAIL = "the worker reported a failure"
    REFUSE = "it was never run: its worker could not, or its inputs are too large"
    RETRY = "it failed and may be tried again"
    CANCEL = "the client, or its end, asked to cancel"
    CONFIRM = "the worker confirmed the cancel, or is gone"
    LOSE_WORKER = "its worker was lost"
    GIVE_UP = "too many workers were lost with it"


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.NEW, Move.SUBMIT_READY): State.QUEUED,
    (State.NEW, Move.SUBMIT_WAITING): State.WAITING,
    (State.WAITING, Move.DEPENDENCIES_MET): State.QUEUED,
    (State.WAITING, Move.DEPENDENCY_FAILED): State.REFUSED,
    (State.WAITING, Move.CANCEL): State.CANCELED,
    (State.WAITING, Move.DISPATCH): State.DISPATCHED,
    (State.QUEUED, Move.DISPATCH): State.DISPATCHED,
    (State.QUEUED, Move.CANCEL): State.CANCELED,
    (State.QUEUED, Move.REFUSE): State.REFUSED,
    (State.DISPATCHED, Move.GIVE_BACK): State.QUEUED,
    (State.DISPATCHED, Move.WAIT_AGAIN): State.WAITING,
    (State.DISPATCHED, Move.SUCCEED): State.SUCCESS,
    (State.DISPATCHED, Move.FAIL): State.FAILED,
    (State.DISPATCHED, Move.REFUSE): State.REFUSED,
    (State.DISPATCHED, Move.RETRY): State.QUEUED,
    (State.DISPATCHED, Move.CANCEL): State.CANCELING,
    (State.DISPATCHED, Move.CONFIRM): State.CANCELED,
    (State.DISPATCHED, Move.LOSE_WORKER): State.QUEUED,
    (State.DISPATCHED, Move.GIVE_UP): State.LOST,
    (State.CANCELING, Move.SUCCEED): State.SUCCESS,
    (State.CANCELING, Move.FAIL): State.FAILED,
    (State.CANCELING, Move.REFUSE): State.REFUSED,
    (State.CANCELING, Move.CONFIRM): State.CANCELED,
}

UNFINISHED = (State.WAITING, State.QUEUED, State.DISPATCHED, State.CANCELING)
FINISHED = (State.SUCCESS, State.FAILED, State.CANCELED, State.LOST, State.REFUSED)


class IllegalMove(AssertionError):
    """Our own mistake: no row of the table allows this. Nothing was changed."""


def target(source: State, move: Move) -> State:
    try:
        return TRANSITIONS[(source, move)]
    except KeyError:
        raise IllegalMove(f"a task that is {source.value} cannot be moved by: {move.value}") from None
