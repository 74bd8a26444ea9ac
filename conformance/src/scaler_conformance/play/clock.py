"""Measuring time on a machine that does other things as well.

Lower bounds are exact: nothing may happen too early. Upper bounds have slack, from the manifest and from what the
machine shows while the case runs. A pause of the suite itself makes a measurement worth nothing: `Disturbed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scaler_conformance.verdicts import Breach, Disturbed

from .pump import Pump

#: The least slack of any upper bound.
SLACK_SECONDS = 0.25
#: Lower bounds are measured here and there, with two clocks and a socket between.
EARLY_SECONDS = 0.01


class Stopwatch:
    def __init__(self, pump: Pump, slack: float) -> None:
        self._pump = pump
        self._slack = slack
        self.began_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began_at

    def latest(self, seconds: float) -> float:
        return seconds + SLACK_SECONDS * self._slack

    def until(self, is_so: Callable[[], bool], seconds: float, otherwise: str, clause: str) -> float:
        """It comes to be so within these seconds and the slack; after how many."""
        if not self._pump.until(is_so, self.latest(seconds)):
            self.must_be_undisturbed()
            raise Breach(f"{otherwise} within {self.latest(seconds):.2f} s", clause)
        return self.seconds

    def not_before(self, seconds: float, what: str, clause: str) -> None:
        if self.seconds < seconds - EARLY_SECONDS:
            raise Breach(f"{what} after {self.seconds:.3f} s, and not before {seconds:g} s was allowed", clause)

    def not_after(self, seconds: float, what: str, clause: str = "") -> None:
        took = self.seconds
        if took > self.latest(seconds):
            self.must_be_undisturbed()
            raise Breach(f"{what} after {took:.2f} s, and {seconds:g} s were allowed", clause)

    def must_be_undisturbed(self) -> None:
        if self._pump.was_disturbed(self.began_at):
            raise Disturbed("the suite itself stood still while it measured; the machine is too busy")
