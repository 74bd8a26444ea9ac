"""Tracebacks of tasks get the source lines that only this program has."""

from __future__ import annotations

import linecache
from pathlib import Path

from scaler.client.futures.source_lines import MOST_LINES, with_source_lines

HERE = Path(__file__)
CELL = "<cell 3 of a notebook>"


def place(name: str, line: int) -> str:
    return f'  File "{name}", line {line}, in function'


def test_a_module_and_a_cell_of_the_program_are_shown() -> None:
    linecache.cache[CELL] = (12, None, ["first()\n", "    second()\n"], CELL)
    told = with_source_lines(f"Traceback:\n{place(__file__, 1)}\n{place(CELL, 2)}\nValueError: told")
    docstring = HERE.read_text(encoding="utf-8").splitlines()[0]
    assert told == (
        f"Traceback:\n{place(__file__, 1)}\n    {docstring}\n{place(CELL, 2)}\n    second()\nValueError: told"
    )


def test_what_is_shown_already_or_not_there_stays(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("secret\n")
    for text in (
        f"{place(__file__, 1)}\n    as the worker has it\nValueError",
        f"{place(__file__, 10**8)}\nValueError",
        f"{place(str(other), 1)}\nValueError",
        "  | " + place(__file__, 1),
        "\n".join([place(__file__, 1)] * (MOST_LINES + 1)),
        "",
    ):
        assert with_source_lines(text) == text
