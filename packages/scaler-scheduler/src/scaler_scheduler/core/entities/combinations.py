"""What the unfinished tasks of a user are, and how many lines they may make: the queue has one for each combination of
depth, priority and requirement, and each turn looks at every line (SCH-49).

Counted are the combinations of batches with unfinished tasks, whether these are queued or not: a task that waits for
others, or that a worker gives back, is queued later, and nothing is refused then. A user's first combinations are
never refused. Further ones are bounded for each user, and for all users together. Without keys, each session is a user.
"""

from __future__ import annotations

from collections import Counter

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import TaskHeader
from scaler_scheduler.core.entities.requirements import ClassKey, Requirement, class_key

COMBINATIONS_OF_A_USER = 1_024
REQUIREMENTS_OF_A_USER = 256
"""Different ones among the combinations of a user: for each of them, every worker is looked at once, and whatever
changes the load of a worker is noted."""
FIRST_COMBINATIONS = 16
FURTHER_COMBINATIONS = 4_096
"""Of all users together, besides the first ones of each."""

User = str | PeerId


class Combination:
    """Of one user."""

    __slots__ = ("batch_count", "is_listed", "key", "of_user")

    def __init__(self, key: ClassKey, of_user: UserCombinations) -> None:
        self.key = key
        self.of_user = of_user
        self.batch_count = 0  #: with unfinished tasks
        self.is_listed = False  #: it counts


class UserCombinations:
    """Those of a user that are listed. A combination without unfinished tasks stays listed while there are few: most
    tasks are of the combination that the last ones were of."""

    def __init__(self, of_all: Combinations, user: User) -> None:
        self.user = user
        self.session_count = 0
        #: unfinished, and the payloads of batches that have some (LIM-35)
        self.task_count = self.task_bytes = 0
        self.listed: dict[ClassKey, Combination] = {}
        self._of_all = of_all
        self._requirements: Counter[Requirement] = Counter()
        self.has_many = False  #: more than the first ones

    def of(self, header: TaskHeader, user: str) -> Combination:
        """Returns the one of this header. `user`: of the program, another one than this if a worker's ticket is in use
        in its tasks."""
        key = class_key(header, user)
        return self.listed.get(key) or Combination(key, self)

    def has_room(self, key: ClassKey) -> bool:
        count = len(self.listed)
        if key in self.listed or count < FIRST_COMBINATIONS or (count == FIRST_COMBINATIONS and self._unused()):
            return True
        is_new = key.requirement not in self._requirements
        if count >= COMBINATIONS_OF_A_USER or (is_new and len(self._requirements) >= REQUIREMENTS_OF_A_USER):
            return False
        return self._of_all.further_count < FURTHER_COMBINATIONS

    def enter(self, one: Combination) -> Combination:
        """The combination is listed from now on. Answers the one of its key that is."""
        listed = self.listed.get(one.key)
        if listed is not None:
            return listed
        if len(self.listed) == FIRST_COMBINATIONS:
            for unused in self._unused():
                self.remove(unused)
        one.is_listed = True
        self.listed[one.key] = one
        self.has_many = len(self.listed) > FIRST_COMBINATIONS
        self._of_all.further_count += self.has_many
        self._requirements[one.key.requirement] += 1
        return one

    def _unused(self) -> list[Combination]:
        """There are none among more than the first ones."""
        return [one for one in self.listed.values() if not one.batch_count]

    def remove(self, one: Combination) -> None:
        """The combination has no unfinished tasks."""
        self._of_all.further_count -= self.has_many
        one.is_listed = False
        del self.listed[one.key]
        self.has_many = len(self.listed) > FIRST_COMBINATIONS
        self._requirements[one.key.requirement] -= 1
        if not self._requirements[one.key.requirement]:
            del self._requirements[one.key.requirement]


class Combinations:
    """Of all users."""

    def __init__(self) -> None:
        self.users: dict[User, UserCombinations] = {}
        self.further_count = 0  #: of each user those besides the first ones
        self.object_bytes_limit = 0  #: of each user in the storage, as that has said last; 0: none (MON-69)

    def join(self, user: User) -> UserCombinations:
        of_user = self.users.get(user)
        if of_user is None:
            of_user = self.users[user] = UserCombinations(self, user)
        of_user.session_count += 1
        return of_user

    def leave(self, of_user: UserCombinations) -> None:
        """All tasks of one session have ended."""
        of_user.session_count -= 1
        if not of_user.session_count:
            del self.users[of_user.user]
