"""What a processor can be doing, and every way that changes.

starting   forked, not heard from yet
idle       ready, nothing handed to it
running    has a slice; the first task of the slice is the one it has begun
blocked    its first task waits for children; it holds no place, and the rest of its slice went back to the queue
resuming   its first task wants to go on and waits for a place
stopping   killed or asked to leave; whatever it still says counts until it has exited
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from enum import IntEnum
from math import inf

from scaler_protocol.holding.tasks import Task
from scaler_protocol.records import dataclass


class State(IntEnum):
    """The first five are the protocol's numbers (WRK-12); `resuming` is reported as blocked."""

    STARTING = 0
    IDLE = 1
    RUNNING = 2
    BLOCKED = 3
    STOPPING = 4
    RESUMING = 5
    EXITED = 6


class Step(IntEnum):
    READY = 0
    HAND_OVER = 1
    FINISH = 2  # the last task of its slice has ended
    BLOCK = 3
    ASK = 4  # to go on after blocking
    GRANT = 5
    STOP = 6
    EXIT = 7


TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.STARTING, Step.READY): State.IDLE,
    (State.STARTING, Step.STOP): State.STOPPING,
    (State.STARTING, Step.EXIT): State.EXITED,
    (State.IDLE, Step.HAND_OVER): State.RUNNING,
    (State.IDLE, Step.STOP): State.STOPPING,
    (State.IDLE, Step.EXIT): State.EXITED,
    (State.RUNNING, Step.HAND_OVER): State.RUNNING,
    (State.RUNNING, Step.FINISH): State.IDLE,
    (State.RUNNING, Step.BLOCK): State.BLOCKED,
    (State.RUNNING, Step.STOP): State.STOPPING,
    (State.RUNNING, Step.EXIT): State.EXITED,
    (State.BLOCKED, Step.ASK): State.RESUMING,
    # A task may end without unblocking: its waiting thread was not the main one, or an interrupt cut it short.
    (State.BLOCKED, Step.FINISH): State.IDLE,
    (State.BLOCKED, Step.STOP): State.STOPPING,
    (State.BLOCKED, Step.EXIT): State.EXITED,
    (State.RESUMING, Step.GRANT): State.RUNNING,
    (State.RESUMING, Step.FINISH): State.IDLE,
    (State.RESUMING, Step.STOP): State.STOPPING,
    (State.RESUMING, Step.EXIT): State.EXITED,
    # What was on its way when it was told to stop.
    (State.STOPPING, Step.READY): State.STOPPING,
    (State.STOPPING, Step.FINISH): State.STOPPING,
    (State.STOPPING, Step.BLOCK): State.STOPPING,
    (State.STOPPING, Step.ASK): State.STOPPING,
    (State.STOPPING, Step.STOP): State.STOPPING,
    (State.STOPPING, Step.EXIT): State.EXITED,
}


class IllegalStepError(Exception):
    """A processor did what its state does not allow: user code has broken it, and it will be killed."""


@dataclass(slots=True)
class Processor:
    number: int
    since: float  #: when it entered its state
    state: State = State.STARTING
    process_id: int = 0
    #: handed over and not ended, in order; empty in STARTING and IDLE
    slice: deque[Task] = field(default_factory=deque)
    first_since: float = 0.0  #: when the first task of the slice became the first
    outstanding_seconds: float = 0.0  #: the sum of the slice's estimates
    slow_reports: int = 0  #: in a row, by which the slice takes far longer than that
    last_number: int = 0  #: of the last task handed over
    is_extra: bool = False  #: begun or resumed beyond the places, because it had waited too long
    reclaim_serial: int = 0
    is_broken: bool = False  #: killed because it broke the local channel, so that its first task is to blame
    is_reclaiming: bool = False  #: asked to give back what it has not begun, and has not answered
    is_suspended: bool = False  #: the process stands still
    change_at: float = 0.0  #: when it is to be woken, or may be suspended again
    kill_at: float | None = None  #: set while an interrupted first task is given its grace
    timeout_at: float | None = None  #: when the first task has run for its `timeout_seconds`
    ended_count: int = 0  #: tasks it has ended
    is_worn: bool = False  #: it gets no further task, and leaves when it is idle (WRK-44)
    memory_bytes: int = 0  #: when last read, without the values that it keeps
    gives_back: bool = False  #: it was told to give those back, and has not done so
    memory_at: float = -inf  #: when that was
    low_until: float = inf  #: until then it is below the soft limit of memory for certain
    is_unread: bool = False  #: it gets no task before its memory is read again
    group: bytes | None = None  #: whose tasks it runs, since the first one (grouping.py); kept where tables.is_grouped
    gpus: tuple[str, ...] = ()  #: all that its tasks see, since the first one (devices.py)
    has_not_begun: bool = False  #: its first task, when that was last looked at (beginning.py)
    is_late: bool = False  #: it has been starting for longer than tasks wait for that
    is_low: bool = True  #: it was below that limit at some time since its first task began

    def step(self, step: Step, now: float) -> None:
        try:
            after = TRANSITIONS[self.state, step]
        except KeyError:
            raise IllegalStepError(f"a {self.state.name.lower()} processor cannot {step.name.lower()}") from None
        if after is not self.state:
            self.state = after
            self.since = now

    @property
    def first(self) -> Task | None:
        return self.slice[0] if self.slice else None

    @property
    def can_give_back(self) -> bool:
        """It holds tasks that may not have begun, and has not been asked for them."""
        return self.state is State.RUNNING and len(self.slice) > 1 and not self.is_reclaiming

    @property
    def is_waiting(self) -> bool:
        return self.state is State.BLOCKED or self.state is State.RESUMING
