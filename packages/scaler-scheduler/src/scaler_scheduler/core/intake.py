"""Which peers send more than the scheduler works off, or cause more answers than they read (LIM-13, LIM-16).

Theory of operation. A client that submits tasks and cancels them causes Results and CancelReplies without any work of a
worker, so neither credit nor its window (SCH-46) slows it down. Such answers are charged to the client. A client whose
charge is too high sends nothing more (SES-35) until it has acknowledged some.

A charge is an upper bound: all answers since the last look, and no more than what is kept for the client. That is
looked up only when the charge would hold the client back. A client that reads has acknowledged by then, so it
goes on; and a client with a full window of results, which cancels little, is charged with the little.

A client that was held back must be able to read, or it could never acknowledge. So a resume does not wait for these
charges: what the client lacks follows the Welcome, and the answer to its next message tells whether that was enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scaler_protocol.ids import PeerId
from scaler_protocol.session.gate import Pressure

#: Of one client, and of all clients together. Beyond the second, of one client only the third.
ANSWERS_BYTES = 8 * 1024 * 1024
ALL_ANSWERS_BYTES = 32 * 1024 * 1024
LEAST_ANSWERS_BYTES = 1024 * 1024


class Intake(Pressure):
    __slots__ = ("_answers", "_unread", "all_answers_bytes", "answers_bytes", "answers_total")

    def __init__(self, unread: Callable[[PeerId], int]) -> None:
        super().__init__()
        self._unread = unread
        #: simulations and tests take smaller ones
        self.answers_bytes = ANSWERS_BYTES
        self.all_answers_bytes = ALL_ANSWERS_BYTES
        #: of each client: positive, the one that was looked at last at the end
        self._answers: dict[PeerId, int] = {}
        #: the sum of these
        self.answers_total = 0

    def answered(self, peer_id: PeerId, size: int) -> None:
        """This client is sent so many bytes that no worker has worked for."""
        self._answers[peer_id] = self._answers.get(peer_id, 0) + size
        self.answers_total += size
        self._set_strained()

    def forget(self, peer_id: PeerId) -> None:
        """Its session is over, and with it what was kept for it."""
        if (size := self._answers.pop(peer_id, 0)) != 0:
            self.answers_total -= size
            self._set_strained()

    def admits(self, peer_id: PeerId, size: int) -> bool:
        if self.answers_total > self._strained_from():
            self._look_at(next(iter(self._answers)))  # also clients that send nothing more are looked at in time
            if self._answers.get(peer_id, 0) > self._most() and self._look_at(peer_id) > self._most():
                return False
        return super().admits(peer_id, size)

    def check(self, held: Mapping[PeerId, int]) -> None:
        super().check(held)
        assert all(size > 0 for size in self._answers.values())
        assert self.answers_total == sum(self._answers.values()), "answers_total is the sum"

    def _most(self) -> int:
        is_much = self.answers_total > self.all_answers_bytes
        return min(LEAST_ANSWERS_BYTES, self.answers_bytes) if is_much else self.answers_bytes

    def _look_at(self, peer_id: PeerId) -> int:
        before = self._answers.pop(peer_id, 0)
        size = min(before, self._unread(peer_id))
        self.answers_total += size - before
        if size:
            self._answers[peer_id] = size
        self._set_strained()
        return size

    def _strained_from(self) -> int:
        return min(self.answers_bytes, self.all_answers_bytes)

    def _is_strained(self) -> bool:
        return super()._is_strained() or self.answers_total > self._strained_from()
