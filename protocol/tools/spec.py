"""Holds the specification to its own rules.

    python protocol/tools/spec.py check              everything below; tests/spec runs it
    python protocol/tools/spec.py tables --write     renew the state tables in the chapters from states.toml
    python protocol/tools/spec.py accept SCH-1 …     the new wording of these clauses is meant (--all: of all)
    python protocol/tools/spec.py list               all clauses as JSON, for conformance tools

Each problem is one line: where it is, and what to do. The exit status is 1 when there is any.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from speclib import citations, clauses, lock, states, wire
from speclib.problems import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """Where things lie below the root of the repository."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "protocol" / "spec"

    @property
    def codes(self) -> Path:
        return self.root / "protocol" / "src" / "scaler_protocol" / "codes.py"

    @property
    def envelope(self) -> Path:
        return self.root / "protocol" / "schema" / "v1" / "envelope.capnp"


def check(tree: Tree) -> Iterator[Problem]:
    found, problems = clauses.read_chapters(tree.spec)
    yield from problems
    yield from clauses.check_numbers(found)
    yield from lock.check(found, lock.read(tree.spec))
    yield from citations.check_citations(tree.root, found)
    yield from wire.check_wire_clauses(tree.root, found)
    yield from citations.check_codes(tree.codes, tree.spec / "11-errors.md")
    yield from citations.check_messages(tree.envelope, tree.spec)
    machines = states.read(tree.spec)
    yield from states.check(machines, {clause.id for clause in found if not clause.is_retired})
    yield from states.renew(tree.spec, machines, is_written=False)


def _report(problems: Iterator[Problem]) -> int:
    found = sorted(set(problems))
    for problem in found:
        print(problem)
    if found:
        print(f"{len(found)} problem{'s' if len(found) > 1 else ''} in the specification", file=sys.stderr)
    return 1 if found else 0


def _accept(tree: Tree, names: Sequence[str] | None) -> int:
    found, _ = clauses.read_chapters(tree.spec)
    refused = lock.accept(tree.spec, found, names)
    for name in refused:
        print(f"{name} cannot be accepted: there is no such clause, or its number was retired", file=sys.stderr)
    return 1 if refused else 0


def _list(tree: Tree) -> int:
    found, _ = clauses.read_chapters(tree.spec)
    print(json.dumps([dataclasses.asdict(clause) for clause in found], indent=1, ensure_ascii=False))
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Hold the specification to its own rules.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="find what is wrong")
    commands.add_parser("list", help="print all clauses as JSON")
    tables = commands.add_parser("tables", help="compare or renew the state tables")
    tables.add_argument("--write", action="store_true")
    tables.add_argument("--check", action="store_true", help="only compare: the default")
    accept = commands.add_parser("accept", help="record that the wording of clauses is meant")
    accept.add_argument("names", nargs="*", metavar="ID")
    accept.add_argument("--all", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.command == "accept" and bool(chosen.names) == chosen.all:
        parser.error("accept takes either clause ids or --all")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _arguments(arguments)
    tree = Tree(chosen.root)
    if chosen.command == "accept":
        return _accept(tree, None if chosen.all else chosen.names)
    if chosen.command == "list":
        return _list(tree)
    if chosen.command == "tables":
        return _report(states.renew(tree.spec, states.read(tree.spec), is_written=chosen.write))
    return _report(check(tree))


if __name__ == "__main__":
    sys.exit(main())
