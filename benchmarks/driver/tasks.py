"""What the engines run. Workers import this module by name, so no engine pays for sending the code."""

import time
from typing import Any


def nothing(_: Any = None) -> None:
    return None


def increment(value: int) -> int:
    return value + 1


def add(left: int, right: int) -> int:
    return left + right


def echo(value: Any) -> Any:
    return value


def size_and_ends(value: bytes) -> tuple[int, int, int]:
    return len(value), value[0], value[-1]


def first_bytes(*values: bytes) -> list[int]:
    """The number that each begins with; all of its pages are read."""
    return [int.from_bytes(value[:4], "little") for value in values if value.count(b"\n") < len(value)]


def busy(seconds: float) -> float:
    """Holds a core, as work does; sleeping would leave it to the engine."""
    end_at = time.perf_counter() + seconds
    while time.perf_counter() < end_at:
        pass
    return seconds


def text_of(size: int) -> bytes:
    return b"r" * size


def fibonacci_scaler(client: Any, n: int) -> int:
    if n < 2:
        return n
    left = client.submit(fibonacci_scaler, client, n - 1)
    right = client.submit(fibonacci_scaler, client, n - 2)
    return int(left.result() + right.result())


def fibonacci_dask(n: int) -> int:
    if n < 2:
        return n
    from distributed import worker_client

    with worker_client() as client:
        futures = [client.submit(fibonacci_dask, n - less, pure=False) for less in (1, 2)]
        return int(sum(client.gather(futures)))


def fibonacci_ray(n: int) -> int:
    if n < 2:
        return n
    import ray

    call = ray.remote(fibonacci_ray)
    return int(sum(ray.get([call.remote(n - 1), call.remote(n - 2)])))
