"""Which owners live, as schedulers name them, and which of the others are released (OWN-17 to OWN-19).

Theory of operation. A naming lists all owners that live. An owner that it leaves out becomes a suspect. If the next
naming of the same session leaves the suspect out again, the owner is released. Two namings are needed, and no clock:
a scheduler begins the second one after it has received the answer to the first. An owner that the storage had when it
gave that answer had its session with the scheduler before. So the second naming has the owner, or the owner is gone.
How long a message is on its way does not matter.

A naming belongs to one session. What a lost session has left out says nothing to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from scaler_protocol import codes
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, PeerId
from scaler_protocol.messages import LiveOwners
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.refusals import Refusal

FEATURE = "live-owners"
OWNERS_IN_A_SLICE = 256


class Naming:
    """What the session of one scheduler has named."""

    def __init__(self) -> None:
        #: by its last naming that was whole; None: there was none yet
        self.named: set[PeerId] | None = None
        #: owners that the storage had then, and that nothing spoke for
        self.suspects: set[PeerId] = set()
        #: of the naming that is under way: None between namings
        self.coming: set[PeerId] | None = None
        self.coming_count = 0
        self.total_count = 0

    @property
    def size(self) -> int:
        return len(self.named or ()) + len(self.suspects) + len(self.coming or ())


class Namings:
    def __init__(self, limits: CoreLimits) -> None:
        self._limits = limits
        #: schedulers with a session that have not named anything yet
        self.silent: set[PeerId] = set()
        #: the other schedulers with a session; at most `naming_schedulers`
        self.by_peer: dict[PeerId, Naming] = {}

    @property
    def size(self) -> int:
        """How many ids all sessions keep together."""
        return sum(naming.size for naming in self.by_peer.values())

    def begin_session(self, scheduler_id: PeerId) -> None:
        self.silent.add(scheduler_id)

    def end_session(self, peer_id: PeerId) -> None:
        self.silent.discard(peer_id)
        self.by_peer.pop(peer_id, None)

    def take(self, peer_id: PeerId, part: LiveOwners) -> Refusal | None:
        """One part more. A refused one ends the naming that is under way."""
        refusal = self._check_schedulers(peer_id)
        if refusal is not None:
            return refusal
        naming = self.by_peer.setdefault(peer_id, Naming())
        if part.offset == 0:
            naming.coming, naming.coming_count, naming.total_count = set(), 0, part.total_count
        refusal = _check_continues(naming, part) or self._check_room(part)
        if refusal is not None:
            naming.coming = None
            return refusal
        assert naming.coming is not None
        naming.coming.update(map(PeerId, split_ids(part.ids)))
        naming.coming_count += len(part.ids) // ID_BYTES
        return None

    def is_whole(self, peer_id: PeerId) -> bool:
        """Whether the last part has just come."""
        naming = self.by_peer[peer_id]
        return naming.coming is not None and naming.coming_count == naming.total_count

    def close(
        self, peer_id: PeerId, owned: Iterable[PeerId], is_present: Callable[[PeerId], bool]
    ) -> Iterator[list[PeerId]]:
        """The naming is whole. Looks through all owners in slices: yields those to release, and suspects the others
        that were left out. `is_present`: a client with a session stores in this owner's name. (OWN-18, OWN-19)"""
        naming = self.by_peer[peer_id]
        naming.named, naming.coming = naming.coming, None
        suspects, naming.suspects = naming.suspects, set()
        self.silent.discard(peer_id)
        owners = tuple(owned)
        for start in range(0, len(owners), OWNERS_IN_A_SLICE):
            room = self._limits.named_owners - self.size
            part = owners[start : start + OWNERS_IN_A_SLICE]
            left_out = [owner for owner in part if not self.is_named(owner) and not is_present(owner)]
            # Without room for one more suspect, it is spared until the next naming.
            naming.suspects.update([owner for owner in left_out if owner not in suspects][:room])
            yield [owner for owner in left_out if owner in suspects]

    def is_named(self, owner: PeerId) -> bool:
        """By any scheduler with a session, or perhaps: one of them has not named anything yet. With several schedulers
        at one storage, none decides about the others' clients. (OWN-19)"""
        return bool(self.silent) or any(owner in (naming.named or ()) for naming in self.by_peer.values())

    def _check_schedulers(self, peer_id: PeerId) -> Refusal | None:
        if peer_id in self.by_peer or len(self.by_peer) < self._limits.naming_schedulers:
            return None
        what = f"{len(self.by_peer)} schedulers name their clients to this storage, as many as may"
        return Refusal(codes.TOO_MANY, f"{what}: start a storage for each scheduler")

    def _check_room(self, part: LiveOwners) -> Refusal | None:
        if part.total_count > self._limits.owners:
            what = f"a naming of {part.total_count} owners: at most {self._limits.owners} are accepted"
        elif self.size + len(part.ids) // ID_BYTES > self._limits.named_owners:
            what = f"schedulers have named {self._limits.named_owners} owners, as many as are kept"
        else:
            return None
        return Refusal(codes.TOO_MANY, f"{what}: start a storage for each scheduler")


class Speakers:
    """Clients that store something themselves, and so show that they live. (OWN-19)"""

    def __init__(self, roles: Mapping[PeerId, int], limit: int) -> None:
        self._roles = roles
        self._limit = limit
        #: owner -> the client that was the last to store something in its name; at most `limit`, the oldest go first
        self._by_owner: dict[PeerId, PeerId] = {}

    def note(self, peer_id: PeerId, owner: PeerId) -> None:
        """This peer has stored something in the owner's name, or has tried to."""
        if self._by_owner.get(owner) == peer_id or self._roles[peer_id] != codes.ROLE_CLIENT:
            return
        self._by_owner.pop(owner, None)
        self._by_owner[owner] = peer_id
        if len(self._by_owner) > self._limit:
            del self._by_owner[next(iter(self._by_owner))]

    def has_session(self, owner: PeerId) -> bool:
        return self._by_owner.get(owner) in self._roles

    def __len__(self) -> int:
        return len(self._by_owner)


def _check_continues(naming: Naming, part: LiveOwners) -> Refusal | None:
    count = len(part.ids) // ID_BYTES
    if naming.coming is None:
        text = f"a part at offset {part.offset} of a naming not begun"
    elif part.offset != naming.coming_count:
        text = f"a part at offset {part.offset} where {naming.coming_count} comes next"
    elif part.total_count != naming.total_count:
        text = f"a part of a naming of {part.total_count} owners, after one of {naming.total_count}"
    elif part.offset + count > part.total_count:
        text = f"a part of {count} owners at offset {part.offset}, which reaches beyond the {part.total_count} in all"
    elif count == 0 and part.total_count != 0:
        text = "an empty part: only a naming of no owner has one"
    else:
        return None
    return Refusal(codes.BAD_CHUNK, f"{text}: begin again at offset 0")
