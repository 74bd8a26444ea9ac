"""A task's process beside a program of its own in the same place: docs/guide/debugging.md has what differs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.support.processes import WAIT

REPORT = r"""
def report():
    import atexit, faulthandler, gc, locale, logging, os, resource, signal, socket, subprocess, sys, threading, warnings
    root = logging.getLogger()
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
    descriptors = {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2}
    opened = [number for number in descriptors if os.path.exists(f"/proc/self/fd/{number}")]
    modules = {name.partition(".")[0] for name in sys.modules}
    return {
        "sys.path": [entry or os.getcwd() for entry in sys.path],
        "sys.argv": sys.argv,
        "sys.flags": [getattr(sys.flags, name) for name in dir(sys.flags) if isinstance(getattr(sys.flags, name), int)],
        "sys.meta_path": [getattr(one, "__name__", type(one).__name__) for one in sys.meta_path],
        "sys.path_hooks": len(sys.path_hooks),
        "sys.executable": [sys.executable, sys.prefix, sys.base_prefix],
        "command line": sys.orig_argv,
        "__main__": sorted(name for name in vars(sys.modules["__main__"]) if name[:1] != "_"),
        "modules": sorted(modules - set(sys.stdlib_module_names) - {"__main__"}),
        "standard input": [os.readlink("/proc/self/fd/0"), sys.stdin.read(), sys.stdin.encoding],
        "descriptors": len(opened) > 0,
        "inherited": sorted(number for number in opened if os.get_inheritable(number)),
        "sys.stdout": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
        "sys.stderr": [sys.stderr.encoding, sys.stderr.errors],
        "faulthandler": faulthandler.is_enabled(),
        "sys.unraisablehook": sys.unraisablehook is sys.__unraisablehook__,
        "other hooks": [sys.displayhook is sys.__displayhook__, sys.breakpointhook is sys.__breakpointhook__],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.callbacks],
        "bytes written": sys.dont_write_bytecode,
        "socket": socket.getdefaulttimeout(),
        "place": [os.nice(0), sorted(os.sched_getaffinity(0)), os.getgroups(), os.getuid(), os.getgid()],
        "process group": os.getpgid(0) == os.getpid(),
        "limits of text and threads": [sys.get_int_max_str_digits(), threading.stack_size()],
        "environment": {k: v for k, v in os.environ.items() if k not in ("_", "SHLVL", "PWD", "OLDPWD")},
        "directory": os.getcwd(),
        "umask": os.umask(0o22),
        "root handlers": len(root.handlers),
        "root level": root.level,
        "last resort": type(logging.lastResort).__name__,
        "mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "signals": {
            int(n): str(getattr(signal.getsignal(n), "name", signal.getsignal(n)))
            for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGUSR1)
            if not callable(signal.getsignal(n)) or n == signal.SIGINT
        },
        "limits": limits,
        "hooks": [sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__],
        "warnings": [str(one) for one in warnings.filters],
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "switching": sys.getswitchinterval(),
        "threads": [one.name for one in threading.enumerate() if not one.name.startswith("scaler-")],
        "trace": [sys.gettrace() is None, sys.getprofile() is None],
        "child": subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))"],
                                capture_output=True, text=True).stdout,
    }
"""
PROGRAM = (
    REPORT
    + r"""
import json, logging, scaler, sys
def configured():
    logging.basicConfig(level=logging.INFO, format="TASK %(message)s")
    logging.info("by basicConfig")
def plain():
    logging.getLogger("mine").warning("by a logger")
    logging.getLogger("mine").info("not asked for")
with scaler.local(workers=1) as client:
    told = client.submit(report).result(60)
    client.submit(plain).result(60)
    client.submit(configured).result(60)
