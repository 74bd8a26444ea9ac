"""joblib's own tests of its backends, from the installed package, with ours among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import joblib
import pytest

from tests.support.processes import Stage

SECONDS = 500
"""For some 125 tests, several of which start clusters; on a free machine they take less than one minute."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


@pytest.mark.timeout(SECONDS + 60)
def test_joblibs_own_tests_pass(stage: Stage) -> None:
    """The plugin joblib_tests names those that are left out, each with its reason."""
    if not Path(joblib.__file__).with_name("test").is_dir():
        pytest.skip(f"joblib {joblib.__version__} is installed without its tests")
    plugins = ("-p", "tests.libraries.joblib_tests", "-p", "no:cacheprovider")
    tests = stage.start("pytest", "-q", *plugins, "--pyargs", "joblib.test.test_parallel")
    assert tests.wait(SECONDS) == 0, tests.text
    passed = re.search(r"(\d+) passed", tests.text)
    assert passed and int(passed[1]) > 120, tests.text
