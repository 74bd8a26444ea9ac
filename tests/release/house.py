"""A wheel house for each interpreter: what our dists require, in the versions of constraints.txt. It is kept."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from tools import environments
from tools.pythons import Interpreter

from tests.packages.building import Built

PLACE = environments.ROOT / "build" / "release"
#: Extras that other dists of ours ask for.
EXTRAS = ("", "values", "webhook")
BUILD_BACKEND = Requirement("hatchling>=1.27")


def house_of(interpreter: Interpreter, built: Built) -> Path:
    """A folder of wheels. `StepFailed` if they cannot be downloaded."""
    house = PLACE / f"house-{interpreter.name}"
    listed = "".join(f"{one}\n" for one in sorted({str(one) for one in required(built)}))
    wanted = hashlib.sha256(f"{interpreter}\n{listed}".encode() + environments.CONSTRAINTS.read_bytes()).hexdigest()
    stamp = house / "wanted.sha256"
    if stamp.is_file() and stamp.read_text() == wanted:
        return house
    shutil.rmtree(house, ignore_errors=True)
    house.mkdir(parents=True)
    requirements = house / "requirements.txt"
    requirements.write_text(listed, encoding="utf-8")
    environments.pip(interpreter.path, "download", *environments.with_pins(requirements), "--dest", house)
    stamp.write_text(wanted)
    return house


def required(built: Built) -> Iterator[Requirement]:
    """What projects other than this one have to bring."""
    yield BUILD_BACKEND
    for wheel in built.wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            (path,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = Metadata.from_email(packed.read(path), validate=True)
        for requirement in metadata.requires_dist or ():
            marker = requirement.marker
            if not requirement.name.startswith("scaler-") and (
                marker is None or any("extra" not in str(marker) or marker.evaluate({"extra": one}) for one in EXTRAS)
            ):
                yield without_extra(requirement)


def without_extra(requirement: Requirement) -> Requirement:
    """A requirement that an extra brings, as one that is always there."""
    if "extra" in str(requirement.marker or ""):
        requirement.marker = None
    return requirement
