"""Work on very many objects, in slices: no message and no lost session stops the storage for long.

All work belongs to a peer. As long as some is left, whatever else happens to that peer waits behind it: no Put
overtakes the Release before it, and no session begins before the one before has ended. What waits is bounded: the
session of a peer that sends faster takes no more from it until enough is worked off, and so does that of a peer which
causes answers that it does not read (`Intake`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from scaler_protocol.ids import PeerId
from scaler_protocol.session import Received
from scaler_protocol.session.gate import Intake, Unread
from scaler_storage.core.events import Event, FileOffered
from scaler_storage.core.limits import CoreLimits

Job = Iterator[int]
"""Each `next` does a part of the work and returns how many steps it took, or PARKED."""

PARKED = -1
"""The job cannot go on before something has happened, and is not asked again before `wake`."""


def weight(event: Event) -> int:
    """Bytes of a message, about. Events of the session itself are never held back."""
    if isinstance(event, Received):
        return 1_000 + sum(len(getattr(event.message, name, b"")) for name in ("payload", "ids"))
    return 1_000 if isinstance(event, FileOffered) else 0


class Work:
    def __init__(self, limits: CoreLimits, kept: Callable[[PeerId], int]) -> None:
        self._turn_steps = limits.turn_releases
        #: no empty queues; each job with the bytes of the message that it works off, if it is one
        self.jobs: dict[PeerId, deque[tuple[Job, int]]] = {}
        #: bytes of the messages that are not worked off, and of answers that are not read
        self.pressure = Intake(Unread(kept, limits.answers_bytes, limits.all_answers_bytes, limits.least_answers_bytes))
        self.left = limits.turn_releases
        #: peers whose first job is parked
        self.parked: set[PeerId] = set()

    def start(self, peer_id: PeerId, job: Job, size: int) -> None:
        """Do this as far as the turn allows. The peer has no other work left."""
        assert peer_id not in self.jobs, "whatever else happens to this peer waits"
        if not self._does(peer_id, job):
            self.jobs[peer_id] = deque()
            self.defer(peer_id, job, size)

    def defer(self, peer_id: PeerId, job: Job, size: int) -> None:
        """What happens to a peer with work left."""
        self.jobs[peer_id].append((job, size))
        if size:
            self.pressure.hold(peer_id, size)

    def add(self, peer_id: PeerId, job: Job) -> None:
        """Work of a message that was worked off otherwise: behind what the peer has left."""
        if peer_id in self.jobs:
            self.defer(peer_id, job, 0)
        else:
            self.start(peer_id, job, 0)

    def wake(self) -> None:
        self.parked.clear()

    @property
    def is_left(self) -> bool:
        """Some job can go on."""
        return len(self.jobs) > len(self.parked)

    def begin_turn(self) -> None:
        self.left = self._turn_steps

    def go_on(self) -> None:
        """Peers take turns."""
        for peer_id in [peer_id for peer_id in self.jobs if peer_id not in self.parked]:
            jobs = self.jobs[peer_id]
            while jobs and self._does(peer_id, jobs[0][0]):
                _, size = jobs.popleft()
                if size:
                    self.pressure.drop(peer_id, size)
            if peer_id in self.parked:
                continue
            if jobs:
                self.jobs[peer_id] = self.jobs.pop(peer_id)  # the last in line, from now on
                return
            del self.jobs[peer_id]

    def _does(self, peer_id: PeerId, job: Job) -> bool:
        """False: there is more to be done."""
        while self.left > 0:
            steps = next(job, None)
            if steps is None:
                return True
            if steps == PARKED:
                self.parked.add(peer_id)
                return False
            self.left -= steps
        return False
