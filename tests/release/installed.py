"""Environments that hold what pip has put there from local files, and nothing else; and programs that run in them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tools import environments
from tools.pythons import Interpreter

from tests.packages.building import Built
from tests.support.processes import MARK, Command, Stage

RUN_SECONDS = 120.0

LISTED = """
import importlib.metadata as metadata, json
found = {one.metadata["Name"]: [entry.name for entry in one.entry_points if entry.group == "console_scripts"]
         for one in metadata.distributions()}
print(json.dumps(found))
"""


class Elsewhere(Stage):
    """A stage on which no program finds this checkout, its environment, or the user's own files."""

    def environment(self) -> dict[str, str]:
        inherited = super().environment()
        home = self.directory / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        kept = {name: inherited[name] for name in (MARK, "TMPDIR", "LANG", "PYTHONUNBUFFERED") if name in inherited}
        return {**kept, "PATH": os.defpath, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}


class Environment:
    """What `pip install NAME` makes of an empty environment."""

    def __init__(self, place: Path, python: Path, sources: tuple[str | Path, ...]) -> None:
        self.place = place
        self._python = python
        self._sources = sources
        self._empty = self._everything()

    def install(self, *requirements: str | Path, compiles: bool = False) -> None:
        options = ("--quiet", *(() if compiles else ("--no-compile",)))
        environments.pip(self._python, "install", *options, *self._sources, *requirements)
        environments.pip(self._python, "check")

    def uninstall_all(self) -> None:
        environments.pip(self._python, "uninstall", "--quiet", "--yes", *self.listed())

    def left_over(self) -> set[str]:
        return self._everything() - self._empty

    def files(self) -> set[str]:
        """What is in it, but bytecode: that comes and goes as programs run."""
        return {name for name in self._everything() if "__pycache__" not in name}

    def _everything(self) -> set[str]:
        return {path.relative_to(self.place).as_posix() for path in self.place.rglob("*")}

    def listed(self) -> dict[str, list[str]]:
        """The dists in it, each with its commands."""
        found: dict[str, list[str]] = json.loads(environments.step(self._python, "-I", "-c", LISTED))
        return found

    def ours(self) -> set[str]:
        return {name for name in self.listed() if name.startswith("scaler-")}

    def start(self, stage: Stage, name: str, *arguments: str) -> Command:
        """A command of it, or its interpreter."""
        return stage.start_program_file(self.place / "bin" / name, *arguments)

    def run(self, stage: Stage, name: str, *arguments: str) -> str:
        """What it says, errors last; it must not fail."""
        command = self.start(stage, name, *arguments)
        assert command.wait(RUN_SECONDS) == 0, command.text
        return command.text


class World:
    """One interpreter with a wheel house, the dists, and a place for environments."""

    def __init__(self, interpreter: Interpreter, house: Path, built: Built, place: Path) -> None:
        self.interpreter = interpreter
        self._house = house
        self._built = built
        self._place = place
        self._installed: dict[str, Environment] = {}

    def empty(self, name: str, dists: Path | None = None) -> Environment:
        place = self._place / name
        shutil.rmtree(place, ignore_errors=True)
        python = environments.make(self.interpreter, place)
        folders = (self._house, dists or self._built.wheels)
        sources = ("--no-index", *(f"--find-links={folder}" for folder in folders))
        return Environment(place, python, sources)

    def with_installed(self, requirement: str) -> Environment:
        """One for all tests, which only read it."""
        if requirement not in self._installed:
            environment = self.empty(requirement)
            environment.install(requirement)
            self._installed[requirement] = environment
        return self._installed[requirement]
