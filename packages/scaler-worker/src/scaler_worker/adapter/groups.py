"""Worker groups of one worker each, as processes of this machine."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from scaler_worker.manager.core import Event, UnitEnded, UnitRuns
from scaler_worker.manager.service import NewBackend


class AtCapacity(Exception):
    """There are as many groups as there may be."""


class NoSuchGroup(Exception):
    """It was never started, or has ended."""


class CannotStart(Exception):
    """The machine does not let us."""


@dataclass(slots=True, eq=False)
class Group:
    group_id: str
    request_id: str  #: of the request that started it, or empty
    has_started: asyncio.Future[None]
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)


class Groups:
    """`max_groups` below zero: any number."""

    def __init__(self, new_backend: NewBackend, max_groups: int) -> None:
        self.max_groups = max_groups
        self._backend = new_backend(self._on_event)
        #: all and only the groups that have not ended
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    async def start(self, request_id: str = "") -> str:
        """The id of a group, which is also the name of its worker. A request that comes again gets the same group."""
        group = self._of_request(request_id)
        if group is None:
            if 0 <= self.max_groups <= len(self._groups):
                raise AtCapacity(f"all {self.max_groups} worker groups are in use")
            group_id = f"native-{secrets.token_hex(8)}"
            group = Group(group_id, request_id, asyncio.get_running_loop().create_future())
            self._groups[group_id] = group
            self._backend.start(group_id)
        await asyncio.shield(group.has_started)
        return group.group_id

    def _of_request(self, request_id: str) -> Group | None:
        return next((group for group in self._groups.values() if request_id and group.request_id == request_id), None)

    async def shut_down(self, group_id: str) -> None:
        """Returns when it has ended."""
        group = self._groups.get(group_id)
        if group is None:
            raise NoSuchGroup(f"there is no worker group {group_id!r}")
        self._backend.stop(group_id)
        await group.has_ended.wait()

    async def close(self) -> None:
        await asyncio.gather(*[self.shut_down(group_id) for group_id in list(self._groups)])
        await self._backend.close()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, UnitRuns):
            self._groups[event.unit_id].has_started.set_result(None)
        elif isinstance(event, UnitEnded):
            group = self._groups.pop(event.unit_id)
            group.has_ended.set()
            if not group.has_started.done():
                group.has_started.set_exception(CannotStart(event.text))
