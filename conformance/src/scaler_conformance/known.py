"""Known failures: they still run, with the clause, the reason and what is expected to go wrong. An entry that passes,
fails in another way, or fits no case, fails the run: the list must not rot."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .manifest import ManifestError
from .resources import toml
from .verdicts import FAIL, PASS, WARN, XFAIL, XPASS, Outcome

FILE = "known-failures.toml"
_NEEDED = ("case", "expect", "reason")


@dataclass(frozen=True, slots=True)
class Excuse:
    case: str
    #: a piece of the sentence that the failure says
    expect: str
    reason: str
    issue: str = ""
    until: str = ""

    def fits(self, outcome: Outcome) -> bool:
        return fnmatch.fnmatchcase(outcome.case, self.case)


def read(folder: Path) -> tuple[Excuse, ...]:
    path = folder / FILE
    if not path.exists():
        return ()
    try:
        entries = toml.loads(path.read_text(encoding="utf-8")).get("known", [])
    except toml.TOMLDecodeError as error:
        raise ManifestError(f"{path} is not TOML: {error}") from None
    names = {field.name for field in dataclasses.fields(Excuse)}
    for entry in entries:
        missing = [name for name in _NEEDED if not entry.get(name)]
        if missing or set(entry) - names:
            wrong = f"lacks {missing[0]}" if missing else f"has the unknown key {min(set(entry) - names)}"
            raise ManifestError(f"{path}: an entry {wrong}; it has case, expect, reason, and perhaps issue and until")
    return tuple(Excuse(**entry) for entry in entries)


def excuse(outcome: Outcome, excuses: Sequence[Excuse]) -> Outcome:
    for entry in excuses:
        if not entry.fits(outcome):
            continue
        if outcome.verdict in (FAIL, WARN) and entry.expect in outcome.text:
            return dataclasses.replace(outcome, verdict=XFAIL, text=f"{outcome.text} (known: {entry.reason})")
        if outcome.verdict in (PASS, WARN):
            text = f"{FILE} says that it fails, and it passes: remove the entry"
            return dataclasses.replace(outcome, verdict=XPASS, text=text)
        if outcome.verdict == FAIL:
            return dataclasses.replace(outcome, text=f"{outcome.text} ({FILE} expects: {entry.expect})")
    return outcome


def stale(excuses: Iterable[Excuse], outcomes: Sequence[Outcome]) -> list[Excuse]:
    return [entry for entry in excuses if not any(entry.fits(outcome) for outcome in outcomes)]
