"""The client's names towards the object storage. Each session with the scheduler has another one. (CLI-8, OWN-16)"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy

from scaler.utility.exceptions import ObjectStorageException, RejectedError
from scaler_protocol import waits
from scaler_protocol.errors import OwnerGone
from scaler_protocol.ids import PeerId
from scaler_protocol.objects import Owner
from scaler_protocol.waits import Event

KEPT_NAMES = 4
"""So many of our names are known with their grants: under earlier ones nothing is left."""

SLICE_SECONDS = 0.5
"""The longest wait of one look for a new name."""


class Names:
    def __init__(self, owner: PeerId, timeout_seconds: float) -> None:
        #: the present one, which the scheduler may not have welcomed
        self.owner = owner
        #: asked for when a call needs a name that is welcomed and there is none: the scheduler is to be dialed
        self.on_wanted: Callable[[], None] = lambda: None
        self._timeout_seconds = timeout_seconds
        #: the last one that the scheduler has welcomed
        self._welcomed: PeerId | None = None
        #: what the scheduler has given us with our names, the latest last; none where there are no keys (OWN-16)
        self._grants: dict[PeerId, bytes] = {}
        #: of sessions since the last Welcome: we may still own under them what we hold
        self._previous: list[PeerId] = []
        #: why the scheduler does not welcome the present name
        self._refusal: RejectedError | None = None
        #: of the name and the ones before; no Condition, which an interrupt can leave locked
        self.lock = waits.RLock()
        self._has_changed = Event()
        self._is_closed = False

    @property
    def present(self) -> Owner:
        """The present name, with its grant if the scheduler has welcomed it. Never waits."""
        owner = self.owner
        return Owner(owner, self.grant(owner))

    @property
    def is_welcomed(self) -> bool:
        """The scheduler has welcomed our present name. Before, it has no grant, and the storage refuses what is
        stored in it; what is held then is taken over with the Welcome."""
        return self.owner == self._welcomed

    def grant(self, owner: PeerId) -> bytes:
        return self._grants.get(owner, b"")

    def all(self) -> list[Owner]:
        """Returns all names that have grants, the latest first."""
        return [Owner(name, grant) for name, grant in reversed(list(self._grants.items()))]

    def rename(self, owner: PeerId) -> None:
        """The session is over, and its owner's name with it. (CLI-8)"""
        with self.lock:
            self._previous.append(self.owner)
            self.owner = owner
            self._refusal = None

    def welcome(self, grant: bytes) -> tuple[PeerId, list[PeerId]]:
        """The scheduler has welcomed the present name. Returns it, and the names before it that are to be given up."""
        with self.lock:
            previous, self._previous = self._previous, []
            owner = self._welcomed = self.owner
            self._refusal = None
            if grant:
                names = [*self._grants.items(), (owner, grant)]
                self._grants = dict(names[-KEPT_NAMES:])
        self._has_changed.set()
        return owner, previous

    def refuse(self, refusal: RejectedError) -> None:
        """The scheduler refuses the present name: calls that wait for its Welcome raise this."""
        self._refusal = refusal
        self._has_changed.set()

    def close(self) -> None:
        self._is_closed = True
        self._has_changed.set()

    def welcomed(self) -> Owner:
        """Returns the present name with its grant. Where there are keys, waits until the scheduler has welcomed the
        name. Raises the scheduler's refusal, or ObjectStorageException if no scheduler answers in time."""
        owner = self.owner
        if not self._grants or owner in self._grants:
            return Owner(owner, self.grant(owner))
        before = next(reversed(self._grants))
        self._refusal = None  # of an earlier dial: the key file may hold another ticket by now
        self.on_wanted()
        text = f"the scheduler has not welcomed this client again for {self._timeout_seconds:g} s"
        try:
            return self.next_after(before, OwnerGone(text))
        except OwnerGone as error:
            raise ObjectStorageException(str(error)) from error

    def next_after(self, gone: PeerId, error: OwnerGone) -> Owner:
        """Returns our name after this one, with which the cluster is done: this process was stopped, or cut off, for
        longer than its lease, and may not have learned of it yet. Waits until the scheduler has welcomed the next.
        Raises `error` if it does not in time, or the scheduler's refusal. (CLI-8)"""
        end_at = time.monotonic() + self._timeout_seconds
        while not self._is_closed:
            self._has_changed.clear()  # another waiting thread may clear it too early, so each wait is short
            welcomed = self._welcomed
            if welcomed is not None and welcomed != gone:
                return Owner(welcomed, self.grant(welcomed))
            if self._refusal is not None:
                raise copy(self._refusal)
            left = end_at - time.monotonic()
            if left <= 0:
                break
            self._has_changed.wait(min(left, SLICE_SECONDS))
        raise copy(error)  # whose traceback does not refer to this frame, which refers to the error
