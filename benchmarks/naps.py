"""Tasks that only sleep and note in a file that they begin, and what such a file tells. Any engine can run them."""

import os
import time
from pathlib import Path
from typing import NamedTuple


class Beginning(NamedTuple):
    number: int
    at: float
    process_id: int


def nap(log: str, number: int, seconds: float) -> int:
    """The number. The line is written at once, so that no other one can be mixed with it."""
    line = f"{number} {time.time()} {os.getpid()}\n".encode()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    time.sleep(seconds)
    return number


def beginnings(log: Path) -> list[Beginning]:
    """In the order of time."""
    lines = log.read_text(encoding="ascii").splitlines() if log.exists() else []
    fields = [line.split() for line in lines]
    return [Beginning(int(number), float(at), int(process_id)) for number, at, process_id in fields]
