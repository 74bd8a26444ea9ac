"""Some cells of the chaos matrix, drawn by seed; `make chaos` runs all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.chaos import table
from tests.chaos.arena import run
from tests.chaos.cells import Cell, every
from tests.support.chaos import SEED


def drawn() -> list[Cell]:
    """About a tenth: each role and pair of roles, and each fault under each kind of work, without the long ones."""
    cells = [cell for cell in every() if not cell.is_long]
    chosen: list[Cell] = []
    met: set[object] = set()
    for cell in Random(SEED).sample(cells, len(cells)):
        new = {cell.role, (cell.fault, cell.kind)} - met
        if new:
            met |= new
            chosen.append(cell)
    return chosen


@pytest.mark.parametrize("cell", drawn(), ids=lambda cell: cell.text)
def test_a_fault(cell: Cell, tmp_path: Path) -> None:
    measured = run(cell, tmp_path)
    print(measured)


def test_the_table_on_the_page_is_the_one_that_was_measured() -> None:
    assert table.written() == table.table(table.load())
