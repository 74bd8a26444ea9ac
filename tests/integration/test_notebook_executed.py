"""The cells of docs/guide/notebooks.md, executed as they stand there by what executes notebooks without a browser."""

from __future__ import annotations

import re
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tests.support.processes import WAIT

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "notebooks.md"


def executed(*sources: str) -> list[NotebookNode]:
    """Raises CellExecutionError for a cell that raises."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=WAIT, kernel_name="python3").execute()
    cells: list[NotebookNode] = notebook.cells
    return cells


def printed(cell: NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def shown(cell: NotebookNode) -> dict[str, str]:
    """The value of the cell, by its type."""
    (output,) = (output for output in cell.outputs if output.output_type == "execute_result")
    return dict(output.data)


def test_the_cells_of_the_page() -> None:
    sources = re.findall(r"^```(?:text|python)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    begin, mapped, task = sources
    cells = executed(begin, mapped, "seed = 7", task, "values.shape, bool(abs(values.mean()) < 0.01)", "%scaler stop")
    assert "<b>Client</b>" in shown(cells[0])["text/html"]
    assert shown(cells[1])["text/plain"] == "[3, 2, 1]"
    assert "made" in printed(cells[3])
    assert shown(cells[4])["text/plain"] == "((1000000,), True)"
