"""axe-core, which looks for what keeps people from using a page. It is no part of the repository: npm brings it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

VERSION = "4.11.0"
PLACE = ROOT / "build" / f"axe-core-{VERSION}"
FETCH_SECONDS = 120.0


def axe_source() -> Path:
    """The program, installed below build/ if it is not there. Where npm cannot install it, the test is skipped."""
    found = PLACE / "node_modules" / "axe-core" / "axe.min.js"
    if found.exists():
        return found
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which installs axe-core")
    PLACE.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(PLACE)]
    try:
        done = subprocess.run([*command, f"axe-core@{VERSION}"], capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm has not installed axe-core {VERSION} within {FETCH_SECONDS:g} s")
    if not found.exists():
        pytest.skip(f"npm could not install axe-core {VERSION}: {done.stderr.strip()[-200:]}")
    return found
