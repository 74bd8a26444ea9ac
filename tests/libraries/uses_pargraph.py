"""A program of a pargraph user, by both ways in: the client as the engine's backend, and `Client.get`."""

from __future__ import annotations

import sys

# pargraph 0.9.6 sorts with GraphBLAS where it is installed, by a function that numpy 2.4 has removed.
sys.modules["graphblas"] = None  # type: ignore[assignment]

from pargraph import GraphEngine, delayed, graph  # noqa: E402

from scaler import Client  # noqa: E402


@delayed
def add(left: int, right: int) -> int:
    return left + right


@delayed
def multiply(left: int, right: int) -> int:
    return left * right


@graph
def work(one: int, other: int) -> int:
    total = add(one, other)
    return add(multiply(total, total), multiply(total, other))


def main(address: str) -> None:
    tasks, keys = work.to_graph().to_dict(one=2, other=3)
    with Client(address=address) as client:
        print(GraphEngine(backend=client).get(tasks, keys))
        print(list(client.get(tasks, keys).values()))


if __name__ == "__main__":
    main(sys.argv[1])
