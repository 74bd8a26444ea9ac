"""Gets wait while their peer leaves unread what it was sent before (LIM-14).

A Get is short and its answer long. Whatever is sent and not acknowledged is kept by the session, also when the object
is released meanwhile. So what waits for a peer that reads slowly, or not at all, are its requests and not the answers.
Other requests are answered at once: their answers are short, and a peer that does not read them is held back (SES-35).

Most chunks are parts of a stored value and take no memory of their own, however many peers leave them unread. A small
one is copied for the socket, and one that was read from the disk is there for its reader alone: of these, less may be
unread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Get
from scaler_protocol.session.gate import Unread
from scaler_storage.core.limits import CoreLimits

#: What an answer takes besides its chunk, about.
ENVELOPE_BYTES = 256


class Pacing:
    def __init__(self, limits: CoreLimits, unread: Callable[[PeerId], int], all_unread: Callable[[], int]) -> None:
        self._limits = limits
        self._unread = unread
        self._all_unread = all_unread
        #: in the order in which they came; no empty queues
        self.waiting: dict[PeerId, deque[Get]] = {}
        #: how many these are
        self.count = 0
        #: bytes of answers of this event, of which the session knows nothing yet
        self._let_out: dict[PeerId, int] = {}
        self._let_out_bytes = 0
        #: of all that is not read, the chunks that take memory of their own
        self._copied = Unread(
            self._kept, limits.copied_unread_bytes, limits.all_copied_unread_bytes, limits.least_unread_bytes
        )
        #: the turn was over before all was answered that could be
        self.is_behind = False

    def begin(self) -> None:
        """Another event: the answers to the one before are in the session."""
        if self._let_out:
            self._let_out.clear()
            self._let_out_bytes = 0

    def let_out(self, peer_id: PeerId, chunk_bytes: int, *, is_copied: bool = False) -> None:
        size = chunk_bytes + ENVELOPE_BYTES
        if is_copied or chunk_bytes < self._limits.small_chunk_bytes:
            self._copied.add(peer_id, size)
        self._let_out[peer_id] = self._let_out.get(peer_id, 0) + size
        self._let_out_bytes += size

    def is_free(self, peer_id: PeerId) -> bool:
        """A Get that has just come may be answered."""
        return peer_id not in self.waiting and self._has_room(peer_id)

    def _has_room(self, peer_id: PeerId) -> bool:
        limits = self._limits
        is_much = self._all_unread() + self._let_out_bytes >= limits.all_unread_bytes
        most = limits.least_unread_bytes if is_much else limits.unread_bytes
        return self._kept(peer_id) < most and not self._copied.is_too_much(peer_id)

    def _kept(self, peer_id: PeerId) -> int:
        return self._unread(peer_id) + self._let_out.get(peer_id, 0)

    def may_answer(self, peer_id: PeerId) -> bool:
        """For answers that take more than a turn."""
        return self._has_room(peer_id)

    def wait(self, peer_id: PeerId, get: Get, most: int) -> bool:
        """False: so many of this peer wait already."""
        if len(self.waiting.get(peer_id, ())) >= most:
            return False
        self.waiting.setdefault(peer_id, deque()).append(get)
        self.count += 1
        return True

    def go_on(self, answer: Callable[[PeerId, Get], None], most: int) -> int:
        """Once in each turn: answer what waits, as far as its peers have read; of that no more than so many. How many
        it were."""
        count = 0
        self.is_behind = False
        for peer_id in tuple(self.waiting):
            gets = self.waiting[peer_id]
            while gets and self._has_room(peer_id):
                if count >= most:
                    self.is_behind = True
                    return count
                count += 1
                self.count -= 1
                answer(peer_id, gets.popleft())
            if gets:
                self.waiting[peer_id] = self.waiting.pop(peer_id)  # the last in line, from now on
            else:
                del self.waiting[peer_id]
        return count

    def forget(self, peer_id: PeerId) -> None:
        """Its session has ended."""
        self.count -= len(self.waiting.pop(peer_id, ()))
        self._copied.forget(peer_id)
