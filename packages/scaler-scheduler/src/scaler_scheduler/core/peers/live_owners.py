"""Names the clients that live to the storage, which releases what the others have left behind (SCH-58, OWN-20).

Theory of operation. A scheduler that is restarted does not know which clients its predecessor had. Those that come back
release what they owned themselves. For the others, no peer would ever send a ReleaseOwner. So the scheduler names its
clients as soon as it has a session with the storage, and once in each lease. The storage releases an owner that two
namings in a row have left out. A client that comes back within a lease of the restart is named in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

from scaler_protocol.columns import join_ids
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import LiveOwners
from scaler_scheduler.core.actions import SendToStorage
from scaler_scheduler.core.tables.tables import Tables

IDS_IN_A_PART = 2_048
"""An envelope of the smallest size has room for them (LIM-2)."""


class Namer:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: requests of the last naming that have no answer yet
        self._unanswered: set[int] = set()
        #: when the next naming is due; never as long as there is no session with a storage that takes namings
        self._name_at = math.inf
        #: the same, but never while the last naming is not answered
        self.look_at = math.inf

    def storage_opened(self, now: float, *, takes_namings: bool) -> None:
        """What was on its way is lost with the old session."""
        self._unanswered.clear()
        self.look_at = self._name_at = now if takes_namings else math.inf

    def replied(self, request_id: int) -> None:
        self._unanswered.discard(request_id)
        if not self._unanswered:
            self.look_at = self._name_at

    def settle(self, now: float) -> None:
        """A naming waits until the one before is answered, or an owner that has begun between the two could be
        released. (OWN-20)"""
        if now < self.look_at:
            return
        self._name_at = now + self._tables.policy.owner_grace_seconds
        self.look_at = math.inf
        for part in _parts(self._living(), self._tables.storage_request_ids):
            self._unanswered.add(part.request_id)
            self._tables.act(SendToStorage(part))

    def _living(self) -> tuple[PeerId, ...]:
        """Also former names of clients for which workers still store values. (SCH-73)"""
        return tuple(dict.fromkeys((*self._tables.clients, *self._tables.presentation.pending_owners())))


def _parts(owners: tuple[PeerId, ...], request_ids: count[int]) -> Iterator[LiveOwners]:
    for offset in range(0, max(1, len(owners)), IDS_IN_A_PART):
        part = owners[offset : offset + IDS_IN_A_PART]
        yield LiveOwners(next(request_ids), join_ids(part), offset, len(owners))
