"""The session with Symphony: its states, and every way that they change.

CLOSED   there is none; the next one is opened when the pause is over
OPENING  asked for
OPEN     tasks can be sent
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

PAUSE_SECONDS = 1.0
PAUSE_LIMIT_SECONDS = 30.0


class State(enum.IntEnum):
    CLOSED = 0
    OPENING = 1
    OPEN = 2


class Move(enum.IntEnum):
    OPEN = 0
    OPENED = 1
    FAIL = 2  # it could not be opened, or was lost before we knew it open
    LOSE = 3  # Symphony has ended it
    CLOSE = 4  # we end it


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.CLOSED, Move.OPEN): State.OPENING,
    (State.OPENING, Move.OPENED): State.OPEN,
    (State.OPENING, Move.FAIL): State.CLOSED,
    (State.OPEN, Move.LOSE): State.CLOSED,
    (State.OPEN, Move.CLOSE): State.CLOSED,
}


class IllegalMoveError(Exception):
    """Our own mistake."""


@dataclass(slots=True)
class SymphonySession:
    state: State = State.CLOSED
    number: int = 0  #: of the present or last one, from 1
    open_at: float = 0.0  #: while CLOSED: not before
    without_since: float = 0.0  #: since when there is none that is open
    failure_count: int = 0  #: in a row, of sessions that could not be opened
    was_ever_open: bool = False

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    def move(self, move: Move, now: float) -> None:
        before = self.state
        try:
            self.state = TRANSITIONS[before, move]
        except KeyError:
            raise IllegalMoveError(f"a session that is {before.name} cannot {move.name}") from None
        if move is Move.OPEN:
            self.number += 1
        elif move is Move.OPENED:
            self.failure_count = 0
            self.was_ever_open = True
        elif move is Move.FAIL:
            self.open_at = now + min(PAUSE_SECONDS * 2.0 ** min(self.failure_count, 10), PAUSE_LIMIT_SECONDS)
            self.failure_count += 1
        elif before is State.OPEN:
            self.open_at = self.without_since = now
