"""A local cluster is forked from one warm process, and its parts are processes like any others (decision 0011)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.cluster.process import ClusterStartError, CommandProcess
from scaler.cluster.warm import UNKNOWN_EXIT_CODE, can_start_warm
from scaler_protocol.process import PARENT_VARIABLE
from tests.support.processes import WAIT, assert_gone

pytestmark = pytest.mark.skipif(not can_start_warm(), reason="needs Linux 5.3")

PARTS = ("_storage", "_scheduler", "_cluster")
MODULES = ("scaler_storage", "scaler_scheduler", "scaler_worker")


@pytest.fixture
def combo() -> Iterator[SchedulerClusterCombo]:
    """Whatever a test does to its processes, afterwards none is left."""
    combo = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
    assert combo._warm is not None
    family = family_of(combo)
    try:
        yield combo
    finally:
        combo.shutdown()
        assert_gone(family)


def part(combo: SchedulerClusterCombo, name: str) -> CommandProcess:
    found = getattr(combo, name)
    assert isinstance(found, CommandProcess)
    return found


def family_of(combo: SchedulerClusterCombo) -> list[psutil.Process]:
    assert combo._warm is not None
    warm = psutil.Process(combo._warm.pid)
    return [warm, *warm.children(recursive=True)]


def works(combo: SchedulerClusterCombo) -> bool:
    with Client(combo.get_address()) as client:
        return bool(client.submit(abs, -1).result(WAIT) == 1)


def test_each_part_is_a_process_of_its_own(combo: SchedulerClusterCombo) -> None:
    assert combo._warm is not None
    children = {child.pid: child for child in psutil.Process(combo._warm.pid).children()}
    assert children.keys() == {part(combo, name).pid for name in PARTS}
    assert all(os.getsid(process_id) == process_id for process_id in children), "a Ctrl-C is not for them"
    words = [children[part(combo, name).pid].cmdline() for name in PARTS]
    assert [line[1:3] for line in words] == [["-m", module] for module in MODULES], "as who started them by hand sees"
    assert combo.get_address() in words[1]


def test_an_end_in_order_is_known_as_such() -> None:
    combo = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
    parts = [part(combo, name) for name in PARTS]
    combo.shutdown()
    assert [one.exitcode for one in parts] == [0, 0, 0]


@pytest.mark.parametrize("name", PARTS)
def test_a_killed_part_takes_nobody_along(combo: SchedulerClusterCombo, name: str) -> None:
    part(combo, name).kill()
    part(combo, name).join(WAIT)
    assert part(combo, name).exitcode == -signal.SIGKILL
    assert [other for other in PARTS if not part(combo, other).is_alive()] == [name]


def test_nobody_misses_the_warm_process(combo: SchedulerClusterCombo) -> None:
    assert combo._warm is not None
    combo._warm.kill()
    combo._warm.join(WAIT)
    assert all(part(combo, name).is_alive() for name in PARTS)
    assert works(combo)
    assert combo._scheduler.exitcode is None
    combo._scheduler.kill()
    combo._scheduler.join(WAIT)
    assert combo._scheduler.exitcode == UNKNOWN_EXIT_CODE, "only who is its parent is told"


def test_the_parts_of_a_killed_program_end_without_the_warm_process() -> None:
    program = (
        "from scaler import SchedulerClusterCombo\n"
        "combo = SchedulerClusterCombo(n_workers=1, logging_level='WARNING')\n"
        "combo._warm.kill()\n"
        "combo._warm.join()\n"
        "print(*(one.pid for one in combo._children), flush=True)\n"
        "input()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, env=environment) as parent:
        assert parent.stdout is not None
        parts = [psutil.Process(int(number)) for number in parent.stdout.readline().split()]
        parent.kill()
    assert len(parts) == 3
    assert_gone(parts)


def test_workers_of_a_program_that_has_ended_already_do_not_start() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as program:
        program.wait(WAIT)
    environment = {**os.environ, PARENT_VARIABLE: str(program.pid)}
    command = [sys.executable, "-m", "scaler_worker", "-n", "1", "tcp://127.0.0.1:1"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT)
    assert (ended.returncode, "has ended already" in ended.stderr) == (1, True), ended.stderr


def test_why_the_warm_process_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "no number")
    with pytest.raises(ClusterStartError, match=r"cluster ended with exit code 1; it said:\n.*PYTHONHASHSEED"):
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING")


def test_a_start_that_is_given_up_leaves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a Ctrl-C, at a time when nobody has been forked yet."""
    seen: list[CommandProcess] = []

    def interrupt(*arguments: object) -> None:
        seen.extend(arguments[3])  # type: ignore[call-overload]
        raise KeyboardInterrupt

    monkeypatch.setattr("scaler.cluster.combo.wait_until_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
    warm, *parts = seen
    assert warm.exitcode == -signal.SIGKILL
    assert not any(one.is_alive() for one in parts)


ABOUT_TO_FORK = """
import os, threading
from scaler_protocol.process.warm import warm_up, warm_up_for
from scaler_protocol.transport import context
os.closerange(3, 100)
warm_up()
for module in ("scaler_storage", "scaler_scheduler", "scaler_worker"):
    warm_up_for(module)
files = [os.path.realpath(f"/proc/self/fd/{number}") for number in range(3, 100)]
print(len(os.listdir("/proc/self/task")), threading.active_count(), len(context._contexts),
      sum(":[" in file for file in files))
"""


def test_what_is_forked_has_no_thread_no_context_and_no_socket() -> None:
    ended = subprocess.run([sys.executable, "-c", ABOUT_TO_FORK], capture_output=True, text=True, timeout=WAIT)
    assert ended.stdout.split() == ["1", "1", "0", "0"], ended.stderr


FORKS = """
import json, os, socket, sys
from scaler_protocol.process import warm
modules = ["scaler_storage", "scaler_scheduler", "scaler_worker"]

def fork():
    imported = [module for module in modules if f"{module}.__main__" in sys.modules]
    print(*imported, flush=True)
    if imported == modules:
        os._exit(0)
    return os.getpid()

os.fork = fork
links = [socket.socketpair(type=socket.SOCK_SEQPACKET)[0].detach() for _ in modules]
roles = [[module, [], os.open(os.devnull, os.O_WRONLY), False, link, []] for module, link in zip(modules, links)]
sys.argv[1:] = [json.dumps(roles)]
warm.main()
"""


def test_a_part_does_not_wait_for_what_others_import() -> None:
    """It begins on another core meanwhile."""
    ended = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=WAIT)
    assert ended.stdout.splitlines() == [
        "scaler_storage",
        "scaler_storage scaler_scheduler",
        "scaler_storage scaler_scheduler scaler_worker",
    ], ended.stderr


def test_the_warm_process_ends_when_all_its_children_have(combo: SchedulerClusterCombo) -> None:
    assert combo._warm is not None
    for name in reversed(PARTS):
        part(combo, name).terminate()
    combo._warm.join(WAIT)
    assert combo._warm.exitcode == 0


def test_where_it_cannot_be_each_part_is_started_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.cluster.combo.can_start_warm", lambda: False)
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo:
        assert combo._warm is None
        assert {psutil.Process(part(combo, name).pid).ppid() for name in PARTS} == {os.getpid()}
        assert works(combo)
