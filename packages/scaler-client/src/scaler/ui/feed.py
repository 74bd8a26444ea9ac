"""From the watcher's thread to the pages that are open, without waiting for any of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scaler.client.futures.explaining import sentence
from scaler.client.futures.stacks import stack_of
from scaler.monitoring import ClusterState, Heard, Playback
from scaler.monitoring.control import outcome_text
from scaler.monitoring.endings import record_text
from scaler.monitoring.profiles import flame, merged, speedscope
from scaler.monitoring.watcher import Watcher
from scaler.ui import TOPICS
from scaler.ui.costly import CostlyTexts
from scaler.ui.ended import ended_text
from scaler.ui.model import Model
from scaler.ui.ring import Ring
from scaler.ui.task_facts import facts_of
from scaler.ui.whole_graphs import WholeGraphs
from scaler_protocol.codes import CONTROL_DONE
from scaler_protocol.errors import readable
from scaler_protocol.ids import TaskId, shown_parts, shown_task
from scaler_protocol.messages import (
    Control,
    ControlReply,
    Explain,
    Explanation,
    GraphPart,
    GraphRequest,
    StackReply,
    StackRequest,
    Watch,
)
from scaler_protocol.stack_trees import StackTrees

logger = logging.getLogger("scaler.ui")

QUEUED_EVENTS = 64
QUEUED_BYTES = 8 * 1024 * 1024
"""A page that reads slower than this misses some, and is told how many."""
PART_BYTES = 64 * 1024
"""Of the runs that a page is told when it begins, in one event."""
ANSWER_SECONDS = 8.0
PROFILE_SECONDS = 10.0
"""So long after a page was last told of the profile, it is not watched any more."""
STACKS = "stacks"
PAGES_LIMIT = 100
PAGES_PER_ADDRESS = 50
STEADY_SECONDS = 10.0
"""A page that is open for so long may lose its place to another one."""
QUESTIONS_LIMIT = 100
UNKNOWN_SHORT = "the scheduler has no unfinished task with this id: the task has ended, or was never submitted"

ShortId = tuple[bytes, int]
"""The parts of a short id: source and number."""


class Page:
    """One browser tab that listens. What it has to be told yet is a place in what the feed keeps for all pages."""

    def __init__(self, beginning: bytes, runs: Runs, events: Ring, address: str = "", since: int = 0) -> None:
        """`since`: the number of the first runs that it does not have."""
        self.address = address
        self.opened_at = time.monotonic()
        self._has_news = asyncio.Event()
        self._listening = asyncio.current_task()
        self.begin(beginning, runs, events, since)

    def begin(self, beginning: bytes, runs: Runs, events: Ring, since: int = 0) -> None:
        """Also once more, when a replay has come to another moment."""
        self._beginning = beginning
        self._runs, self._since, self._until, self._end = runs, since, runs.ring.end, runs.ring.end
        self._is_loading = max(since, runs.ring.first) < self._end
        self._events, self._event = events, events.end
        self.wake()

    def dismiss(self) -> None:
        """Its place is needed for another page. A browser that still shows it comes again by itself."""
        if self._listening is not None:
            self._listening.cancel()

    def wake(self) -> None:
        self._has_news.set()

    async def next(self, seconds: float) -> bytes:
        """Empty when nothing came for so long."""
        text = self._kept()
        if not text:
            self._has_news.clear()
            try:
                await asyncio.wait_for(self._has_news.wait(), seconds)
            except asyncio.TimeoutError:
                return b""
            text = self._kept()
        return text

    def _kept(self) -> bytes:
        """First the beginning, then the runs of that moment, the latest first, then what has happened since."""
        if self._beginning:
            text, self._beginning = self._beginning, b""
            return text
        if self._is_loading:
            return self._earlier()
        if self._event < self._events.first:
            missed, self._event = self._events.first - self._event, self._events.first
            return packed("dropped", {"count": missed})
        self._event, texts = self._events.read(self._event, self._events.end, 1)
        return texts[0] if texts else b""

    def _earlier(self) -> bytes:
        """A part of the runs, each earlier than the one before. With the last one, the page has all until its end."""
        ring = self._runs.ring
        self._until, texts = ring.read_back(self._since, self._until, PART_BYTES)
        rows = b",".join(text[1:-1] for text in texts)
        self._is_loading = self._until > max(self._since, ring.first)
        if self._is_loading:
            return b'event: runs\ndata: {"runs":[%s]}\n\n' % rows
        return b'event: runs\nid: %s\ndata: {"runs":[%s],"complete":true}\n\n' % (
            self._runs.id_of(self._end).encode(), rows
        )  # fmt: skip


class Runs:
    """The runs of one model, and what a browser calls a place in them: it names the last such place when its connection
    was lost."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._name = secrets.token_hex(4)

    def id_of(self, number: int) -> str:
        return f"{self._name}-{number}"

    def number_of(self, event_id: str) -> int | None:
        """None: it is of other runs, or some after it are not kept any more."""
        name, _, number = event_id.partition("-")
        if name != self._name or not (number.isascii() and number.isdecimal() and len(number) < 16):
            return None
        return int(number) if self.ring.first <= int(number) <= self.ring.end else None


