"""The states of a submission at its client, and every move between them.

    QUEUED     waits to be sent; no other process knows of it
    SENT       the scheduler has it, or will when its session is resumed
    ENDED      no task of it is pending any more; it is in no table

A task of a SENT submission may besides be *canceling*: its Cancel has been sent, and one of three things ends it: its
result, the scheduler's answer, or the deadline for that answer.
"""

from __future__ import annotations

import enum


class State(enum.IntEnum):
    QUEUED = 0
    SENT = 1
    ENDED = 2


class Move(enum.IntEnum):
    SEND = 0
    END = 1  # the last of its tasks has ended: by a result, a cancellation, or because we gave up
    LOSE_SESSION = 2
    BEGIN_AGAIN = 3  # with its graph, all of which has ended at the scheduler (CLI-23)


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.QUEUED, Move.SEND): State.SENT,
    (State.QUEUED, Move.END): State.ENDED,  # canceled before it was sent, or given up
    (State.QUEUED, Move.LOSE_SESSION): State.QUEUED,
    (State.SENT, Move.END): State.ENDED,
    (State.SENT, Move.LOSE_SESSION): State.QUEUED,  # the successor knows nothing of it (CLI-8)
    (State.ENDED, Move.LOSE_SESSION): State.QUEUED,  # a finished node of a graph that others still depend on
    (State.SENT, Move.BEGIN_AGAIN): State.QUEUED,
    (State.ENDED, Move.BEGIN_AGAIN): State.QUEUED,
}


class IllegalMove(Exception):
    """Our own mistake: a submission was asked to do what it cannot in its state."""


def after(state: State, move: Move) -> State:
    try:
        return TRANSITIONS[state, move]
    except KeyError:
        raise IllegalMove(f"a submission that is {state.name} cannot {move.name}") from None
