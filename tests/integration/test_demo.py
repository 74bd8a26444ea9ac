"""`make demo`, smaller: it tells a right result, and whenever it is interrupted, nothing of it is left."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from demo.interrupts import Interrupts

from tests.architecture.sources import ROOT

SMALL = ["--workers", "2", "--modules", "60", "--tiny", "3000"]
LONG = ["--workers", "2", "--tiny", "5000000"]
#: What to wait for, and how many modules to index: all where that is to be interrupted, few to be past it soon.
MOMENTS = {"Starting storage": 0, "The cluster is up": 0, "Standard library": 0, "Tiny tasks": 20}
RUN_SECONDS = 60.0
END_SECONDS = 20.0


@contextmanager
def demo(*options: str) -> Iterator["subprocess.Popen[str]"]:
    """In a session of its own, so that a Ctrl-C can go to the whole group, as a terminal sends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "demo", *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=END_SECONDS)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def assert_gone(processes: list[psutil.Process]) -> None:
    """Every one has ended within the bound. What is only not reaped yet has ended."""
    _, left = psutil.wait_procs(processes, timeout=END_SECONDS)
    alive = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not alive, f"still running: {alive}"


def read_until(process: "subprocess.Popen[str]", words: str) -> str:
    """What it has said, up to the line with these words. pytest's timeout bounds the wait for them."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended before it said {words!r}; it said:\n{said}")


def test_it_computes_checks_and_tells() -> None:
    with demo(*SMALL) as process:
        said = read_until(process, "The cluster is up at ")
        port = int(re.search(r"up at tcp://127\.0\.0\.1:(\d+)", said).group(1))  # type: ignore[union-attr]
        processes = family(process)
        assert len(processes) >= 4, "storage, scheduler and workers are processes of their own"
        output, errors = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 0, errors
    assert "60 modules" in output
    assert "of all Collatz chains that begin at 1 to 3,000, the longest begins at 2,919: 216 steps" in output
    assert re.search(r"[\d,]+ tasks/s", output)
    assert "Both answers equal those of one process alone." in output
    assert_gone(processes)
    assert not [one for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port]


@pytest.mark.parametrize("to_group", [True, False], ids=["Ctrl-C in a terminal", "SIGINT to the demo alone"])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda words: words.split()[0])
def test_an_interrupt_leaves_nothing(moment: str, to_group: bool) -> None:
    with demo(*LONG, "--modules", str(MOMENTS[moment])) as process:
        read_until(process, moment)
        processes = family(process)
        if to_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=RUN_SECONDS)
        assert_gone(processes)
    assert process.returncode == 130, errors
    assert errors.endswith("Stopped. The cluster is shut down and nothing is left running.\n")
    assert "Traceback" not in errors


def test_an_interrupt_is_not_lost_in_a_destructor() -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    try:
        interrupts = Interrupts()
        with pytest.raises(KeyboardInterrupt):
            Dying()
            threading.Event().wait(END_SECONDS)
        assert interrupts.exit_code == 130
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("options", [["--workers", "0"], ["--tiny", "none"]])
def test_a_wrong_option_is_one_line(options: list[str]) -> None:
    with demo(*options) as process:
        _, errors = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 2
    assert errors.splitlines()[-1].startswith("make demo: error: ")
