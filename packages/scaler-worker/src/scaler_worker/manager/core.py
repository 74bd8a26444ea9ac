"""The decisions of a worker manager: no process, job, socket or clock.

The scheduler's last target is all that counts (MGR-4). Units are started while too few are starting or running; one
that runs ends only when a target names it (MGR-6). What cannot be started is tried again after a pause that doubles.
Without a session nothing is started and nothing ended (MGR-14).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler_protocol.codec.bounds import UNITS_MAX
from scaler_protocol.messages import ManagerStatus, ManagerTarget
from scaler_protocol.session import Lost, Opened, Received
from scaler_worker.manager.units import Move, State, Unit

PAUSE_SECONDS = 1.0
PAUSE_LIMIT_SECONDS = 60.0
STEADY_SECONDS = 10.0
"""A unit that ended sooner has failed, even if it ran: the next one would do the same."""


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class UnitRuns:
    unit_id: str
    place: str
    worker_names: tuple[str, ...] = ()  #: when they cannot tell their unit themselves (MGR-17)


@dataclass(frozen=True, slots=True)
class UnitEnded:
    unit_id: str
    text: str = ""  #: why, when that is a reason to be careful with the next one
    is_final: bool = False  #: the next one would end the same way, however long we wait


@dataclass(frozen=True, slots=True)
class UnitFound:
    """A unit of a former life of this manager, which still runs."""

    unit_id: str
    place: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """A deadline has come."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The operator wants an end: all units are to stop."""


Event = Opened | Received | Lost | UnitRuns | UnitEnded | UnitFound | Ticked | Leaving


# ---------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class StartUnit:
    unit_id: str


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Gently: its workers finish or give back what they hold."""

    unit_id: str


@dataclass(frozen=True, slots=True)
class Tell:
    status: ManagerStatus


Action = StartUnit | StopUnit | Tell


class ManagerCore:
    def __init__(self, *, max_workers: int, workers_per_unit: int, new_unit_id: Callable[[], str]) -> None:
        self._max_workers = min(max_workers, UNITS_MAX * workers_per_unit)
        self._workers_per_unit = workers_per_unit
        self._new_unit_id = new_unit_id
        #: all and only the units that have not ended, oldest first
        self.units: dict[str, Unit] = {}
        #: the last one of this session
        self._target: ManagerTarget | None = None
        self._has_session = False
        self._is_leaving = False
        self._trouble = ""
        self._failure_count = 0
        self._failed_at = 0.0
        #: nothing is started before
        self._paused_until: float | None = None
        self._told: ManagerStatus | None = None
        self._handlers: dict[type, Callable[[Any, float], list[Action]]] = {
            Opened: self._on_opened,
            Received: self._on_received,
            Lost: self._on_lost,
            UnitRuns: self._on_unit_runs,
            UnitEnded: self._on_unit_ended,
            UnitFound: self._on_unit_found,
            Ticked: lambda event, now: [],
            Leaving: self._on_leaving,
        }

    def handle(self, event: Event, now: float) -> list[Action]:
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until, self._trouble = None, ""
        actions = self._handlers[type(event)](event, now)
        actions += self._follow_target(now)
        status = self._status()
        if self._has_session and status != self._told:
            self._told = status
            actions.append(Tell(status))
        return actions

    def next_deadline(self) -> float | None:
        return self._paused_until

    @property
    def is_done(self) -> bool:
        """Asked to leave, and nothing is left."""
        return self._is_leaving and not self.units

    # ------------------------------------------------------------ the scheduler

    def _on_opened(self, event: Opened, now: float) -> list[Action]:
        self._has_session, self._target, self._told = True, None, None
        return []

    def _on_lost(self, event: Lost, now: float) -> list[Action]:
        self._has_session, self._target = False, None
        return []

    def _on_received(self, event: Received, now: float) -> list[Action]:
        if not isinstance(event.message, ManagerTarget):
            return []
        self._target = event.message
        named = [self.units[unit_id] for unit_id in event.message.stop if unit_id in self.units]
        return [action for unit in named for action in self._stop(unit)]

    # ------------------------------------------------------------ the units

    def _on_unit_runs(self, event: UnitRuns, now: float) -> list[Action]:
        unit = self.units[event.unit_id]
        unit.move(Move.RUN)
        unit.place, unit.running_since, unit.worker_names = event.place, now, event.worker_names
        return []

    def _on_unit_ended(self, event: UnitEnded, now: float) -> list[Action]:
        unit = self.units.pop(event.unit_id)
        was, ran_for = unit.state, now - unit.running_since
        unit.move(Move.END)
        if was is State.STOPPING:
            return []
        if event.text and (was is State.STARTING or ran_for < STEADY_SECONDS):
            if now - self._failed_at > 2 * PAUSE_LIMIT_SECONDS:
                self._failure_count = 0
            self._failed_at, self._trouble = now, event.text
            self._paused_until = now + min(PAUSE_SECONDS * 2.0**self._failure_count, PAUSE_LIMIT_SECONDS)
            self._failure_count += 1
            if event.is_final:
                self._paused_until = math.inf
        return []

    def _on_unit_found(self, event: UnitFound, now: float) -> list[Action]:
        unit = self.units[event.unit_id] = Unit(event.unit_id, place=event.place, running_since=now)
        unit.move(Move.START)
        unit.move(Move.RUN)
        return []

    def _on_leaving(self, event: Leaving, now: float) -> list[Action]:
        self._is_leaving = True
        return [action for unit in self.units.values() for action in self._stop(unit)]

    def _stop(self, unit: Unit) -> list[Action]:
        if unit.state is State.STOPPING:
            return []
        unit.move(Move.STOP)
        return [StopUnit(unit.unit_id)]

    # ------------------------------------------------------------ the target

    def _follow_target(self, now: float) -> list[Action]:
        if self._target is None or self._is_leaving:
            return []
        units_wanted = -(-self._target.worker_count // self._workers_per_unit)
        wanted = min(units_wanted, self._max_workers // self._workers_per_unit)
        live = [unit for unit in self.units.values() if unit.state is not State.STOPPING]
        if len(live) < wanted:
            # Those that are stopping are listed too, and a list has no more than so many. (LIM-9)
            count = 0 if self._paused_until is not None else min(wanted - len(live), UNITS_MAX - len(self.units))
            return [self._start() for _ in range(count)]
        starting = [unit for unit in live if unit.state is State.STARTING]
        given_up = starting[::-1][: len(live) - wanted]
        return [action for unit in given_up for action in self._stop(unit)]

    def _start(self) -> StartUnit:
        unit = Unit(self._new_unit_id())
        unit.move(Move.START)
        self.units[unit.unit_id] = unit
        return StartUnit(unit.unit_id)

    def _status(self) -> ManagerStatus:
        return ManagerStatus(
            target_number=self._target.number if self._target is not None else 0,
            max_workers=0 if self._is_leaving else self._max_workers,
            units=tuple(unit.as_message() for unit in self.units.values()),
            trouble=self._trouble,
        )
