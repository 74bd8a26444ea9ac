"""`vectors`: where the golden vectors are, and whether they are as they were frozen."""

from __future__ import annotations

import argparse
import hashlib
import shutil
from pathlib import Path
from typing import Any

from scaler_conformance.manifest import ManifestError
from scaler_conformance.resources import toml, vectors_folder


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "vectors",
        help="the golden vectors: bytes with what a receiver makes of them",
        description="Without options: how many there are, and where. A port reads them without a network.",
    )
    parser.add_argument("--list", action="store_true", help="print each with its verdict and its note")
    parser.add_argument("--check", action="store_true", help="compare every file with its hash")
    parser.add_argument("--copy", type=Path, metavar="FOLDER", help="copy them into a new folder")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    folder = vectors_folder()
    cases = sorted(folder.glob("*/*/case.toml"))
    if chosen.copy is not None:
        if chosen.copy.exists():
            raise ManifestError(f"{chosen.copy} is there already")
        shutil.copytree(folder, chosen.copy)
    if chosen.list:
        for path in cases:
            about = toml.loads(path.read_text(encoding="utf-8"))
            name = path.parent.relative_to(folder).as_posix()
            print(f"{name:<42} {about['verdict']:<9} {about.get('code', 0):>4}  {about['note']}")
    if chosen.check:
        wrong = changed(folder)
        for line in wrong:
            print(line)
        return 1 if wrong else 0
    if not chosen.list:
        print(f"{len(cases)} vectors in {chosen.copy or folder}")
    return 0


def changed(folder: Path) -> list[str]:
    """What is not as HASHES says."""
    lines = (folder / "HASHES").read_text(encoding="utf-8").splitlines()
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    del files["HASHES"]
    wrong = [f"{name} is missing" for name in known.keys() - files.keys()]
    wrong += [f"{name} is not in HASHES" for name in files.keys() - known.keys()]
    wrong += [
        f"{name} has changed"
        for name in known.keys() & files.keys()
        if hashlib.sha256(files[name].read_bytes()).hexdigest() != known[name]
    ]
    return sorted(wrong)
