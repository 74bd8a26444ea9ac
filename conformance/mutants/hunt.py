"""Lets a mutant run through the suite, and says what has noticed it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_conformance import known, manifest
from scaler_conformance.case import Case, all_cases
from scaler_conformance.commands.run import select
from scaler_conformance.manifest import Manifest
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Settings
from scaler_conformance.verdicts import FAIL, WARN, Outcome

from .launch import VARIABLE
from .registry import FOLDER, Mutant

ROOT = FOLDER.parents[1]
OURS = ROOT / "conformance" / "adapters" / "scaler.toml"
SEEDS = 8
#: Of these seeds' runs so many must find a mutant that is not said to be unseen.
SEEDS_TO_FIND = 7
EXAMPLES = 250
GENERATED_SECONDS = 40.0
TEST_SECONDS = 150.0
_TESTS_FAILED = 1
"""With which pytest ends if it has run the test and it has failed."""


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a mutant: the case that named its clause, or what was said instead."""

    mutant: Mutant
    case: str
    text: str
    seconds: float
    others: tuple[str, ...] = ()
    #: by seed, which clause a generated run named; empty: it has found nothing
    seeds: tuple[str, ...] = ()

    @property
    def is_caught(self) -> bool:
        return sum(map(bool, self.seeds)) >= SEEDS_TO_FIND if self.seeds else bool(self.case)


def port_of(mutant: Mutant) -> Manifest:
    """Our own port, whose role is started through the launcher."""
    ours = manifest.read(OURS)
    entry = ours.role(mutant.role)
    python, *words = entry.command
    command = (python, "-m", "conformance.mutants.launch", *(words[1:] if words[0] == "-m" else words))
    paths = [path for path in (entry.env.get("PYTHONPATH"), os.environ.get("PYTHONPATH"), str(ROOT)) if path]
    env = {**entry.env, VARIABLE: mutant.id, "PYTHONPATH": os.pathsep.join(paths)}
    changed = dataclasses.replace(entry, command=command, env=env)
    return dataclasses.replace(ours, roles={**ours.roles, mutant.role: changed})


def cases_of(mutant: Mutant) -> list[Case]:
    """The cases that show its clause, without the generated ones."""
    cases = select(all_cases(), mutant.role, None, [mutant.clause])
    return [case for case in cases if case.layer != "generated"]


def hunt(mutant: Mutant) -> Caught:
    """Plays the cases of its clause until one fails and blames that clause."""
    began_at = time.monotonic()
    if mutant.test:
        return _by_test(mutant)
    outcomes: list[Outcome] = []
    for case in cases_of(mutant):
        runner = Runner(port_of(mutant), mutant.role, known=known.read(OURS.parent), settings=Settings(confirms=False))
        outcomes += runner.run([case])
        last = outcomes[-1]
        if last.verdict in (FAIL, WARN) and last.clause == mutant.clause:
            return Caught(mutant, last.case, last.text, time.monotonic() - began_at, _others(outcomes[:-1]))
    return Caught(mutant, "", "", time.monotonic() - began_at, _others(outcomes))


def _by_test(mutant: Mutant) -> Caught:
    """Runs the test of ours that shows the clause: it has to fail, and not to break."""
    began_at = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conformance.mutants.plugin", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, mutant.test], cwd=ROOT, env={**os.environ, VARIABLE: mutant.id}, capture_output=True, text=True,
        timeout=TEST_SECONDS,
    )  # fmt: skip
    has_failed = ended.returncode == _TESTS_FAILED
    said = () if has_failed else (f"pytest ended with {ended.returncode}: {ended.stdout[-400:]}{ended.stderr[-400:]}",)
    return Caught(mutant, mutant.test if has_failed else "", "", time.monotonic() - began_at, said)


def _others(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    return tuple(f"{each.verdict} {each.case} {each.clause}: {each.text[-160:]}" for each in outcomes)


def sequences(mutant: Mutant) -> Caught:
    """Which clause each generated run names; given up once too many have found nothing."""
    began_at = time.monotonic()
    cases = select(all_cases(), mutant.role, ["generated"], None)
    found: list[str] = []
    for seed in range(SEEDS):
        if found.count("") > SEEDS - SEEDS_TO_FIND:
            break
        settings = Settings(
            seed=seed, stop_at=1, everyday_examples=EXAMPLES, everyday_seconds=GENERATED_SECONDS, shrink_seconds=0.0
        )
        outcomes = Runner(port_of(mutant), mutant.role, settings=settings).run(cases)
        found.append(next((each.clause for each in outcomes if each.verdict in (FAIL, WARN)), ""))
    return Caught(mutant, "", "", time.monotonic() - began_at, seeds=tuple(found))
