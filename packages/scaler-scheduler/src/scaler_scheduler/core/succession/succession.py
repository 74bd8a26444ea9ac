"""Which of two schedulers serves: decisions only, of what they tell one another and of time (SCH-80 to SCH-83, LIV-18).

Theory of operation. A standby has a session with the other scheduler. The scheduler that serves has told its generation
there. When that session is lost, or the other one says goodbye, the standby serves, with a higher generation. It goes
on dialing the other scheduler, and says in its Hello with which generation it serves. So when a cut link is whole
again, or a stopped scheduler goes on, the one with the lower generation learns of the other one, and ends.

No decision here has to be right for tasks to end right: a dialer has one scheduler at a time, workers refuse what comes
with a generation below the one that their scheduler has told (WRK-33), and each life of a client has a name of its own.
"""

from __future__ import annotations

import math
from enum import Enum

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import NO_PEER, Hello

Rank = tuple[int, bytes]
"""A generation, and the server id for the case that two have the same."""


class Duty(Enum):
    WAITING = "waiting"  # a standby
    SERVING = "serving"
    FOLLOWED = "followed"  # another one serves: this one ends, or begins again as a standby
    ENDED = "ended"  # with the cluster


class State(Enum):
    """Of a scheduler that was told the address of another one (`spec/states.toml`, standby)."""

    LOOKING = "looking"  # a standby without a session with the other scheduler
    WAITING = "waiting"  # a standby with one
    SERVING = "serving"
    FOLLOWED = "followed"
    ENDED = "ended"


class Step(Enum):
    FOUND = "found"  # the other one has a session with this one, and goes first
    GOES_FIRST = "goes first"  # the other one has a session with this one, and is to be its standby
    GOODBYE = "goodbye"
    SILENT = "silent"
    LOST = "lost"  # the session is over for another reason
    REFUSED = "refused"
    EXPIRED = "expired"  # no session for the lease
    SHUTDOWN = "shutdown"
    OUTRANKED = "outranked"


TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.LOOKING, Step.FOUND): State.WAITING,
    (State.LOOKING, Step.GOES_FIRST): State.SERVING,
    (State.LOOKING, Step.REFUSED): State.LOOKING,
    (State.LOOKING, Step.EXPIRED): State.SERVING,
    (State.WAITING, Step.GOODBYE): State.SERVING,
    (State.WAITING, Step.SILENT): State.SERVING,
    (State.WAITING, Step.LOST): State.LOOKING,
    (State.WAITING, Step.SHUTDOWN): State.ENDED,
    (State.SERVING, Step.OUTRANKED): State.FOLLOWED,
}

_DUTIES = {
    State.LOOKING: Duty.WAITING,
    State.WAITING: Duty.WAITING,
    State.SERVING: Duty.SERVING,
    State.FOLLOWED: Duty.FOLLOWED,
    State.ENDED: Duty.ENDED,
}


class Succession:
    def __init__(self, server_id: PeerId, lease_seconds: float, *, waits: bool) -> None:
        self._server_id = server_id
        self._lease_seconds = lease_seconds
        self.state = State.LOOKING if waits else State.SERVING
        #: for people: why this scheduler serves, or ends
        self.why = ""
        #: the highest generation that the other scheduler has told; ours is higher when we serve (SCH-81)
        self.seen_generation = 0
        #: of the other scheduler while there is a session with it; a standby has none to serve with
        self._other: Rank | None = None
        self._other_waits = False
        #: waiting without a session: when this scheduler serves. Never as long as time has not begun
        self.serve_at = math.inf

    @property
    def duty(self) -> Duty:
        return _DUTIES[self.state]

    @property
    def is_waiting(self) -> bool:
        return self.duty is Duty.WAITING

    @property
    def is_linked(self) -> bool:
        """There is a session with the other scheduler."""
        return self._other is not None

    def follows_on(self) -> PeerId | None:
        """The scheduler that serves, of which this one is a standby."""
        is_found = self.duty is Duty.WAITING and self._other is not None and not self._other_waits
        return PeerId(self._other[1]) if is_found and self._other is not None else None

    def begin(self, now: float) -> None:
        """From now on the other scheduler is looked for."""
        self.serve_at = now + self._lease_seconds

    # ------------------------------------------------------------ our session with the other scheduler

    def opened(self, server_id: PeerId, generation: int, *, is_standby: bool, own_generation: int) -> None:
        self._other, self._other_waits = (generation, server_id), is_standby
        self.seen_generation = max(self.seen_generation, generation)
        self.serve_at = math.inf
        if self.is_waiting:
            # Of two that wait both see both ids, so exactly one of the two goes first.
            goes_first = is_standby and self._server_id < server_id
            self._move(Step.GOES_FIRST if goes_first else Step.FOUND, "the other scheduler is a standby too")
        elif not is_standby:
            self._compare((generation, server_id), own_generation)

    def told_goodbye(self) -> None:
        """It leaves in good order, so there is nothing to wait for."""
        self._other = None
        if self.is_waiting:
            self._move(Step.GOODBYE, "the other scheduler has said goodbye")

    def lost(self, now: float, *, is_silent: bool) -> None:
        """The session is over. `is_silent`: nothing has been heard of it for the lease; otherwise it may be back at
        once, as after a restart."""
        self._other = None
        if not self.is_waiting:
            return
        if is_silent:
            self._move(Step.SILENT, f"the other scheduler has given no sign for {self._lease_seconds:g} s")
        else:
            self._move(Step.LOST)
            self.begin(now)

    def refused(self, now: float) -> None:
        """It lives, and does not let us in."""
        if self.is_waiting:
            self._move(Step.REFUSED)
            self.begin(now)

    def told_to_end(self) -> None:
        """A client has ended the cluster: there is nothing to follow on. (SCH-89)"""
        if self.is_waiting:
            self._move(Step.SHUTDOWN, "a client asked for the end of the cluster")

    # ------------------------------------------------------------ its session with us

    def met(self, hello: Hello, own_generation: int) -> None:
        """The other scheduler, or one that was configured so, has dialed us, and is known to be one. (SCH-82)"""
        if hello.serving_generation and hello.last_server_id != NO_PEER:
            self.seen_generation = max(self.seen_generation, hello.serving_generation)
            self._compare((hello.serving_generation, hello.last_server_id), own_generation)

    def tick(self, now: float) -> None:
        if self.is_waiting and now >= self.serve_at:
            self._move(Step.EXPIRED, f"no other scheduler has answered for {self._lease_seconds:g} s")

    # ------------------------------------------------------------ decisions

    def _compare(self, other: Rank, own_generation: int) -> None:
        """Both serve. Both compare the same two ranks, so at most one of them ends."""
        if self.state is State.SERVING and other > (own_generation, self._server_id):
            text = f"another scheduler serves with generation {other[0]}, and this one has {own_generation}"
            self._move(Step.OUTRANKED, text)

    def _move(self, step: Step, why: str = "") -> None:
        before, self.state = self.state, TRANSITIONS[self.state, step]
        if self.state is not before and not self.is_waiting:
            self.why, self.serve_at = why, math.inf
