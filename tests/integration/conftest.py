"""Stages for tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Processes of one test. Nothing of them may be left after it."""
    with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Processes that the tests of a module share. Nothing of them may be left after it."""
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage
