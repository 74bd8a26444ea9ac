"""Identifiers: sixteen bytes each, opaque on the wire (HSK-4, BAT-1, STO-1)."""

from __future__ import annotations

import itertools
import os
import secrets
import sys
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, NewType, cast

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


STORED = b"scaler: the exception is the object "
"""The text that stands, with an id behind it, in `TaskError.serialized` for an exception too large to ride along.
(PAY-2)"""


def stored_at(serialized: bytes) -> ObjectId | None:
    """Returns the id of the object that is the pickled exception, or None if these bytes are the exception itself."""
    is_stored = serialized.startswith(STORED) and len(serialized) == len(STORED) + ID_BYTES
    return ObjectId(serialized[len(STORED) :]) if is_stored else None


#: So many ids are cut at once. A Struct takes 32 bytes for each: those of all sizes that columns may have would be half
#: a gigabyte.
_IDS_AT_ONCE = 1024


@lru_cache(maxsize=64)
def _id_struct(count: int) -> Struct:
    return Struct("16s" * count)


def split_ids(column: bytes) -> tuple[bytes, ...]:
    """Sixteen-byte ids, in order."""
    count = len(column) // ID_BYTES
    if count <= _IDS_AT_ONCE:
        return _id_struct(count).unpack(column)
    rest = count % _IDS_AT_ONCE * ID_BYTES
    whole = memoryview(column)[: len(column) - rest]
    cut = itertools.chain.from_iterable(_id_struct(_IDS_AT_ONCE).iter_unpack(whole))
    return (*cut, *_id_struct(rest // ID_BYTES).unpack(column[len(column) - rest :]))


_IDS_AHEAD = 64
"""So many are made at once for those that are taken one by one."""


def task_id_source() -> Callable[[int], list[TaskId]]:
    """A function that makes `n` fresh task ids: four bytes of this source, four random ones of the id, then a counter.
    Monitors see ids, so the next ones must not follow from them: another user could use them up. (CLI-20)"""
    source = secrets.token_bytes(4)
    counter = itertools.count()
    ahead: Iterator[TaskId] = iter(())

    def take(n: int) -> list[TaskId]:
        nonlocal ahead
        if n == 1 and (task_id := next(ahead, None)) is not None:
            return [task_id]
        ids = [*itertools.islice(ahead, n)]
        missing = n - len(ids)
        if missing:
            # To read random bytes for each id is a call of the system, which lets go of the interpreter: the client's
            # IO thread would run between any two tasks, and send each alone.
            fresh = make(_IDS_AHEAD if n == 1 else missing)
            ids += fresh[:missing]
            ahead = iter(fresh[missing:])  # if two threads come here at once, numbers are left out
        return ids

    def make(n: int) -> list[TaskId]:
        heads = array("I", 2 * n * source)
        heads[1::2] = array("I", os.urandom(4 * n))
        numbers = array("Q", itertools.islice(counter, n))
        if sys.byteorder == "big":
            numbers.byteswap()
        ids = array("Q", 2 * n * bytes(8))
        ids[0::2], ids[1::2] = array("Q", heads.tobytes()), numbers
        return cast("list[TaskId]", [*split_ids(ids.tobytes())])

    return take


MOST_SHOWN = 10**9


def shown_task(task_id: TaskId) -> str:
    """For people: eight digits name its source, and the number counts that source's tasks, from 0. An id that was made
    in another way is told whole."""
    number = int.from_bytes(task_id[8:], "little")
    return f"{task_id[:4].hex()}:{number}" if number < MOST_SHOWN else task_id.hex()


def shown_parts(text: str) -> tuple[bytes, int] | None:
    """Source and number of a short form that `shown_task` has made; None for any other text. (MON-43)"""
    source, _, number = text.partition(":")
    if len(source) != 8 or not (number.isascii() and number.isdecimal() and len(number) < len(str(MOST_SHOWN))):
        return None
    try:
        return bytes.fromhex(source), int(number)
    except ValueError:
        return None


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


USER_BYTES = 8
"""At the head of a family's name: the same for all families of one user. (HSK-43)"""


def family_in(grant: bytes, owner: PeerId) -> bytes:
    """Returns the family that a grant names, whatever else it says (SEC-21); empty where there are no keys."""
    return grant[:-GRANT_BYTES][:ID_BYTES] or (owner if grant else b"")
