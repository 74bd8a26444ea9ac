"""The life of an object id. Every change of an object is a row of this table; there are no others.

    ABSENT   nothing is known of this id.
    AWAITED  it does not exist, but Gets or Duplicates wait for it.
    STORED   it exists and has at least one owner.

An unfinished upload changes nothing: until the last byte is there, the object does not exist. (STO-3)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class ObjectState(Enum):
    ABSENT = "absent"
    AWAITED = "awaited"
    STORED = "stored"


class Change(Enum):
    WAIT_BEGAN = "a Get or Duplicate waits for it"
    WAIT_ENDED = "a waiter was answered or left; others remain"
    LAST_WAIT_ENDED = "the last waiter was answered or left"
    COMPLETED = "all its bytes are there, or it became another name of a value"
    OWNER_ADDED = "it was put or duplicated once more"
    OWNER_RELEASED = "an owner needs it no longer; others remain"
    LAST_OWNER_RELEASED = "its last owner has released it"


_ABSENT, _AWAITED, _STORED = ObjectState.ABSENT, ObjectState.AWAITED, ObjectState.STORED

TRANSITIONS: Mapping[tuple[ObjectState, Change], ObjectState] = MappingProxyType(
    {
        (_ABSENT, Change.WAIT_BEGAN): _AWAITED,
        (_ABSENT, Change.COMPLETED): _STORED,
        (_AWAITED, Change.WAIT_BEGAN): _AWAITED,
        (_AWAITED, Change.WAIT_ENDED): _AWAITED,
        (_AWAITED, Change.LAST_WAIT_ENDED): _ABSENT,
        (_AWAITED, Change.COMPLETED): _STORED,
        (_STORED, Change.OWNER_ADDED): _STORED,
        # A Get of a family that may not read it waits until it has an owner of that family. (STO-33)
        (_STORED, Change.WAIT_BEGAN): _STORED,
        (_STORED, Change.WAIT_ENDED): _STORED,
        (_STORED, Change.LAST_WAIT_ENDED): _STORED,
        (_STORED, Change.OWNER_RELEASED): _STORED,
        (_STORED, Change.LAST_OWNER_RELEASED): _ABSENT,
    }
)


class IllegalChange(AssertionError):
    """Our own mistake: the tables were about to be changed in a way that no row describes."""


def next_state(state: ObjectState, change: Change) -> ObjectState:
    try:
        return TRANSITIONS[state, change]
    except KeyError:
        raise IllegalChange(f"an object that is {state.value} cannot change because {change.value}") from None
