"""Commands that are started from a directory in which another account has left modules import none of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.ui.jupyter import setup
from scaler_protocol.process import modules
from scaler_protocol.process.modules import without_directory
from scaler_worker.manager import native
from scaler_worker.manager.native import SCALER_CLUSTER

NAMES = ("asyncio", "selectors", "logging", "json", "zmq", "capnp", "sitecustomize", "uvloop")
MODULES = (
    "scaler_storage",
    "scaler_scheduler",
    "scaler_worker",
    "scaler_worker.manager",
    "scaler_worker.adapter",
    "scaler.ui",
    "scaler_protocol.keys",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory whose modules leave a file `was imported`."""
    directory = tmp_path / "hostile"
    directory.mkdir()
    for name in NAMES:
        (directory / f"{name}.py").write_text(f"open({str(tmp_path / 'was imported')!r}, 'w').write({name!r})\n")
    return directory


def run(hostile: Path, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=hostile, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = hostile.with_name("was imported")
    assert not found.exists(), f"{found.read_text()}.py of the directory was imported"
    return done.stdout


@pytest.mark.parametrize("is_any_version", [False, True])
@pytest.mark.parametrize("module", MODULES)
def test_our_commands(hostile: Path, module: str, is_any_version: bool) -> None:
    command = without_directory([sys.executable, "-m", module, "--help"], is_any_version=is_any_version)
    assert run(hostile, *command)


def test_the_test_would_find_it(hostile: Path) -> None:
    with pytest.raises(AssertionError):
        run(hostile, sys.executable, "-m", "scaler_worker", "--help")


def test_what_others_start_for_us(hostile: Path) -> None:
    run(hostile, *SCALER_CLUSTER, "--help")
    run(hostile, *(text.format(port=1) for text in setup()["command"]), "--help")
    run(hostile, *without_directory([sys.executable, "-m", "pip", "--version"], is_any_version=True))


PROGRAM = """
import sys
import scaler
import scaler.cluster.combo
if sys.argv[1] == "cold":
    scaler.cluster.combo.can_start_warm = lambda: False
with scaler.local(workers=1) as client:
    print(client.submit(abs, -1).result())
"""


@pytest.mark.parametrize("how", ["warm", "cold"])
def test_a_local_cluster(hostile: Path, tmp_path: Path, how: str) -> None:
    program = tmp_path / "programs" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    assert run(hostile, sys.executable, str(program), how) == "1\n"


def test_no_command_of_ours_is_started_otherwise() -> None:
    """Each `python -m` in our code is made by without_directory, or is a command that CommandProcess starts with it."""
    sources = Path(modules.__file__).parents[4]
    allowed = {
        "cluster/plan.py",
        "cluster/options.py",
        "cluster/warm.py",
        "process/warm.py",
        "process/modules.py",
    }
    found = {
        "/".join(path.parts[-2:])
        for path in (*sources.glob("packages/*/src/**/*.py"), *sources.glob("protocol/src/**/*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"-m"' in line and "without_directory" not in line
    }
    assert found <= allowed | {"ui/jupyter.py", "manager/slurm.py"}, "or add it, with without_directory"


def test_the_shell_finds_an_older_python(hostile: Path) -> None:
    """Python 3.10 has no -P."""
    python = shutil.which("python3.10")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip("there is no Python 3.10")
    run(hostile, *without_directory([python, "-m", "json.tool", "--help"], is_any_version=True))


DIRECTORY = """
import sys
from scaler_protocol.process.modules import add_task_directory
add_task_directory()
import asyncio, of_the_project
print(of_the_project.VALUE, sys.path[-1])
"""


def test_tasks_of_a_worker_manager_import_from_it_behind_everything_else(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hostile / "of_the_project.py").write_text("VALUE = 'found'\n")
    monkeypatch.chdir(hostile)
    environment = native._environment()
    monkeypatch.setenv(modules.TASK_DIRECTORY_VARIABLE, environment[modules.TASK_DIRECTORY_VARIABLE])
    program = hostile.parent / "program.py"
    program.write_text(DIRECTORY)
    assert run(hostile, sys.executable, str(program)) == f"found {hostile}\n"
