"""`run`: all cases of a role, or some of them."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path
from typing import Any

from scaler_conformance import interop, known, manifest
from scaler_conformance.case import LAYERS, Case, all_cases
from scaler_conformance.manifest import ManifestError
from scaler_conformance.report import TRANSCRIPTS, Report, transcript_name, write
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Settings
from scaler_conformance.verdicts import ERROR, FAIL, INCONCLUSIVE, PASS, XPASS, Outcome, exit_code

from .init import MANIFEST


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="check a port and write the report",
        description="Starts the port and plays the cases of its roles.",
    )
    parser.add_argument("--manifest", type=Path, default=MANIFEST, metavar="FILE", help=f"(default: {MANIFEST})")
    parser.add_argument("--role", action="append", metavar="ROLE", help="only this role; may be repeated")
    parser.add_argument("--layer", action="append", choices=LAYERS, help="only this layer; may be repeated")
    parser.add_argument(
        "--case", action="append", metavar="PATTERN", help="only cases such as SCH-2 or 'HSK-*/a-late-*'"
    )
    parser.add_argument(
        "--with",
        action="append",
        dest="others",
        type=Path,
        default=[],
        metavar="FILE",
        help="another port's manifest, for the layer interop: its roles work with those of this one; may be repeated",
    )
    parser.add_argument("--out", type=Path, default=Path("conformance-report"), metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=0, help="of the generated sequences (default: 0, always the same)")
    parser.add_argument("--full", action="store_true", help="longer generated runs, and all that takes its time")
    parser.add_argument("--stop-at", type=int, default=0, metavar="N", help="stop a role after N failures")
    parser.add_argument("--quiet", action="store_true", help="print failures and the summary only")
    parser.add_argument("--list", action="store_true", help="print what would be played")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    port = manifest.read(chosen.manifest)
    for role in chosen.role or ():
        port.role(role)
    roles = [role for role in port.roles if not chosen.role or role in chosen.role]
    plan = {role: select(all_cases(), role, chosen.layer, chosen.case) for role in roles}
    casts = _casts(port, roles, chosen)
    if not any(plan.values()) and not casts:
        raise ManifestError("no case fits --role, --layer and --case; `run --list` without them shows all")
    if chosen.list:
        for role, cases in plan.items():
            for case in cases:
                print(f"{role:<10} {case.layer:<10} {case.id}")
        for cast in casts:
            print(f"{'together':<10} {interop.LAYER:<10} {cast.name}")
        return 0
    return _run(port, plan, casts, chosen)


def _casts(port: manifest.Manifest, roles: list[str], chosen: argparse.Namespace) -> list[interop.Cast]:
    """Who works together: roles of this port with each other, if it has all, and with those of other ports."""
    is_asked = interop.LAYER in chosen.layer if chosen.layer else bool(chosen.others)
    if not is_asked or chosen.case:
        return []
    casts = interop.casts(port, [manifest.read(path) for path in chosen.others], roles)
    if not casts:
        raise ManifestError("interop takes a client, a scheduler, a storage and a worker: add manifests that have them")
    return casts


def select(cases: list[Case], role: str, layers: list[str] | None, patterns: list[str] | None) -> list[Case]:
    def fits(case: Case) -> bool:
        if role not in case.roles or (layers and case.layer not in layers):
            return False
        return not patterns or any(_matches(case, pattern) for pattern in patterns)

    found = [case for case in cases if fits(case)]
    # One process serves many cases: those of a variant follow each other, those that spoil it come last.
    return sorted(found, key=lambda case: (LAYERS.index(case.layer), case.variant, case.is_fresh))


def _matches(case: Case, pattern: str) -> bool:
    return pattern in case.clauses or fnmatch.fnmatchcase(case.id, pattern)


def _run(
    port: manifest.Manifest, plan: dict[str, list[Case]], casts: list[interop.Cast], chosen: argparse.Namespace
) -> int:
    began_at = time.monotonic()
    excuses = known.read(port.path.parent)
    outcomes: list[Outcome] = []
    partial = _left_out(port, chosen)
    for role, cases in plan.items():
        progress = Progress(role, len(cases), chosen.out, is_quiet=chosen.quiet)
        settings = Settings(seed=chosen.seed, is_full=chosen.full, stop_at=chosen.stop_at)
        runner = Runner(port, role, progress.told, known=excuses, settings=settings)
        outcomes += runner.run(cases)
        progress.end()
        if runner.gave_up:
            print(f"{role}: {runner.gave_up}")
            partial.append(f"{role}: {runner.gave_up}")
    progress = Progress("together", len(casts) * len(interop.STEPS), chosen.out, is_quiet=chosen.quiet)
    for cast in casts:
        for outcome in interop.play(port, cast):
            outcomes.append(known.excuse(outcome, excuses))
            progress.told(outcomes[-1])
    progress.end()
    for entry in known.stale(excuses, outcomes) if not chosen.case and not chosen.layer and not chosen.role else ():
        raise ManifestError(f"{known.FILE}: {entry.case!r} fits no case that was played; remove the entry")
    seconds = time.monotonic() - began_at
    report = Report(port, tuple(outcomes), seconds, seed=chosen.seed, is_full=chosen.full, partial=tuple(partial))
    write(report, chosen.out)
    print(report.summary())
    made = [chosen.out / name for name in ("report.html", "report.json") if (chosen.out / name).exists()]
    print(f"the report: {made[0]}")
    return exit_code(outcomes)


def _left_out(port: manifest.Manifest, chosen: argparse.Namespace) -> list[str]:
    """What the report has to say about a run in which something was chosen: nobody may claim from it to conform."""
    given = {"--role": chosen.role, "--layer": chosen.layer, "--case": chosen.case}
    if set(chosen.role or ()) >= set(port.roles):
        given["--role"] = None
    return [" ".join(f"{option} {value}" for value in values) for option, values in given.items() if values]


class Progress:
    """One line that moves on a terminal, lines for what went wrong everywhere."""

    def __init__(self, role: str, total: int, out: Path, *, is_quiet: bool) -> None:
        self._out = out
        self._role = role
        self._total = total
        self._done = 0
        self._is_quiet = is_quiet
        self._is_terminal = sys.stdout.isatty()

    def told(self, outcome: Outcome) -> None:
        self._done += 1
        if self._is_terminal:
            print(f"\r\033[K{self._role} {self._done}/{self._total} {outcome.case}"[:110], end="", flush=True)
        if outcome.verdict in (FAIL, XPASS, ERROR, INCONCLUSIVE):
            self._clear()
            print(tell(outcome, self._out))
        elif not self._is_quiet and not self._is_terminal and outcome.verdict != PASS:
            print(f"{outcome.verdict:<12} {outcome.case}: {outcome.text}")

    def end(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", flush=True)


LAST_LINES = 16


def tell(outcome: Outcome, out: Path | None = None) -> str:
    """A failure as its author wants to read it: what, why, and the end of the conversation."""
    from scaler_conformance.clauses import catalog

    clause = catalog().get(outcome.clause)
    lines = [
        f"{outcome.verdict.upper():<5} {outcome.case}   ({outcome.role}, {outcome.layer}, {outcome.seconds:.2f} s)"
    ]
    if clause is not None:
        lines.append(f"      {clause.id}  {clause.text}")
    lines += [f"      {line}" for line in outcome.conversation[-LAST_LINES:]]
    lines.append(f"      ✗ {outcome.text}")
    lines += [f"      log: {line}" for line in outcome.log[-4:]]
    if out is not None and outcome.events:
        lines.append(f"      again: scaler-conformance replay {out / TRANSCRIPTS / transcript_name(outcome)}")
    return "\n".join(lines)
