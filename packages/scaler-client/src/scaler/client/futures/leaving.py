"""The values that a client fetches before it leaves, so that results can be read afterwards, whatever their size.

Small results have come with the end of their tasks. Large results lie in the storage under the client's name, and are
gone when the client is. So the client fetches the bytes of those that the program can still request: results of futures
that the program holds and has not read, and results that an `imap` has not handed out. The bytes are read where the
program requests the results.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from scaler.client.core.records import LargeError, Outcomes
from scaler.client.future import ScalerFuture
from scaler.client.futures.fetching import NotInTime
from scaler.client.futures.interrupts import pass_on
from scaler.client.futures.source import Source
from scaler.client.submitting.mapping import Gathering
from scaler.client.submitting.streaming import Streaming
from scaler_protocol.errors import ObjectStorageException
from scaler_protocol.messages import Buffer

_log = logging.getLogger("scaler")

MOST_BYTES = 4 * 1024**3
"""So much is fetched at most. The program holds the futures of it all, so a pool would have it in memory as well."""


class Host(Source, Protocol):
    """A connection that leaves."""

    @property
    def timeout_seconds(self) -> float: ...


class _Limit(Exception):
    """No more is fetched: the storage does not answer, or one of the bounds is reached."""


class Fetching:
    """Returns the bytes of a stored value, as long as the bounds allow it."""

    def __init__(self, connection: Host) -> None:
        self._connection = connection
        self.end_at = time.monotonic() + connection.timeout_seconds
        self._left_bytes = MOST_BYTES

    def __call__(self, outcomes: Outcomes) -> Buffer:
        if self._left_bytes <= 0:
            raise _Limit(f"{MOST_BYTES / 2**30:g} GiB have been fetched, and more is not")
        try:
            data = self._connection.fetch_one(outcomes, self.end_at)
        except (NotInTime, ObjectStorageException) as error:
            raise _Limit(str(error)) from error
        self._left_bytes -= len(data)
        return data


def wait_for_ends(collectors: list[Any]) -> None:
    for collector in collectors:
        if isinstance(collector, ScalerFuture | Gathering):
            collector.wait_for_end()


def bring_values(connection: Host, gatherings: list[Any]) -> None:
    """Fetches the bytes of all results that the program can still ask for. Takes `timeout_seconds` of the client and
    `MOST_BYTES` at most; logs if that is not enough. Raises nothing but interrupts."""
    if connection.is_closed:
        return
    fetch = Fetching(connection)
    holders = [
        one
        for one in (*connection.garbage.owners(), *gatherings)
        if isinstance(one, LargeError | ScalerFuture | Streaming)
    ]
    for done, holder in enumerate(holders):
        try:
            holder.bring(fetch)
        except (_Limit, NotInTime) as error:
            count = len(holders) - done
            _log.warning("large results of %d futures cannot be read from now on: %s", count, error)
            return
        except Exception as error:  # noqa: BLE001 of this one alone, such as of its second run, and told to its reader
            pass_on(error)
