"""A manager of what a webhook starts, against adapters that answer well, late, twice, wrongly or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Capability
from scaler_protocol.process import LoggingOptions
from scaler_worker.manager import webhook as webhooks
from scaler_worker.manager.config import WebhookConfig
from scaler_worker.manager.core import Event, UnitEnded, UnitRuns
from scaler_worker.manager.webhook import AdapterInfo, Webhook, WebhookBackend, WebhookError

Answer = tuple[int, Any]
STARTED: Answer = (200, {"status": "started", "worker_group_id": "g1", "worker_ids": ["w1", "w2"]})
STOPPED: Answer = (200, {"status": "shut down"})
WAIT = 10.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(webhooks, "ANSWER_SECONDS", 0.5)


class FakeAdapter:
    """Gives the answers one after another, the last one for ever."""

    def __init__(self, *answers: Answer | None) -> None:
        self._answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.is_asked = asyncio.Event()
        self.is_over = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        self.is_asked.set()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await self.is_over.wait()  # the one that never answers
            return web.Response()
        status, body = answer
        if isinstance(body, bytes):
            return web.Response(status=status, body=body)
        return web.json_response(body, status=status)


def play(adapter: FakeAdapter, scene: Callable[[Webhook], Awaitable[None]]) -> None:
    async def run() -> None:
        application = web.Application()
        application.router.add_post("/", adapter.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        webhook = Webhook(f"http://{host}:{port}", "secret")
        try:
            await asyncio.wait_for(scene(webhook), WAIT)
        finally:
            adapter.is_over.set()
            await webhook.close()
            await runner.cleanup()

    asyncio.run(run())


class Reports:
    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()

    def __call__(self, event: Event) -> None:
        self.events.put_nowait(event)


def test_a_group_lives_and_ends() -> None:
    adapter = FakeAdapter(STARTED, STOPPED)

    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        backend.start("u1")
        assert await reports.events.get() == UnitRuns("u1", "worker group g1", ("w1", "w2"))
        backend.stop("u1")
        assert await reports.events.get() == UnitEnded("u1")

    play(adapter, scene)
    start, stop = adapter.requests
    assert start == {"action": "start_worker_group", "metadata": {"request_id": "u1"}, "auth_token": "secret"}
    assert (stop["action"], stop["worker_group_id"]) == ("shutdown_worker_group", "g1")


@pytest.mark.parametrize(
    "answer, text, is_final",
    [
        ((429, {"error": "no room"}), "with 429: no room", False),
        ((500, b"<html>oops</html>"), "with 500: it gives no reason", False),
        ((400, {"error": "what?"}), "with 400: what?", True),
        ((401, {"error": "who?"}), "with 401: who?", True),
        ((302, {}), "with 302", False),
        ((200, b"<html>hello</html>"), "no JSON object", False),
        ((200, [1]), "no JSON object", False),
        ((200, {"status": "ok"}), "without a worker_group_id", False),
        ((200, {"worker_group_id": 7}), "without a worker_group_id", False),
        ((200, b"[" * 100_000), "no JSON object", False),
        (None, "did not answer start_worker_group within 0.5 s", False),
    ],
    ids=str,
)
def test_a_group_that_cannot_be_started(answer: Answer | None, text: str, is_final: bool) -> None:
    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        backend.start("u1")
        ended = await reports.events.get()
        assert isinstance(ended, UnitEnded) and text in ended.text and ended.is_final == is_final

    play(FakeAdapter(answer), scene)


def test_nobody_listens() -> None:
    async def scene() -> None:
        webhook = Webhook("http://127.0.0.1:1")
        with pytest.raises(WebhookError, match="cannot be asked for start_worker_group"):
            await webhook.start_group("u1")
        await webhook.close()

    asyncio.run(scene())


def test_a_long_answer_comes_in_pieces() -> None:
    names = [f"worker {number}" for number in range(50_000)]
    adapter = FakeAdapter((200, {"worker_group_id": "g1", "worker_ids": names}))

    async def scene(webhook: Webhook) -> None:
        assert await webhook.start_group("u1") == ("g1", tuple(names))

    play(adapter, scene)


def test_an_answer_without_end() -> None:
    async def scene(webhook: Webhook) -> None:
        with pytest.raises(WebhookError, match="more than 1048576 bytes"):
            await webhook.start_group("u1")

    play(FakeAdapter((200, b" " * (webhooks.ANSWER_BYTES + 1))), scene)


@pytest.mark.parametrize("answer", [None, (502, b"<html>bad gateway</html>"), (504, b"")], ids=str)
def test_a_request_that_was_not_answered_is_repeated_for_the_next_unit(answer: Answer | None) -> None:
    """It may have been done all the same: then its group is found, and not left to cost somebody money. A proxy that
    had no answer is none either."""
    adapter = FakeAdapter(answer, STARTED)

    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        for unit_id in ("u1", "u2"):
            backend.start(unit_id)
            last = await reports.events.get()
        assert last == UnitRuns("u2", "worker group g1", ("w1", "w2"))

    play(adapter, scene)
    assert [request["metadata"]["request_id"] for request in adapter.requests] == ["u1"] * 2


def test_what_may_be_left_behind_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A group that could not be shut down, one that may have been started, and one that is being started."""
    adapter = FakeAdapter(STARTED, (504, {}), None)

    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        for unit_id in ("u1", "u2"):
            backend.start(unit_id)
            await reports.events.get()
        adapter.is_asked.clear()
        backend.start("u3")
        backend.start("u4")
        await adapter.is_asked.wait()
        await backend.close()

    play(adapter, scene)
    left = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert left == [
        "WorkerManager: the adapter still has worker group g1",
        "WorkerManager: the adapter did not answer request u2, and may have started a worker group",
        "WorkerManager: the adapter did not answer request u4, and may have started a worker group",
    ]


