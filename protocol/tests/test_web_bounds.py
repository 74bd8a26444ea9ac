"""How much a caller can hold of an HTTP server: real connections on loopback, with short times."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from scaler_protocol.web import Bounds, bounds, listen

WAIT = 15.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HALF = b"GET / HTTP/1.1\r\nHost: lo"
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECES = b"GET /pieces HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE_BYTES = 8 << 20


class Scene:
    def __init__(self, port: int, bounds: Bounds) -> None:
        self.port = port
        self.bounds = bounds
        self.begun_count = 0
        self.is_over = asyncio.Event()

    async def connect(self, said: bytes = b"", receive_bytes: int = 0) -> socket.socket:
        connection = socket.socket()
        connection.setblocking(False)
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        await asyncio.get_running_loop().sock_sendall(connection, said)
        return connection

    async def connect_deaf(self, count: int, said: bytes, most: int) -> list[socket.socket]:
        """One after the other: callers that do not read. Of them at most `most` are kept."""
        deaf = []
        for _ in range(count):
            deaf.append(await self.connect(said, receive_bytes=4096))
            await self.until(lambda: len(self.bounds) == len(self.bounds._stalled) <= most, "it stalls")
        return deaf

    async def read(self, connection: socket.socket, size: int = 65536) -> bytes:
        """Empty when it was closed."""
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connection, size), WAIT)
        except ConnectionError:
            return b""

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        end_at = asyncio.get_running_loop().time() + WAIT
        while not is_so():
            assert asyncio.get_running_loop().time() < end_at, what
            await asyncio.sleep(0.01)


def play(scene: Callable[[Scene], Awaitable[None]], limit: int = 100, per_address: int = 20) -> None:
    async def run() -> None:
        found = Bounds(limit, per_address)

        @web.middleware
        async def bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
            found.begun(request.protocol)
            played.begun_count += 1
            try:
                return await handler(request)
            finally:
                found.ended(request.protocol)

        async def small(request: web.Request) -> web.Response:
            return web.Response(text="fine")

        async def large(request: web.Request) -> web.Response:
            return web.Response(body=bytes(LARGE_BYTES))

        async def pieces(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            found.holds(request.protocol, LARGE_BYTES)
            for _ in range(LARGE_BYTES >> 16):
                await response.write(bytes(1 << 16))
            return response

        async def held(request: web.Request) -> web.Response:
            await played.is_over.wait()
            return web.Response(text="at last")

        app = web.Application(middlewares=[bounded])
        app.router.add_get("/", small)
        app.router.add_get("/large", large)
        app.router.add_get("/held", held)
        app.router.add_get("/pieces", pieces)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        assert runner.server is not None
        server = await listen(runner.server, "127.0.0.1", 0, found)
        played = Scene(server.sockets[0].getsockname()[1], found)
        try:
            await asyncio.wait_for(scene(played), 2 * WAIT)
        finally:
            played.is_over.set()
            server.close()
            await runner.cleanup()

    asyncio.run(run())


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(bounds, "STALLED_SECONDS", 0.2)


@pytest.mark.parametrize("said", [b"", HALF, WHOLE], ids=["nothing", "half a request", "a whole one, and no other"])
def test_a_connection_without_a_request_is_closed(hasty: None, said: bytes) -> None:
    async def scene(scene: Scene) -> None:
        connection = await scene.connect(said)
        while await scene.read(connection):
            pass
        await scene.until(lambda: not len(scene.bounds), "it is forgotten")
        connection.close()

    play(scene)


def test_a_request_that_comes_byte_by_byte_is_closed(hasty: None) -> None:
    async def scene(scene: Scene) -> None:
        connection = await scene.connect(HALF)
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionError):
            for _ in range(int(WAIT / 0.02)):
                await loop.sock_sendall(connection, b"o")
                await asyncio.sleep(0.02)
        connection.close()

    play(scene)


def test_a_newcomer_gets_in_beside_any_number_of_half_requests() -> None:
    async def scene(scene: Scene) -> None:
        halves = [await scene.connect(HALF) for _ in range(100)]
        connection = await scene.connect(WHOLE)
        assert b"200 OK" in await scene.read(connection)
        assert len(scene.bounds) <= 20
        assert await scene.read(halves[0]) == b"", "the oldest made room"
        for one in (connection, *halves):
            one.close()

    play(scene)


def test_requests_that_are_being_served_are_never_given_up_for_others() -> None:
    async def scene(scene: Scene) -> None:
        held = [await scene.connect(HELD) for _ in range(20)]
        await scene.until(lambda: not any(gate.is_waiting for gate in scene.bounds._gates), "all are being served")
        refused = await scene.connect(WHOLE)
        assert await scene.read(refused) == b""
        scene.is_over.set()
        for one in held:
            assert b"at last" in await scene.read(one)
        for one in (refused, *held):
            one.close()

    play(scene)


def test_an_answer_that_is_not_read_is_given_up(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "UNREAD_BYTES", 5 * LARGE_BYTES)  # of all together: not the bound that is shown here

    async def scene(scene: Scene) -> None:
        connections = [await scene.connect(LARGE, receive_bytes=4096) for _ in range(5)]
        # On a busy machine the first are given up before the last is there.
        await scene.until(lambda: scene.begun_count == 5, "all are answered")
        await scene.until(lambda: not len(scene.bounds), "none is left")
        for one in connections:
            one.close()

    play(scene)


def test_an_answer_that_is_read_slowly_arrives_whole(hasty: None) -> None:
    """Slower than the time of a whole request, and never stalled for as long as that."""

    async def scene(scene: Scene) -> None:
        connection = await scene.connect(LARGE)
        received = 0
        while received < LARGE_BYTES:
            data = await scene.read(connection, 512 * 1024)
            assert data, f"closed after {received} bytes"
            received += len(data)
            await asyncio.sleep(0.03)
        connection.close()

    play(scene)


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff\xfe?\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(200),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda said: repr(said[:30]),
)
def test_a_malformed_request_writes_nothing_into_the_log(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(scene: Scene) -> None:
        connection = await scene.connect(said)
        await asyncio.sleep(0)
        connection.shutdown(socket.SHUT_WR)
        while await scene.read(connection):
            pass
        connection.close()

    with caplog.at_level(logging.INFO):
        play(scene)
    assert not [record for record in caplog.records if record.levelno >= logging.INFO], caplog.text


def test_answers_that_are_not_read_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends whose caller has not read for longest; callers that read get all of it."""
    monkeypatch.setattr(bounds, "UNREAD_BYTES", 3 * LARGE_BYTES)

    async def scene(scene: Scene) -> None:
        deaf = await scene.connect_deaf(5, LARGE, 3)
        assert len(scene.bounds) == 3
        reader = await scene.connect(LARGE)
        size = 0
        while size < LARGE_BYTES:
            read = await scene.read(reader, 1 << 20)
            assert read, "a caller that reads is not closed"
            size += len(read)
        for one in (*deaf, reader):
            one.close()

    play(scene)


def test_a_text_that_is_written_in_pieces_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler keeps it while the caller does not read, though only one piece is in the connection's buffers."""
    monkeypatch.setattr(bounds, "UNREAD_BYTES", 3 * LARGE_BYTES)

    async def scene(scene: Scene) -> None:
        deaf = await scene.connect_deaf(6, PIECES, 2)
        assert sum(gate._buffered_bytes for gate in scene.bounds._gates) < 1 << 20
        for one in deaf:
            one.close()

    play(scene)
