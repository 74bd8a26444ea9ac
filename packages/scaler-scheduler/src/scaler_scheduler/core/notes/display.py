"""What monitors are shown in place of the ids of clients, workers and managers (MON-23).

A peer id is what a peer resumes its session with, and the owner of its objects: monitors see a hash of it. The key of
the hash is drawn for each life of the scheduler, so a hash cannot be compared with those of another, nor computed for
a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

from scaler_protocol.ids import ID_BYTES, PeerId

KEY_BYTES = 32
#: More peers than this have theirs computed again for each status.
_KEPT = 16_384


class DisplayIds:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self.of: Callable[[PeerId], PeerId] = lru_cache(maxsize=_KEPT)(self._of)

    def _of(self, peer_id: PeerId) -> PeerId:
        """The display id of a peer id. An empty id, which names no peer, stays empty."""
        return PeerId(blake2b(peer_id, digest_size=ID_BYTES, key=self._key).digest() if peer_id else b"")
