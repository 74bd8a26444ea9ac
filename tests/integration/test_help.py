"""`--help` of every command, on a terminal that knows no character but those of ASCII."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.processes import WAIT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def commands() -> list[str]:
    found: set[str] = set()
    for path in [ROOT / "protocol" / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        found |= tomllib.loads(path.read_text(encoding="utf-8"))["project"].get("scripts", {}).keys()
    return sorted(found - NO_HELP)


NO_HELP = {"scaler_symphony_service"}
"""Started by Symphony only, without arguments."""

KINDS = {
    "scaler_worker_manager": ("baremetal_native", "slurm", "symphony", "webhook"),
    "scaler_key": ("make", "show", "derive", "list", "revoke", "rotate", "check"),
}


@pytest.mark.parametrize("name", commands())
def test_help_is_ascii(name: str) -> None:
    for words in [(), *((kind,) for kind in KINDS.get(name, ()))]:
        command = [str(Path(sys.executable).parent / name), *words, "--help"]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
        ended = subprocess.run(command, capture_output=True, env=environment, timeout=WAIT, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        assert ended.stdout.isascii() and ended.stdout and not ended.stderr


@pytest.mark.parametrize("name", commands())
def test_version(name: str) -> None:
    """Also of a command that cannot do without arguments."""
    command = [str(Path(sys.executable).parent / name), "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert ended.returncode == 0 and re.fullmatch(r"scaler\w* \d+\.\d+\.\S+\n", ended.stdout), ended


def test_all_commands_are_asked() -> None:
    assert {"scaler", "scaler_scheduler", "scaler_cluster", "scaler_ui", "scaler_health", "scaler_key"} <= set(
        commands()
    )
