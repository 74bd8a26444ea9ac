"""A client that does what clients do, and tells how long each took: `python -m tests.fuzz.bystander ADDRESS KEYS`.

A line for each call: when it began, on the clock that all processes of a machine share, its seconds, and what was
wrong. It comes over ZeroMQ, as a client of another machine does, and not by the local lane.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from scaler import Client
from scaler_protocol.transport.lane import OFF_VARIABLE

PAUSE_SECONDS = 0.02
LARGE_EVERY = 10
LARGE_BYTES = 300_000
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
            begun_at = time.monotonic()
            trouble = ""
            try:
                call: Callable[[Any], int] = increment
                argument: Any = number
                wanted = number + 1
                if number % LARGE_EVERY == 0:
                    call, argument, wanted = len, bytes(LARGE_BYTES), LARGE_BYTES
                future = client.submit_verbose(call, (argument,), {}, capabilities={CAPABILITY: -1})
                if (found := future.result(CALL_SECONDS)) != wanted:
                    trouble = f"wrong: {found!r:.100}"
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
            print(f"{begun_at:.6f} {time.monotonic() - begun_at:.6f} {trouble}", flush=True)
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
