"""Our own port, and how its roles are checked in the tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from scaler_conformance import known, manifest
from scaler_conformance.case import Case, all_cases
from scaler_conformance.commands.run import select, tell
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Settings
from scaler_conformance.verdicts import ERROR, FAIL, XPASS, Outcome

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "conformance" / "adapters" / "scaler.toml"
#: Generated sequences are many; `make test` plays some of them, `make conformance FULL=1` all.
EVERYDAY_EXAMPLES = 25


def our_port() -> manifest.Manifest:
    return manifest.read(OURS)


def cases_of(role: str, *layers: str) -> list[Case]:
    return select(all_cases(), role, list(layers) or None, None)


def play(role: str, cases: Sequence[Case], settings: Settings | None = None) -> list[Outcome]:
    chosen = settings or Settings(everyday_examples=EVERYDAY_EXAMPLES)
    return Runner(our_port(), role, known=known.read(OURS.parent), settings=chosen).run(cases)


def failures(outcomes: Sequence[Outcome]) -> str:
    wrong = [outcome for outcome in outcomes if outcome.verdict in (FAIL, ERROR, XPASS)]
    return "\n\n".join(tell(outcome) for outcome in wrong)


IS_FULL = bool(os.environ.get("FULL"))
