"""A program of a parfun user: its Scaler backends, local and remote, nested, failing, and from twenty threads."""

from __future__ import annotations

import contextvars
import sys
import threading

import parfun as pf


@pf.parallel(split=pf.per_argument(values=pf.py_list.by_chunk), combine_with=pf.py_list.concat)
def powers(values: list[int], exponent: int) -> list[int]:
    return [value**exponent for value in values]


@pf.parallel(split=pf.per_argument(values=pf.py_list.by_chunk), combine_with=pf.py_list.concat)
def nested(values: list[int]) -> list[int]:
    return [sum(powers([value, value + 1], 2)) for value in values]


@pf.parallel(split=pf.per_argument(values=pf.py_list.by_chunk), combine_with=pf.py_list.concat)
def failing(values: list[int]) -> list[int]:
    return [1 // 0 for _ in values]


def use() -> None:
    for _ in range(10):
        assert powers(list(range(1000)), 2) == [value**2 for value in range(1000)]
    assert nested(list(range(20))) == [value**2 + (value + 1) ** 2 for value in range(20)]
    try:
        failing([1, 2])
    except ZeroDivisionError:
        print("the failure arrived as what it was")


def use_from_threads(count: int) -> None:
    done: list[int] = []

    def one(number: int) -> None:
        for _ in range(5):
            assert powers(list(range(100)), number) == [value**number for value in range(100)]
        done.append(number)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(one, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == list(range(count)), done


def main(address: str) -> None:
    with pf.set_parallel_backend_context("scaler_local", n_workers=2, per_worker_queue_size=10):
        use()
    with pf.set_parallel_backend_context("scaler_remote", scheduler_address=address):
        use()
        use_from_threads(20)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
