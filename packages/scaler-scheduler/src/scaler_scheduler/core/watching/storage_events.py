"""What happens to the object storage, as each of its statuses differs from the one before, and to the session with it
(MON-36).

What begins is told once, and again only after it has clearly ended: a storage at its limit goes to and fro.
"""

from __future__ import annotations

from scaler_protocol.messages import StorageStatus
from scaler_scheduler.core.notes.cluster_events import (
    LIMIT_REACHED,
    STORAGE_CONNECTED,
    STORAGE_LOST,
    STORAGE_SPILLING,
    STORAGE_TROUBLE,
)

SPILLING_SHARE = 0.6
"""Of the memory limit. A storage moves values to its disk from 80 % on until it holds 70 %. One that keeps all objects
on a disk has files with less in memory, and is not short of memory."""
FULL_SHARE, RELIEVED_SHARE = 0.95, 0.9
AWAY_SECONDS = 1.0
"""A session that moves to another socket is interrupted for a moment."""
MIB = 2**20
Event = tuple[str, str, str]


class StorageEvents:
    def __init__(self) -> None:
        self._trouble = ""
        #: what has begun and has not ended
        self._lasting: set[str] = set()

    def told(self, status: StorageStatus) -> list[Event]:
        """Kind, subject and text of each event."""
        found: list[Event] = []
        if status.disk_trouble and status.disk_trouble != self._trouble:
            found.append((STORAGE_TROUBLE, "", status.disk_trouble))
        self._trouble = status.disk_trouble
        limit, disk = status.memory_limit_bytes, status.disk_bytes
        share = status.memory_bytes / limit if limit else 0.0
        disk_share = disk / (disk + status.disk_room_bytes) if disk else 0.0
        if self._begins("spilling", disk > 0 and share >= SPILLING_SHARE, not disk):
            text = f"values are moved from memory to the disk: {_mib(status.memory_bytes)} of {_mib(limit)} are taken"
            found.append((STORAGE_SPILLING, "", text))
        if self._begins("disk", disk_share >= FULL_SHARE, disk_share < RELIEVED_SHARE):
            found.append((LIMIT_REACHED, "storage disk", f"{_mib(disk)} are taken: values stay in memory"))
        is_full = share >= FULL_SHARE and (not status.disk_room_bytes or disk_share >= FULL_SHARE)
        if self._begins("memory", is_full, share < RELIEVED_SHARE):
            text = f"{_mib(status.memory_bytes)} of {_mib(limit)} are taken: objects are refused"
            found.append((LIMIT_REACHED, "storage memory", text))
        return found

    def _begins(self, name: str, is_there: bool, has_ended: bool) -> bool:
        if is_there and name not in self._lasting:
            self._lasting.add(name)
            return True
        if has_ended:
            self._lasting.discard(name)
        return False


class StorageSession:
    """A session that is interrupted is told to be lost at once, for its lease ends a minute later: until then the
    dialer tries to resume it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_there = False
        self._reason = ""  #: why it is not there, as it was told last
        self._away_at: float | None = None  #: since when it has not been in use

    def look(self, now: float, *, is_open: bool) -> Event | None:
        """At each session that opens, and now and then."""
        if not is_open:
            self._away_at = now if self._away_at is None else self._away_at
            if self._is_there and now - self._away_at >= AWAY_SECONDS:
                return self.ended("its connection broke, or it is silent: it is dialed again", now)
            return None
        away_at, self._away_at = self._away_at, None
        if self._is_there:
            return None
        again = f", after {now - away_at:,.0f} s without it" if self._reason and away_at is not None else ""
        self._is_there, self._reason = True, ""
        return STORAGE_CONNECTED, "", self._address + again

    def ended(self, text: str, now: float) -> Event | None:
        """It has ended, or was refused. A storage that refuses us does so as often as it is dialed: the reason is told
        once."""
        if text == self._reason and not self._is_there:
            return None
        self._is_there, self._reason = False, text
        self._away_at = now if self._away_at is None else self._away_at
        return STORAGE_LOST, "", text


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