print(json.dumps(told))
"""
)
OTHERS = {"capnp", "cloudpickle", "psutil", "zmq"}
"""Modules of others that a worker has imported before its first task."""

WANTED = {
    "environment": "`OMP_NUM_THREADS` and its kind",
    "signals": "SIGINT",
    "sys.argv": "`sys.orig_argv`",
    "sys.flags": "`sys.flags.safe_path`",
    "sys.meta_path": "modules",
    "modules": "modules",
    "command line": "`sys.orig_argv`",
    "__main__": "`__main__`",
    "descriptors": "descriptors",
    "sys.stdout": "`sys.stdout`",
    "faulthandler": "`faulthandler`, `sys.unraisablehook`",
    "sys.unraisablehook": "`faulthandler`, `sys.unraisablehook`",
    "process group": "process group",
}
"""What differs, with its row in docs/guide/debugging.md."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yields the report of a task, the report of a program, and what the task's cluster has written to standard
    error."""
    place: Path = tmp_path_factory.mktemp("place")

    def run(program: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT, check=True
        )

    of_task = run(PROGRAM)
    of_program = run(REPORT + "import json\nprint(json.dumps(report()))")
    yield json.loads(of_task.stdout), json.loads(of_program.stdout), of_task.stderr


def test_a_tasks_process_is_as_a_program_of_its_own(reports: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    task, program, _ = reports
    differing = {name: (task[name], program[name]) for name in program if task[name] != program[name]}
    assert differing.keys() <= WANTED.keys(), {name: differing[name] for name in differing if name not in WANTED}


def test_each_difference_has_a_row_in_the_guide() -> None:
    lines = (ROOT / "docs" / "guide" / "debugging.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].strip() for line in lines if line.startswith("| ")}
    assert set(WANTED.values()) <= rows, set(WANTED.values()) - rows


def test_what_differs_is_no_more_than_the_guide_says(reports: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    task, program, _ = reports
    more = set(task["modules"]) - set(program["modules"])
    assert {name for name in more if not name.startswith(("scaler", "_cython", "cython_"))} == OTHERS
    assert [one for one in task["sys.meta_path"] if one not in program["sys.meta_path"]] == ["_Importer"]
    assert task["__main__"] == [] and task["inherited"] == []
    assert task["standard input"][:2] == ["/dev/null", ""]
    assert sum(one != other for one, other in zip(task["sys.flags"], program["sys.flags"], strict=True)) <= 1


def test_modules_beside_the_working_directory_shadow_none_of_the_cluster_or_its_tasks(tmp_path: Path) -> None:
    """A program that is a file does not look there. So `random.py` there is no module of the cluster's commands, and
    `helper.py` none of its tasks, before Python 3.11 of tasks only."""
    scripts, place = tmp_path / "scripts", tmp_path / "place"
    scripts.mkdir()
    place.mkdir()
    (scripts / "program.py").write_text(
        "import scaler\n"
        "def f():\n"
        "    import colorsys\n"
        "    return colorsys.__file__\n"
        "with scaler.local(workers=1) as client:\n"
        "    print(client.submit(f).result(60))\n"
    )
    shadowed = ("random", "colorsys") if sys.version_info >= (3, 11) else ("colorsys",)
    for name in shadowed:
        (place / f"{name}.py").write_text("raise SystemExit('the module beside the working directory')")
    command = [sys.executable, str(scripts / "program.py")]
    done = subprocess.run(
        command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0 and str(place) not in done.stdout, (done.stdout, done.stderr)


def test_what_tasks_start_has_the_environment_of_the_program(
    reports: tuple[dict[str, Any], dict[str, Any], str],
) -> None:
    task, program, _ = (one["environment"] if isinstance(one, dict) else one for one in reports)
    cores = {name for name in task if name.endswith(("_NUM_THREADS", "_MAXIMUM_THREADS"))}
    assert {name for name in task.keys() | program.keys() if task.get(name) != program.get(name)} <= cores


def test_logging_in_tasks_is_as_in_a_program(reports: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    _, _, written = reports
    assert written.count("TASK by basicConfig") == 1
    assert written.count("by a logger") == 1 and "not asked for" not in written
