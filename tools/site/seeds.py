"""The table of what the first documents show, and whether a test holds it."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GROUPS = {"C": "Client", "K": "Local cluster", "L": "Commands", "B": "Behaviour", "P": "Packages"}

HEAD = """\
# What the first documents show

Scaler was made from documents that show programs, commands and log lines. Each thing they show is a row here, with the
tests that hold it. A row that is not held yet says what is missing.
"""


def page(path: Path) -> str:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    held = sum("tests" in row and "missing" not in row for row in table.values())
    parts = [HEAD, f"**{held} of {len(table)} rows are held.**\n"]
    for letter, title in GROUPS.items():
        parts += [f"## {title}\n", "| | what is shown | held by |", "|---|---|---|"]
        parts += [_line(name, row) for name, row in table.items() if name.startswith(letter)]
        parts.append("")
    return "\n".join(parts)


def _line(name: str, row: dict[str, object]) -> str:
    tests = row.get("tests", [])
    assert isinstance(tests, list)
    cells = [f"`{test.rpartition('::')[2]}`" for test in tests]
    if "missing" in row:
        cells.append(f"*missing: {row['missing']}*")
    return f"| {name} | {str(row['shows']).replace('|', '&#124;')} | {', '.join(cells)} |"
