"""What editors and type checkers make of the public calls: right programs pass, and each wrong line is found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "programs"
ROOT = HERE.parents[2]


def mypy_lines(program: Path, cache: Path) -> set[int]:
    options = ("--strict", "--python-version", "3.10", "--cache-dir", str(cache), "--config-file", "")
    command = [sys.executable, "-m", "mypy", *options, "--output", "json", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["line"] for one in found if one["severity"] == "error"}


def pyright_lines(program: Path, cache: Path) -> set[int]:
    if shutil.which("node") is None:
        pytest.skip("pyright needs node, which is not installed")
    settings = {"include": [program.name], "pythonVersion": "3.10", "typeCheckingMode": "strict"}
    (cache / "pyrightconfig.json").write_text(json.dumps(settings))
    shutil.copy(program, cache)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=cache, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1 for one in found if not _is_of_lambdas(one)}


def _is_of_lambdas(diagnostic: dict[str, str]) -> bool:
    """In its strict mode pyright asks for types that a lambda cannot have."""
    return diagnostic.get("rule", "").startswith("reportUnknown")


CHECKERS = {"mypy": mypy_lines, "pyright": pyright_lines}


@pytest.mark.parametrize("checker", CHECKERS)
def test_right_programs_pass(checker: str, tmp_path: Path) -> None:
    assert CHECKERS[checker](HERE / "right.py", tmp_path) == set()


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_line_is_found_and_no_other(checker: str, tmp_path: Path) -> None:
    program = HERE / "wrong.py"
    wrong = {number for number, line in enumerate(program.read_text().splitlines(), 1) if re.search("# wrong$", line)}
    assert len(wrong) > 5
    assert CHECKERS[checker](program, tmp_path) == wrong
