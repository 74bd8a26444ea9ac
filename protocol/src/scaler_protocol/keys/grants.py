"""Whose family an owner belongs to, by its grant and the keys of this moment (STO-32, STO-34, HSK-45).

A scheduler and its storage read one key file, each at its own heartbeats. So a grant may be by a key that this server
has not read yet: before a grant is refused, the file is looked at again. And a grant may be by a key that was taken out
a moment ago: such a grant is good for a while longer. The sessions of its client end as well, and with them the client
passes what it owned to its next name, and its workers present the tasks that they have.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from scaler_protocol.keys.keyring import Granted, Keyring
from scaler_protocol.keys.watch import KeyWatch

GRACE_SECONDS = 60.0
"""So long a grant is good after its key was taken out. A grant opens no session, so a stolen key is of no use here."""
LOOK_SECONDS = 2.0
"""Between two looks at the file while all grants are good."""
_FORMER = 4


class Grants:
    def __init__(self, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = KeyWatch(keyring)
        self._clock = clock
        self._look_at = clock() + LOOK_SECONDS
        #: keys of before, and until when their grants are good, the latest first
        self._former: deque[tuple[float, Keyring]] = deque(maxlen=_FORMER)

    def family_of(self, owner: bytes, grant: bytes) -> bytes | None:
        """None if this is not the grant of that owner, nor one that was lent of it."""
        granted = self.read(owner, grant)
        return None if granted is None else granted.family

    def read(self, owner: bytes, grant: bytes) -> Granted | None:
        """Returns what the grant says, also if it has ended; None if it is not one of that owner."""
        now = self._clock()
        if now >= self._look_at:
            self._look(now)
        granted = self._watch.keyring.granted(owner, grant)
        if granted is None and self._look(now):
            granted = self._watch.keyring.granted(owner, grant)
        if granted is None:
            every = (keyring.granted(owner, grant) for until, keyring in self._former if now < until)
            granted = next((found for found in every if found is not None), None)
        return granted

    def _look(self, now: float) -> bool:
        """Whether the file has other keys than before."""
        self._look_at = now + LOOK_SECONDS
        before, found = self._watch.keyring, self._watch.look()
        if found is None or found.keys == before.keys:  # other tickets are revoked, which grants are not
            return False
        self._former.appendleft((now + GRACE_SECONDS, before))
        return True
