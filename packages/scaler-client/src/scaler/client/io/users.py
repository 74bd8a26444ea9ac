"""The handles that share one connection, in the process of a worker. (CLI-9)"""

from __future__ import annotations

import weakref

IDLE_SECONDS = 5.0
"""How long a shared connection outlives the last of its users: the next task is often a moment away."""


class Users:
    def __init__(self) -> None:
        #: None: it belongs to one handle, which closes it
        self._users: weakref.WeakSet[object] | None = None
        self._left_at: float | None = None

    def add(self, user: object) -> None:
        if self._users is None:
            self._users = weakref.WeakSet()
        self._users.add(user)
        self._left_at = None

    def have_left(self, is_idle: bool, now: float) -> bool:
        """For a while, and nothing is pending."""
        if self._users is None or self._users or not is_idle:
            self._left_at = None
            return False
        if self._left_at is None:
            self._left_at = now
        return now - self._left_at >= IDLE_SECONDS
