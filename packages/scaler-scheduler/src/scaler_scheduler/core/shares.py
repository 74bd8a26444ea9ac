"""Whose tasks leave next, among those of equal urgency: each program gets the same time of workers (SCH-91).

Theory of operation. A program's *account* is the time, in seconds and by its weight, that workers took for its tasks
that have ended. Between two Results of a worker that has something to do passes the time that the tasks of the second
one took: that is measured here, without a word of the worker, and divided among the rows. To that comes what held
tasks will take, if they take what tasks of the program took on average; else one program would get all places that
become free at one time. The program with the smallest account has the next turn.

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
    """The accounts of all programs."""

    def __init__(self, user_weights: Mapping[str, float]) -> None:
        self._user_weights = user_weights  #: 1 for others
        self.now = 0.0
        self.served_to = 0.0  #: the account that had the last turn
        self.is_contended = False  #: more than one program is here, so that it matters how much each has had
        self.contended_since = 0.0
        self._of: dict[bytes, Share] = {}

    def join(self, family: bytes, user: str, hundredths: int) -> Share:
        """Clients of one program have one account, those in its tasks among them. A client may ask for a smaller share,
        and an operator give a user any. (SCH-92)"""
        share = self._of.get(family)
        if share is None:
            weight = self._user_weights.get(user, 1.0)
            if 0 < hundredths < MOST_HUNDREDTHS:
                weight *= hundredths / MOST_HUNDREDTHS
            share = self._of[family] = Share(self, family, weight)
        share.client_count += 1
        if len(self._of) > 1 and not self.is_contended:
            self.is_contended, self.contended_since = True, self.now
        return share

    def leave(self, share: Share) -> None:
        share.client_count -= 1
        if not share.client_count and self._of.get(share.family) is share:
            del self._of[share.family]
            self.is_contended = len(self._of) > 1


class Share:
    __slots__ = ("_ended", "_ended_seconds", "client_count", "family", "held", "seconds", "shares", "weight")

    def __init__(self, shares: Shares, family: bytes, weight: float) -> None:
        self.shares = shares
        self.family = family
        self.weight = weight
        self.client_count = 0
        self.held = 0  #: tasks that workers hold
        self.seconds = shares.served_to  #: that workers took, by weight
        #: of so many tasks, not weighted
        self._ended_seconds = 0.0
        self._ended = 0

    @property
    def standing(self) -> float:
        """The account, with what the held tasks will take."""
        mean = self._ended_seconds / self._ended if self._ended else UNKNOWN_SECONDS
        return self.seconds + self.held * mean / self.weight

    def charge(self, tasks: int, seconds: float) -> None:
        """So many have ended, and a worker took so long for them."""
        self.seconds += seconds / self.weight
        self._ended_seconds += seconds
        self._ended += tasks
        if self._ended > 2 * REMEMBERED_TASKS:
            self._ended_seconds *= REMEMBERED_TASKS / self._ended
            self._ended = REMEMBERED_TASKS

    def comes(self) -> None:
        """It had nothing queued, and has something now: what it did not use meanwhile is not saved up."""
        self.seconds += max(0.0, self.shares.served_to - self.standing)

    def has_turn(self) -> None:
        self.shares.served_to = max(self.shares.served_to, self.seconds)
