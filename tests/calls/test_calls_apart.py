"""Calls that stay apart. What a call carries is a value, so each call ends as it would in a fresh process.
(decision 0025)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 120


def run(*words: str) -> None:
    """A script, because what is sent by value is what the main program defines."""
    ran = subprocess.run(
        [sys.executable, *words], cwd=HERE.parent.parent, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("seed", (1, 2))
def test_a_random_program_of_calls(seed: int) -> None:
    run(str(HERE / "program.py"), "--seed", str(seed), "--steps", "120")


def test_each_callable_with_state_in_each_way_of_calling() -> None:
    run(str(HERE / "callables.py"))
