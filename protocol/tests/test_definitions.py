"""Definitions of the main program that travel. tests/support/defining has every kind of them."""

from __future__ import annotations

import importlib.util
import linecache
import os
import subprocess
import sys
import types
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from cloudpickle import cloudpickle

from scaler_protocol import values
from scaler_protocol.definitions import fields_of_code

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "support" / "defining"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def printed_by(*command: str) -> str:
    command = sys.executable, *command
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_elsewhere(value: object, look: str) -> str:
    """Returns what `look`, an expression over `x`, prints in a process that has nothing of this one."""
    data = b"".join(values.dumps(value))
    code = (
        f"import sys; from scaler_protocol import values; x = values.loads(bytes.fromhex(sys.argv[1])); print({look})"
    )
    return printed_by("-c", code, data.hex()).strip()


@pytest.mark.skipif(sys.platform == "win32", reason="what is right is decided by a child of fork")
@pytest.mark.parametrize("program", ["classes.py", "typed.py", "functions.py"])
def test_whatever_a_program_defines_at_its_top_travels_there_and_back(program: str) -> None:
    *wrong, count = printed_by(str(FOLDER / program)).splitlines()
    assert not wrong and int(count) >= 100


def test_code_has_its_file_and_its_lines_with_each_cloudpickle() -> None:
    """From 3.1.3 on, cloudpickle writes another file name."""
    code = """
import cloudpickle.cloudpickle as installed, sys, traceback
plainly = installed.Pickler._dispatch_table[type((lambda: 0).__code__)]
def as_in_3_1_3(code):
    kind, fields = plainly(code)
    return kind, tuple("<dynamic-code>" if field == code.co_filename else field for field in fields)
installed.Pickler._dispatch_table[type((lambda: 0).__code__)] = as_in_3_1_3
from scaler_protocol import values
namespace = {"__name__": "__main__"}
exec(compile("def fail():\\n    raise ValueError('told')", "model.py", "exec"), namespace)
try:
    values.loads(b"".join(values.dumps(namespace["fail"])))()
except ValueError as error:
    print(traceback.extract_tb(error.__traceback__)[-1][:3])
"""
    assert printed_by("-c", code).strip() == "('model.py', 2, 'fail')"


def every_code(code: CodeType) -> list[CodeType]:
    return [code, *(inner for one in code.co_consts if isinstance(one, CodeType) for inner in every_code(one))]


def test_code_is_what_cloudpickle_makes_of_it_but_for_the_file() -> None:
    for code in every_code(compile((FOLDER / "functions.py").read_text(), "functions.py", "exec")):
        theirs = list(cloudpickle._code_reduce(code)[1])
        theirs[theirs.index("<dynamic-code>") if "<dynamic-code>" in theirs else 10] = code.co_filename
        assert list(fields_of_code(code)) == theirs
        assert CodeType(*fields_of_code(code)) == code


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """
import dataclasses
OFFSET = 1
@dataclasses.dataclass
class Thing:
    x: int
    def plus(self):
        return add(self.x)
def add(x):
    return x + OFFSET
"""


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("plugin_of_a_file", "plugin.py"),
        ("absent_package.plugin", "plugin.py"),
        ("tests.plugin_of_a_file", "plugin.py"),
        ("conftest_like", "conftest_like.py"),
    ],
)
def test_a_module_that_was_loaded_from_its_file_travels_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    (tmp_path / file).write_text(SOURCE)
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # and it is gone after the test
    module = load(tmp_path / file, name)
    assert read_elsewhere(module.add, "x(2)") == "3"
    assert read_elsewhere(module.Thing(4), "x.plus()") == "5"
    assert read_elsewhere([module], "x[0].Thing(5).plus()") == "6"


def test_a_module_that_the_program_has_made_travels_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    exec(SOURCE, vars(module))
    assert read_elsewhere(module.add, "x(2)") == "3"


def test_a_file_of_another_place_is_not_taken_for_the_module_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, offset in (("one", 1), ("other", 7)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "twice_there.py").write_text(SOURCE.replace("OFFSET = 1", f"OFFSET = {offset}"))
    monkeypatch.syspath_prepend(tmp_path / "one")
    monkeypatch.setitem(sys.modules, "twice_there", types.ModuleType("twice_there"))
    module = load(tmp_path / "other" / "twice_there.py", "twice_there")
    assert read_elsewhere(module.add, "x(2)") == "9"


def test_modules_that_can_be_imported_travel_by_name() -> None:
    for thing in (linecache, Path, pytest.approx, values.dumps, os.path, importlib.util.spec_from_file_location):
        assert b"OFFSET" not in b"".join(values.dumps(thing)) and len(b"".join(values.dumps(thing))) < 200
