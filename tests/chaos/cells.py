"""The chaos matrix: which faults meet which roles under which work, and what may come of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.workload import KINDS

#: With two processors each of them takes a few seconds.
COUNTS = {"small": 150, "long": 6, "large": 30, "graph": 60, "nested": 16}

TERM, KILL, RESTART, STOP, LONG_STOP = "SIGTERM", "SIGKILL", "killed, restarted", "SIGSTOP 5 s", "SIGSTOP 90 s"
FAULTS = (TERM, KILL, RESTART, STOP, LONG_STOP)
STOP_SECONDS = {STOP: 5.0, LONG_STOP: 90.0}
ROLES = ("processor", "worker", "cluster", "scheduler", "storage", "client", "manager")
BOTH = " and "
#: Two faults at the same moment.
PAIRS = tuple(
    BOTH.join(pair)
    for pair in (
        ("scheduler", "storage"),
        ("scheduler", "worker"),
        ("scheduler", "cluster"),
        ("scheduler", "processor"),
        ("scheduler", "client"),
        ("storage", "worker"),
        ("storage", "cluster"),
        ("storage", "processor"),
        ("storage", "client"),
    )
)
#: How futures end that need one of the servers.
_ERRORS = {"scheduler": "DisconnectedError", "storage": "ObjectStorageException"}
_SERVERS = _ERRORS.keys()
#: Their ends leave workers and stored values where they are.
_WITHOUT_WORK = frozenset({"scheduler", "client"})
#: What starts these again does so by itself.
STARTED_BY_OTHERS = frozenset({"processor", "worker", "client"})


class Cell(NamedTuple):
    role: str
    fault: str
    kind: str

    @property
    def text(self) -> str:
        return f"{self.role} / {self.fault} / {self.kind}"

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.role.split(BOTH))

    @property
    def is_client_dead(self) -> bool:
        return "client" in self.roles and self.fault in (TERM, KILL)

    @property
    def stop_seconds(self) -> float:
        return STOP_SECONDS.get(self.fault, 0.0)

    @property
    def is_gone(self) -> bool:
        """A server that nothing starts again. After a SIGTERM the operator does, as at an upgrade."""
        return self.role in _SERVERS and self.fault == KILL

    @property
    def is_long(self) -> bool:
        """It takes minutes: the stops of 90 s, and what waits for a storage that does not come back. A worker gives a
        task up after 60 s, and the task ends with its third worker."""
        return self.fault == LONG_STOP or (self.role == "storage" and self.is_gone)

    @property
    def excused(self) -> frozenset[str]:
        """The errors with which futures may end; every other future has its value. What needs a server that is gone, or
        was away for longer than clients wait, ends with the documented error of that server. A server that comes back
        in time costs no future, nor does the end of anything else: what a storage has lost is stored or made again."""
        if not self.is_gone and self.fault != LONG_STOP:
            return frozenset()
        return frozenset(_ERRORS[role] for role in _SERVERS & set(self.roles))

    @property
    def most_reruns(self) -> float:
        """How many tasks may begin again, all together. A stop of 5 s, and the end of a scheduler or client, take no
        running task away; nodes of a graph whose ends a scheduler had not passed on run again (SCH-51, SCH-71). Two
        processors, with the parents that are blocked in them, are all the work that a worker's end can take. Values
        that only a storage had are made again, and so is all that a client has not got by the end of its lease."""
        is_given_up = self.fault == LONG_STOP and "client" in self.roles
        if self.fault == STOP or (_WITHOUT_WORK.issuperset(self.roles) and not is_given_up):
            return 2 if self.kind == "graph" and "scheduler" in self.roles else 0
        is_made_again = "storage" in self.roles and self.kind in ("large", "graph")
        return math.inf if self.fault == LONG_STOP or is_made_again else 8

    @property
    def pause_bound(self) -> float:
        """How long no task may begin while there are some to begin: the fault, then leases and reconnects. Workers that
        are stopped for longer than their lease lose their tasks at its end."""
        return 220.0 if self.is_gone and self.is_long else self.stop_seconds + (25.0 if self.is_gone else 15.0)


def every() -> Iterator[Cell]:
    for role in ROLES:
        for fault in FAULTS:
            if fault == RESTART and role in STARTED_BY_OTHERS:
                continue
            yield from (Cell(role, fault, kind) for kind in KINDS)
    for pair in PAIRS:
        for fault in (TERM, RESTART, STOP):
            if fault == STOP or "client" not in pair:  # a client that has ended has no futures to judge
                yield from (Cell(pair, fault, kind) for kind in KINDS)
