"""The webhook of the native worker adapter: what it answers, whatever it is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.fake_units import FakeBackend

from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.keys import Keyring, NoKeyFound
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.keys.web import ADAPTER_LABEL, token_of
from scaler_protocol.messages import Capability
from scaler_protocol.process import UsageError
from scaler_protocol.web.guards import LOOPBACK_NAMES
from scaler_worker.adapter.config import parse_arguments
from scaler_worker.adapter.groups import Groups
from scaler_worker.adapter.server import AdapterServer
from scaler_worker.manager.service import Report

WAIT = 10.0
ADDRESS = "tcp://127.0.0.1:2345"
KEY = bytes(range(32))
JSON = {"Content-Type": "application/json"}


class Caller:
    def __init__(self, url: str, session: aiohttp.ClientSession, backend: FakeBackend) -> None:
        self._url = url
        self.host, port = url.removeprefix("http://").strip("/").split(":")
        self.port = int(port)
        self._session = session
        self.backend = backend

    async def post(
        self, body: Any, headers: Mapping[str, str] | None = None, **options: Any
    ) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._session.post(self._url, data=data, headers=headers, **options) as response:
            assert response.content_type == "application/json"
            answer = await response.json()
            assert isinstance(answer, dict) and ("error" in answer) == (response.status != 200)
            return response.status, answer

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._url + path) as response:
            return response.status, await response.json()


def play(scene: Callable[[Caller], Awaitable[None]], *, token: str = "", hosts: frozenset[str] = frozenset()) -> None:
    async def run() -> None:
        backends: list[FakeBackend] = []

        def new_backend(report: Report) -> FakeBackend:
            backends.append(FakeBackend(report))
            return backends[0]

        server = AdapterServer(Groups(new_backend, 2), (Capability("gpu", 2),), token, hosts)
        runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            async with aiohttp.ClientSession() as session:
                await asyncio.wait_for(scene(Caller(f"http://{host}:{port}/", session, backends[0])), WAIT)
        finally:
            await runner.cleanup()

    asyncio.run(run())


START = {"action": "start_worker_group"}


def test_groups_start_and_end() -> None:
    async def scene(caller: Caller) -> None:
        status, answer = await caller.post({**START, "metadata": {"request_id": "r1", "who": "me"}})
        assert status == 200 and answer["worker_ids"] == [answer["worker_group_id"]]
        assert answer["metadata"] == {"request_id": "r1", "who": "me"}
        stop = {"action": "shutdown_worker_group", "worker_group_id": answer["worker_group_id"]}
        assert (await caller.post(stop))[0] == 200
        assert (await caller.post(stop))[0] == 404

    play(scene)


def test_a_request_that_comes_again_is_done_once() -> None:
    async def scene(caller: Caller) -> None:
        body = {**START, "metadata": {"request_id": "r1"}}
        answers = await asyncio.gather(*[caller.post(body) for _ in range(5)])
        assert len({answer["worker_group_id"] for _, answer in answers}) == 1 == len(caller.backend.started)

    play(scene)


def test_no_more_than_there_may_be() -> None:
    async def scene(caller: Caller) -> None:
        assert [(await caller.post(START))[0] for _ in range(3)] == [200, 200, 429]

    play(scene)


def test_a_machine_that_does_not_start_them() -> None:
    async def scene(caller: Caller) -> None:
        caller.backend.failure = "cannot start a process"
        assert await caller.post(START) == (500, {"error": "cannot start a process"})
        caller.backend.failure = ""
        assert (await caller.post(START))[0] == 200

    play(scene)


def test_what_it_can_have() -> None:
    async def scene(caller: Caller) -> None:
        status, answer = await caller.post({"action": "get_worker_adapter_info"})
        assert status == 200
        assert (answer["max_worker_groups"], answer["workers_per_group"]) == (2, 1)
        assert answer["base_capabilities"] == {"gpu": 2}

    play(scene)


@pytest.mark.parametrize(
    "body, text",
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"7", "not a JSON object"),
        ({}, "action must be a text"),
        ({"action": 7}, "action must be a text"),
        ({"action": "dance"}, "there is no such action"),
        ({"action": "shutdown_worker_group"}, "worker_group_id must be a text"),
        ({"action": "shutdown_worker_group", "worker_group_id": {}}, "worker_group_id must be a text"),
        ({**START, "metadata": "x"}, "metadata is not an object"),
        ({**START, "metadata": {"request_id": 7}}, "request_id must be a text"),
        (b'{"action": "start_worker_group", "metadata": {"a": NaN}}', "not JSON"),
        (b'{"action": "start_worker_group", "metadata": {"a": -Infinity}}', "not JSON"),
        (b'{"action": "start_worker_group", "metadata": {"a": 1e999}}', "not JSON"),
        (b'{"action": "get_worker_adapter_info", "action": "start_worker_group"}', "not JSON"),
        (b'{"action": "start_worker_group", "metadata": {"n": ' + b"9" * 5000 + b"}}", "not JSON"),
        (b" " * 70_000, "more than 65536 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_requests(body: Any, text: str) -> None:
    async def scene(caller: Caller) -> None:
        status, answer = await caller.post(body)
        assert status == 400 and text in answer["error"]
        assert not caller.backend.started

    play(scene)


def test_tokens() -> None:
    async def scene(caller: Caller) -> None:
        assert (await caller.post(START))[0] == 401
        assert (await caller.post({**START, "auth_token": "sesamö"}))[0] == 401
        assert (await caller.post({**START, "auth_token": 7}))[0] == 400
        assert (await caller.post({**START, "auth_token": "\ud800"}))[0] == 401
        assert (await caller.post({**START, "auth_token": "sesame"}))[0] == 200
        assert (await caller.post(START, headers={"Authorization": "Bearer sesame"}))[0] == 200

    play(scene, token="sesame")


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"Content-Type": "text/plain"}, 415, "must be application/json"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "must be application/json"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415, "must be application/json"),
        ({"Content-Type": "application/json2"}, 415, "must be application/json"),
        ({"Content-Type": ""}, 415, "must be application/json"),
        ({**JSON, "Origin": "http://evil.example"}, 403, "requests of web pages"),
        ({**JSON, "Origin": "null"}, 403, "requests of web pages"),
        ({**JSON, "Origin": "http://localhost:8080", "Host": "localhost:8080"}, 403, "requests of web pages"),
        ({**JSON, "Sec-Fetch-Site": "none"}, 403, "requests of web pages"),
        ({**JSON, "Host": "evil.example"}, 403, "not reached under that name"),
        ({**JSON, "Host": "127.0.0.1.evil.example"}, 403, "not reached under that name"),
        ({**JSON, "Host": "evil@localhost"}, 403, "not reached under that name"),
        ({**JSON, "Host": "localhost/evil"}, 403, "not reached under that name"),
        ({**JSON, "Host": ""}, 403, "not reached under that name"),
        ({**JSON, "Host": "LOCALHOST:8080"}, 200, ""),
        ({**JSON, "Host": "[::1]:8080"}, 200, ""),
        ({"Content-Type": "application/json; charset=utf-8"}, 200, ""),
    ],
)
def test_pages_of_other_sites_start_no_workers(headers: dict[str, str], status: int, words: str) -> None:
    """Neither from a browser of this machine nor by a domain that resolves to it."""

    async def scene(caller: Caller) -> None:
        answered, answer = await caller.post(START, headers=headers)
        assert answered == status and words in answer.get("error", "")
        assert bool(caller.backend.started) == (status == 200)

    play(scene, hosts=frozenset(LOOPBACK_NAMES))


def test_where_the_names_are_known(no_key: None) -> None:
    def hosts(*options: str) -> frozenset[str]:
        return parse_arguments([ADDRESS, *options]).hosts

    assert hosts("--insecure") == hosts("--host", "127.0.0.1", "--no-token") == frozenset(LOOPBACK_NAMES)
    assert hosts("--auth-token", "x") == hosts("--host", "0.0.0.0", "--no-token") == frozenset()


def test_a_request_that_breaks_off_leaves_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """Formerly each of them left a traceback, before the token was looked at."""

    async def scene(caller: Caller) -> None:
        for _ in range(5):
            _, writer = await asyncio.open_connection(caller.host, caller.port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            await writer.drain()
            writer.transport.abort()
        assert (await caller.post({**START, "auth_token": "sesame"}))[0] == 200

    caplog.set_level("INFO")
    play(scene, token="sesame")
    assert not caplog.records


def test_a_wrong_token_in_the_header_is_refused_before_the_body() -> None:
    async def scene(caller: Caller) -> None:
        reader, writer = await asyncio.open_connection(caller.host, caller.port)
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
        writer.write(head + b"Authorization: Bearer open\r\n\r\n")
        assert b" 401 " in await asyncio.wait_for(reader.readline(), WAIT)
        writer.close()

    play(scene, token="sesame")


def test_its_description() -> None:
    async def scene(caller: Caller) -> None:
        status, description = await caller.get("openapi.json")
        assert status == 200 and description["openapi"].startswith("3.")
        assert (await caller.get(""))[0] == 405
        assert (await caller.get("nothing"))[0] == 404

    play(scene)


@pytest.mark.parametrize(
    "options, text",
    [
        (["--host", "0.0.0.0"], "can be reached from other machines"),
        (["--port", "70000"], "is not a port"),
        (["--max-workers", "x"], "x"),
    ],
)
def test_mistakes(options: list[str], text: str, capsys: pytest.CaptureFixture[str], no_key: None) -> None:
    with pytest.raises((SystemExit, Exception)) as caught:
        parse_arguments([ADDRESS, *options])
    assert text in str(caught.value) + capsys.readouterr().err


def test_a_token_lets_it_listen_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_NATIVE_WORKER_ADAPTER_AUTH_TOKEN", "sesame")
    config = parse_arguments([ADDRESS, "--host", "0.0.0.0"])
    assert (config.host, config.token) == ("0.0.0.0", "sesame")


def test_a_ticket_makes_no_token(tmp_path: Path) -> None:
    """Also on loopback, where all users of the machine could start workers."""
    ticket = str(tmp_path / "worker.key")
    replace_file(ticket, ticket_text(Keyring([KEY]).derive("ana", frozenset({ROLE_WORKER}))).encode())
    with pytest.raises(UsageError, match="--auth-token-file"):
        parse_arguments([ADDRESS, "--key-file", ticket])
    for options, token in (("--no-token",), ""), (("--auth-token", "x"), "x"):
        assert parse_arguments([ADDRESS, "--key-file", ticket, *options]).token == token


def test_the_token_of_a_key_that_is_not_made_yet(no_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_arguments([ADDRESS])
    assert config.awaits_key and not config.token
    with pytest.raises(NoKeyFound):
        config.with_token(0.0)
    monkeypatch.setenv("SCALER_KEY", key_text([KEY]))
    assert config.with_token(0.0) == replace(
        config, token=token_of(KEY, ADAPTER_LABEL), hosts=frozenset(), awaits_key=False
    )
    for options in (("--insecure",), ("--no-token",), ("--auth-token", "x")):
        given = parse_arguments([ADDRESS, *options])
        assert given.with_token(0.0) is given
