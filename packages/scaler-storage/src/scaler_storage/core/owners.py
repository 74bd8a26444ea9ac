"""Owners that are gone (OWN-4), and how many bytes of values each user has, in memory and on the disk (LIM-36).

A Put that was under way when its owner left would otherwise store an object that no peer will ever release.

Objects belong to families: a program, with the clients in its tasks. The name of a family begins with that of its user
(HSK-43); without keys each owner is a user. An object counts once for each family that owns it, so a client that takes
its objects over under a new name needs no room for that.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

from scaler_protocol.ids import ID_BYTES, USER_BYTES, PeerId


class GoneOwners:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: in the order they went; at most `limit`
        self._gone: OrderedDict[PeerId, None] = OrderedDict()

    def __contains__(self, owner: PeerId) -> bool:
        return owner in self._gone

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._gone)

    def __len__(self) -> int:
        return len(self._gone)

    def add(self, owner: PeerId) -> None:
        self._gone[owner] = None
        if len(self._gone) > self._limit:
            self._gone.popitem(last=False)


class UserBytes:
    def __init__(self, *, has_keys: bool) -> None:
        self.user_bytes = USER_BYTES if has_keys else ID_BYTES  #: so much of a family's name is the user's
        self.of_user: Counter[bytes] = Counter()  #: all and only those that have some

    def has(self, family: bytes) -> int:
        """Returns what the user of this family has."""
        return self.of_user[family[: self.user_bytes]]

    def add(self, family: bytes, size: int) -> None:
        """The family owns one object more, or with a negative size one less."""
        user = family[: self.user_bytes]
        self.of_user[user] += size
        if not self.of_user[user]:
            del self.of_user[user]
