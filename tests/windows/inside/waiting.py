"""Waits in one way until Ctrl-C: `python waiting.py WAY ADDRESS`. Prints `waiting`, and then `interrupted`."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
import time
from collections.abc import Callable, Iterator

from scaler import Client


def slow_values() -> Iterator[int]:
    time.sleep(60)
    yield 1


def ways(address: str) -> dict[str, Callable[[], object]]:
    if sys.argv[1] == "constructor":
        return {"constructor": lambda: Client("tcp://127.0.0.1:9", timeout_seconds=60, insecure=True)}
    client = Client(address)
    future = client.submit(time.sleep, 60)
    return {
        "result": future.result,
        "map": lambda: client.map(time.sleep, [60] * 3),
        "get": lambda: client.get({"a": (time.sleep, 60)}, ["a"]),
        "wait": lambda: concurrent.futures.wait([future]),
        "as_completed": lambda: list(concurrent.futures.as_completed([future])),
        "stream": lambda: next(client.stream(slow_values)),
        "imap": lambda: next(client.imap(time.sleep, [60])),
    }


def main() -> None:
    wait = ways(sys.argv[2])[sys.argv[1]]
    # A thread says it, when this one certainly waits.
    threading.Timer(0.5, lambda: print("waiting", flush=True)).start()
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    main()
