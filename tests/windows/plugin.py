"""For pytest in the Windows Python: leaves out what cannot run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.windows.left_out import FILES, TESTS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if name_of(collection_path, config) in FILES else None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    for item in items:
        name = f"{name_of(item.path, config)}::{item.nodeid.partition('::')[2].partition('[')[0]}"
        if name in TESTS:
            item.add_marker(pytest.mark.skip(reason=TESTS[name]))


def name_of(path: Path, config: pytest.Config) -> str:
    return path.relative_to(config.rootpath).as_posix()
