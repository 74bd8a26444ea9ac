"""What a page is told of runs that were before: the latest first, and to one that comes again only what is new."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.pages import samples, status, task, worker
from tests.support.served import Client, told, visited
from tests.support.waiting import WAIT

from scaler.ui import feed as feeds
from scaler.ui.feed import Feed, Page
from scaler.ui.model import Model
from scaler.ui.ring import Ring


def parsed(text: bytes) -> list[tuple[str, str, Any]]:
    """Kind, id and content of each event."""
    found = []
    for event in text.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


async def begun(page: Page | None) -> list[tuple[str, str, Any]]:
    """All that it is told by now."""
    assert page is not None
    found = []
    while text := await page.next(0.01):
        found += parsed(text)
    return found


def numbers(content: Any) -> list[int]:
    return [int.from_bytes(bytes.fromhex(run[0])[8:], "little") for run in content["runs"]]


def test_the_latest_runs_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PART_BYTES", 1)

    async def run() -> None:
        feed = Feed(Model("here"))
        for first in (10, 20, 30):
            await told(feed, samples([worker(1)], first=first))
        events = await begun(feed.open())
        assert [kind for kind, _, _ in events] == ["beginning", "past", "runs", "runs", "runs"]
        assert [numbers(content) for _, _, content in events[2:]] == [[30, 31], [20, 21], [10, 11]]
        assert [bool(place) for _, place, _ in events] == [False] * 4 + [True], "it has all with the last one"
        assert [content.get("complete", False) for _, _, content in events[2:]] == [False, False, True]

    asyncio.run(run())


def test_a_page_that_comes_again_is_told_what_is_new() -> None:
    async def run() -> None:
        feed = Feed(Model("here"))
        await told(feed, samples([worker(1)], first=10))
        page = feed.open()
        _, first_place, _ = (await begun(page))[-1]
        assert [kind for kind, _, _ in await begun(feed.open("", first_place))] == ["resume", "beginning", "past"]
        await told(feed, samples([worker(1)], first=20), samples([worker(1)], first=30))
        heard = [(kind, place) for kind, place, _ in await begun(page) if kind == "tasks"]
        assert len(heard) == 2
        for place, new in ((first_place, [20, 21, 30, 31]), (heard[0][1], [30, 31])):
            resume, *_, (kind, told_place, content) = await begun(feed.open("", place))
            assert (resume[0], kind, told_place) == ("resume", "runs", heard[1][1])
            assert numbers(content) == new and content["complete"] is True

    asyncio.run(run())


@pytest.mark.parametrize("place", ["", "x", "{name}-99", "{name}--1", "{name}-", "other-1", "{name}-1"])
def test_other_places_are_told_everything(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another scaler_ui, or of a recording that was gone through to another moment; and those behind which
    some are not kept any more."""
    monkeypatch.setattr("scaler.ui.model.RUNS_KEPT", 4)

    async def run() -> None:
        feed = Feed(Model("here"))
        for first in (10, 20, 30, 40):
            await told(feed, samples([worker(1)], first=first))
        name = feed._runs.id_of(0).partition("-")[0]
        events = await begun(feed.open("", place.format(name=name)))
        assert [kind for kind, _, _ in events] == ["beginning", "past", "runs"]
        assert numbers(events[2][2]) == [30, 31, 40, 41]
        model = feed.model
        feed._jump(False)
        feed._jump(True)
        assert feed.model is not model
        assert [kind for kind, _, _ in await begun(feed.open("", events[2][1]))] == ["beginning", "past"]

    asyncio.run(run())


def test_runs_that_are_forgotten_meanwhile_do_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.ui.model.RUNS_KEPT", 4)

    async def run() -> None:
        feed = Feed(Model("here"))
        await told(feed, samples([worker(1)], first=10))
        page = feed.open()
        for first in (20, 30, 40):
            await told(feed, samples([worker(1)], first=first))
        kinds = ("runs", "tasks")
        events = [(kind, numbers(content)) for kind, _, content in await begun(page) if kind in kinds]
        assert events == [("runs", []), ("tasks", [20, 21]), ("tasks", [30, 31]), ("tasks", [40, 41])]

    asyncio.run(run())


@pytest.mark.parametrize("encodings", ["gzip, deflate", "identity"])
def test_a_browser_that_can_is_told_in_few_bytes_and_at_once(encodings: str) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        await told(feed, status([worker(number) for number in range(200)]))
        async with client.get("/events", headers={"Accept-Encoding": encodings}) as answer:
            assert answer.headers.get("Content-Encoding") == ("gzip" if "gzip" in encodings else None)
            assert answer.headers["Vary"] == "Accept-Encoding"
            for _ in range(2):
                assert b"event: " in await asyncio.wait_for(answer.content.readuntil(b"\n\n"), WAIT)
            await told(feed, samples([worker(1)], first=7))
            text = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), WAIT)
            assert b"event: tasks" in text and task(7).hex().encode() in text, "not only when there is more of it"

    visited(visit)


def test_a_ring_is_read_from_its_end() -> None:
    ring = Ring(10, 100)
    for number in range(5):
        ring.add(b"%d" % number, 4)
    assert ring.read_back(0, 5, 100) == (3, [b"3", b"4"]) and ring.read_back(4, 5, 100) == (4, [b"4"])
    assert ring.read_back(0, 5, 1) == (4, [b"4"]) and ring.read_back(0, 4, 0) == (3, [b"3"])
    assert ring.read_back(0, 3, 9) == (3, []) and ring.read_back(0, 1, 9) == (3, []), "all of these are gone"
