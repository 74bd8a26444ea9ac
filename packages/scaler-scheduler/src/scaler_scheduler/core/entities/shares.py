"""Whose tasks leave next, among those of equal urgency: each user gets the same time of workers, and of that each
program of the user the same (SCH-91).

Theory of operation. Users have accounts, and so has each program of a user; without keys all programs are of one
user. What is said here of programs holds for users as well. A program's *account* is the time, in seconds and by its
weight, that workers took for its tasks that have ended. Between two Results of a worker that has something to do passes
the time that the tasks of the second one took: that is measured here, without a word of the worker, and divided among
the rows. To that comes what held tasks will take, if they take what tasks of the program took on average; else one
program would get all places that become free at one time. The program with the smallest account has the next turn.

A program that comes, or that had nothing queued, begins with the account that was served last: it is neither in debt
nor rich. What held tasks will take is no part of that: it is a guess, too high by far before the first of them has
ended or when short tasks follow long ones, and the program that comes would wait until the others had used so much.

This is deficit round robin, with accounts that rise in place of deficits that are paid off: nothing has to be gone
round in vain until a long task is paid for. (decision 0022)
"""

from __future__ import annotations

from collections.abc import Mapping

MOST_HUNDREDTHS = 100
UNKNOWN_SECONDS = 0.01
"""What a task is taken to need before one of its program has ended."""
REMEMBERED_TASKS = 1024
"""The average goes back over so many and twice as many tasks."""


class Shares:
    """The accounts of all users and programs."""

    def __init__(self, user_weights: Mapping[str, float]) -> None:
        self._user_weights = user_weights  #: 1 for others
        self.now = 0.0
        self.served_to = 0.0  #: the account of the user that had the last turn
        self.is_contended = False  #: more than one program is here, so that it matters how much each has had
        self.contended_since = 0.0
        self._of: dict[bytes, Share] = {}
        self._users: dict[str, UserShare] = {}

    def join(self, family: bytes, user: str, hundredths: int, *, is_in_task: bool) -> Share:
        """Clients of one program have one account, those in its tasks among them. A client may ask for a smaller share
        than the user's other programs have, and an operator give a user any. (SCH-92) The ticket of a client in a task
        is that of its worker: if it comes back to a new scheduler before its program, the program's user and weight
        replace it."""
        weight = hundredths / MOST_HUNDREDTHS if 0 < hundredths < MOST_HUNDREDTHS else 1.0
        share = self._of.get(family)
        if share is None:
            share = self._of[family] = Share(self._user(user), family, weight)
            share.of_user.program_count += 1
        elif not is_in_task and not share.is_of_program:
            self._drop(share)
            share.move(self._user(user), weight)
            share.of_user.program_count += 1
        share.is_of_program = share.is_of_program or not is_in_task
        share.client_count += 1
        if len(self._of) > 1 and not self.is_contended:
            self.is_contended, self.contended_since = True, self.now
        return share

    def leave(self, share: Share) -> None:
        share.client_count -= 1
        if not share.client_count and self._of.get(share.family) is share:
            del self._of[share.family]
            self._drop(share)
            self.is_contended = len(self._of) > 1

    def _drop(self, share: Share) -> None:
        of_user = share.of_user
        of_user.program_count -= 1
        if not of_user.program_count:
            del self._users[of_user.user]

    def _user(self, user: str) -> UserShare:
        of_user = self._users.get(user)
        if of_user is None:
            of_user = self._users[user] = UserShare(self, user, self._user_weights.get(user, 1.0))
        return of_user


class Account:
    """Of one of those that compete with each other."""

    __slots__ = ("_ended", "_ended_seconds", "held", "seconds", "weight")

    def __init__(self, weight: float, served_to: float) -> None:
        self.weight = weight
        self.held = 0  #: tasks that workers hold
        self.seconds = served_to  #: that workers took, by weight
        #: of so many tasks, not weighted
        self._ended_seconds = 0.0
        self._ended = 0

    @property
    def standing(self) -> float:
        """The account, with what the held tasks will take."""
        mean = self._ended_seconds / self._ended if self._ended else UNKNOWN_SECONDS
        return self.seconds + self.held * mean / self.weight

    def _charge(self, tasks: int, seconds: float) -> None:
        self.seconds += seconds / self.weight
        self._ended_seconds += seconds
        self._ended += tasks
        if self._ended > 2 * REMEMBERED_TASKS:
            self._ended_seconds *= REMEMBERED_TASKS / self._ended
            self._ended = REMEMBERED_TASKS

    def _comes(self, served_to: float) -> None:
        self.seconds += max(0.0, served_to - self.standing)


class UserShare(Account):
    __slots__ = ("program_count", "served_to", "shares", "user")

    def __init__(self, shares: Shares, user: str, weight: float) -> None:
        super().__init__(weight, shares.served_to)
        self.shares = shares
        self.user = user
        self.program_count = 0
        self.served_to = 0.0  #: the account of its program that had the last turn


class Share(Account):
    """Of a program."""

    __slots__ = ("client_count", "family", "is_of_program", "of_user", "shares")

    def __init__(self, of_user: UserShare, family: bytes, weight: float) -> None:
        super().__init__(weight, of_user.served_to)
        self.of_user = of_user
        self.shares = of_user.shares
        self.family = family
        self.is_of_program = False  #: a client outside of its tasks has proven whose it is
        self.client_count = 0

    @property
    def user(self) -> str:
        return self.of_user.user

    def move(self, of_user: UserShare, weight: float) -> None:
        """Moves it to its user, as one that comes, with what workers hold of it."""
        self.of_user.held -= self.held
        of_user.held += self.held
        self.of_user, self.weight, self.seconds = of_user, weight, of_user.served_to

    def charge(self, tasks: int, seconds: float) -> None:
        """So many have ended, and a worker took so long for them."""
        self._charge(tasks, seconds)
        self.of_user._charge(tasks, seconds)

    def comes(self) -> None:
        """It had nothing queued, and has something now: what it did not use meanwhile is not saved up."""
        self._comes(self.of_user.served_to)
        self.of_user._comes(self.shares.served_to)

    def has_turn(self) -> None:
        self.of_user.served_to = max(self.of_user.served_to, self.seconds)
        self.shares.served_to = max(self.shares.served_to, self.of_user.seconds)
