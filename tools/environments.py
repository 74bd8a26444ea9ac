"""Virtual environments for any interpreter, which only hold what they are told to: made by this interpreter's pip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.pythons import Interpreter

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
STEP_SECONDS = 300


class StepFailed(Exception):
    """A command ended with an error; its words are the text."""


def make(interpreter: Interpreter, place: Path) -> Path:
    """The interpreter of a new environment. It has no pip of its own: ours installs into it."""
    step(interpreter.path, "-m", "venv", "--without-pip", place)
    return place / "bin" / "python"


def pip(python: Path, *arguments: str | Path) -> None:
    options = ("--disable-pip-version-check", "--retries", "1", "--timeout", "20")
    step(sys.executable, "-m", "pip", *options, "--python", python, *arguments)


def with_pins(requirements: Path) -> tuple[str | Path, ...]:
    return ("--quiet", "--only-binary", ":all:", "--constraint", CONSTRAINTS, "--requirement", requirements)


def step(*command: str | Path) -> str:
    """Its standard output."""
    words = [str(word) for word in command]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=STEP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise StepFailed(f"{' '.join(words)}: did not end within {STEP_SECONDS} s") from None
    if ended.returncode != 0:
        raise StepFailed(f"{' '.join(words)}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout
