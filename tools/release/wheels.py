"""What an index and its users see of the dists in a folder, checked without any network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: What check-wheel-contents would complain of, and why that is meant.
MEANT = {
    "scaler_all": "W007,W008",  # it only requires the parts
    "scaler_conformance": "W002",  # golden vectors of different messages may be the same bytes
}
SECONDS = 120


def complaints(folder: Path) -> Iterator[str]:
    """The words of each check that does not pass; nothing if the dists can be uploaded."""
    dists = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    if not dists:
        yield f"no dists in {folder}: `make build` makes them"
        return
    yield from run("twine", "check", "--strict", *map(str, dists))
    for wheel in folder.glob("*.whl"):
        ignored = MEANT.get(wheel.name.partition("-")[0])
        yield from run("check_wheel_contents", *(["--ignore", ignored] if ignored else []), str(wheel))


def run(module: str, *arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if ended.returncode != 0:
        yield ended.stdout + ended.stderr
