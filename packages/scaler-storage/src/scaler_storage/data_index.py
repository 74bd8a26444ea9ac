"""The index of a data directory: an SQLite database of the values, objects and owners that are there.

Small values lie in the index itself: a file for each would cost more than its bytes, and a file for many would keep its
room until the last of them goes. A statement is run once for a whole batch, and not once for each row: the interpreter
is given back at each statement, and a loop that serves thousands of messages takes it away for milliseconds. So the
columns of a batch come as one text or blob each, which the statement cuts.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scaler_protocol.ids import ID_BYTES, ObjectId, PeerId

#: "scsd", and the version of what follows.
APPLICATION_ID = 0x73637364
VERSION = 1

_DIGITS = 20
_CACHE_KIBIBYTES = 8 * 1024
_WAL_BYTES = 8 * 1024 * 1024

#: Pages that are free are given back to the file system, so many after each batch, when there are more than that.
_FREE_PAGES = 1_024

_SCHEMA = f"""
CREATE TABLE vals (number INTEGER PRIMARY KEY, size INTEGER NOT NULL, bytes BLOB);
CREATE TABLE objects (id BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (
    id BLOB NOT NULL, owner BLOB NOT NULL, family BLOB NOT NULL, PRIMARY KEY (id, owner)
) WITHOUT ROWID;
CREATE TABLE keys (mark BLOB PRIMARY KEY) WITHOUT ROWID;
PRAGMA application_id={APPLICATION_ID};
PRAGMA user_version={VERSION};
"""

_ROWS = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :count)"


def _id(name: str) -> str:
    return f"substr(:{name}, i * {ID_BYTES} + 1, {ID_BYTES})"


def _number(name: str) -> str:
    return f"CAST(substr(:{name}, i * {_DIGITS} + 1, {_DIGITS}) AS INTEGER)"


_ADD_VALUES = f"""INSERT INTO vals {_ROWS}
    SELECT {_number("numbers")}, {_number("sizes")},
        CASE {_number("begins")} WHEN 0 THEN NULL ELSE substr(:payload, {_number("begins")}, {_number("sizes")}) END
    FROM n"""
_ADD_OBJECTS = f"INSERT OR REPLACE INTO objects {_ROWS} SELECT {_id('ids')}, {_number('numbers')} FROM n"
_ADD_OWNERS = f"INSERT OR REPLACE INTO owners {_ROWS} SELECT {_id('ids')}, {_id('owners')}, {_id('families')} FROM n"
_DELETE_PAIRS = f"DELETE FROM owners WHERE (id, owner) IN ({_ROWS} SELECT {_id('ids')}, {_id('owners')} FROM n)"
_DELETE_OWNERS = f"DELETE FROM owners WHERE id IN ({_ROWS} SELECT {_id('ids')} FROM n)"
_DELETE_OBJECTS = f"DELETE FROM objects WHERE id IN ({_ROWS} SELECT {_id('ids')} FROM n)"
_DELETE_VALUES = f"DELETE FROM vals WHERE number IN ({_ROWS} SELECT {_number('numbers')} FROM n)"

#: All in the order of a key: joined with the values as well, each row would be looked up at another place.
NAMED = """SELECT objects.id, objects.number, owners.owner, owners.family
    FROM objects LEFT JOIN owners USING (id) ORDER BY objects.id, owners.owner"""


class OtherVersion(Exception):
    """The file is an index of a later version, or of another program."""


class DataIndex:
    """Raises sqlite3.Error for whatever fails; then nothing is changed."""

    def __init__(self, path: Path) -> None:
        # With these rights from the start: SQLite itself would make a file that others can read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        self._path = path
        self._lock = threading.Lock()
        self._writer = self._connected()
        try:
            self._prepare()
        except BaseException:
            self._writer.close()
            raise
        self._reader = self._connected()
        self._read_lock = threading.Lock()

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)

    def _prepare(self) -> None:
        ((application,),) = self._writer.execute("PRAGMA application_id").fetchall()
        ((version,),) = self._writer.execute("PRAGMA user_version").fetchall()
        is_new = not self._writer.execute("SELECT 1 FROM sqlite_master").fetchall()
        if not is_new and (application != APPLICATION_ID or version > VERSION):
            raise OtherVersion(str(version) if application == APPLICATION_ID else "")
        if is_new:
            self._writer.execute("PRAGMA page_size=16384")
            self._writer.execute("PRAGMA auto_vacuum=INCREMENTAL")
        for pragma in ("journal_mode=WAL", "synchronous=FULL", f"cache_size=-{_CACHE_KIBIBYTES}"):
            self._writer.execute(f"PRAGMA {pragma}").fetchall()
        self._writer.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}").fetchall()
        if is_new:
            with self.transaction():
                for statement in filter(None, map(str.strip, _SCHEMA.split(";"))):
                    self._writer.execute(statement)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    # ------------------------------------------------------------ in a transaction

    def add_values(self, rows: Sequence[tuple[int, int, bytes | None]]) -> None:
        """Number, size, and the bytes of a small one."""
        begins, begin = [], 1
        for _, size, data in rows:
            begins.append(0 if data is None else begin)
            begin += 0 if data is None else size
        # A byte more: what is cut out of an empty blob is no blob.
        payload = b"".join([*(data for _, _, data in rows if data is not None), b"."])
        columns = {"numbers": _digits(row[0] for row in rows), "sizes": _digits(row[1] for row in rows)}
        self._run(_ADD_VALUES, len(rows), {**columns, "begins": _digits(begins), "payload": payload})

    def add_objects(self, rows: Sequence[tuple[ObjectId, int]]) -> None:
        numbers = _digits(number for _, number in rows)
        self._run(_ADD_OBJECTS, len(rows), {"ids": _joined(rows, 0), "numbers": numbers})

    def add_owners(self, rows: Sequence[tuple[ObjectId, PeerId, bytes]]) -> None:
        columns = {"ids": _joined(rows, 0), "owners": _joined(rows, 1), "families": _joined(rows, 2)}
        self._run(_ADD_OWNERS, len(rows), columns)

    def delete_owners(self, rows: Sequence[tuple[ObjectId, PeerId]]) -> None:
        self._run(_DELETE_PAIRS, len(rows), {"ids": _joined(rows, 0), "owners": _joined(rows, 1)})

    def delete_objects(self, ids: Sequence[ObjectId]) -> None:
        """With all their owners."""
        for statement in (_DELETE_OWNERS, _DELETE_OBJECTS):
            self._run(statement, len(ids), {"ids": b"".join(ids)})

    def delete_values(self, numbers: Sequence[int]) -> None:
        self._run(_DELETE_VALUES, len(numbers), {"numbers": _digits(numbers)})

    def clear(self) -> None:
        for table in ("owners", "objects", "vals", "keys"):
            self._writer.execute(f"DELETE FROM {table}")

    def set_keys(self, marks: Iterable[bytes]) -> None:
        self._writer.execute("DELETE FROM keys")
        self._writer.executemany("INSERT INTO keys VALUES (?)", [(mark,) for mark in marks])

    def _run(self, statement: str, count: int, columns: dict[str, bytes]) -> None:
        if count:
            self._writer.execute(statement, {"count": count, **columns})

    # ------------------------------------------------------------ otherwise

    def give_back(self) -> None:
        """Some of the room of what was deleted."""
        with self._lock:
            ((free,),) = self._writer.execute("PRAGMA freelist_count").fetchall()
            if free > _FREE_PAGES:
                # As a script: `execute` ends a statement that gives no rows after its first step, which is one page.
                self._writer.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES})")

    def keys(self) -> frozenset[bytes]:
        return frozenset(mark for (mark,) in self._writer.execute("SELECT mark FROM keys"))

    def files(self) -> dict[int, int]:
        """Of the values that have a file of their own: number and size."""
        return dict(self._writer.execute("SELECT number, size FROM vals WHERE bytes IS NULL"))

    def small(self) -> dict[int, int]:
        """The same of the values that lie here."""
        return dict(self._writer.execute("SELECT number, size FROM vals WHERE bytes IS NOT NULL"))

    def last_number(self) -> int:
        ((number,),) = self._writer.execute("SELECT coalesce(max(number), 0) FROM vals").fetchall()
        return int(number)

    def named(self) -> Iterator[tuple[ObjectId, int, PeerId | None, bytes | None]]:
        """A row for each owner of each object, those of one object after another: id, number of the value, owner,
        family. An object without an owner has one row."""
        return self._writer.execute(NAMED)

    def read(self, number: int, offset: int, size: int) -> bytes | None:
        """Of a small value. In any thread."""
        with self._read_lock:
            query = "SELECT substr(bytes, ?, ?) FROM vals WHERE number = ?"
            row = self._reader.execute(query, (offset + 1, size, number)).fetchone()
        return None if row is None else row[0]


def _digits(numbers: Iterable[int]) -> bytes:
    """A blob: in a text SQLite counts all letters before the one that it looks for."""
    return b"".join([b"%0*d" % (_DIGITS, number) for number in numbers])


def _joined(rows: Sequence[tuple[object, ...]], column: int) -> bytes:
    return b"".join([row[column] for row in rows])  # type: ignore[misc]
