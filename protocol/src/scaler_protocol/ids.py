"""Identifiers: sixteen bytes each, opaque on the wire (HSK-4, BAT-1, STO-1)."""

from __future__ import annotations

import itertools
import os
import secrets
import sys
from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple, NewType

PeerId = NewType("PeerId", bytes)
"""A peer for its whole life, however often its sockets change."""
RoutingId = NewType("RoutingId", bytes)
"""One socket of a peer; new with every socket (FRM-3)."""
TaskId = NewType("TaskId", bytes)
ObjectId = NewType("ObjectId", bytes)
GraphId = NewType("GraphId", bytes)
Salt = NewType("Salt", bytes)
"""What a client mixes into the ids of its tasks' results (OWN-6), so that no other program can compute them."""

ID_BYTES = 16


def new_peer_id() -> PeerId:
    return PeerId(secrets.token_bytes(ID_BYTES))


def new_object_id() -> ObjectId:
    return ObjectId(secrets.token_bytes(ID_BYTES))


def new_routing_id() -> RoutingId:
    """Sixteen random bytes of which the first is not zero: libzmq reserves those (FRM-3)."""
    return RoutingId(bytes((1 + secrets.randbelow(255),)) + secrets.token_bytes(ID_BYTES - 1))


def content_id(content: bytes) -> ObjectId:
    """The id of an object that is named by its bytes, such as a function (STO-2)."""
    return ObjectId(blake2b(content, digest_size=ID_BYTES).digest())


LAST_ATTEMPT = 65_535
"""Attempts are u16 on the wire."""


def new_salt() -> Salt:
    return Salt(secrets.token_bytes(ID_BYTES))


def result_object_id(task_id: TaskId, attempt: int, salt: Salt, client: PeerId) -> ObjectId:
    """Where that attempt of a task stores a large result: known before it exists, so it can be released (OWN-6)."""
    secret = salt + client if salt else b""
    return ObjectId(blake2b(task_id + attempt.to_bytes(2, "little") + secret, digest_size=ID_BYTES).digest())


def task_id_source() -> Callable[[int], list[TaskId]]:
    """A function that makes `n` fresh task ids: four bytes of this source, four random ones of the id, then a counter.
    Monitors see ids, so the next ones must not follow from them: another user could use them up. (CLI-20)"""
    source = secrets.token_bytes(4)
    counter = itertools.count()

    def take(n: int) -> list[TaskId]:
        if n == 1:
            return [TaskId(source + os.urandom(4) + next(counter).to_bytes(8, "little"))]
        heads = array("I", 2 * n * source)
        heads[1::2] = array("I", os.urandom(4 * n))
        numbers = array("Q", itertools.islice(counter, n))
        if sys.byteorder == "big":
            numbers.byteswap()
        ids = array("Q", 2 * n * bytes(8))
        ids[0::2], ids[1::2] = array("Q", heads.tobytes()), numbers
        column = ids.tobytes()
        return [TaskId(column[at : at + ID_BYTES]) for at in range(0, len(column), ID_BYTES)]

    return take


MOST_SHOWN = 10**9


def shown_task(task_id: TaskId) -> str:
    """For people: eight digits name its source, and the number counts that source's tasks, from 0. An id that was made
    in another way is told whole."""
    number = int.from_bytes(task_id[8:], "little")
    return f"{task_id[:4].hex()}:{number}" if number < MOST_SHOWN else task_id.hex()


class Owner(NamedTuple):
    """In whose name an object is put, read or released, and what proves that this process may. (STO-32)"""

    peer_id: PeerId
    grant: bytes = b""  #: empty where the cluster has no keys

    @property
    def family(self) -> bytes:
        """Those for whom what this owner has may be read; empty where there are no keys. (STO-33)"""
        return family_in(self.grant, self.peer_id)


NO_OWNER = Owner(PeerId(b""))

GRANT_BYTES = 16
"""Of a grant's MAC. What stands before it is the family of an owner that is part of another's. (SEC-11)"""


def split_name(name: bytes) -> Owner:
    """A peer id followed by its grant, as a Hello has them. (CLI-22)"""
    return Owner(PeerId(name[:ID_BYTES]), name[ID_BYTES:])


def family_in(grant: bytes, owner: PeerId) -> bytes:
    """Which family a grant names; empty where there are no keys."""
    return grant[:-GRANT_BYTES] or (owner if grant else b"")
