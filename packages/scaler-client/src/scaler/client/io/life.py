"""The states of a client's connection, and every move between them.

    OPENING    dialing; no scheduler has welcomed us yet
    OPEN       welcomed once; a session may be lost and replaced meanwhile
    LEAVING    what was pending has ended canceled, and the goodbye is on its way
    CLOSED     nothing is sent or received any more; what is posted now ends at once, canceled

Only the thread that holds the driver's lock moves it. A thread that wants the connection to end posts that like
anything else, so what was posted before it is still sent, and what is posted after it is refused.
"""

from __future__ import annotations

import enum


class Life(enum.Enum):
    OPENING = enum.auto()
    OPEN = enum.auto()
    LEAVING = enum.auto()
    CLOSED = enum.auto()


class Move(enum.Enum):
    WELCOME = enum.auto()  # of the first session, or a later one
    LEAVE = enum.auto()  # the program wants no more of it, the opening failed, or no client shares it any longer
    END = enum.auto()  # the IO thread has ended
    FORK = enum.auto()  # this is a forked child: the session is the parent's


TRANSITIONS: dict[tuple[Life, Move], Life] = {
    (Life.OPENING, Move.WELCOME): Life.OPEN,
    (Life.OPENING, Move.LEAVE): Life.LEAVING,
    (Life.OPENING, Move.END): Life.CLOSED,  # the IO thread has failed
    (Life.OPEN, Move.WELCOME): Life.OPEN,
    (Life.OPEN, Move.LEAVE): Life.LEAVING,
    (Life.OPEN, Move.END): Life.CLOSED,  # the IO thread has failed
    (Life.LEAVING, Move.WELCOME): Life.LEAVING,  # the Hello was sent before; the goodbye follows
    (Life.LEAVING, Move.LEAVE): Life.LEAVING,  # asked twice
    (Life.LEAVING, Move.END): Life.CLOSED,
    (Life.OPENING, Move.FORK): Life.CLOSED,
    (Life.OPEN, Move.FORK): Life.CLOSED,
    (Life.LEAVING, Move.FORK): Life.CLOSED,
    (Life.CLOSED, Move.FORK): Life.CLOSED,
}


class IllegalMove(Exception):
    """Our own mistake: a connection was asked to do what it cannot in its state."""


def after(life: Life, move: Move) -> Life:
    try:
        return TRANSITIONS[life, move]
    except KeyError:
        raise IllegalMove(f"a connection that is {life.name} cannot {move.name}") from None
