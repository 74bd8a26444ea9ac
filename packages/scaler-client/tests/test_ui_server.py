"""The page over HTTP, and what its feed tells the pages that are open: a real server on loopback, no scheduler."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.support.pages import (
    LOOPBACK,
    SERVER,
    function,
    heard,
    printed,
    samples,
    status,
    task,
    worker,
)
from tests.support.served import Client, FakeWatcher, told, visited
from tests.support.waiting import WAIT

from scaler.monitoring import Playback, Recorder
from scaler.ui import costly, server
from scaler.ui import feed as feeds
from scaler.ui.feed import QUEUED_EVENTS, Feed
from scaler.ui.model import Model
from scaler.ui.ring import Ring
from scaler_protocol.codes import (
    STACK_NOT_ALLOWED,
    STACK_TAKEN,
)
from scaler_protocol.messages import (
    StackBlock,
    StackReply,
    StackRequest,
    StackSamples,
    Watch,
)
from scaler_protocol.process import StartupError
from scaler_protocol.stack_trees import StackTrees
from scaler_protocol.web.guards import HEADERS, Guard

NASTY = "<img src=x onerror=alert(1)></script>\u2028"


# ---------------------------------------------------------------- over HTTP


def test_pages_say_where_a_replay_goes_on(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "x")
    recorder.write("status", status([worker(1)]))
    recorder.close()

    async def run() -> None:
        feed = Feed(Model("x"))
        feed.playback = playback = Playback(tmp_path / "x", speed=1)
        playback.on_jump = feed.jumped
        async with TestClient(TestServer(server.application(feed, LOOPBACK))) as client:
            listening = await client.get("/events")
            assert (
                b'"paused":false' in await listening.content.readuntil(b"replay\n") + await listening.content.readline()
            )
            for query in ("seconds=-1", "seconds=x", "seconds=nan", "speed=0", "speed=1e9"):
                response = await client.post(f"/replay?{query}")
                assert response.status == 400 and "is a number" in await response.text()
            assert (await client.get("/replay")).status == 405
            model = feed.model
            assert (await client.post("/replay?seconds=5")).status == 204
            assert playback.moment().is_paused, "without a speed"
            heard_of: list[bool] = []
            playback.on_jump = lambda is_over: (heard_of.append(is_over), feed.jumped(is_over))[0]
            while heard_of != [False, True]:
                found = playback.poll(0)
                if found:
                    feed.heard(playback.state, found)
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert feed.model is not model, "what came later is not known yet"
            again = await listening.content.readuntil(b"event: beginning\n") + await listening.content.readline()
            assert b'"name":"' in again, "with the worker that was there at that moment"
        playback.close()

    asyncio.run(asyncio.wait_for(run(), WAIT))


def test_a_cluster_is_no_recording() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        assert (await client.post("/replay?seconds=1")).status == 404

    visited(visit)


def test_every_answer_carries_the_headers_that_keep_others_out() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        await told(feed, status([worker(1)]))
        for path, code in (
            ("/", 200),
            ("/static/app.js", 200),
            ("/state.json", 200),
            ("/trace.json", 200),
            ("/metrics", 200),
            ("/explain", 200),
            ("/explain?task=1", 400),
            ("/nothing", 404),
            ("/static/none.js", 404),
        ):
            answer = await client.get(path)
            assert answer.status == code, path
            assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS), path
        refused = await client.get("/", headers={"Host": "evil.example"})
        assert refused.status == 403 and refused.headers["X-Frame-Options"] == "DENY"

    visited(visit)


def test_it_can_only_be_read() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            for path in ("/", "/events", "/explain", "/state.json", "/metrics"):
                assert (await client.request(method, path)).status == 405, (method, path)
        assert (await client.head("/events")).status == 405, "it would never end"

    visited(visit)


def test_no_other_name_origin_or_site_reads_anything() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        for path in ("/", "/events", "/state.json", "/trace.json", "/metrics", "/static/app.js", "/explain"):
            for headers in (
                {"Host": "evil.example"},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                answer = await client.get(path, headers=headers)
                assert answer.status == 403 and "Access-Control-Allow-Origin" not in answer.headers, (path, headers)

    visited(visit)


@pytest.mark.parametrize(
    "name",
    ["../server.py", "..%2fserver.py", "%2e%2e%2fserver.py", "app.js%00", "", ".", "/etc/passwd", "app.py", "APP.JS"],
)
def test_only_the_pages_own_files_are_served(name: str) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        assert (await client.get(f"/static/{name}")).status == 404

    visited(visit)


def test_the_page_needs_nothing_from_elsewhere_and_nothing_inline() -> None:
    folder = Path(server.STATIC)
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text, path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick"):
            assert word not in text, (path, word)
        # A proxy may show the page under a path of its own, as Jupyter's does.
        for word in ('src="/', 'href="/', "fetch(`/", 'EventSource("/'):
            assert word not in text, (path, word)
        assert len(text) < 20_000, f"{path} is meant to be read"


def test_a_token_in_the_address_becomes_a_cookie() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        assert (await client.get("/")).status == 403
        assert (await client.get("/?token=wrong")).status == 403
        assert (await client.get("/?token=%ff")).status == 403
        assert (await client.get("/state.json?token=s3cret")).status == 403, "only at the door"
        assert (await client.get("/?token=s3cret", headers={"Host": "evil.example"})).status == 403
        first = await client.get("/?token=s3cret", allow_redirects=False)
        assert first.status == 303 and first.headers["Location"] == "./"
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        kept = {"Cookie": cookie.partition(";")[0]}
        assert "s3cret" not in cookie, "other servers of this host see it"
        assert (await client.get("/state.json", headers=kept)).status == 200
        assert (await client.get("/metrics", headers={"Authorization": "Bearer s3cret"})).status == 200
        wrong = await client.get("/?token=wrong", headers=kept, allow_redirects=False)
        assert wrong.status == 303 and "Set-Cookie" not in wrong.headers, "the right cookie stays"
        second = await client.get("/?token=s3cret", allow_redirects=False)
        assert second.headers["Set-Cookie"] != cookie, "each browser has its own"

    visited(visit, Guard(LOOPBACK.hosts, "s3cret"))


def test_names_are_text_in_json_and_nothing_else() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        await told(feed, status([worker(1, name=NASTY)], names=[NASTY]), printed(NASTY))
        answer = await client.get("/state.json")
        assert answer.content_type == "application/json"
        assert (await answer.json())["status"]["workers"][0]["name"] == NASTY
        metrics = await (await client.get("/metrics")).text()
        assert metrics.count("\n# ") > 3, "it is still of lines"

    visited(visit)


# ---------------------------------------------------------------- events


async def events_of(answer: Any, count: int) -> list[tuple[str, Any]]:
    found = []
    while len(found) < count:
        kind = (await answer.content.readline()).decode().removeprefix("event: ").strip()
        data = (await answer.content.readline()).decode()
        if data.startswith("id: "):
            data = (await answer.content.readline()).decode()
        data = data.removeprefix("data: ")
        assert await answer.content.readline() == b"\n"
        found.append((kind, json.loads(data)))
    return found


def test_a_page_begins_with_everything_and_then_hears_what_is_new() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        await told(feed, status([worker(1)]), samples([worker(1)], each=3), printed("a\nb\n"))
        async with client.get("/events") as answer:
            assert answer.content_type == "text/event-stream"
            told_first = await events_of(answer, 3)
            (_, begun), (_, past), (_, kept) = told_first
            assert [kind for kind, _ in told_first] == ["beginning", "past", "runs"] and past["runs"] == 3
            assert (
                begun["status"]["workers"] and past["logs"][0]["text"] == "a\nb\n" and past["shares"][0][1:] == [3, 3]
            )
            assert len(kept["runs"]) == 3
            await told(feed, status([], sequence=2), printed("c"))
            assert [kind for kind, _ in await events_of(answer, 2)] == ["status", "logs"]

    visited(visit)


def test_pages_that_are_closed_are_forgotten_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAGES_LIMIT", 2)

    async def visit(client: Client, feed: Feed) -> None:
        one, two = await client.get("/events"), await client.get("/events")
        assert (await client.get("/events")).status == 503
        one.close()
        answer = await client.get("/events")
        while answer.status == 503:  # until the server has noticed; what tells it is the next write
            await told(feed, status([], sequence=2))
            answer = await client.get("/events")
        assert answer.status == 200
        answer.close()
        two.close()

    visited(visit)


def test_pages_that_hold_all_places_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as streams that a browser opens and never reads."""
    monkeypatch.setattr(feeds, "PAGES_LIMIT", 3)
    monkeypatch.setattr(feeds, "STEADY_SECONDS", 0.0)

    async def visit(client: Client, feed: Feed) -> None:
        held = [await client.get("/events") for _ in range(3)]
        newcomer = await client.get("/events")
        assert newcomer.status == 200 and len(feed._pages) == 3
        await events_of(newcomer, 2)
        await events_of(held[0], 2)
        assert await held[0].content.read() == b"", "the oldest has ended, and its browser comes again"
        for answer in (newcomer, *held):
            answer.close()

    visited(visit)


