"""Client and protocol import on Windows: nothing that only POSIX has, unless it is asked for first."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PARTS, imports, modules, relative, syntax

POSIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty", "uvloop")
POSIX_NAMES = {
    "os": {
        "fork",
        "forkpty",
        "geteuid",
        "getpgid",
        "getuid",
        "killpg",
        "mkfifo",
        "setpgid",
        "setsid",
        "wait4",
        "WNOHANG",
    },
    "signal": {"SIGKILL", "SIGCHLD", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "pthread_sigmask", "set_wakeup_fd"},
    "socket": {"AF_UNIX"},
    "time": {"clock_gettime"},
}
PORTABLE = [PARTS["client"], PARTS["protocol"]]

#: Modules of the protocol that only servers, workers and processors import, and that say so in their docstring.
SERVER_ONLY = ("scaler_protocol/process/", "scaler_protocol/running/")


def portable_modules() -> list[Path]:
    return [path for part in PORTABLE for path in modules(part) if not is_server_only(path)]


def is_server_only(path: Path) -> bool:
    return any(place in relative(path) for place in SERVER_ONLY)


@pytest.mark.parametrize("path", portable_modules(), ids=relative)
def test_no_posix_only_import(path: Path) -> None:
    wrong = [found for found in imports(path) if found.top in POSIX_MODULES and not found.is_guarded]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("path", portable_modules(), ids=relative)
def test_no_posix_only_name(path: Path) -> None:
    """`os.fork` and its like stand only below an `if sys.platform …` or a `hasattr`, where a reader sees why."""
    wrong = [f"{relative(path)}:{node.lineno} uses {name}" for node, name in unguarded_names(syntax(path), False)]
    assert not wrong, "\n".join(wrong)


def unguarded_names(node: ast.AST, is_guarded: bool) -> list[tuple[ast.Attribute, str]]:
    found = []
    for child in ast.iter_child_nodes(node):
        inside = is_guarded or isinstance(child, ast.If | ast.IfExp | ast.Try)
        if isinstance(child, ast.Attribute) and not inside and is_posix_name(child):
            found.append((child, ast.unparse(child)))
        found += unguarded_names(child, inside)
    return found


def is_posix_name(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.attr in POSIX_NAMES.get(node.value.id, ())


#: A Python that looks like Windows to whoever asks: the names of the platform, and none of the modules it lacks. The
#: libraries of others are there before: they would look for more of Windows than is pretended here.
PRETEND_WINDOWS = """
import importlib, os, signal, sys
import asyncio, ctypes, multiprocessing, socket, subprocess, threading, zmq, capnp, cloudpickle, tempfile, shutil
import aiohttp, IPython.core.magic, joblib, prometheus_client, prompt_toolkit, tqdm
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r} on this platform", name=name)
BLOCKED = set(sys.argv[1].split(","))
for name in BLOCKED:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
sys.platform, os.name = "win32", "nt"
for owner, names in ((os, sys.argv[2]), (signal, sys.argv[3]), (socket, sys.argv[4])):
    for name in names.split(","):
        if hasattr(owner, name):
            delattr(owner, name)
for name in sys.argv[5:]:
    importlib.import_module(name)
print("imported", len(sys.argv) - 5)
"""


def test_client_and_protocol_import_on_windows() -> None:
    names = [dotted(path) for path in portable_modules() if path.name != "__main__.py"]
    gone = [",".join(sorted(POSIX_NAMES[owner])) for owner in ("os", "signal", "socket")]
    command = [sys.executable, "-c", PRETEND_WINDOWS, ",".join(POSIX_MODULES), *gone, *names]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["imported", str(len(names))]


def test_the_windows_check_can_fail() -> None:
    command = [sys.executable, "-c", PRETEND_WINDOWS, "fcntl", "fork", "SIGKILL", "AF_UNIX", "fcntl"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "No module named 'fcntl' on this platform" in ended.stderr


def dotted(path: Path) -> str:
    inside = relative(path).split("/src/")[1].removesuffix(".py").removesuffix("/__init__")
    return inside.replace("/", ".")


SERVER_COMMANDS = {
    "scaler_scheduler": "scaler_scheduler",
    "scaler_storage": "scaler_object_storage_server",
    "scaler_worker": "scaler_cluster",
    "scaler_worker.manager": "scaler_worker_manager",
    "scaler_worker.adapter": "scaler_native_worker_adapter",
    "scaler_symphony": "scaler_symphony_cluster",
}


def pretend_windows(code: str) -> subprocess.CompletedProcess[str]:
    gone = [",".join(sorted(POSIX_NAMES[owner])) for owner in ("os", "signal", "socket")]
    command = [sys.executable, "-c", PRETEND_WINDOWS + code, ",".join(POSIX_MODULES), *gone]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("module", "name"), SERVER_COMMANDS.items(), ids=SERVER_COMMANDS)
def test_a_server_command_says_that_it_does_not_run_on_windows(module: str, name: str) -> None:
    ended = pretend_windows(f"importlib.import_module('{module}.__main__').main()")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{name}: error: {name} runs on Linux and macOS only"), ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_local_cluster_says_that_it_does_not_run_on_windows() -> None:
    code = """
import scaler, scaler.__main__
from scaler.cluster.scheduler import SchedulerProcess
for make in (lambda: scaler.SchedulerClusterCombo(n_workers=1), SchedulerProcess("tcp://127.0.0.1:2345").start):
    try:
        make()
    except NotImplementedError as error:
        print(error)
sys.exit(scaler.__main__.main(["config.toml"]))
"""
    ended = pretend_windows(code)
    told = [line.partition(" runs on Linux and macOS only")[0] for line in ended.stdout.splitlines()[1:]]
    assert told == ["a local cluster", "the scheduler"], ended.stderr
    assert ended.returncode == 2 and ended.stderr.startswith("scaler: error: scaler runs on Linux"), ended.stderr
