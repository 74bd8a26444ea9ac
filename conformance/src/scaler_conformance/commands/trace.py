"""`trace`: which clause is shown by what."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from scaler_conformance import trace
from scaler_conformance.case import all_cases
from scaler_conformance.clauses import ROLES, catalog
from scaler_conformance.manifest import ManifestError


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "trace",
        help="which clause is shown by which cases",
        description="Clause by clause: the cases that show it in each role, or the reason why there is none.",
    )
    actions = parser.add_subparsers(dest="action", metavar="check | accept | report")
    actions.add_parser("report", help="print the table (the default)")
    actions.add_parser("check", help="is every duty shown, and by cases that were written for its present text?")
    accept = actions.add_parser("accept", help="the cases of these clauses fit their present text")
    accept.add_argument("clauses", nargs="*", metavar="CLAUSE")
    accept.add_argument("--all", action="store_true")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    if chosen.action == "check":
        return _check()
    if chosen.action == "accept":
        return _accept(chosen)
    return _report()


def _check() -> int:
    problems = list(trace.check(catalog(), all_cases(), trace.read_lock(), trace.read_exceptions()))
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0


def _accept(chosen: argparse.Namespace) -> int:
    unknown = [name for name in chosen.clauses if name not in catalog()]
    if unknown or bool(chosen.clauses) == chosen.all:
        raise ManifestError(f"there is no clause {unknown[0]}" if unknown else "accept takes clauses, or --all")
    names = list(catalog()) if chosen.all else chosen.clauses
    trace.write_lock(trace.accepted(catalog(), all_cases(), trace.read_lock(), names))
    return 0


def _report() -> int:
    by_clause = trace.shown(all_cases())
    reasons = {(entry.clause, role): entry.reason for entry in trace.read_exceptions() for role in entry.roles}
    for clause in catalog().values():
        print(f"{clause.id:<7} {clause.level:<10} {clause.testability:<7} {clause.text}")
        for role in ROLES:
            cases = by_clause.get((clause.id, role), [])
            if cases:
                print(f"        {role:<10} {', '.join(case.id for case in cases)}")
            elif (clause.id, role) in reasons:
                print(f"        {role:<10} – {reasons[clause.id, role]}")
        if clause.reason:
            print(f"        – {clause.reason}")
    return 0
