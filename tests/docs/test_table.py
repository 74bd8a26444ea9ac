"""Every row of docs/seeds.toml names tests that exist; one that is not held yet is skipped, with what is missing."""

from __future__ import annotations

import pytest

from tests.docs.table import Row, exists, mistakes, rows


def test_no_row_is_forgotten() -> None:
    ends = {"C": 21, "K": 4, "L": 15, "B": 16, "P": 3}
    assert [row.id for row in rows()] == [f"{letter}{n}" for letter, end in ends.items() for n in range(1, end + 1)]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in rows()])
def test_a_row_is_held(row: Row) -> None:
    assert not mistakes([row])
    if row.missing:
        pytest.skip(f"{row.id}: {row.missing}")


def test_the_checks_can_fail() -> None:
    assert exists("tests/docs/test_table.py::test_no_row_is_forgotten[any]")
    assert not exists("tests/docs/test_table.py::rows")
    assert mistakes([Row("C1", "a")]) and mistakes([Row("C1", "a", ("tests/docs/test_table.py::test_gone",))])
    assert mistakes([Row("C1", "a", missing="later")])
