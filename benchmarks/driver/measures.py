"""The workloads. Each returns figures, after it has checked that the results are right."""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.driver import tasks
from benchmarks.driver.adapters import Engine, Unsupported

MIB = 1 << 20
Figures = dict[str, float]


class WrongResult(Exception):
    """An engine that is fast and wrong is not fast."""


def expect(is_right: bool, what: str) -> None:
    if not is_right:
        raise WrongResult(what)


def noop_map(engine: Engine, count: int, **_: Any) -> Figures:
    started_at = time.perf_counter()
    results = engine.map(tasks.nothing, range(count))
    seconds = time.perf_counter() - started_at
    expect(results == [None] * count, "a no-op returned something")
    return {"tasks_per_second": count / seconds}


def submit_gather(engine: Engine, count: int, **_: Any) -> Figures:
    started_at = time.perf_counter()
    futures = [engine.submit(tasks.increment, number) for number in range(count)]
    results = [future.result() for future in futures]
    seconds = time.perf_counter() - started_at
    expect(results == list(range(1, count + 1)), "an increment is wrong")
    return {"tasks_per_second": count / seconds}


def latency(engine: Engine, count: int, **_: Any) -> Figures:
    samples = []
    for number in range(count):
        started_at = time.perf_counter()
        result = engine.submit(tasks.increment, number).result()
        samples.append((time.perf_counter() - started_at) * 1000)
        expect(result == number + 1, "an increment is wrong")
    samples.sort()
    return {"p50_ms": samples[count // 2], "p99_ms": samples[min(count - 1, count * 99 // 100)]}


def echo_bytes(engine: Engine, count: int, mib: int, **_: Any) -> Figures:
    values = [bytes([number % 256]) * (mib * MIB) for number in range(count)]
    started_at = time.perf_counter()
    results = engine.map(tasks.echo, values)
    seconds = time.perf_counter() - started_at
    expect(results == values, "an echo differs")
    return {"mib_per_second": count * mib / seconds}


def echo_arrays(engine: Engine, count: int, mib: int, **_: Any) -> Figures:
    try:
        import numpy
    except ImportError as error:
        raise Unsupported("no numpy in this interpreter") from error
    values = [numpy.full(mib * MIB // 8, float(number)) for number in range(count)]
    started_at = time.perf_counter()
    results = engine.map(tasks.echo, values)
    seconds = time.perf_counter() - started_at
    pairs = zip(results, values, strict=True)
    expect(all(numpy.array_equal(result, value) for result, value in pairs), "an echo differs")
    return {"mib_per_second": count * mib / seconds}


def shared_object(engine: Engine, count: int, mib: int, **_: Any) -> Figures:
    value = b"s" * (mib * MIB)
    started_at = time.perf_counter()
    shared = engine.share(value)
    futures = [engine.submit(tasks.size_and_ends, shared) for _ in range(count)]
    results = [tuple(future.result()) for future in futures]
    seconds = time.perf_counter() - started_at
    expect(results == [(mib * MIB, ord("s"), ord("s"))] * count, "the object arrived changed")
    return {"seconds": seconds}


def chain(engine: Engine, count: int, **_: Any) -> Figures:
    graph: dict[str, Any] = {"link-0": 0}
    for number in range(1, count + 1):
        graph[f"link-{number}"] = (tasks.increment, f"link-{number - 1}")
    started_at = time.perf_counter()
    result = engine.graph(graph, f"link-{count}")
    seconds = time.perf_counter() - started_at
    expect(result == count, "the end of the chain is wrong")
    return {"tasks_per_second": count / seconds}


def tree(engine: Engine, leaves: int, **_: Any) -> Figures:
    graph, top = tree_graph(leaves)
    started_at = time.perf_counter()
    result = engine.graph(graph, top)
    seconds = time.perf_counter() - started_at
    expect(result == leaves * (leaves + 1) // 2, "the sum is wrong")
    return {"tasks_per_second": (2 * leaves - 1) / seconds}


def plan(engine: Engine, leaves: int, **_: Any) -> Figures:
    """What a client does before the first task can leave, in the two ways it has."""
    graph, top = tree_graph(leaves)
    figures = {}
    for name, with_graphblas in (("sparse_seconds", True), ("plain_seconds", False)):
        started_at = time.perf_counter()
        count = engine.plan(graph, top, with_graphblas)
        figures[name] = time.perf_counter() - started_at
        expect(count == 2 * leaves - 1, "the plan has another number of tasks")
    return figures


def tree_graph(leaves: int) -> tuple[dict[str, Any], str]:
    """A sum in pairs, and the key of the total."""
    graph: dict[str, Any] = {f"value-{number}": number for number in range(leaves)}
    level = []
    for number in range(leaves):
        graph[f"leaf-{number}"] = (tasks.increment, f"value-{number}")
        level.append(f"leaf-{number}")
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=True))
        for left, right in pairs:
            graph[f"{left}+"] = (tasks.add, left, right)
        level = [f"{left}+" for left, _ in pairs]
    return graph, level[0]


def utilisation(engine: Engine, count: int, workers: int, **_: Any) -> Figures:
    seconds_each = 0.001
    started_at = time.perf_counter()
    results = engine.map(tasks.busy, [seconds_each] * count)
    seconds = time.perf_counter() - started_at
    expect(results == [seconds_each] * count, "a task returned something else")
    return {"utilisation": count * seconds_each / (workers * seconds)}


def nested(engine: Engine, n: int, **_: Any) -> Figures:
    expected = [0, 1]
    while len(expected) <= n:
        expected.append(expected[-1] + expected[-2])
    started_at = time.perf_counter()
    result = engine.fibonacci(n)
    seconds = time.perf_counter() - started_at
    expect(result == expected[n], f"fibonacci({n}) is not {result}")
    return {"seconds": seconds}


#: Results that the program still holds, and so may the engine.
held: list[Any] = []


def hold_results(engine: Engine, count: int, size: int, **_: Any) -> Figures:
    futures = [engine.submit(tasks.text_of, size) for _ in range(count)]
    expect(all(len(future.result()) == size for future in futures), "a result is too short")
    held.extend(futures)
    return {}


def drop_results(_engine: Engine, **_: Any) -> Figures:
    held.clear()
    return {}


MEASURES: dict[str, Callable[..., Figures]] = {
    "noop_map": noop_map,
    "submit_gather": submit_gather,
    "latency": latency,
    "echo_bytes": echo_bytes,
    "echo_arrays": echo_arrays,
    "shared_object": shared_object,
    "chain": chain,
    "tree": tree,
    "plan": plan,
    "utilisation": utilisation,
    "nested": nested,
    "hold_results": hold_results,
    "drop_results": drop_results,
}
