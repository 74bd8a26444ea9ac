"""From the watcher's thread to the pages that are open, without waiting for any of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import time
from typing import Any

from scaler.client.futures.explaining import sentence
from scaler.monitoring import ClusterState, Heard
from scaler.monitoring.watcher import Watcher
from scaler.ui.model import Model
from scaler_protocol.errors import readable
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Explain, Explanation

logger = logging.getLogger("scaler.ui")

QUEUED_EVENTS = 64
"""A page that reads slower than this misses some, and is told how many."""
ANSWER_SECONDS = 5.0
PAGES_LIMIT = 100
PAGES_PER_ADDRESS = 50
STEADY_SECONDS = 10.0
"""A page that is open for so long may lose its place to another one."""
QUESTIONS_LIMIT = 100


class Page:
    """One browser tab that listens."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.opened_at = time.monotonic()
        self._events: asyncio.Queue[bytes] = asyncio.Queue(QUEUED_EVENTS)
        self._dropped = 0
        self._listening = asyncio.current_task()

    def dismiss(self) -> None:
        """Its place is needed for another page. A browser that still shows it comes again by itself."""
        if self._listening is not None:
            self._listening.cancel()

    def tell(self, event: bytes) -> None:
        try:
            if self._dropped:
                self._events.put_nowait(packed("dropped", {"count": self._dropped}))
                self._dropped = 0
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self._dropped += 1

    async def next(self, seconds: float) -> bytes:
        """Empty when nothing came for so long."""
        try:
            return await asyncio.wait_for(self._events.get(), seconds)
        except asyncio.TimeoutError:
            return b""


class Feed:
    """Of the loop's thread, but for `heard`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.watcher: Watcher | None = None
        self._loop = asyncio.get_running_loop()
        #: what a page begins with, as long as nothing has changed: very many may begin at once
        self._beginning = b""
        #: in the order in which they were opened
        self._pages: dict[Page, None] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Explanation]] = {}
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
                answer = self._asked.pop(one.message.request_id, None)
                if answer is not None and not answer.done():
                    answer.set_result(one.message)
        self._beginning = b""
        for kind, content in self.model.take(state, heard, at):
            if kind == "condition":
                self._log(state)
            if self._pages:
                event = packed(kind, content)
                for page in self._pages:
                    page.tell(event)

    def _log(self, state: ClusterState) -> None:
        """What pages say of the connection, also for those who have none open; once, though its seconds go on."""
        said = re.sub(r"\d+ s\b", "", state.text)
        if said != self._said:
            self._said = said
            if state.text:
                logger.warning("scaler_ui: %s", readable(state.text))
            else:
                logger.info("scaler_ui: connected to the scheduler at %s", self.model.label)

    def open(self, address: str = "") -> Page | None:
        """Where there are too many, a page that is open for a while makes room, so that pages which never read cannot
        hold all places. None: all of them are new."""
        of_address = [page for page in self._pages if page.address == address]
        is_room = len(of_address) < PAGES_PER_ADDRESS or self._dismiss_one(of_address)
        if not is_room or (len(self._pages) >= PAGES_LIMIT and not self._dismiss_one(list(self._pages))):
            return None
        page = Page(address)
        self._beginning = self._beginning or packed("beginning", self.model.beginning())
        page.tell(self._beginning)
        self._pages[page] = None
        return page

    def close(self, page: Page) -> None:
        self._pages.pop(page, None)

    def _dismiss_one(self, pages: list[Page]) -> bool:
        """The oldest, if it is open for long enough."""
        if not pages or time.monotonic() - pages[0].opened_at < STEADY_SECONDS:
            return False
        self.close(pages[0])
        pages[0].dismiss()
        return True

    async def explain(self, task_id: TaskId) -> dict[str, Any]:
        """Why this task waits; without one, which task can nobody run."""
        if self.watcher is None:
            return {"text": "this is a recording: there is nobody to ask"}
        if len(self._asked) >= QUESTIONS_LIMIT:
            return {"text": "too many questions at once: ask again in a moment"}
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.watcher.ask(Explain(number, task_id))
        try:
            found = await asyncio.wait_for(answer, ANSWER_SECONDS)
        except asyncio.TimeoutError:
            return {"text": f"the scheduler has not answered within {ANSWER_SECONDS:g} s"}
        finally:
            self._asked.pop(number, None)
        if not found.task_id:
            return {"text": "no queued task waits for a worker that is not there"}
        text = sentence(found, found.capabilities, self.model.label)
        if not found.state:
            text = "the scheduler does not hold it: it has ended, or was never submitted"
        told = {"task": found.task_id.hex(), "function": found.function_name, "state": found.state, "text": text}
        return {**told, "user": found.user}


def packed(kind: str, content: dict[str, Any]) -> bytes:
    """A server-sent event. JSON has no line breaks, so one line of data holds it."""
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
