"""A client that does what clients do, and tells how long each took: `python -m tests.fuzz.bystander ADDRESS KEYS`.

A line for each call: its kind, when it began, on the clock that all processes of a machine share, its seconds, and what
was wrong. It comes over ZeroMQ, as a client of another machine does, and not by the local lane.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from scaler import Client
from scaler_protocol.transport.lane import OFF_VARIABLE
from tests.fuzz.timing import CALL, LARGE, MAP

PAUSE_SECONDS = 0.02
LARGE_EVERY = 10
LARGE_BYTES = 300_000
MAP_EVERY = 5
MAP_TASKS = 20
CALL_SECONDS = 60.0
CAPABILITY = "bystander"
"""Only the true worker has it: no hostile one gets the bystander's tasks."""


def increment(number: int) -> int:
    return number + 1


def main() -> None:
    os.environ[OFF_VARIABLE] = "1"
    given: dict[str, Any] = {"insecure": True} if sys.argv[2] == "--insecure" else {"key_file": sys.argv[3]}
    number = 0
    with Client(sys.argv[1], **given) as client:
        while True:
            number += 1
            kind = MAP if number % MAP_EVERY == 1 else LARGE if number % LARGE_EVERY == 0 else CALL
            begun_at = time.monotonic()
            try:
                trouble = do(client, kind, number)
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
            print(f"{kind} {begun_at:.6f} {time.monotonic() - begun_at:.6f} {trouble}", flush=True)
            time.sleep(PAUSE_SECONDS)


def do(client: Client, kind: str, number: int) -> str:
    """What was wrong."""
    if kind == LARGE:
        calls: list[tuple[Callable[[Any], int], Any, int]] = [(len, bytes(LARGE_BYTES), LARGE_BYTES)]
    else:
        tasks = MAP_TASKS if kind == MAP else 1
        calls = [(increment, at, at + 1) for at in range(number, number + tasks)]
    futures = [
        client.submit_verbose(call, (argument,), {}, capabilities={CAPABILITY: -1}) for call, argument, _ in calls
    ]
    found = [future.result(CALL_SECONDS) for future in futures]
    return "" if found == [wanted for _, _, wanted in calls] else f"wrong: {found!r:.100}"


if __name__ == "__main__":
    main()
