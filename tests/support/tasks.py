"""What tests have workers run. A module of its own, so that a worker imports this and not a whole test."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any


def square(value: int) -> int:
    return value * value


def slow_square(value: int, seconds: float) -> int:
    time.sleep(seconds)
    return value * value


def logged_square(value: int, seconds: float, log: str) -> int:
    """Leaves a line with its value and its process when it starts."""
    note(log, f"{value} {os.getpid()}")
    time.sleep(seconds)
    return value * value


def logged_megabyte(value: int, log: str) -> bytes:
    note(log, f"{value} {os.getpid()}")
    return bytes(1 << 20)


def logged_family(client: Any, value: int, log: str) -> int:
    """With two children, which leave lines of their own."""
    note(log, f"{value} {os.getpid()}")
    children = [client.submit(logged_child, f"{value}.{number}", value, log) for number in range(2)]
    return sum(child.result() for child in children)


def logged_child(name: str, value: int, log: str) -> int:
    note(log, f"{name} {os.getpid()}")
    time.sleep(0.01)
    return value


def note(log: str, line: str) -> None:
    with Path(log).open("a") as file:  # a short line that is appended is never mixed with another
        file.write(f"{line}\n")


def wait_for_file(path: str) -> None:
    """Until a test, or another task, has made it: a file is what they have in common, and systems have no common way to
    wait for one. At most a minute."""
    end_at = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < end_at:
        time.sleep(0.01)


def bytes_after(gate: str, size: int) -> bytes:
    """Runs until there is a file of this name."""
    wait_for_file(gate)
    return bytes(size)


def noted_bytes(log: str, value: int, size: int) -> bytes:
    note(log, str(value))
    return bytes([value % 251]) * size


def die_until(log: str, attempt: int) -> int:
    """Kills its process in every attempt before this one, and tells in which it has run."""
    note(log, str(os.getpid()))
    attempts = len(Path(log).read_text().splitlines())
    if attempts < attempt:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempts


def sleep_after_note(log: str, seconds: float) -> int:
    note(log, str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def spin_after_note(log: str) -> None:
    note(log, str(os.getpid()))
    while True:
        pass


def swallow_after_note(log: str) -> None:
    """Cannot be interrupted, only killed."""
    note(log, str(os.getpid()))
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            pass


def total(data: bytes, *more: Any) -> int:
    return len(data)


def megabytes(count: int) -> bytes:
    return bytes(count << 20)


def exit_with_three() -> None:
    os._exit(3)


def kill_its_parent() -> None:
    """The process that forks its worker's processors."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(100)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    ctypes.string_at(0)


# ---------------------------------------------------------------- nested


def fibonacci(client: Any, n: int) -> int:
    if n < 2:
        return n
    a, b = client.submit(fibonacci, client, n - 1), client.submit(fibonacci, client, n - 2)
    result: int = a.result() + b.result()
    return result


def factorial(client: Any, n: int) -> int:
    return 1 if n == 0 else n * int(client.submit(factorial, client, n - 1).result())


def wait_for_three(client: Any, value: int) -> int:
    futures = [client.submit(square, value + i) for i in range(3)]
    done, pending = concurrent.futures.wait(futures)
    assert not pending
    return sum(future.result() for future in done)


def wait_for_one(client: Any, value: int) -> int:
    return int(client.submit(square, value).result())


def wait_with_gpu(client: Any, levels: int) -> int:
    """Every task down to the last needs the gpu that the task above it holds."""
    if not levels:
        return 1
    children = [
        client.submit_verbose(wait_with_gpu, (client, levels - 1), {}, capabilities={"gpu": 1}) for _ in range(2)
    ]
    return sum(child.result() for child in children)


def spawn_parents(client: Any, count: int) -> int:
    """A tree three levels deep: this one, so many that wait, and a child for each."""
    return sum(future.result() for future in [client.submit(wait_for_one, client, i) for i in range(count)])


def branch(client: Any, width: int, levels: int) -> int:
    """The leaves of a tree."""
    return 1 if not levels else sum(client.map(branch, [client] * width, [width] * width, [levels - 1] * width))


def take_as_completed(client: Any, value: int) -> int:
    futures = [client.submit(square, value + i) for i in range(3)]
    return sum(future.result() for future in concurrent.futures.as_completed(futures))


def poll_for_three(client: Any, value: int) -> int:
    futures = [client.submit(square, value + i) for i in range(3)]
    while not all(future.done() for future in futures):
        time.sleep(0.01)
    return sum(future.result() for future in futures)


def map_three(client: Any, value: int) -> int:
    return sum(client.map(square, [value, value + 1, value + 2]))


def graph_of_three(client: Any, value: int) -> int:
    graph = {"a": (square, value), "b": (square, value + 1), "c": (square, value + 2)}
    return sum(client.get(graph, keys=["a", "b", "c"]).values())


def fail_below(client: Any, depth: int) -> None:
    if depth == 0:
        raise LookupError("nothing down here")
    client.submit(fail_below, client, depth - 1).result()


def parent_of_sleepers(client: Any, log: str) -> None:
    note(log, "parent")
    futures = [client.submit(sleep_after_note, log, 100.0) for _ in range(2)]
    for future in futures:
        future.result()


def die_within(client: Any, log: str) -> int:
    return int(client.submit(die_until, log, 2).result())


def traced(_value: int = 0) -> dict[str, str]:
    """What a task knows of its trace."""
    from scaler import trace_context

    return trace_context()


def traced_span() -> tuple[int, int]:
    """The trace and the parent of a span that a task makes with an SDK of its own."""
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

    span = TracerProvider().get_tracer("task").start_span("inside")
    assert isinstance(span, ReadableSpan)
    return span.context.trace_id, 0 if span.parent is None else span.parent.span_id


def traced_children(client: Any) -> list[tuple[int, int, dict[str, str]]]:
    """Of spans around tasks that this task submits: trace, span, and what the task inside knows of them."""
    from opentelemetry.sdk.trace import TracerProvider

    tracer, found = TracerProvider().get_tracer("task"), []
    for run in (
        lambda: client.submit(traced).result(),
        lambda: client.map(traced, [0])[0],
        lambda: client.get({"a": (traced,)}, "a"),
    ):
        with tracer.start_as_current_span("inside") as span:
            context = span.get_span_context()
            found.append((context.trace_id, context.span_id, run()))
    return found


def traced_stream() -> Any:
    yield traced()
    yield traced()


def noted_sleep(name: str, log: str, seconds: float = 0.005) -> None:
    """Leaves its name when it starts."""
    note(log, name)
    time.sleep(seconds)


def noted_lines(log: str) -> int:
    """How many tasks had started before this one."""
    return len(Path(log).read_text().splitlines())
