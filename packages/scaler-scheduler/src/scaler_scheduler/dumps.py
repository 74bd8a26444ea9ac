"""Dumps, in parts: made when they are asked for, kept for a moment, and not made so often that others would notice."""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import DumpPart, DumpRequest

PART_BYTES = 60_000
KEPT_SECONDS = 60.0
KEPT_LIMIT = 4
COST_SHARE = 0.02
"""Of the scheduler's time, at most: who asks more often is given the last dump again."""
EVENTS_KEPT = 1_000


class RecentEvents:
    """What came and what went, without what it said: the last of it is in every dump."""

    def __init__(self, display_id: Callable[[PeerId], PeerId] = lambda peer_id: peer_id) -> None:
        self._display_id = display_id
        self._events: deque[tuple[float, str, PeerId, type]] = deque(maxlen=EVENTS_KEPT)
        #: instant, "from" or "to", a peer, and what: the kind of a message, or what became of the session
        self.note = self._events.append

    def lines(self, now: float) -> Iterator[dict[str, Any]]:
        for at, direction, peer_id, what in self._events:
            yield {
                "kind": "event",
                "seconds_ago": round(now - at, 4),
                direction: self._display_id(peer_id).hex(),
                "what": what.__name__,
            }


class Dumps:
    def __init__(self, lines: Callable[[float], Iterator[dict[str, Any]]]) -> None:
        self._lines = lines
        self._by_session: OrderedDict[PeerId, list[bytes]] = OrderedDict()
        self._made_at = self._next_at = 0.0

    def answer(self, peer_id: PeerId, request: DumpRequest, now: float) -> DumpPart:
        if not request.part:
            self._begin(peer_id, now)
        parts = self._by_session.get(peer_id, ())
        if request.part >= len(parts):
            return DumpPart(request.request_id, request.part)
        return DumpPart(request.request_id, request.part, len(parts), parts[request.part])

    def save(self) -> None:
        """Into a file that only this user can read, as far as it goes: something is wrong with what we remember."""
        try:
            import tempfile  # with compressors and more, for what no scheduler does twice

            with tempfile.NamedTemporaryFile(
                "w", prefix="scaler_scheduler-", suffix=".jsonl", encoding="utf-8", delete=False
            ) as file:
                logging.critical("Scheduler: what it remembered is in %s, as scaler_dump writes it", file.name)
                for line in self._lines(time.monotonic()):
                    file.write(json.dumps(line, separators=(",", ":")) + "\n")
        except Exception:
            logging.exception("Scheduler: the dump is not complete")

    def tick(self, now: float) -> None:
        if now > self._made_at + KEPT_SECONDS:
            self._by_session.clear()

    def _begin(self, peer_id: PeerId, now: float) -> None:
        if self._by_session and now < self._next_at:
            parts = next(reversed(self._by_session.values()))
        else:
            begun = time.thread_time()
            text = "".join([json.dumps(line, separators=(",", ":")) + "\n" for line in self._lines(now)]).encode()
            parts = [text[at : at + PART_BYTES] for at in range(0, len(text), PART_BYTES)]
            self._made_at = now
            self._next_at = now + (time.thread_time() - begun) / COST_SHARE
        self._by_session.pop(peer_id, None)
        self._by_session[peer_id] = parts
        if len(self._by_session) > KEPT_LIMIT:
            self._by_session.popitem(last=False)
