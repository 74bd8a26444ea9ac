"""What nodes of graphs run in workers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.support.tasks import note, wait_for_file


def increment(value: int) -> int:
    return value + 1


def minus(a: int, b: int) -> int:
    return a - b


def process_id_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def fail_when_noted(log: str, message: str) -> None:
    """Fails when another node has begun."""
    wait_for_file(log)
    raise ValueError(message)


def third_time_lucky(log: str) -> int:
    note(log, "again")
    count = len(Path(log).read_text().splitlines())
    if count < 3:
        raise ValueError(f"only {count}")
    return count


def zeros(mib: int) -> bytes:
    return bytes(mib << 20)


def fibonacci_by_graph(client: Any, n: int) -> int:
    """As the documents do it: the graph is made where it is needed."""
    if n < 2:
        return n
    graph = {"n": n, "one": 1, "two": 2, "n_minus_one": (minus, "n", "one"), "n_minus_two": (minus, "n", "two")}
    found = client.get(graph, keys=["n_minus_one", "n_minus_two"])
    a = client.submit(fibonacci_by_graph, client, found.get("n_minus_one"))
    b = client.submit(fibonacci_by_graph, client, found.get("n_minus_two"))
    return int(a.result() + b.result())


def noted_zeros(log: str, name: str, size: int) -> bytes:
    note(log, name)
    return bytes(size)


def noted_sleep(log: str, name: str, size: int, seconds: float) -> bytes:
    note(log, name)
    time.sleep(seconds)
    note(f"{log}.ended", name)
    return bytes(size)


def noted_wait(log: str, name: str, gate: str) -> bytes:
    """Until there is a file of this name."""
    note(log, name)
    wait_for_file(gate)
    return b""


def noted_total(log: str, name: str, *values: bytes) -> int:
    note(log, name)
    return sum(map(len, values))


def noted_sum(log: str, name: str, seconds: float, *values: int) -> int:
    """One more than all of these together."""
    note(log, name)
    time.sleep(seconds)
    return 1 + sum(values)


def noted_join(log: str, name: str, *values: bytes) -> bytes:
    note(log, name)
    return b"".join(values)


def noted_nest(log: str, name: str, gate: str, seconds: float, value: bytes) -> int:
    """A task of a client inside this one, which is of its program: before the gate is there, and after it."""
    from scaler import Client

    note(log, name)
    with Client() as client:
        first = client.submit(noted_total, log, f"{name}-first", client.send_object(value))
        assert first.result() == len(value)
        running = client.submit(noted_sleep, log, f"{name}-running", len(value), seconds)
        wait_for_file(gate)
        last = client.submit(noted_total, log, f"{name}-last", client.send_object(value), value)
        return last.result() + len(running.result())
