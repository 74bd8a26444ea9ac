"""What a case can come to, and how several become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

PASS = "pass"
WARN = "warn"
"""A SHOULD is not followed."""
UNSUPPORTED = "unsupported"
"""Declared in the manifest as not there. Never granted for what every port must do."""
INCONCLUSIVE = "inconclusive"
"""The clock was disturbed, or a failure did not come again."""
XFAIL = "xfail"
"""A known failure, failing as expected."""
XPASS = "xpass"
"""A known failure that passes: the entry is stale, and the run fails."""
FAIL = "fail"
ERROR = "error"
"""The suite's own fault."""

#: The worst wins.
ORDER = (PASS, UNSUPPORTED, XFAIL, WARN, INCONCLUSIVE, XPASS, FAIL, ERROR)
NOT_CONFORMING = frozenset({FAIL, XPASS})

INCONCLUSIVE_SHARE = 0.01


def worst(verdicts: Iterable[str]) -> str:
    return max(verdicts, key=ORDER.index, default=PASS)


class Breach(Exception):
    """The port broke a clause. Without a clause of its own it is the case's first."""

    def __init__(self, text: str, clause: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.clause = clause


class Ended(Breach):
    """The process under test is gone."""


class Unusable(Ended):
    """The program around a client does not keep to its JSON lines: no clause is broken, and none can be shown."""


class NotReady(Ended):
    """It could not be started, or did not answer in time: nothing else can be played."""


class Disturbed(Exception):
    """Time passed in a way that makes a measurement worth nothing."""


class Unsupported(Exception):
    """The manifest says that this is not there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case ended."""

    case: str
    layer: str
    role: str
    clauses: tuple[str, ...]
    verdict: str
    seconds: float
    #: the clause that is broken, and the sentence that says how
    clause: str = ""
    text: str = ""
    #: what the port's author reads first
    conversation: tuple[str, ...] = ()
    events: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    transcript: str = ""
    #: of a generated sequence that failed
    steps: tuple[tuple[str, int, int, int, int], ...] = ()
    log: tuple[str, ...] = ()


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """0 conforms, 1 does not, 3 the suite failed."""
    return exit_code_of([outcome.verdict for outcome in outcomes])


def exit_code_of(verdicts: Sequence[str]) -> int:
    if ERROR in verdicts:
        return 3
    if NOT_CONFORMING.intersection(verdicts) or verdicts.count(INCONCLUSIVE) > INCONCLUSIVE_SHARE * len(verdicts):
        return 1
    return 0