def test_one_address_holds_half_of_the_places_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAGES_PER_ADDRESS", 2)

    async def run() -> None:
        feed = Feed(Model("here"))
        assert feed.open("a") and feed.open("a") and feed.open("b")
        assert feed.open("a") is None and feed.open("b")

    asyncio.run(run())


@pytest.mark.parametrize(("proto", "is_secure"), [("https", True), ("HTTPS, http", True), ("http", False), ("", False)])
def test_behind_an_encrypting_proxy_the_cookie_is_never_sent_in_the_clear(proto: str, is_secure: bool) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        answer = await client.get("/?token=s3cret", headers={"X-Forwarded-Proto": proto}, allow_redirects=False)
        assert answer.status == 303
        (cookie,) = answer.cookies.values()
        assert bool(cookie["secure"]) == is_secure and cookie["httponly"]

    visited(visit, Guard(LOOPBACK.hosts, "s3cret"))


def test_a_page_that_does_not_read_misses_some_and_is_told_how_many() -> None:
    async def run() -> None:
        feed = Feed(Model("here"))
        page, other = feed.open(), feed.open()
        assert page is not None and other is not None
        assert b"event: beginning" in await page.next(WAIT) and await other.next(WAIT)
        for number in range(QUEUED_EVENTS + 9):
            await told(feed, printed(f"line {number}", number))
            assert await other.next(WAIT)
        assert await page.next(WAIT) == b'event: dropped\ndata: {"count":10}\n\n', "nine lines and the condition"
        kept = [await page.next(WAIT) for _ in range(QUEUED_EVENTS)]
        assert b'"line 9"' in kept[0] and f'"line {QUEUED_EVENTS + 8}"'.encode() in kept[-1]
        assert await page.next(0.01) == b""

    asyncio.run(run())


