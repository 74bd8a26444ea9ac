"""What was measured, and the table of it in `docs/operations/pauses.md`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.architecture.sources import ROOT
from tests.chaos.arena import Measured
from tests.chaos.cells import FAULTS, PAIRS, ROLES, Cell
from tests.support.workload import KINDS

PAGE = ROOT / "docs" / "operations" / "pauses.md"
MEASURED = ROOT / "tests" / "chaos" / "measured.json"
_BEGIN = "<!-- written by make chaos: begin -->\n"
_END = "<!-- written by make chaos: end -->\n"

#: By role, fault and kind of work: how many runs, and the longest pause in seconds.
Runs = dict[str, tuple[int, float]]


def load() -> Runs:
    if not MEASURED.exists():
        return {}
    return {key: (int(runs), float(pause)) for key, (runs, pause) in json.loads(MEASURED.read_text()).items()}


def add(runs: Runs, measured: Iterable[Measured]) -> None:
    for one in measured:
        count, pause = runs.get("/".join(one.cell), (0, 0.0))
        runs["/".join(one.cell)] = count + 1, max(pause, one.pause)


def save(runs: Runs) -> None:
    MEASURED.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}{table(runs)}{_END}{after}", encoding="utf-8")


def written() -> str:
    """The table as it stands on the page."""
    return PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]


def table(runs: Runs) -> str:
    total = sum(count for count, _ in runs.values())
    lines = [
        f"{total} faults; seconds, the longest of all runs of a cell.",
        "",
        f"| what | fault | {' | '.join(KINDS)} | bound |",
        "|---|---|" + "---|" * (len(KINDS) + 1),
    ]
    any_kind = next(iter(KINDS))
    for role in (*ROLES, *PAIRS):
        for fault in FAULTS:
            cells = [runs.get(f"{role}/{fault}/{kind}") for kind in KINDS]
            if any(cells):
                pauses = " | ".join("" if cell is None else f"{cell[1]:.1f}" for cell in cells)
                lines.append(f"| {role} | {fault} | {pauses} | {Cell(role, fault, any_kind).pause_bound:g} |")
    return "\n".join(lines) + "\n"
