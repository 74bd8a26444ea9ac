"""The part of a connection that a future needs: the connection brings the future's result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from scaler.client.core.records import Outcomes
from scaler.client.io.background import Background
from scaler.client.objects.garbage import Garbage
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Buffer


class Source(Protocol):
    @property
    def is_closed(self) -> bool: ...

    @property
    def trusts_results(self) -> bool: ...

    @property
    def garbage(self) -> Garbage: ...

    @property
    def callbacks(self) -> Background: ...

    def hasten(self) -> None: ...

    def serve_until(self, is_over: Callable[[], bool], end_at: float) -> None: ...

    def cancel(self, ids: Iterable[TaskId]) -> None: ...

    def tell_later(self, future: Any, outcomes: Outcomes, *, is_awaited: bool) -> None: ...

    def wait_for_prints(self) -> None: ...

    def fetch_one(self, outcomes: Outcomes, end_at: float) -> Buffer: ...

    def unneeded(self, objects: tuple[ObjectId, ...]) -> None: ...
