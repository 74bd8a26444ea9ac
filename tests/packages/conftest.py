from __future__ import annotations

import pytest

from tests.architecture.sources import ROOT
from tests.packages.building import Built, build_all


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """One build for all tests, which only read it."""
    return build_all(ROOT, tmp_path_factory.mktemp("built"))
