"""Definitions of programs that are run as scripts, through a real cluster: protocol/tests/test_definitions.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import SchedulerClusterCombo

FOLDER = Path(__file__).resolve().parents[1] / "support" / "defining"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1) as combo:
        yield combo.get_address()


@pytest.mark.parametrize("kind", ["submit", "cell", "joblib initializer"])
@pytest.mark.parametrize("program", ["classes.py", "typed.py", "functions.py"])
def test_whatever_a_script_defines_travels_through_a_cluster(address: str, program: str, kind: str) -> None:
    command = [sys.executable, str(FOLDER / program), address, kind]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=path, check=False)
    assert done.returncode == 0, done.stderr
    *wrong, count = done.stdout.splitlines()
    assert not wrong and int(count) >= 100
