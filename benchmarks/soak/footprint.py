"""What a cluster holds, seen from outside: memory, descriptors and sockets of each process, and files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """By one process."""

    role: str
    private_bytes: int
    descriptors: int


def family() -> list[psutil.Process]:
    """This process, which is the client, and all that it has started."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def look() -> dict[int, Held]:
    found = {}
    for process in family():
        try:
            role = role_of(process)
            found[process.pid] = Held(role, process.memory_full_info().uss, process.num_fds())
        except psutil.Error:
            continue  # it has just ended
    return found


def role_of(process: psutil.Process) -> str:
    """By the command it was started with; what a worker has forked has the worker's."""
    if process.pid == os.getpid():
        return "client"
    words = " ".join(process.cmdline())
    for role in ("scheduler", "storage"):
        if f"scaler_{role}" in words:
            return role
    return "worker"


def by_role(held: Mapping[int, Held]) -> dict[str, Held]:
    """Added up, in the order in which they were found."""
    sums: dict[str, Held] = {}
    for one in held.values():
        sofar = sums.get(one.role, Held(one.role, 0, 0))
        sums[one.role] = Held(one.role, sofar.private_bytes + one.private_bytes, sofar.descriptors + one.descriptors)
    return sums


def files() -> set[Path]:
    """Where something of a cluster could be left lying."""
    places = {Path(tempfile.gettempdir()), Path("/dev/shm")}
    return {path for place in places if place.is_dir() for path in place.iterdir() if _is_ours(path)}


def _is_ours(path: Path) -> bool:
    """Others use these directories meanwhile."""
    return "scaler" in path.name.lower()