def test_one_group_for_two_requests() -> None:
    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        for unit_id in ("u1", "u2"):
            backend.start(unit_id)
            last = await reports.events.get()
        assert isinstance(last, UnitEnded) and "which it had given before" in last.text

    play(FakeAdapter(STARTED), scene)


def test_an_accepted_request_is_repeated_under_its_id() -> None:
    adapter = FakeAdapter((202, {"status": "on its way"}), (202, {"status": "on its way"}), STARTED)

    async def scene(webhook: Webhook) -> None:
        assert await webhook.start_group("u1") == ("g1", ("w1", "w2"))

    play(adapter, scene)
    assert [request["metadata"]["request_id"] for request in adapter.requests] == ["u1"] * 3


def test_a_group_is_shut_down_until_it_is_gone() -> None:
    adapter = FakeAdapter(STARTED, (500, {}), (429, {}), (404, {"error": "no such group"}))

    async def scene(webhook: Webhook) -> None:
        reports = Reports()
        backend = WebhookBackend(reports, webhook)
        backend.start("u1")
        await reports.events.get()
        backend.stop("u1")
        assert await reports.events.get() == UnitEnded("u1")

    play(adapter, scene)
    assert [request["action"] for request in adapter.requests] == ["start_worker_group"] + ["shutdown_worker_group"] * 3


@pytest.mark.parametrize(
    "answer, info",
    [
        ((400, {"error": "unknown action"}), AdapterInfo()),
        (
            (200, {"max_worker_groups": 3, "workers_per_group": 4, "base_capabilities": {"gpu": 1}}),
            AdapterInfo(12, 4, (Capability("gpu", 1),)),
        ),
        ((200, {"max_worker_groups": -1, "workers_per_group": 1}), AdapterInfo()),
    ],
)
def test_what_an_adapter_can_have(answer: Answer, info: AdapterInfo) -> None:
    async def scene(webhook: Webhook) -> None:
        assert await webhook.info() == info

    play(FakeAdapter(answer), scene)


@pytest.mark.parametrize("wrong", [{"workers_per_group": 0}, {"max_worker_groups": "many"}, {"base_capabilities": [1]}])
def test_nonsense_about_itself(wrong: dict[str, Any]) -> None:
    async def scene(webhook: Webhook) -> None:
        with pytest.raises(WebhookError, match="answered with nonsense"):
            await webhook.info()

    play(FakeAdapter((200, wrong)), scene)


def test_a_manager_told_to_end_does_not_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_SECONDS", 10 * WAIT)
    adapter = FakeAdapter(None)

    async def scene(webhook: Webhook) -> None:
        stop = asyncio.Event()
        config = WebhookConfig(
            "tcp://127.0.0.1:1", "m", webhook._url, "", KeyOptions(insecure=True), "builtin", LoggingOptions()
        )
        manager = asyncio.ensure_future(webhooks.serve(config, None, stop))
        await adapter.is_asked.wait()
        stop.set()
        await manager

    play(adapter, scene)
