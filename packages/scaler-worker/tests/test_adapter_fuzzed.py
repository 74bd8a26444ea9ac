"""The native worker adapter holds what its OpenAPI file says, whatever it is sent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, settings
from tests.support.fake_units import FakeBackend

from scaler_worker.adapter.groups import Groups
from scaler_worker.adapter.server import AdapterServer

WAIT = 30.0
DESCRIPTION = json.loads(resources.files("scaler_worker.adapter").joinpath("openapi.json").read_text(encoding="utf-8"))
schema = schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An adapter that starts any number of groups, none of them real, in a thread."""
    begun, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    found: list[str] = []

    async def serve() -> None:
        server = AdapterServer(Groups(FakeBackend, -1), (), "")
        runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found.append("http://{}:{}".format(*runner.addresses[0][:2]))
        begun.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert begun.wait(WAIT), "the adapter listens"
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(WAIT)
    loop.close()


@schema.parametrize()
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_request_is_answered_as_described(case: Any, url: str) -> None:
    case.call_and_validate(base_url=url, timeout=WAIT)
