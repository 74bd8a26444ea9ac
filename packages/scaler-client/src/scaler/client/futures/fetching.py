"""How long a future may fetch a value that lies in the storage."""

from __future__ import annotations

import concurrent.futures
import time

from scaler.client.submitting.options import seconds_of

FETCH_SECONDS = 0.5
"""A value that lies in the storage has at least so long to be fetched: `result(0)` returns that of an ended task."""


class NotInTime(concurrent.futures.TimeoutError):
    """The task has ended, and its value has not come in time: the storage does not answer, or the value was lost with
    the storage or with the session of this client, and its task runs again."""

    TEXT = "the task has ended, but its value was not fetched in time"

    def __init__(self, text: str = TEXT) -> None:
        super().__init__(text)


class StillAtIt(NotInTime):
    """The same, and something else goes on that will bring the value or an error: another thread fetches it, or its
    task runs again."""


def fetched_by(timeout: float) -> float:
    return time.monotonic() + max(FETCH_SECONDS, seconds_of("timeout", timeout))
