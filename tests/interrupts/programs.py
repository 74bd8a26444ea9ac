"""What the threads of a stress do with their client: a step of each kind that programs make."""

from __future__ import annotations

import concurrent.futures
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from scaler import Client
from scaler.utility.exceptions import DisconnectedError

LARGE = 100_000
"""Bytes that do not ride along."""

WAIT = 30.0


class Interrupt(KeyboardInterrupt):
    """What comes up in the threads that are interrupted."""


class Broken(AssertionError):
    """A law."""


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise Broken(f"got {str(found)[:60]}, not {str(wanted)[:60]}")


def plus(number: int) -> int:
    return number + 1


def large(number: int) -> bytes:
    return bytes((number % 256,)) * LARGE


def first_byte(value: bytes) -> int:
    return value[0]


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


def large_values(count: int) -> Iterator[bytes]:
    yield from map(large, range(count))


class Caller:
    """What one thread does, and the futures that it holds."""

    def __init__(self, client: Client, seed: int, *, has_streams: bool) -> None:
        """`has_streams`: the cluster has processors, which can run generators."""
        self._client = client
        self._rng = random.Random(seed)
        #: futures and what they have to return; None: it may have been canceled
        self.held: list[tuple[concurrent.futures.Future[Any], Any]] = []
        self.done_count = 0
        self.interrupted_count = 0
        self._steps: tuple[Callable[[int], None], ...] = (
            *(self._lone, self._several, self._map, self._large, self._wait, self._cancel, self._chain),
            *(self._large_argument, self._large_arguments, self._large_results, self._sent, self._sent_to_several),
            *(self._graph, self._nodes, self._imap, self._large_imap, self._completed),
            *((self._stream, self._large_stream) if has_streams else ()),
        )

    def step(self) -> None:
        number = self._rng.randrange(1000)
        self._rng.choice(self._steps)(number)
        self.done_count += 1

    def warm_up(self) -> None:
        """Each step once. An interrupt in the middle of an import can leave a lock of the interpreter locked, and then
        every thread that imports the same module waits for ever."""
        for step in self._steps:
            step(5)
        self.check()

    # ------------------------------------------------------------ small calls

    def _lone(self, number: int) -> None:
        future = self._submit(plus, number, number + 1)
        expect(future.result(WAIT), number + 1)

    def _several(self, number: int) -> None:
        futures = [self._submit(plus, number + i, number + i + 1) for i in range(8)]
        expect([future.result(WAIT) for future in futures], [number + i + 1 for i in range(8)])

    def _map(self, number: int) -> None:
        expect(self._client.map(plus, range(number), timeout=WAIT), list(range(1, number + 1)))

    def _wait(self, number: int) -> None:
        futures = [self._submit(plus, number + i, number + i + 1) for i in range(8)]
        _, unfinished = concurrent.futures.wait(futures, WAIT)
        expect(unfinished, set())
        expect(len(list(concurrent.futures.as_completed(futures, WAIT))), len(futures))

    def _cancel(self, number: int) -> None:
        futures = [self._submit(plus, number, None) for _ in range(4)]
        for future in futures:
            future.cancel()
        concurrent.futures.wait(futures, WAIT)

    def _chain(self, number: int) -> None:
        first = self._submit(plus, number, number + 1)
        second = self._submit(plus, first, number + 2)
        expect(second.result(WAIT), number + 2)

    # ------------------------------------------------------------ values that lie in the storage

    def _large(self, number: int) -> None:
        expect(self._submit(large, number, large(number)).result(WAIT), large(number))

    def _large_argument(self, number: int) -> None:
        expect(self._submit(first_byte, large(number), number % 256).result(WAIT), number % 256)

    def _large_arguments(self, number: int) -> None:
        """Every third one rides along."""
        values = [bytes((i,)) * (LARGE if i % 3 else 1) for i in range(number % 20)]
        expect(self._client.map(first_byte, values, timeout=WAIT), list(range(number % 20)))

    def _large_results(self, number: int) -> None:
        expect(self._client.map(large, range(number % 20), timeout=WAIT), list(map(large, range(number % 20))))

    def _completed(self, number: int) -> None:
        """Left in the middle, sometimes."""
        futures = [self._submit(large, i, large(i)) for i in range(4)]
        for future in self._client.as_completed(futures, WAIT):
            expect(len(future.result(WAIT)), LARGE)
            if not number % 5:
                break

    # ------------------------------------------------------------ objects that are sent once

    def _sent(self, number: int) -> None:
        reference = self._client.send_object(large(number))
        expect(self._submit(first_byte, reference, number % 256).result(WAIT), number % 256)
        if number % 2:
            reference.release()

    def _sent_to_several(self, number: int) -> None:
        """Released before its tasks have ended."""
        reference = self._client.send_object(large(number))
        futures = [self._submit(first_byte, reference, number % 256) for _ in range(3)]
        reference.release()
        expect([future.result(WAIT) for future in futures], [number % 256] * 3)

    # ------------------------------------------------------------ graphs

    def _graph(self, number: int) -> None:
        graph = {"a": (plus, number), "b": (large, "a"), "c": (first_byte, "b"), "d": (first_byte, large(number))}
        wanted = {"b": large(number + 1), "c": (number + 1) % 256, "d": number % 256}
        expect(self._client.get(graph, ["b", "c", "d"], timeout=WAIT), wanted)

    def _nodes(self, number: int) -> None:
        """By futures, of which not all are asked for."""
        graph = {"a": (large, number), "b": (first_byte, "a"), "c": (plus, "b")}
        nodes = self._client.get(graph, ["a", "b", "c"], block=False)
        self.held += [(nodes["b"], number % 256), (nodes["a"], large(number))]
        expect(nodes["c"].result(WAIT), number % 256 + 1)

    # ------------------------------------------------------------ iterators

    def _imap(self, number: int) -> None:
        wanted = list(range(1, 61))
        is_ordered = bool(number % 2)
        results = self._client.imap(plus, range(60), ordered=is_ordered, window=16, timeout=WAIT)
        found = self._taken(results, number % 90)
        expect(found if is_ordered else sorted(found), wanted[: len(found)] if is_ordered else sorted(set(found)))
        expect(len(found), min(60, number % 90))

    def _large_imap(self, number: int) -> None:
        values = list(map(large, range(10)))
        results = self._client.imap(large, range(10), ordered=bool(number % 2), window=4, timeout=WAIT)
        expect(set(self._taken(results, number % 15)) <= set(values), True)

    def _stream(self, number: int) -> None:
        self._streamed(numbers, 40, list(range(40)), number % 60, window=8)

    def _large_stream(self, number: int) -> None:
        self._streamed(large_values, 6, list(map(large, range(6))), number % 9, window=2)

    def _streamed(self, function: Callable[[int], Any], size: int, wanted: list[Any], count: int, window: int) -> None:
        """If a thread is interrupted in a turn with the scheduler, a session ends, and with it all generators."""
        found: list[Any] = []
        with suppress(DisconnectedError):
            self._take(self._client.stream(function, size, window=window), count, found)
            expect(len(found), min(count, size))
        expect(found, wanted[: len(found)])

    def _taken(self, values: Any, count: int) -> list[Any]:
        found: list[Any] = []
        self._take(values, count, found)
        return found

    def _take(self, values: Any, count: int, found: list[Any]) -> None:
        """So many values or all; then the iterator is closed, or dropped."""
        for _ in range(count):
            try:
                found.append(next(values))
            except StopIteration:
                break
        if self._rng.random() < 0.5:
            values.close()

    # ------------------------------------------------------------ futures

    def _submit(self, function: Callable[[Any], Any], argument: Any, value: Any) -> concurrent.futures.Future[Any]:
        future = self._client.submit(function, argument)
        self.held.append((future, value))
        return future

    def check(self) -> None:
        """Law 1."""
        held, self.held = self.held, []
        for future, value in held:
            try:
                found = future.result(WAIT)
            except concurrent.futures.CancelledError:
                found = None
            if found != value and value is not None:
                raise Broken(f"{future!r} returned {str(found)[:40]!r}, not {str(value)[:40]!r}")
