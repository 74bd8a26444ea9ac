"""A graph that is told of in part, whole: what a page gets of it, and what the scheduler is asked for that (MON-63)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.pages import LOOPBACK, graph, status, worker
from tests.support.served import Client, told, visited
from tests.support.whole_graphs import WholeGraph

from scaler.ui import feed as feeds
from scaler.ui import whole_graphs
from scaler.ui.feed import Feed
from scaler_protocol.ids import GraphId
from scaler_protocol.messages import GraphShapes
from scaler_protocol.web.guards import Guard

COUNT = 2_500
PATH = "/graph?id=61206772617068&client=6120636c"
NEEDS = [[] if number < 1_000 else [number - 1_000, number - 1] for number in range(COUNT)]


def shapes(states: str, failed: int | None = None) -> GraphShapes:
    """`states`: a digit for each of the first tasks; the others have the last one."""
    numbers = [int(states[min(number, len(states) - 1)]) for number in range(COUNT)]
    outcomes = [int(number == failed) for number in range(COUNT)]
    keys = [f"läd-{number}" for number in range(COUNT)]
    return graph(["load"] * 1_000 + ["fit"] * 1_500, numbers, NEEDS, outcomes, keys)


async def begun(feed: Feed, states: str = "41", failed: int | None = None) -> WholeGraph:
    whole = WholeGraph(feed, shapes(states, failed))
    await told(feed, status([worker(1)]))
    whole.become(whole.whole)
    await asyncio.sleep(0)
    return whole


def path(feed: Feed) -> str:
    (shown,) = feed.model.graphs
    return f"/graph?id={shown['id']}&client={shown['client']}"


async def got(client: Client, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status == 200, await answer.text()
    return await answer.json()


@pytest.fixture(autouse=True)
def nothing_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_graphs, "FRESH_SECONDS", 0.0)


def test_a_graph_is_read_once_and_then_its_states() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        found = await got(client, path(feed))
        assert len(found["nodes"]) == found["tasks"] == COUNT and found["unfinished"] == COUNT - 1
        assert [one[3] for one in found["nodes"]] == NEEDS
        assert found["nodes"][2_000][1:] == ["fit", "", [1_000, 1_999], "läd-2000"]
        assert found["states"] == "4" + "1" * (COUNT - 1) and found["known"]
        asked = [(one.first, one.wants_shape) for one in scheduler.questions]
        assert asked == [(0, True), (1_000, True), (2_000, True)]
        scheduler.become(shapes("442", failed=1))
        found = await got(client, path(feed) + "&states=1")
        assert "nodes" not in found and found["states"] == "45" + "2" * (COUNT - 2) and found["failed"] == 1
        assert [(one.first, one.wants_shape) for one in scheduler.questions[3:]] == [(0, False)]
        found = await got(client, path(feed))
        assert len(found["nodes"]) == COUNT and found["states"].startswith("45")
        assert not any(one.wants_shape for one in scheduler.questions[3:]), "what tasks need is known"

    visited(visit)


def test_many_pages_ask_the_scheduler_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_graphs, "FRESH_SECONDS", 1e9)

    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        found = await asyncio.gather(*(got(client, path(feed)) for _ in range(5)))
        assert all(one == found[0] for one in found) and len(scheduler.questions) == 3

    visited(visit)


def test_after_another_order_the_graph_is_read_anew() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        first = await got(client, path(feed))
        scheduler.order = 2
        found = await got(client, path(feed) + "&states=1")
        assert found["order"] != first["order"] and len(found["states"]) == COUNT
        asked = [(one.first, one.wants_shape) for one in scheduler.questions[3:]]
        assert asked == [(0, False), (0, True), (1_000, True), (2_000, True)]

    visited(visit)


def test_what_ended_is_shown_to_pages_that_come_later() -> None:
    """The scheduler has forgotten it. Of what was unfinished when it was asked last, no failure was told."""

    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed, "442", failed=1)
        await got(client, path(feed))
        scheduler.order = 0
        scheduler.tell(GraphShapes(server_id=scheduler.whole.server_id))
        await asyncio.sleep(0)
        found = await got(client, path(feed))
        assert (
            not found["known"]
            and not found["unfinished"]
            and found["states"] == "45" + "4" * (COUNT - 2)
            and len(found["nodes"]) == COUNT
        )

    visited(visit)


def test_a_graph_that_is_shown_no_longer_is_forgotten() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        await got(client, path(feed))
        gone = path(feed)
        assert list(feed._whole_graphs._kept) == [feed.model.graphs[0]["id"]]
        (other,) = graph(["other"], [1], [[]]).graphs
        for number in range(5):
            shape = replace(other, graph_id=GraphId(bytes([number]) * 16))
            await told(feed, GraphShapes(server_id=scheduler.whole.server_id, graphs=(shape,)))
        assert (await client.get(gone)).status == 404
        assert not feed._whole_graphs._kept

    visited(visit)


def test_few_and_known_graphs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        for wrong in ("/graph", "/graph?id=00&client=00", path(feed) + "0", path(feed).replace("id=", "id=0")):
            assert (await client.get(wrong)).status == 404
        monkeypatch.setattr(whole_graphs, "WHOLE_LIMIT", COUNT - 1)
        assert "in part" in (await got(client, path(feed)))["text"]
        monkeypatch.setattr(whole_graphs, "MAKING_LIMIT", 0)
        answer = await client.get(path(feed))
        assert answer.status == 503 and "too many graphs" in await answer.text()
        assert len(scheduler.questions) == 1

    visited(visit)


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ANSWER_SECONDS", 0.01)

    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        scheduler.is_mute = True
        assert "has not answered" in (await got(client, path(feed)))["text"]
        scheduler.is_mute = False
        assert len((await got(client, path(feed)))["nodes"]) == COUNT
        feed.watcher = None
        assert "recording" in (await got(client, path(feed)))["text"]

    visited(visit)


def test_a_graph_needs_the_token() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        await begun(feed)
        assert (await client.get(path(feed))).status == 403

    visited(visit, Guard(LOOPBACK.hosts, "a token"))


def test_an_order_that_changes_with_each_answer_ends() -> None:
    """A broken scheduler's: the number of questions is bounded."""

    async def visit(client: Client, feed: Feed) -> None:
        scheduler = await begun(feed)
        ask = scheduler.ask

        def other_order(question: Any) -> None:
            scheduler.order += 1
            ask(question)

        scheduler.ask = other_order  # type: ignore[method-assign]
        await client.get(path(feed))
        assert len(scheduler.questions) <= whole_graphs.PARTS_LIMIT

    visited(visit)
