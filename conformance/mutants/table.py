"""`table.tsv`: what the hunts have found, mutant by mutant, so that a test can say whether each was hunted.

Three columns: the mutant, the directed case that named its clause, and of how many generated runs how many found it.
A dash stands for what was not run yet; in the last column also for a mutant whose file says why sequences miss it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .registry import FOLDER

TABLE = FOLDER / "table.tsv"
NOTHING = "-"
HEAD = "# Written by `python -m conformance.mutants --table`; with --sequences the last column. See DESIGN.md.\n"


@dataclass(frozen=True, slots=True)
class Row:
    case: str = NOTHING
    seeds: str = NOTHING

    @property
    def found(self) -> int:
        return int(self.seeds.partition("/")[0]) if self.seeds != NOTHING else 0


def read() -> dict[str, Row]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return {identifier: Row(case, seeds) for identifier, case, seeds in rows}


def write(rows: Mapping[str, Row]) -> None:
    lines = [f"{identifier}\t{row.case}\t{row.seeds}\n" for identifier, row in sorted(rows.items())]
    TABLE.write_text(HEAD + "".join(lines), encoding="utf-8", newline="\n")
