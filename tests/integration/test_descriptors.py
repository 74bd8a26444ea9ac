"""What a task's process has open: nothing of the key, and nothing of its worker, the servers or another processor."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are read from /proc")


def own_process(value: bytes = b"") -> int:
    return os.getpid()


LISTS_ITS_FILES = """
import os
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2:
        try:
            print(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # that of the list itself
"""


def inherited() -> list[str]:
    """What a program that a task starts has open besides its three streams, though nothing is closed for it."""
    command = [sys.executable, "-S", "-c", LISTS_ITS_FILES]
    return subprocess.run(command, close_fds=False, capture_output=True, text=True, check=True).stdout.splitlines()


def opened(process_id: int) -> dict[str, str]:
    """Descriptors by what they are; of sockets and pipes with their number in the system. Empty: it has ended."""
    folder, found = Path(f"/proc/{process_id}/fd"), {}
    try:
        for entry in folder.iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found[entry.name] = os.readlink(entry)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def test_a_task_has_nothing_of_the_cluster_open() -> None:
    """With a cluster whose key came to its processes by a descriptor, and values that travel in shared memory."""
    with SchedulerClusterCombo(n_workers=2) as combo, Client(combo.get_address()) as client:
        shared = client.send_object(bytes(3_000_000))
        tasks = {client.submit(own_process, shared).result(30) for _ in range(4)}
        others = {child.pid for child in psutil.Process().children(recursive=True)} - tasks
        assert tasks and len(others) >= 4, "scheduler, storage, workers"
        streams = {opened(process)[name] for process in tasks for name in ("0", "1", "2")}
        theirs = {text for process in (*others, os.getpid()) for text in opened(process).values()} - streams
        for process in tasks:
            own = {text for text in opened(process).values() if text not in streams}
            sockets = {text for text in own if text.startswith(("socket:", "pipe:"))}
            assert not sockets & theirs, "each socket is of this process alone"
            files = {text for text in own - sockets if not text.endswith(".capnp") and not os.path.isdir(text)}
            assert all(text.startswith(("/memfd:scaler-", "anon_inode:[event")) for text in files), files
        assert client.submit(inherited).result(30) == []
