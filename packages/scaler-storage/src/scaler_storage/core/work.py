"""Work on very many objects, in slices: no message and no lost session stops the storage for long.

All work belongs to a peer. As long as some is left, whatever else happens to that peer waits behind it: no Put
overtakes the Release before it, and no session begins before the one before has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from scaler_protocol.ids import PeerId

Job = Iterator[int]
"""Each `next` does a part of the work and returns how many steps it took."""


class Work:
    def __init__(self, turn_steps: int, deferred_bytes: int) -> None:
        self._turn_steps = turn_steps
        self._deferred_limit = deferred_bytes
        #: no empty queues; each job with the bytes of the message that waits for its turn, if it is one
        self.jobs: dict[PeerId, deque[tuple[Job, int]]] = {}
        self._deferred: dict[PeerId, int] = {}
        self.left = turn_steps

    def start(self, peer_id: PeerId, job: Job) -> None:
        """Do this as far as the turn allows. The peer has no other work left."""
        assert peer_id not in self.jobs, "whatever else happens to this peer waits"
        if not self._does(job):
            self.jobs[peer_id] = deque([(job, 0)])

    def defer(self, peer_id: PeerId, job: Job, size: int) -> bool:
        """What happens to a peer with work left. False: too much waits already, and this does not."""
        deferred = self._deferred.get(peer_id, 0) + size
        if deferred > self._deferred_limit:
            return False
        self._deferred[peer_id] = deferred
        self.jobs[peer_id].append((job, size))
        return True

    def begin_turn(self) -> None:
        self.left = self._turn_steps

    def go_on(self) -> None:
        """Peers take turns."""
        for peer_id in tuple(self.jobs):
            jobs = self.jobs[peer_id]
            while jobs and self._does(jobs[0][0]):
                _, size = jobs.popleft()
                self._deferred[peer_id] = self._deferred.get(peer_id, 0) - size
            if jobs:
                self.jobs[peer_id] = self.jobs.pop(peer_id)  # the last in line, from now on
                return
            del self.jobs[peer_id]
            self._deferred.pop(peer_id, None)

    def _does(self, job: Job) -> bool:
        """False: there is more to be done."""
        while self.left > 0:
            steps = next(job, None)
            if steps is None:
                return True
            self.left -= steps
        return False
