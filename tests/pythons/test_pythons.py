"""Fast tests of every part with the other versions of Python: `make test-pythons`. The package's docstring says how."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tools import pythons
from tools.environments import StepFailed
from tools.pythons import SUPPORTED, Interpreter, chosen, found, get, probe

from tests.architecture.sources import ROOT
from tests.docs.table import exists, tomllib
from tests.pythons.environments import REQUIREMENTS, python_of
from tests.pythons.left_out import FAST, FILES, REST, TESTS

#: Which of them: `all`, or `ends`, the oldest and the newest that can be had.
ASKED_FOR = "SCALER_TEST_PYTHONS"
SECONDS = 1_800
WHICH = ("all", "ends", "own")
OWN = f"3.{sys.version_info[1]}"
LEAST_TESTS = 2_000


class Run:
    """The fast tests with one interpreter."""

    def __init__(self, interpreter: Interpreter, place: Path, folders: tuple[str, ...]) -> None:
        self._log = place / interpreter.name
        left_out = [*(f"--ignore={name}" for name in FILES), *(f"--deselect={name}" for name in TESTS)]
        # The same examples each time: `make test` is what looks for new ones.
        options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--durations=5"]
        options.append(f"--basetemp={place}/temporary-{interpreter.name}")
        command = [python_of(interpreter), "-m", "pytest", *options, *left_out, *folders]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self) -> tuple[int, str]:
        """Its exit code and what it has written."""
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
        return self._process.returncode, self._log.read_text(encoding="utf-8")


#: By version: how its run ended, or why there was none.
Runs = dict[str, tuple[int, str] | str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """They run one after another: in CI a Windows Python has the other processor meanwhile."""
    asked_for = os.environ.get(ASKED_FOR)
    if not asked_for:
        pytest.skip("`make test-pythons` runs the fast tests with other versions of Python")
    ended: Runs = {}
    place = tmp_path_factory.mktemp("logs")
    for name, interpreter in chosen(asked_for).items():
        if name == OWN:
            ended[name] = "`make test` runs all tests with this version"
        elif isinstance(interpreter, str):
            ended[name] = interpreter
        else:
            try:
                run = Run(interpreter, place, FAST + REST if asked_for == "all" else FAST)
            except StepFailed as failure:
                ended[name] = f"what the tests need cannot be had for it here: {str(failure).splitlines()[-1]}"
            else:
                ended[name] = run.wait()
    return ended


@pytest.mark.timeout(len(SUPPORTED) * SECONDS)
@pytest.mark.parametrize("name", SUPPORTED)
def test_the_fast_tests_pass_with(runs: Runs, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = runs[name]
    if isinstance(ended, str):
        pytest.skip(ended)
    code, text = ended
    with capsys.disabled():
        print(f"\nPython {name}: {text.splitlines()[-1]}")
    assert code == 0, text[-20_000:]
    assert int(re.findall(r"(\d+) passed", text)[-1]) >= LEAST_TESTS


# ------------------------------------------------------------------------------------------- what needs no other Python


def test_what_is_left_out_and_what_is_run_is_there() -> None:
    assert not [name for name in (*FILES, *FAST, *REST) if not (ROOT / name).exists()]
    assert not [name for name in TESTS if not exists(name)]


def test_the_requirements_are_those_of_the_parts() -> None:
    listed = {re.split(r"[;\s]", line)[0] for line in REQUIREMENTS.read_text().splitlines() if line[:1] != "#"}
    for part in ("protocol", "packages/scaler-client", "packages/scaler-scheduler", "packages/scaler-worker"):
        hook = tomllib.loads((ROOT / part / "hatch.toml").read_text(encoding="utf-8"))["metadata"]["hooks"]["custom"]
        asked = {re.split(r"[\[><={;]", entry)[0] for entry in hook["dependencies"]}
        assert {name for name in asked if not name.startswith("scaler-")} <= listed


def test_an_interpreter_is_known_by_what_it_says(tmp_path: Path) -> None:
    own = probe(Path(sys.executable))
    assert own is not None and own.version == sys.version_info[:3]
    assert probe(tmp_path / "none") is None
    for name, text in (("silent", "exit 0"), ("failing", "echo no such version >&2; exit 127")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
        assert probe(tmp_path / name) is None


def test_interpreters_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two with the same version, the one with the newer patch is taken."""
    newest = tmp_path / "newest"
    newest.write_text("#!/bin/sh\necho '[[3, 12, 99], false]'\n")
    newest.chmod(0o755)
    monkeypatch.setenv("SCALER_PYTHONS", os.pathsep.join(["nowhere", str(newest)]))
    assert found()["3.12"] == Interpreter("3.12", newest, (3, 12, 99))


def test_versions_are_chosen_or_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {name: Interpreter(name, Path(name), (3, 99)) for name in SUPPORTED[1:]}
    monkeypatch.setattr(pythons, "found", lambda: there)
    taken = {which: [one for one in SUPPORTED if one in there and chosen(which)[one] == there[one]] for which in WHICH}
    assert taken == {"all": [*there], "ends": [SUPPORTED[1], SUPPORTED[-1]], "own": [OWN]}
    assert chosen("ends")[SUPPORTED[0]] == "Python 3.10 is not on this machine"
    assert chosen("all")[SUPPORTED[0]] == "Python 3.10 is not there, and it is not known where to get it"
    assert chosen("own")[SUPPORTED[-1]] == "not asked for: only own"


def test_what_cannot_be_got_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "found", dict)
    assert get("3.10") == "Python 3.10 is not there, and it is not known where to get it"
    monkeypatch.setenv("PATH", "/nowhere")
    assert get(SUPPORTED[-1]).endswith("only on Debian is it known where to get it")


def test_an_archive_that_does_not_answer_costs_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("apt-get", "dpkg-deb"):
        (tmp_path / program).write_text("#!/bin/sh\necho 'E: no route to host' >&2\nexit 100\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setattr(pythons, "found", dict)
    monkeypatch.setattr(pythons, "PLACE", tmp_path / "place")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert get(SUPPORTED[-1]).endswith("could not be had from Debian's archive: E: no route to host")
    assert not (tmp_path / "place" / f"debian-{SUPPORTED[-1]}").exists()
