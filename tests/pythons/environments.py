"""A virtual environment for another interpreter, in build/pythons; it is kept while its requirements stay the same."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tools import environments
from tools.pythons import PLACE, Interpreter

from tests.architecture.sources import PARTS

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def python_of(interpreter: Interpreter) -> Path:
    place = PLACE / f"venv-{interpreter.name}"
    python, stamp = place / "bin" / "python", place / "requirements.sha256"
    wanted = hashlib.sha256(str(interpreter).encode())
    for path in (REQUIREMENTS, environments.CONSTRAINTS):
        wanted.update(path.read_bytes())
    if python.exists() and stamp.exists() and stamp.read_text() == wanted.hexdigest():
        return python
    shutil.rmtree(place, ignore_errors=True)
    environments.make(interpreter, place)
    environments.pip(python, "install", *environments.with_pins(REQUIREMENTS))
    # What an editable install of the parts would write, without a build of each.
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "scaler-parts.pth").write_text("".join(f"{part.source.parent}\n" for part in PARTS.values()))
    stamp.write_text(wanted.hexdigest())
    return python
