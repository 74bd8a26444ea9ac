"""What the run without the features of Linux leaves out."""

from __future__ import annotations

import pytest

from tests.docs.table import exists
from tests.macos.left_out import TESTS


@pytest.mark.parametrize("name", TESTS)
def test_what_is_left_out_is_there_and_has_a_reason(name: str) -> None:
    assert exists(name) and len(TESTS[name]) > 10
