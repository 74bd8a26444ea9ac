"""The page's server on loopback, without a scheduler: visits, and what its feed is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from scaler.monitoring.watcher import Watcher
from scaler.ui import server
from scaler.ui.feed import Feed
from scaler.ui.model import Model
from scaler_protocol.messages import Message
from scaler_protocol.web.guards import Guard
from tests.support.pages import LIVE, LOOPBACK, heard
from tests.support.waiting import WAIT

Client = TestClient[web.Request, web.Application]
Visit = Callable[[Client, Feed], Awaitable[None]]


def visited(visit: Visit, guard: Guard = LOOPBACK, *, may_control: bool = False) -> None:
    async def run() -> None:
        feed = Feed(Model(LIVE.address))
        feed.may_control = may_control
        async with TestClient(TestServer(server.application(feed, guard))) as client:
            await asyncio.wait_for(visit(client, feed), WAIT)

    asyncio.run(run())


async def told(feed: Feed, *messages: Message) -> None:
    """As the watcher tells it, and until the loop has it."""
    feed.heard(*heard(*messages))
    await asyncio.sleep(0)


class FakeWatcher(Watcher):
    def __init__(self) -> None:
        self.asked: list[Message] = []

    def ask(self, message: Message) -> None:
        self.asked.append(message)