def test_pages_that_do_not_read_keep_nothing_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pages there are and whenever they were opened: what they are behind with is kept once, for all, and
    within the bounds of the two rings."""
    monkeypatch.setattr(feeds, "PAGES_PER_ADDRESS", 100)

    async def run() -> None:
        feed = Feed(Model("here"))
        tracemalloc.start()
        pages = []
        for number in range(40):
            await told(feed, samples([worker(1)], first=number * 100, each=100))
            pages.append(feed.open())
            assert pages[-1] is not None and len(await pages[-1].next(WAIT)) < 2_000, "a beginning is short"
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(feed.model.runs) == 4_000 and held_bytes < 2 << 20
        runs = 0
        while (text := await pages[-1].next(0.01)).startswith(b"event: runs"):
            assert len(text) < 2 * feeds.PART_BYTES
            runs += len(json.loads(text.partition(b"data: ")[2])["runs"])
        assert runs == 4_000, "the page that was opened last is told all runs"

    asyncio.run(run())


def test_a_trace_is_made_while_it_is_read() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        for number in range(3):
            await told(feed, samples([worker(1)], first=number * 300, each=300))
        answer = await client.get("/trace.json")
        found = json.loads(await answer.text())
        assert sum(one["ph"] == "X" for one in found["traceEvents"]) == 900
        assert found["otherData"]["sampled"] == "900 of 900 tasks that ended"
        traces = client.app[server.TRACES]  # type: ignore[index]
        for _ in range(server.TRACES_LIMIT):
            await traces.acquire()
        assert (await client.get("/trace.json")).status == 503

    visited(visit)


def test_what_is_heard_comes_from_another_thread() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        async with client.get("/events") as answer:
            await events_of(answer, 2)
            threading.Thread(target=feed.heard, args=heard(printed("x"))).start()
            assert (await events_of(answer, 1))[0][0] == "logs"

    visited(visit)


# ---------------------------------------------------------------- questions


def test_the_stack_of_a_task() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        watcher = feed.watcher = FakeWatcher()
        for reply, key, words in (
            (StackReply(0, task(7), STACK_TAKEN, "in f", "", "w", "dispatched"), "text", "in f"),
            (StackReply(0, task(7), STACK_NOT_ALLOWED), "reason", "--monitor-texts"),
        ):
            watcher.asked.clear()
            asking = asyncio.ensure_future(client.get(f"/stack?task={task(7).hex()}"))
            while not watcher.asked:
                await asyncio.sleep(0)
            (question,) = watcher.asked
            assert isinstance(question, StackRequest) and question.task_id == task(7)
            await told(feed, replace(reply, request_id=question.request_id))
            answer = await (await asking).json()
            assert words in answer[key]
        assert (await client.get("/stack")).status == 400

    visited(visit)


def test_the_profile_is_watched_while_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        assert (await (await client.get("/profile.json?seconds=30")).json()) == {"recording": True}
        watcher = feed.watcher = FakeWatcher()
        for _ in range(2):
            assert (await (await client.get("/profile.json?seconds=30")).json())["heard"] is False
        assert watcher.asked == [Watch(("status", "tasks", "graphs", "logs", "stacks"))]
        monkeypatch.setattr(feeds, "PROFILE_SECONDS", 0.0)
        await client.get("/profile.json?seconds=30")
        while len(watcher.asked) < 2:
            await asyncio.sleep(0)
        assert watcher.asked[1] == Watch(("status", "tasks", "graphs", "logs"))

    visited(visit)


def test_the_profile_as_json_and_for_speedscope() -> None:
    async def visit(client: Client, feed: Feed) -> None:
        feed.watcher = FakeWatcher()
        trees = StackTrees()
        trees.add(function("price").function_id, [("main", "program.py", 1)], 7_000)
        block = StackBlock(SERVER, "w", 0.0, trees.take(1_000))
        await told(feed, StackSamples(blocks=(block,), function_names=(function("price"),), able_count=1))
        found = await (await client.get("/profile.json?seconds=30&function=price")).json()
        assert found["functions"] == [["price", 7_000]] and ["main", "program.py", 1] in found["frames"]
        response = await client.get("/profile.speedscope.json?seconds=30")
        assert "speedscope.json" in response.headers["Content-Disposition"]
        assert (await response.json())["profiles"][1]["name"] == "price"
        for path in ("/profile.json", "/profile.speedscope.json"):
            for wrong in ("", "seconds=-1", "seconds=31", "seconds=99999", "seconds=x"):
                assert (await client.get(f"{path}?{wrong}")).status == 400
            assert (await client.get(f"{path}?seconds=30&function=prices")).status == 404

    visited(visit)


@pytest.mark.parametrize("path", ["/profile.json", "/profile.speedscope.json"])
def test_few_profiles_are_made_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        feed.watcher = FakeWatcher()
        monkeypatch.setattr(costly, "MAKING_LIMIT", 0)
        answer = await client.get(f"{path}?seconds=30")
        assert answer.status == 503 and "too many profiles" in await answer.text()

    visited(visit)


def test_questions_that_stay_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "ANSWER_SECONDS", 0.01)

    async def visit(client: Client, feed: Feed) -> None:
        assert "recording" in (await (await client.get("/explain")).json())["text"]
        feed.watcher = FakeWatcher()
        assert "has not answered" in (await (await client.get("/explain")).json())["text"]
        monkeypatch.setattr(feeds, "QUESTIONS_LIMIT", 0)
        assert "too many questions" in (await (await client.get("/explain")).json())["text"]

    visited(visit)


@pytest.mark.parametrize("text", ["12", "x" * 32, "00" * 17, "%ff"])
def test_what_is_no_task_id(text: str) -> None:
    async def visit(client: Client, feed: Feed) -> None:
        answer = await client.get(f"/explain?task={text}")
        assert answer.status == 400 and "32 hexadecimal digits" in await answer.text()

    visited(visit)


def test_a_port_that_is_taken() -> None:
    async def run() -> None:
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        with pytest.raises(StartupError, match=r"^cannot listen on 127.0.0.1, port \d+: [^:]+: choose another$"):
            await server.serve(Feed(Model("x")), LOOPBACK, "127.0.0.1", port, "x", asyncio.Event())
        taken.close()

    asyncio.run(run())


# ---------------------------------------------------------------- rings


def test_a_ring_keeps_the_last_texts_by_number() -> None:
    ring = Ring(10, 100)
    for number in range(5):
        ring.add(b"%d" % number, 4)
    assert (ring.first, ring.end, len(ring)) == (3, 5, 8)
    assert ring.read(0, 5, 100) == (5, [b"3", b"4"]) and ring.read(4, 5, 0) == (5, [b"4"])
    assert ring.read(0, 2, 100) == (3, []), "all of these are gone"
    ring.add(b"x" * 99, 1)
    assert (ring.first, ring.end) == (4, 6)
    ring.add(b"y" * 500, 50)
    assert ring.read(0, 7, 1) == (7, [b"y" * 500]), "the last is kept, however large it is"
