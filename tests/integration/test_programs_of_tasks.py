"""Programs that a task has started end with the attempt that has started them, whichever process of the worker is
killed: none of them goes on beside the next attempt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage, assert_gone, until

CHAIN = ("processor", "zygote", "agent", "cluster process")
"""The processes of a worker, each the parent of the one before."""


def start_programs(directory: str) -> None:
    """A task that starts programs in each way in which they can be started, and waits for one of them."""
    import os

    programs = os.path.join(directory, f"attempt-{os.getpid()}")
    pause = (
        "import os, sys, time\nwith open(sys.argv[1], 'a') as file: print(os.getpid(), file=file)\ntime.sleep(300)\n"
    )
    own_session = (
        "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)\n"
    )
    daemon = (
        "import os, sys\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])\n"
    )
    end = [pause, programs]
    subprocess.Popen([sys.executable, "-c", *end])
    subprocess.Popen([sys.executable, "-c", *end], start_new_session=True)
    subprocess.Popen([sys.executable, "-c", own_session, *end], start_new_session=True)
    subprocess.run(["/bin/sh", "-c", '"$0" "$@" &', sys.executable, "-c", *end], check=True)
    subprocess.run([sys.executable, "-c", daemon, *end], check=True)
    subprocess.run([sys.executable, "-c", *end], check=True)


PROGRAMS = 6


class Attempts:
    """What the attempts of a task have started, by the processor that ran them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _whole(self) -> dict[int, list[int]]:
        started = {
            int(path.name.partition("-")[2]): [int(line) for line in path.read_text().splitlines()]
            for path in self._directory.glob("attempt-*")
        }
        return {processor: ids for processor, ids in started.items() if len(ids) == PROGRAMS}

    def wait_for(self, count: int) -> None:
        until(lambda: len(self._whole()) >= count, f"{count} attempts have started their programs")

    def programs(self, but: tuple[int, ...] = ()) -> tuple[int, list[psutil.Process]]:
        """Returns the processor of an attempt that is not one of these, and its programs."""
        ((processor, ids),) = ((one, ids) for one, ids in self._whole().items() if one not in but)
        return processor, [psutil.Process(process_id) for process_id in ids]


def worker_chain(processor: int, command: Command) -> dict[str, psutil.Process]:
    above = [psutil.Process(processor), *psutil.Process(processor).parents()]
    chain = dict(zip(CHAIN, above, strict=False))
    assert chain["cluster process"].pid == command.pid
    return chain


@pytest.mark.parametrize("killed", CHAIN)
def test_no_program_of_a_task_lives_beside_its_next_attempt(killed: str, stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1)
    attempts = Attempts(tmp_path)
    with Client(cluster.address, timeout_seconds=WAIT) as client:
        client.submit(start_programs, str(tmp_path))
        attempts.wait_for(1)
        processor, programs = attempts.programs()
        assert all(one.is_running() for one in programs), "a daemon lives as long as its task"
        worker_chain(processor, cluster.workers[0])[killed].kill()
        assert_gone(programs)
        if killed == "cluster process":
            cluster.start_workers()
        attempts.wait_for(2)
        _, again = attempts.programs(but=(processor,))
        assert all(one.is_running() for one in again), "what the next attempt has started goes on"
        assert cluster.workers[-1].end() == 0
        assert_gone(again)
    cluster.stop()
