"""Orders that a page gives: what goes to the scheduler, and which requests are taken. A real server on loopback."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.pages import LOOPBACK, SERVER, status, task, worker
from tests.support.served import Client, FakeWatcher, told, visited

from scaler.ui.feed import Feed
from scaler_protocol.codes import (
    CONTROL_CANCEL_CLIENT,
    CONTROL_CANCEL_TASK,
    CONTROL_DONE,
    CONTROL_DRAIN_WORKER,
    CONTROL_NOT_ALLOWED,
    CONTROL_UNKNOWN,
)
from scaler_protocol.messages import ClientEntry, Control, ControlReply
from scaler_protocol.web.guards import Guard


@pytest.mark.parametrize(
    ("query", "action", "subject", "seconds", "outcome", "words"),
    [
        (f"do=cancel-task&id={task(7).hex()}", CONTROL_CANCEL_TASK, task(7), 1.0, CONTROL_DONE, "is being canceled"),
        (f"do=cancel-client&id={SERVER.hex()[:8]}&seconds=0", CONTROL_CANCEL_CLIENT, SERVER, 0.0,
         CONTROL_UNKNOWN, "this client has left"),
        (f"do=drain-worker&id={worker(1).peer_id.hex()}", CONTROL_DRAIN_WORKER, worker(1).peer_id, 60.0,
         CONTROL_NOT_ALLOWED, "--allow-control"),
    ],
)  # fmt: skip
def test_an_order_goes_to_the_scheduler(
    query: str, action: int, subject: bytes, seconds: float, outcome: int, words: str
) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        await told(feed, replace(status([worker(1)]), clients=(ClientEntry(SERVER),)))
        asking = asyncio.ensure_future(client.post(f"/control?{query}"))
        while not watcher.asked:
            await asyncio.sleep(0)
        (order,) = watcher.asked
        assert isinstance(order, Control)
        assert (order.action, order.subject, order.grace_seconds) == (action, subject, seconds)
        await told(feed, ControlReply(order.request_id, outcome, 3))
        answer = await (await asking).json()
        assert words in answer["text"] and answer["done"] == (outcome == CONTROL_DONE)

    visited(visit, may_control=True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("do=end-everything&id=1", "do is one of: cancel-task, cancel-client, drain-worker"),
        ("id=1", "do is one of"),
        ("do=cancel-task&id=1", "no task of this name"),
        ("do=cancel-client", "no client or worker"),
        (f"do=drain-worker&id={SERVER.hex()}", "no client or worker"),
        (f"do=cancel-task&id={task(7).hex()}&seconds=-1", "seconds is a number"),
    ],
)
def test_an_order_that_makes_no_sense_is_not_sent(query: str, words: str) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        await told(feed, status([worker(1)]))
        answer = await client.post(f"/control?{query}")
        assert answer.status == 400 and words in await answer.text() and not watcher.asked

    visited(visit, may_control=True)


def test_orders_are_taken_only_where_the_operator_wants_it_and_from_the_page_itself() -> None:
    order = f"/control?do=cancel-task&id={task(7).hex()}"

    async def read_only(client: Client, feed: Feed) -> None:
        feed.watcher = FakeWatcher()
        assert (await client.post(order)).status == 404
        assert b'"control":false' in await (await client.get("/events")).content.readuntil(b"event: past")

    async def foreign(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
            assert (await client.post(order, headers=headers)).status == 403
        assert (await client.get(order)).status == 405 and not watcher.asked
        assert b'"control":true' in await (await client.get("/events")).content.readuntil(b"event: past")

    visited(read_only)
    visited(foreign, may_control=True)


@pytest.mark.parametrize("path", ["/control?do=cancel-task", "/control", "/", "/events"])
def test_bodies_that_break_off_leave_no_word_in_the_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """The caller promises a body, sends a part of it, and goes."""

    async def visit(client: Client, feed: Feed) -> None:
        for token in ("", "Authorization: Bearer s3cret\r\n"):
            for _ in range(10):
                _, writer = await asyncio.open_connection("127.0.0.1", client.port)
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Type: application/json\r\n"
                writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
                await writer.drain()
                writer.transport.abort()
        assert (await client.get("/state.json", headers={"Authorization": "Bearer s3cret"})).status == 200

    visited(visit, Guard(LOOPBACK.hosts, "s3cret"), may_control=True)
    assert not caplog.records
