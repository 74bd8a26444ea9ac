"""Tasks whose leavings run code later, and children that tasks fork and let come back."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

kept: list[Any] = []
"""The files that children of tasks have opened."""


class Leaving:
    """Does something when it is freed."""

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self.path = path

    def __del__(self) -> None:
        with open(self.path, "a") as file:
            file.write(f"{self.kind}\n")
        if self.kind == "waits":
            time.sleep(100_000)
        elif self.kind == "raises":
            raise OSError("no program reads this")
        elif self.kind == "ends the process":
            os._exit(7)
        elif self.kind == "exits":
            sys.exit(3)
        elif self.kind == "forks":
            fork(self.path)


def leave_cycle(kind: str, path: str) -> int:
    leaving: Any = Leaving(kind, path)
    leaving.itself = leaving
    return os.getpid()


def leave_local(kind: str, path: str) -> int:
    leaving = Leaving(kind, path)
    return os.getpid() if leaving else 0


def process_id() -> int:
    return os.getpid()


def fork(path: str) -> int:
    """In the parent: waits for the child, and writes how that has ended. The child goes on, with files of its own."""
    child = os.fork()
    if child == 0:
        kept.extend(open(f"{path}.{number}", "w") for number in range(12))  # noqa: SIM115 - they stay open
        return 0
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(path, "a") as file:
        file.write(f"child: {status}\n")
    return child


def fork_and_return(path: str) -> str:
    return "parent" if fork(path) else "child"


def fork_and_print(path: str) -> str:
    who = "parent" if fork(path) else "child"
    print(who)
    return who


def fork_and_raise(path: str) -> str:
    if not fork(path):
        raise ValueError("of the child")
    return "parent"


def fork_and_exit(path: str) -> str:
    if not fork(path):
        sys.exit(5)
    return "parent"


class ForksWhenRead:
    def __init__(self, path: str) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__.update(state)
        fork(self.path)


class ForksWhenWritten:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        fork(self.path)
        return str, ("parent",)


def note_run(value: ForksWhenRead) -> str:
    with open(value.path, "a") as file:
        file.write("ran\n")
    return "parent"


def return_forking(path: str) -> ForksWhenWritten:
    return ForksWhenWritten(path)
