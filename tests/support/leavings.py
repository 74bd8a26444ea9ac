"""What tasks leave behind in their process, and a report of what the next task finds there.

Each leaving has the parts of the report that it may change. These are the documented differences between a process
that has run tasks and a fresh one (docs/guide/debugging.md, "What a task leaves behind"). Everything else is as in a
fresh one.
"""

from __future__ import annotations

import atexit
import decimal
import gc
import io
import locale
import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from scaler import Client

kept: list[Any] = []
"""The module's own state: it stays, as its functions travel by name."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCHLD)


def report() -> dict[str, Any]:
    """Returns what a task finds in its process."""
    descriptors = [number for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")]
    mask = os.umask(0o22)
    os.umask(mask)
    return {
        "process": os.getpid(),
        "working directory": os.getcwd(),
        "umask": mask,
        "environment": dict(os.environ),
        "signal handlers": [str(getattr(signal.getsignal(one), "__name__", signal.getsignal(one))) for one in SIGNALS],
        "signal mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "alarm": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        "limits": [resource.getrlimit(one) for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "open files": sum(os.readlink(f"/proc/self/fd/{number}").endswith("/left") for number in descriptors),
        "threads": sorted(one.name for one in threading.enumerate() if not one.name.startswith(("scaler-", "Thread-"))),
        "processes": sum(os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for _ in _children()),
        "atexit": atexit._ncallbacks(),  # type: ignore[attr-defined]
        "gc": [gc.isenabled(), gc.get_threshold()],
        "tracing": [sys.gettrace() is None, sys.getprofile() is None],
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "hooks": [sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__],
        "standard output": type(sys.stdout).__name__,
        "sys.path": list(sys.path),
        "modules": "left_by_a_task" in sys.modules,
        "state of modules": len(kept),
        "warnings": len(warnings.filters),
        "logging": [logging.getLogger().level, len(logging.getLogger().handlers), logging.root.manager.disable],
        "locale": locale.setlocale(locale.LC_ALL),
        "decimal": decimal.getcontext().prec,
        "numpy errors": dict(numpy.geterr()),
        "random numbers": random.getstate() == random.Random(7).getstate(),
        "socket timeout": socket.getdefaulttimeout(),
        "stack size": threading.stack_size(),
    }


def _children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


# ---------------------------------------------------------------- what stays in the process


def change_directory() -> None:
    os.chdir("/")


def change_umask() -> None:
    os.umask(0o77)


def change_environment() -> None:
    os.environ["LEFT_BY_A_TASK"] = "1"
    os.environ.pop("PATH", None)


def handle_signals() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def handle_our_signal() -> None:
    """The one that interrupts tasks: a task that is canceled then ends with its process."""
    signal.signal(signal.SIGURG, signal.SIG_IGN)


def mask_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGURG})


def set_alarm() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 1000.0)


def lower_limits() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))


def leave_file(directory: str) -> None:
    kept.append(os.open(f"{directory}/left", os.O_CREAT | os.O_RDWR))


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), name="left", daemon=True).start()


def leave_working_thread() -> None:
    """Not a daemon, and it never waits."""

    def work() -> None:
        while True:
            sum(range(1000))
            time.sleep(0.001)

    threading.Thread(target=work, name="left").start()


def leave_process() -> None:
    kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]))


def leave_atexit() -> None:
    atexit.register(time.sleep, 1000)


def change_gc() -> None:
    gc.disable()
    gc.set_threshold(5, 5, 5)


def trace() -> None:
    sys.settrace(lambda *_: None)


def profile() -> None:
    sys.setprofile(lambda *_: None)


def lower_recursion_limit() -> None:
    sys.setrecursionlimit(200)


def change_switch_interval() -> None:
    sys.setswitchinterval(0.05)


def change_hooks() -> None:
    sys.excepthook = threading.excepthook = lambda *_: None  # type: ignore[assignment]


def replace_output() -> None:
    sys.stdout = io.StringIO()


def close_output() -> None:
    sys.stdout = io.StringIO()
    sys.stdout.close()


def change_search_path() -> None:
    sys.path.insert(0, "/left")


def add_module() -> None:
    sys.modules["left_by_a_task"] = sys


def change_module() -> None:
    kept.append(1)


def change_warnings() -> None:
    warnings.simplefilter("error")


def change_logging() -> None:
    logging.basicConfig(level=logging.DEBUG, force=True)
    logging.disable(logging.CRITICAL)


def change_decimal() -> None:
    decimal.getcontext().prec = 3


def change_numpy() -> None:
    numpy.seterr(all="raise")


def seed() -> None:
    random.seed(7)


def change_sockets() -> None:
    socket.setdefaulttimeout(0.001)


def change_stack_size() -> None:
    threading.stack_size(256 * 1024)


# ---------------------------------------------------------------- what runs later, or does not stay


class Leaving:
    """In a cycle, so that it is freed at some later time, perhaps in another task."""

    def __init__(self, what: str, client: Client | None = None) -> None:
        self.what, self.client, self.itself = what, client, self

    def __del__(self) -> None:
        if self.what == "raises":
            raise OSError("of an object that a task has left")
        if self.what == "exits":
            sys.exit(3)
        if self.what == "submits" and self.client is not None:
            self.client.submit(pow, 2, 2)
        if self.what == "collects":
            gc.collect()


def leave_garbage_that_raises() -> None:
    Leaving("raises")


def leave_garbage_that_exits() -> None:
    Leaving("exits")


def leave_garbage_that_collects() -> None:
    Leaving("collects")


def leave_garbage_that_submits() -> None:
    Leaving("submits", Client())


def leave_client() -> None:
    """Neither closed nor waited for."""
    Client().submit(pow, 2, 2)


def leave_thread_that_submits() -> None:
    client = Client()
    threading.Thread(target=lambda: client.submit(pow, 2, 2).result(), daemon=True).start()


def leave_failed_thread() -> None:
    def fail() -> None:
        raise OSError("of a thread that a task has left")

    threading.Thread(target=fail).start()


def raise_with_a_frame() -> None:
    """Its frame has objects."""
    leaving = Leaving("raises")
    raise ValueError(leaving.what)


LEAVINGS: dict[Callable[..., None], tuple[str, ...]] = {
    change_directory: ("working directory",),
    change_umask: ("umask",),
    change_environment: ("environment",),
    handle_signals: ("signal handlers",),
    handle_our_signal: ("signal handlers",),
    mask_signals: ("signal mask",),
    set_alarm: ("alarm", "signal handlers"),
    lower_limits: ("limits",),
    leave_file: ("open files", "state of modules"),
    leave_thread: ("threads",),
    leave_working_thread: ("threads",),
    leave_process: ("processes", "state of modules"),
    leave_atexit: ("atexit",),
    change_gc: ("gc",),
    trace: ("tracing",),
    profile: ("tracing",),
    lower_recursion_limit: ("recursion limit",),
    change_switch_interval: ("switch interval",),
    change_hooks: ("hooks",),
    replace_output: ("standard output",),
    close_output: ("standard output",),
    change_search_path: ("sys.path",),
    add_module: ("modules",),
    change_module: ("state of modules",),
    change_warnings: ("warnings",),
    change_logging: ("logging",),
    change_decimal: ("decimal",),
    change_numpy: ("numpy errors",),
    seed: ("random numbers",),
    change_sockets: ("socket timeout",),
    change_stack_size: ("stack size",),
    leave_garbage_that_raises: (),
    leave_garbage_that_exits: (),
    leave_garbage_that_collects: (),
    leave_garbage_that_submits: (),
    leave_client: (),
    leave_thread_that_submits: (),
    leave_failed_thread: (),
    raise_with_a_frame: (),
}
"""Each with the parts of the report that it may change for later tasks of the same process."""

STAYS = frozenset(part for parts in LEAVINGS.values() for part in parts)


def hold(path: str) -> None:
    """Runs until it is interrupted or killed."""
    with open(path, "w"):
        pass
    while True:
        time.sleep(0.01)
