"""Tasks that say which GPUs they see, as CUDA would."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

Seen = tuple[str, ...]


def seen() -> Seen:
    return tuple(filter(None, os.environ["CUDA_VISIBLE_DEVICES"].split(",")))


def seen_with_child(client: Any, amount: int) -> tuple[Seen, Seen]:
    """The task waits for a child that needs `amount`, and keeps its own GPUs meanwhile."""
    child = client.submit_verbose(seen, (), {}, capabilities={"gpu": amount})
    return seen(), child.result()


def seen_by_program() -> str:
    """In a program that the task starts."""
    import subprocess
    import sys

    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def die() -> None:
    os._exit(3)


def begin_and_stay(path: str) -> None:
    Path(path).touch()
    time.sleep(600)


def use(directory: str) -> bool:
    """The task marks its GPUs as used while it runs. False: another task had one of them."""
    marks = [Path(directory, gpu) for gpu in seen()]
    for mark in marks:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
    time.sleep(0.005)
    for mark in marks:
        mark.unlink()
    return bool(marks)
