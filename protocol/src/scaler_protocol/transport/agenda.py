"""When the next of several things is due that an endpoint looks after now and then."""

from __future__ import annotations

import math


class Agenda:
    """Each part of an endpoint has a `look_at` of its own and reports here whenever it puts that forward. So a turn of
    the endpoint compares one number, however many parts there are. The number may be early: after a look the endpoint
    sets it anew."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = math.inf

    def by(self, at: float) -> None:
        """Something is due then, if nothing is due sooner."""
        if at < self.at:
            self.at = at
