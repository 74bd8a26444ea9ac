"""The loop of servers: readers are called by the selector, and nothing else of asyncio waits for that."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from scaler_protocol.process.event_loop import new_event_loop

if sys.platform != "linux":
    pytest.skip("servers of other systems use asyncio's loop as it is", allow_module_level=True)

from scaler_protocol.process.server_loop import ServerLoop

PATIENCE_SECONDS = 60.0
LONG_SECONDS = 3600.0
"""Whatever waits for so long has been forgotten."""


class Post:
    """A descriptor to be watched, and the other end of it."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)

    def read(self) -> bytes:
        return self.here.recv(1)

    def close(self) -> None:
        self.here.close()
        self.there.close()


@pytest.fixture
def posts() -> Iterator[Callable[[], Post]]:
    made: list[Post] = []

    def new() -> Post:
        made.append(Post())
        return made[-1]

    yield new
    for post in made:
        post.close()


def run(main: Callable[[ServerLoop], Awaitable[None]]) -> None:
    loop = new_event_loop("builtin")
    assert isinstance(loop, ServerLoop)

    async def within() -> None:
        await asyncio.wait_for(main(loop), PATIENCE_SECONDS)

    try:
        loop.run_until_complete(within())
    finally:
        loop.close()


def test_a_reader_is_called_without_a_round_of_the_loop(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        post, rounds, is_done = posts(), [0], loop.create_future()
        select = loop._turns.select

        def counted(timeout: float | None = None) -> list:
            rounds[0] += 1
            return select(timeout)

        def read(left: list[int]) -> None:
            post.read()
            left[0] -= 1
            if left[0]:
                post.there.send(b"!")
            else:
                is_done.set_result(rounds[0])

        loop._turns.select = counted  # type: ignore[method-assign]
        loop.add_reader(post.here.fileno(), read, [1000])
        post.there.send(b"!")
        assert await is_done <= 2, "it waits once, and is then called a thousand times"

    run(main)


def test_what_a_reader_schedules_runs(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        post, event = posts(), asyncio.Event()
        seen: list[str] = []

        def read() -> None:
            post.read()
            loop.call_soon(seen.append, "soon")
            loop.call_later(0.001, seen.append, "later")
            loop.call_later(0.002, event.set)

        loop.add_reader(post.here, read)
        sleeper = loop.call_later(LONG_SECONDS, seen.append, "never")
        post.there.send(b"!")
        await event.wait()
        sleeper.cancel()
        assert seen == ["soon", "later"]
        assert loop.remove_reader(post.here) and not loop.remove_reader(post.here)

    run(main)


def test_timers_and_tasks_have_their_turn_beside_a_reader_that_is_always_called(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        post, calls = posts(), [0]

        def see() -> None:
            calls[0] += 1

        post.there.send(b"!")  # and nothing reads it
        loop.add_reader(post.here.fileno(), see)
        await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert calls[0] > 0

    run(main)


def test_other_descriptors_and_threads_and_signals_are_heard(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        post = posts()
        loop.add_reader(post.here.fileno(), post.read)
        is_signaled = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, is_signaled.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await is_signaled.wait()
        loop.remove_signal_handler(signal.SIGUSR1)
        told = loop.create_future()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(told.set_result, "told"))
        thread.start()
        assert await told == "told"
        thread.join(PATIENCE_SECONDS)
        reading, writing = await asyncio.open_connection(sock=posts().here)
        writing.close()
        await writing.wait_closed()
        assert await reading.read() == b""

    run(main)


def test_a_reader_that_raises_is_told_and_the_others_go_on(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        bad, good = posts(), posts()
        failed, read = loop.create_future(), loop.create_future()
        loop.set_exception_handler(lambda _, context: failed.set_result(context["exception"]))

        def fail() -> None:
            bad.read()
            raise ValueError("a mistake")

        loop.add_reader(bad.here, fail)
        loop.add_reader(good.here, lambda: read.set_result(good.read()))
        bad.there.send(b"!")
        good.there.send(b"?")
        assert isinstance(await failed, ValueError)
        assert await read == b"?"

    run(main)


def test_a_reader_that_is_left_in_the_same_round_is_not_called(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        both = posts(), posts()
        called: list[int] = []

        def leave(number: int) -> None:
            called.append(number)
            for post in both:
                loop.remove_reader(post.here)

        for number, post in enumerate(both):
            loop.add_reader(post.here, leave, number)
            post.there.send(b"!")
        await asyncio.sleep(0)
        assert len(called) == 1

    run(main)


def test_a_closed_descriptor_is_left_and_the_same_number_watched_again(posts: Callable[[], Post]) -> None:
    async def main(loop: ServerLoop) -> None:
        old, new, read = posts(), posts(), loop.create_future()
        loop.add_reader(old.here.fileno(), lambda: None)
        number = old.here.detach()
        os.dup2(new.here.fileno(), number)  # the descriptor is another one, under the same number
        assert loop.remove_reader(number)
        loop.add_reader(number, lambda: read.set_result(os.read(number, 1)))
        new.there.send(b"!")
        assert await read == b"!"
        loop.remove_reader(number)
        os.close(number)

    run(main)


def test_it_stops_when_a_reader_says_so(posts: Callable[[], Post]) -> None:
    loop, post = ServerLoop(), posts()
    post.there.send(b"!")
    loop.add_reader(post.here, loop.stop)
    sleeper = loop.call_later(LONG_SECONDS, lambda: None)
    loop.run_forever()
    sleeper.cancel()
    loop.close()
