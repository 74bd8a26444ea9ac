"""A worker manager as the scheduler knows it: its units, what it is asked for, and which units may end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable

from scaler_protocol.codes import UNIT_RUNNING, UNIT_STARTING
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity, user_of
from scaler_protocol.messages import ManagerOffer, ManagerStatus, ManagerTarget
from scaler_scheduler.core.entities.requirements import offered
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.scaling.policies import Source

NO_SHOW_SECONDS = 60.0
"""A unit that is said to run, and of which no worker has come for so long, may end: whatever it does, it is no help."""

AWAITED_SECONDS = 10.0
"""Units that run when a manager comes: their workers may hold tasks of a scheduler before this one, and may still be on
their way here. For so long those of which none has come are not ended."""

WORKERS_MOST = (1 << 32) - 1
"""Units may be of any size, as a manager tells: more workers than a count has room for are told as so many. (FRM-21)"""

WorkersOf = Callable[[str], list[Worker]]


class Manager:
    """A unit is *live* while it is starting or running and may stay. Of the live ones that run, some may be *retiring*:
    their workers get no tasks any more, and when they hold none the unit is named in `stop` and is live no longer.
    """

    def __init__(self, peer_id: PeerId, offer: ManagerOffer, identity: Identity | None = None) -> None:
        self.peer_id = peer_id
        #: of the ticket with which it has come; empty: the cluster has no keys
        self.user = user_of(identity)
        self.is_operator = identity is not None and identity.is_operator
        self.manager_id = offer.manager_id
        self.name = offer.name or "unnamed"
        self.capabilities = {item.name: item.amount for item in offer.capabilities}
        #: all that its workers offer; which code they read is known when the first of them has come (SCH-39)
        self.offer = offered(self.capabilities, (), takes_code_sets=True)
        self.workers_per_unit = offer.workers_per_unit
        self.status: ManagerStatus | None = None
        #: its units by state, counted once for each report: watchers ask more often
        self.unit_counts: Counter[int] = Counter()
        #: of workers that do not know to which unit they belong (MGR-17)
        self.unit_by_name: dict[str, str] = {}
        #: how many workers are wanted, once it has told what it has
        self.goal = 0
        #: fewer would have been enough since then, and at most so many since then
        self._lower_since: float | None = None
        self._lower_most = 0
        #: units named in `stop` that it still lists, in the order of naming
        self.stopped: dict[str, None] = {}
        self.retiring: dict[str, None] = {}
        #: units that ran when the manager came
        self._found: frozenset[str] = frozenset()
        #: running units -> since when none of their workers is here
        self._deserted: dict[str, float] = {}
        self._number = 0
        self._told: tuple[int, tuple[str, ...]] | None = None

    # ------------------------------------------------------------ what it tells

    def report(self, status: ManagerStatus, named: Container[str] = ()) -> None:
        """`named`: units that may not work, because they were named in `stop` in a session before. (MGR-16)"""
        is_first = self.status is None
        self.status = status
        self.unit_counts = Counter([unit.state for unit in status.units])
        listed = {unit.unit_id for unit in status.units}
        self.unit_by_name = {name: unit.unit_id for unit in status.units for name in unit.worker_names}
        self.stopped = {unit_id: None for unit_id in self.stopped if unit_id in listed}
        if is_first:
            self._found = frozenset(self._in_state(UNIT_RUNNING))
            self.stopped = {unit.unit_id: None for unit in status.units if unit.unit_id in named}
        running = set(self._in_state(UNIT_RUNNING))
        self.retiring = {unit_id: None for unit_id in self.retiring if unit_id in running}
        if is_first:
            self.goal = self.source().present

    @property
    def unit_count(self) -> int:
        return 0 if self.status is None else len(self.status.units)

    def may_have(self, worker: Worker) -> bool:
        """Workers of other users are not a manager's: it could take their tasks from them. (SEC-19)"""
        return self.is_operator or self.user == worker.user

    def has(self, worker: Worker) -> bool:
        return self.manager_id == worker.manager_id and self.may_have(worker)

    def met(self, worker: Worker) -> None:
        """One of its workers has come: those that follow read the same code."""
        self.offer = offered(self.capabilities, worker.code_tags, takes_code_sets=worker.takes_code_sets)

    def _in_state(self, *states: int) -> Iterable[str]:
        units = self.status.units if self.status is not None else ()
        return [unit.unit_id for unit in units if unit.state in states and unit.unit_id not in self.stopped]

    def source(self) -> Source:
        status = self.status or ManagerStatus()
        live = len(list(self._in_state(UNIT_STARTING, UNIT_RUNNING)))
        return Source(
            self.peer_id,
            self.name,
            self.offer,
            status.max_workers,
            self.workers_per_unit,
            min(live * self.workers_per_unit, WORKERS_MOST),
            bool(status.trouble),
        )

    def starting_count(self) -> int:
        """Returns how many workers are on their way. The number may be larger than a count has room for."""
        return len(list(self._in_state(UNIT_STARTING))) * self.workers_per_unit

    # ------------------------------------------------------------ what is wanted of it

    def follow(self, wanted: int, patience_seconds: float, now: float) -> None:
        """More is wanted at once; less only when it has been enough for a while, so that the number does not flap."""
        if wanted >= self.goal:
            self.goal, self._lower_since = wanted, None
        elif self._lower_since is None:
            self._lower_since, self._lower_most = now, wanted
        else:
            self._lower_most = max(self._lower_most, wanted)
            if now - self._lower_since >= patience_seconds:
                self.goal, self._lower_since = self._lower_most, None
        if self.status is not None:
            self.goal = min(self.goal, self.status.max_workers)

    def settle_units(
        self, workers_of: WorkersOf, is_stranger_busy: bool, now: float
    ) -> tuple[list[Worker], list[Worker]]:
        """Which running units are too many. Returns the workers to retire, and those to bring back.

        `is_stranger_busy`: a worker of no known unit holds a task, and may belong to any unit without workers.
        """
        running = list(self._in_state(UNIT_RUNNING))
        active = [unit_id for unit_id in running if unit_id not in self.retiring]
        excess = len(active) - -(-self.goal // self.workers_per_unit)
        retired: list[str] = []
        revived: list[str] = []
        if excess > 0:
            # Those with the least to do, the newest first: what is listed last was started last.
            load = {unit_id: sum(len(worker.held) for worker in workers_of(unit_id)) for unit_id in active}
            newest_first = active[::-1]
            retired = sorted(newest_first, key=load.__getitem__)[:excess]
            self.retiring.update(dict.fromkeys(retired))
        elif excess < 0 and self.retiring:
            revived = list(self.retiring)[excess:]
            for unit_id in revived:
                del self.retiring[unit_id]
        self._stop_empty_units(running, workers_of, is_stranger_busy, now)
        return _all(retired, workers_of), _all(revived, workers_of)

    def _stop_empty_units(
        self, running: Iterable[str], workers_of: WorkersOf, is_stranger_busy: bool, now: float
    ) -> None:
        deserted = {unit_id for unit_id in running if not workers_of(unit_id)}
        self._deserted = {unit_id: self._deserted.get(unit_id, now) for unit_id in deserted}
        for unit_id in running:
            if unit_id in deserted:
                seconds = now - self._deserted[unit_id]
                is_awaited = seconds < (AWAITED_SECONDS if unit_id in self._found else 0.0)
                is_useless = seconds >= NO_SHOW_SECONDS or (unit_id in self.retiring and not is_awaited)
                may_end = is_useless and not is_stranger_busy
            else:
                may_end = unit_id in self.retiring and all(worker.may_leave(now) for worker in workers_of(unit_id))
            if may_end:
                self.retiring.pop(unit_id, None)
                self.stopped[unit_id] = None

    def may_not_work(self, unit_id: str) -> bool:
        return unit_id in self.stopped or unit_id in self.retiring

    def next_target(self) -> ManagerTarget | None:
        """What to tell it, when it has not been told so yet (MGR-5, MGR-11)."""
        wanted = self.goal, tuple(self.stopped)
        if self.status is None or wanted == self._told:
            return None
        self._told = wanted
        self._number += 1
        return ManagerTarget(self._number, *wanted)


def _all(unit_ids: Iterable[str], workers_of: WorkersOf) -> list[Worker]:
    return [worker for unit_id in unit_ids for worker in workers_of(unit_id)]
