"""The states of a dialer and every way between them. This file owns all of them; an illegal move raises.

    idle ──start──▶ dialing ──welcomed──▶ open ──failed──▶ interrupted ──due──▶ resuming
                     │   ▲                 ▲                    ▲                  │
                 failed  due               └──resumed, renewed──│──────────────────┤
                     ▼   │                                      └──────failed──────┘
                    waiting            every state but idle ──ended──▶ ended ──start──▶ dialing

* **idle** nothing has happened yet.
* **dialing** a Hello without resume is out; there is no session.
* **waiting** the next dial is due at a known instant; there is no session.
* **open** there is a session and a socket that carries it.
* **interrupted** there is a session; its socket is no good and the next dial is due at a known instant.
* **resuming** there is a session and a Hello that asks to continue it is out.
* **ended** refused, lost, or our own goodbye. Nothing happens until the role asks for a new start.
"""

from __future__ import annotations

from enum import Enum

from scaler_protocol.codes import LEASE_EXPIRED, NO_SESSION, SEQUENCE_GAP

#: Fatal errors after which the same session can go on, or a new one begin, on another socket (SES-5, HSK-9).
RESUMABLE = frozenset({NO_SESSION, SEQUENCE_GAP, LEASE_EXPIRED})


class State(Enum):
    __hash__ = object.__hash__  # members are single; Enum's own hash is a Python call for every look into a set

    IDLE = "idle"
    DIALING = "dialing"
    WAITING = "waiting"
    OPEN = "open"
    INTERRUPTED = "interrupted"
    RESUMING = "resuming"
    ENDED = "ended"


class Trigger(Enum):
    __hash__ = object.__hash__

    START = "start"
    WELCOMED = "welcomed"  # a new session
    FAILED = "failed"  # no answer, silence, a gap, or a server that does not know this socket
    DUE = "due"  # the pause before the next dial is over
    RESUMED = "resumed"  # the session goes on
    RENEWED = "renewed"  # the server remembers nothing: the old session is lost, a new one is open
    ENDED = "ended"  # rejected, fatal error, goodbye of either side, lease expired


class IllegalTransitionError(AssertionError):
    """Our own mistake: nothing a peer sends may lead here."""


TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.IDLE, Trigger.START): State.DIALING,
    (State.DIALING, Trigger.WELCOMED): State.OPEN,
    (State.DIALING, Trigger.FAILED): State.WAITING,
    (State.DIALING, Trigger.ENDED): State.ENDED,
    (State.WAITING, Trigger.DUE): State.DIALING,
    (State.WAITING, Trigger.ENDED): State.ENDED,
    (State.OPEN, Trigger.FAILED): State.INTERRUPTED,
    (State.OPEN, Trigger.ENDED): State.ENDED,
    (State.INTERRUPTED, Trigger.DUE): State.RESUMING,
    (State.INTERRUPTED, Trigger.ENDED): State.ENDED,
    (State.RESUMING, Trigger.RESUMED): State.OPEN,
    (State.RESUMING, Trigger.RENEWED): State.OPEN,
    (State.RESUMING, Trigger.FAILED): State.INTERRUPTED,
    (State.RESUMING, Trigger.ENDED): State.ENDED,
    (State.ENDED, Trigger.START): State.DIALING,
}

#: A session exists in these; its messages are kept until acknowledged.
HAS_SESSION = frozenset({State.OPEN, State.INTERRUPTED, State.RESUMING})
#: A Hello is out in these, and a Welcome or Reject is awaited.
AWAITS_ANSWER = frozenset({State.DIALING, State.RESUMING})
#: The socket is of no use in these: what arrives on it is dropped, and sent again when the session is resumed.
HAS_NO_SOCKET = frozenset({State.IDLE, State.WAITING, State.INTERRUPTED, State.ENDED})
#: The next dial is due at a known instant.
PAUSED = frozenset({State.WAITING, State.INTERRUPTED})
#: A session is wanted in these, and there is none.
WITHOUT_SESSION = frozenset({State.DIALING, State.WAITING})
#: Nothing happens in these before a `redial`.
AT_REST = frozenset({State.IDLE, State.ENDED})


def step(state: State, trigger: Trigger) -> State:
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransitionError(f"a dialer that is {state.value} cannot be {trigger.value}") from None
