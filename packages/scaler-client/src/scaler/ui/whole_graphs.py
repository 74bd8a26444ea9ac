"""Graphs of which a publication describes a part only, whole: the scheduler is asked for them a part at a time, once
for all pages (MON-63). What tasks are and need is asked for once, and kept as text; their states are asked for again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from scaler.ui.graph_nodes import STATES, UNFINISHED, nodes_of, states_of
from scaler_protocol.ids import GraphId, PeerId
from scaler_protocol.messages import GraphPart, GraphRequest

Json = dict[str, Any]

WHOLE_LIMIT = 20_000
"""A graph of more tasks is shown in part."""
MAKING_LIMIT = 2
PARTS_LIMIT = 100
"""So often at most the scheduler is asked for one text."""
FRESH_SECONDS = 0.9
"""So old an answer may be for a further page. Pages ask once a second."""
_LETTERS = bytes.maketrans(bytes(range(len(STATES))), b"01234567")
_AS_ENDED = bytes.maketrans(bytes(range(len(UNFINISHED))), bytes((STATES.index("ended"),)) * len(UNFINISHED))

Ask = Callable[[Callable[[int], GraphRequest]], Awaitable[Any]]
"""Asks the scheduler. The answer is a text if there is none."""


class GraphError(Exception):
    """Why a graph cannot be shown whole, for people."""


class _Whole:
    """`order` and the texts of its nodes are of one list of the scheduler (MON-64); `states` as last told."""

    def __init__(self) -> None:
        self.order = 0
        self.count = 0
        self.texts: list[bytes] = []
        self.states = b""
        self.counts: Json = {}
        self.told_at = 0.0
        self.is_known = True  #: to the scheduler, when it was asked last


class WholeGraphs:
    """Of the loop's thread."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: dict[str, _Whole] = {}
        self._making: dict[str, asyncio.Future[_Whole]] = {}

    def forget(self, but: set[str]) -> None:
        """All but those graphs that are shown."""
        for name in self._kept.keys() - but:
            del self._kept[name]

    async def text(self, name: str, client_id: PeerId, *, wants_nodes: bool, has_ended: bool) -> bytes | None:
        """JSON. None: too many others are being made. `has_ended`: of a task of which no end is known this is told.
        Raises GraphError."""
        whole = self._kept.get(name)
        if whole is None or time.monotonic() - whole.told_at >= FRESH_SECONDS:
            making = self._making.get(name)
            if making is None:
                if len(self._making) >= MAKING_LIMIT:
                    return None
                making = self._making[name] = asyncio.ensure_future(self._renew(name, client_id))
            whole = await asyncio.shield(making)
        told, states = {**whole.counts, "order": whole.order, "known": whole.is_known}, whole.states
        if has_ended and not whole.is_known:
            told["unfinished"], states = 0, states.translate(_AS_ENDED)
        told["states"] = states.translate(_LETTERS).decode()
        text = json.dumps(told, separators=(",", ":")).encode()
        return text[:-1] + b',"nodes":[%s]}' % b",".join(whole.texts) if wants_nodes else text

    async def _renew(self, name: str, client_id: PeerId) -> _Whole:
        try:
            whole = self._kept.get(name) or _Whole()
            await self._read(whole, GraphId(bytes.fromhex(name)), client_id)
            self._kept[name] = whole
            return whole
        finally:
            del self._making[name]

    async def _read(self, whole: _Whole, graph_id: GraphId, client_id: PeerId) -> None:
        """States of what is known of it, then the tasks behind. If the scheduler has another order: all of it."""
        states = bytearray()
        for _ in range(PARTS_LIMIT):
            place, wants_shape = len(states), len(states) >= whole.count
            part = await self._part(graph_id, client_id, place, wants_shape)
            if not part.order and whole.order:
                whole.is_known = False
                break
            if part.order != whole.order:
                whole.order, whole.count, whole.texts = part.order, 0, []
                if place or not wants_shape:
                    states.clear()
                    continue
            told = states_of(part.graph)
            if not told:
                break
            states += told if wants_shape else told[: whole.count - place]
            if wants_shape:
                nodes = nodes_of(part.graph, part.described_count)
                if len(nodes) != len(told):
                    raise GraphError("the scheduler's description of this graph cannot be read")
                whole.texts += [json.dumps([*one[:2], "", *one[3:]], separators=(",", ":")).encode() for one in nodes]
                whole.count += len(nodes)
            shape = part.graph
            whole.counts = {
                "tasks": shape.task_count, "unfinished": shape.unfinished_count, "failed": shape.failed_count,
                "canceled": shape.canceled_count,
            }  # fmt: skip
            if len(states) >= part.described_count:
                break
        if len(states) >= whole.count:
            whole.states = bytes(states)
        whole.told_at = time.monotonic()

    async def _part(self, graph_id: GraphId, client_id: PeerId, first: int, wants_shape: bool) -> GraphPart:
        part: GraphPart | str = await self._ask(
            lambda number: GraphRequest(number, graph_id, client_id, first, wants_shape)
        )
        if isinstance(part, str):
            raise GraphError(part)
        if part.described_count > WHOLE_LIMIT:
            raise GraphError(f"a graph of more than {WHOLE_LIMIT:,} tasks is shown in part")
        return part