class Feed:
    """Of the loop's thread, but for `heard`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._runs = Runs(model.runs)
        self.watcher: Watcher | None = None
        self.playback: Playback | None = None
        self.may_control = False  #: pages may have tasks canceled, and workers let go
        self._is_jumping = False  #: pages are told nothing meanwhile
        self._loop = asyncio.get_running_loop()
        #: by name, as long as nothing new was heard: very many callers may ask at once
        self._texts: dict[str, bytes] = {}
        self._costly = CostlyTexts()
        self._whole_graphs = WholeGraphs(self._answer)
        self._events = Ring(QUEUED_EVENTS, QUEUED_BYTES)
        #: in the order in which they were opened
        self._pages: dict[Page, None] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._profile_end: asyncio.TimerHandle | None = None  #: set while the profile is watched
        #: the last that was logged, without its seconds
        self._said = ""

    def heard(self, state: ClusterState, heard: list[Heard]) -> None:
        """In the watcher's thread."""
        at = heard[-1].wall_at if heard else time.time()
        try:
            self._loop.call_soon_threadsafe(self._take, state, heard, at)
        except RuntimeError:
            pass  # the loop has ended; so will the watcher

    def _take(self, state: ClusterState, heard: list[Heard], at: float) -> None:
        for one in heard:
            if isinstance(one.message, Explanation):
                self.model.running.heard(one.message)
            if isinstance(one.message, (Explanation, StackReply, ControlReply, GraphPart)):
                answer = self._asked.pop(one.message.request_id, None)
                if answer is not None and not answer.done():
                    answer.set_result(one.message)
        self._texts.clear()
        for kind, content in self.model.take(state, heard, at):
            if kind == "condition":
                self._log(state)
            elif kind == "status":
                self._ask_names(state)
            elif kind == "graphs":
                self._whole_graphs.forget(but={graph["id"] for graph in self.model.graphs})
            self._tell(kind, content)
        self._tell_moment()

    def _ask_names(self, state: ClusterState) -> None:
        """Asks whose functions the tasks are that run for long, while a page is open."""
        if self._pages and self.watcher is not None and state.status is not None:
            for task_id in self.model.running.wanted(state.status):
                self.watcher.ask(Explain(next(self._numbers), task_id))

    def _tell(self, kind: str, content: dict[str, Any]) -> None:
        if self._pages and not self._is_jumping:
            place = self._runs.id_of(content["end"]) if kind == "tasks" else ""
            self._events.add(packed(kind, content, place))
            for page in self._pages:
                page.wake()

    # ------------------------------------------------------------ replays

    def jumped(self, is_over: bool) -> None:
        """In the watcher's thread: a replay goes to another moment, or is there."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._jump, is_over)

    def _jump(self, is_over: bool) -> None:
        self._texts.clear()
        self._is_jumping = not is_over
        if not is_over:
            self.model = Model(self.model.label)
            self._runs = Runs(self.model.runs)
            return
        beginning = self._beginning()
        for page in self._pages:
            page.begin(beginning, self._runs, self._events)

    def go_on(self, *, seconds: float | None, speed: float | None, is_paused: bool) -> None:
        """What a page wants of the replay: another moment, another speed, a pause."""
        assert self.playback is not None
        if is_paused:
            self.playback.pause()
        elif speed is not None:
            self.playback.play(speed)
        if seconds is not None:
            self.playback.jump(seconds)
        self._tell_moment()

    def _tell_moment(self) -> None:
        if self.playback is not None:
            self._tell("replay", self._moment(self.playback))

    def _moment(self, playback: Playback) -> dict[str, Any]:
        moment = playback.moment()
        told = {"seconds": round(moment.seconds, 3), "at": round(moment.wall_at, 3), "duration": moment.duration}
        return {**told, "speed": moment.speed, "paused": moment.is_paused}

    # ------------------------------------------------------------ pages

    def _log(self, state: ClusterState) -> None:
        """What pages say of the connection, also for those who have none open; once, though its seconds go on."""
        said = re.sub(r"\d+ s\b|\d\d:\d\d:\d\d", "", state.text)
        if said != self._said:
            self._said = said
            if state.text:
                logger.warning("scaler_ui: %s", readable(state.text))
            else:
                logger.info("scaler_ui: connected to the scheduler at %s", self.model.label)

    def text(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Made once for all callers that ask for it before something new is heard."""
        if name not in self._texts:
            self._texts[name] = make()
        return self._texts[name]

    def open(self, address: str = "", last_event_id: str = "") -> Page | None:
        """Where there are too many, a page that is open for a while makes room, so that pages which never read cannot
        hold all places. None: all of them are new.

        `last_event_id`: of a browser whose connection was lost. It has the runs until there."""
        of_address = [page for page in self._pages if page.address == address]
        is_room = len(of_address) < PAGES_PER_ADDRESS or self._dismiss_one(of_address)
        if not is_room or (len(self._pages) >= PAGES_LIMIT and not self._dismiss_one(list(self._pages))):
            return None
        beginning, since = self.text("beginning", self._beginning), self._runs.number_of(last_event_id)
        if since is not None:
            beginning = packed("resume", {"count": self._runs.ring.end - since}) + beginning
        page = Page(beginning, self._runs, self._events, address, since or 0)
        self._pages[page] = None
        return page

    def _beginning(self) -> bytes:
        """Two events: what a page shows at once, and what was before."""
        moment = b"" if self.playback is None else packed("replay", self._moment(self.playback))
        beginning = {**self.model.beginning(), "control": self.may_control}
        return packed("beginning", beginning) + packed("past", self.model.past()) + moment

    def close(self, page: Page) -> None:
        self._pages.pop(page, None)

    def _dismiss_one(self, pages: list[Page]) -> bool:
        """The oldest, if it is open for long enough."""
        if not pages or time.monotonic() - pages[0].opened_at < STEADY_SECONDS:
            return False
        self.close(pages[0])
        pages[0].dismiss()
        return True

    async def explain(self, task_id: TaskId, short: ShortId | None = None) -> dict[str, Any]:
        """Why this task waits, or how it ended; `short`: of one that only the scheduler can find; without both, which
        task no worker can run."""
        found = await self._answer(lambda number: Explain(number, task_id, *(short or ())))
        if isinstance(found, str):
            return {"text": (task_id and ended_text(self.model, task_id.hex())) or found}
        if short and found.task_id and shown_parts(shown_task(found.task_id)) != short:
            return {"text": "the scheduler is older and does not know short ids: give all 32 digits"}
        if not found.task_id:
            return {"text": UNKNOWN_SHORT if short else "no queued task waits for a worker that is not there"}
        text = sentence(found, found.capabilities, self.model.label)
        if not found.state:
            unknown = "the scheduler does not hold it: it has ended, or was never submitted"
            text = (found.record.task_id and record_text(found.record)) or ended_text(self.model, found.task_id.hex())
            text = text or unknown
        told = {"task": found.task_id.hex(), "function": found.function_name, "state": found.state, "text": text}
        return {**told, "user": found.user, "facts": facts_of(found, time.time())}

    async def stack(self, task_id: TaskId) -> dict[str, Any]:
        """Where a running task is in its code, if the operator lets monitors see texts. (MON-42)"""
        found = stack_of(await self._answer(lambda number: StackRequest(number, task_id)))
        return {"text": found.text, "reason": found.reason, "worker": found.worker, "state": found.state}

    async def graph(self, name: str, *, wants_nodes: bool) -> bytes | None:
        """One of the graphs that are shown, whole. None: too many others are being made. Raises GraphError."""
        graph = next(one for one in self.model.graphs if one["id"] == name)
        has_ended = not graph["runs"] and not graph["unfinished"]
        client_id = self.model.graph_clients[name]
        return await self._whole_graphs.text(name, client_id, wants_nodes=wants_nodes, has_ended=has_ended)

    async def control(self, action: int, subject: bytes, grace_seconds: float) -> dict[str, Any]:
        """Have the scheduler do this; what came of it. (MON-49)"""
        request = Control(0, action, subject, grace_seconds)
        reply = await self._answer(lambda number: replace(request, request_id=number))
        if isinstance(reply, str):
            return {"done": False, "text": reply}
        return {"done": reply.outcome == CONTROL_DONE, "text": outcome_text(request, reply)}

    async def profile(self, seconds: float, function: str) -> bytes | None:
        """Where the time of running tasks went, for a page. The cluster samples while pages ask for it. None: too many
        others are being made."""
        if self.watcher is None:
            return json.dumps({"recording": True}).encode()
        self._watch_profile(self.watcher)
        profile = self.model.profile
        return await self._of_profile("flame", seconds, function, lambda trees: flame(profile, trees, function))

    async def speedscope(self, seconds: float, function: str) -> bytes | None:
        profile, title = self.model.profile, f"Scaler {self.model.label}"
        return await self._of_profile(
            "speedscope", seconds, function, lambda trees: speedscope(profile, trees, title, function)
        )

    async def _of_profile(
        self, kind: str, seconds: float, function: str, make: Callable[[StackTrees], dict[str, Any]]
    ) -> bytes | None:
        def prepare() -> Callable[[], bytes]:
            parts = self.model.profile.parts(seconds, time.time())
            return lambda: json.dumps(make(merged(parts))).encode()

        return await self._costly.text(f"{kind} {seconds:g} {function}", prepare)

    def _watch_profile(self, watcher: Watcher) -> None:
        if self._profile_end is None:
            watcher.ask(Watch((*TOPICS, STACKS)))
        else:
            self._profile_end.cancel()
        self._profile_end = self._loop.call_later(PROFILE_SECONDS, self._end_profile, watcher)

    def _end_profile(self, watcher: Watcher) -> None:
        self._profile_end = None
        watcher.ask(Watch(TOPICS))

    async def _answer(self, question: Callable[[int], Explain | StackRequest | Control | GraphRequest]) -> Any:
        """A text: why there is none."""
        if self.watcher is None:
            return "this is a recording: no scheduler answers"
        if len(self._asked) >= QUESTIONS_LIMIT:
            return "too many questions at once: ask again in a moment"
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.watcher.ask(question(number))
        try:
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except asyncio.TimeoutError:
            return f"the scheduler has not answered within {ANSWER_SECONDS:g} s"
        finally:
            self._asked.pop(number, None)


def packed(kind: str, content: dict[str, Any], event_id: str = "") -> bytes:
    """A server-sent event. JSON has no line breaks, so one line of data holds it."""
    place = f"id: {event_id}\n" if event_id else ""
    return f"event: {kind}\n{place}data: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
