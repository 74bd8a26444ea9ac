"""The states of a unit at its manager, and every move between them (states.toml, unit-at-manager).

STARTING   asked for; its workers are not known to run
RUNNING    its workers may be there
STOPPING   we have begun to end it; it does not count any more
ENDED      it is in no table
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from scaler_protocol import messages
from scaler_protocol.codes import UNIT_RUNNING, UNIT_STARTING, UNIT_STOPPING


class State(enum.IntEnum):
    ENDED = 0
    STARTING = UNIT_STARTING
    RUNNING = UNIT_RUNNING
    STOPPING = UNIT_STOPPING


class Move(enum.IntEnum):
    START = 0
    RUN = 1
    STOP = 2
    END = 3


TRANSITIONS: dict[tuple[State, Move], State] = {
    (State.ENDED, Move.START): State.STARTING,
    (State.STARTING, Move.RUN): State.RUNNING,
    (State.STARTING, Move.STOP): State.STOPPING,  # not needed any more, and it was given no work (MGR-6)
    (State.STARTING, Move.END): State.ENDED,  # it cannot be started (MGR-9)
    (State.RUNNING, Move.STOP): State.STOPPING,  # a target has named it (MGR-13)
    (State.RUNNING, Move.END): State.ENDED,  # by itself
    (State.STOPPING, Move.RUN): State.STOPPING,  # it came up just before it heard
    (State.STOPPING, Move.END): State.ENDED,
}


class IllegalMove(Exception):
    """Our own mistake, or the backend's: a unit was told to do what it cannot in its state."""


@dataclass(slots=True)
class Unit:
    unit_id: str
    state: State = State.ENDED
    place: str = ""  #: for people: a process id, the id of a job
    running_since: float = 0.0
    worker_names: tuple[str, ...] = ()

    def as_message(self) -> messages.Unit:
        return messages.Unit(self.unit_id, int(self.state), self.place, self.worker_names)

    def move(self, move: Move) -> None:
        try:
            self.state = TRANSITIONS[self.state, move]
        except KeyError:
            raise IllegalMove(f"unit {self.unit_id}, which is {self.state.name}, cannot {move.name}") from None
