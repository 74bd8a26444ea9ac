"""Every dist, built by one process: its wheel, its sdist, and the wheel that the sdist makes alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.sources import PARTS

DISTS = {"scaler-all": ".", **{f"scaler-{name}": part.folder for name, part in PARTS.items()}}
BUILD_SECONDS = 120

PROGRAM = """
import os, subprocess, sys, tarfile
from hatchling.build import build_sdist, build_wheel

root, place, *folders = sys.argv[1:]
for folder in folders:
    os.chdir(os.path.join(root, folder))
    build_wheel(os.path.join(place, "wheels"))
    sdist = os.path.join(place, "sdists", build_sdist(os.path.join(place, "sdists")))
    with tarfile.open(sdist) as packed:
        packed.extractall(os.path.join(place, "unpacked"))
    os.chdir(os.path.join(place, "unpacked", os.path.basename(sdist)[: -len(".tar.gz")]))
    build_wheel(os.path.join(place, "again"))
"""


@dataclass(frozen=True)
class Built:
    """`again`: the wheels that the sdists make, where neither VERSION nor the repository's hooks are."""

    wheels: Path
    sdists: Path
    again: Path

    def wheel(self, dist: str) -> Path:
        (path,) = self.wheels.glob(f"{dist.replace('-', '_')}-*.whl")
        return path


def build_all(root: Path, place: Path) -> Built:
    for name in ("wheels", "sdists", "unpacked", "again"):
        (place / name).mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(root), str(place), *DISTS.values()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return Built(place / "wheels", place / "sdists", place / "again")
