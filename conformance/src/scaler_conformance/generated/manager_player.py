"""Plays steps against a worker manager.

The guest holds each ManagerStatus to what holds for all of them. Here it is held to the targets of a whole sequence:
nothing starts that none of them asked for, nothing ends that none of them named, and in the end there is what the last
one wants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scaler_conformance.play.manager import RUNNING, STARTING, STOPPING, ManagerGuest
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import Message

from .dialer_player import DialerPlayer

WEIGHTS = {"target": 8, "stop": 5, "hurry": 2, "leave": 3, "lose": 1, "resume": 2, "fence": 2}
#: So many units are wanted at once, and may come and go in one sequence: each is a process, or more.
MOST_AT_ONCE = 2
MOST_IN_ALL = 4
RESUME_SECONDS = 10.0


class ManagerPlayer(DialerPlayer):
    def __init__(self, scene: Scene, edges: Counter[str]) -> None:
        super().__init__(scene, edges)
        self.first_guest = len(scene.scheduler.guests)
        self.listed: set[str] = set()
        #: units whose end somebody other than the manager has caused
        self.told_to_leave: set[str] = set()
        self._meet(scene.manager_under_test())

    def _meet(self, manager: ManagerGuest) -> None:
        self.manager = manager
        #: workers that each target wants, by its number; nothing is wanted before the first
        self.wanted = {manager.targets: manager.wanted}
        self.named: set[str] = set()
        self.looked_at = len(manager.statuses) - 1

    def end(self) -> None:
        units = -(-self.manager.wanted // self.manager.workers_per_unit)
        self.manager.wait_until_acted()
        self.manager.wait_for_running(units)
        self.manager.fence()
        self._look()

    # ------------------------------------------------------------ steps

    def _target(self, count: int, *_: int) -> None:
        self._aim(count)

    def _aim(self, count: int, *stop: str) -> None:
        room = max(0, MOST_IN_ALL - len(self.listed))
        there = len(self.manager.in_state(STARTING, RUNNING)) - len(stop)
        units = min(count % (1 + MOST_AT_ONCE), there + room)
        self.named.update(stop)
        self.manager.target(units * self.manager.workers_per_unit, stop)
        self.wanted[self.manager.targets] = self.manager.wanted

    def _stop(self, count: int, number: int, *_: int) -> None:
        units = self.manager.in_state(STARTING, RUNNING)
        self._aim(count, *units[number % len(units) :][:1] if units else ())

    def _hurry(self, count: int, last: int, *_: int) -> None:
        """One target on the heels of another."""
        self._aim(count)
        self._aim(last)

    def _leave(self, number: int, *_: int) -> None:
        """A unit ends by itself: its workers are told to leave."""
        running = self.manager.in_state(RUNNING)
        if running:
            unit = running[number % len(running)]
            self.told_to_leave.add(unit)
            for worker in self._workers():
                if worker.is_open and worker.hello["worker"]["unitId"] == unit:
                    worker.send("shutdown", graceSeconds=0.0)

    def _lose(self, *_: int) -> None:
        """The scheduler has forgotten it: what runs goes on running. (MGR-14)"""
        self.manager.fence()
        self._look()
        before, kept = self.manager, set(self.manager.in_state(RUNNING)) - self.named - self.told_to_leave
        again = before.begin_again()
        missing = sorted(kept - again.units.keys())
        if missing:
            raise Breach(f"unit {missing[0]} was running when the session was lost, and is listed no more", "MGR-14")
        self._meet(again)

    def _resume(self, *_: int) -> None:
        """A gap: it redials and resumes."""
        self.manager.resume_after_gap(RESUME_SECONDS)

    def _fence(self, *_: int) -> None:
        self.manager.fence()

    # ------------------------------------------------------------ what comes

    def _workers(self) -> list[WorkerGuest]:
        guests = self.scene.scheduler.guests[self.first_guest :]
        return [guest for guest in guests if isinstance(guest, WorkerGuest)]

    def _look(self) -> None:
        statuses = self.manager.statuses
        while self.looked_at < len(statuses) - 1:
            before, after = statuses[self.looked_at], statuses[self.looked_at + 1]
            self._compare(before, after)
            self.looked_at += 1

    def _compare(self, before: Message, after: Message) -> None:
        was, now = _states(before), _states(after)
        for unit, state in was.items():
            is_ended = state == RUNNING and now.get(unit) in (STOPPING, None)
            self.edges[f"unit: {state} to {now.get(unit, 0)}"] += 1
            if is_ended and unit not in self.named | self.told_to_leave:
                raise Breach(f"unit {unit} was running, no target has named it in `stop`, and it was ended", "MGR-6")
        new = sorted(now.keys() - was.keys())
        self.listed.update(new)
        if not new:
            return
        numbers = range(before["targetNumber"], after["targetNumber"] + 1)
        wanted = max(self.wanted.get(number, 0) for number in numbers)
        count = sum(state in (STARTING, RUNNING) for state in now.values())
        if (count - 1) * self.manager.workers_per_unit >= wanted:
            clause = "MGR-4" if after["targetNumber"] else "MGR-14"
            raise Breach(f"unit {new[-1]} was started: {count} bring more than the {wanted} workers wanted", clause)


def _states(status: Message) -> Mapping[str, int]:
    return {unit["unitId"]: unit["state"] for unit in status["units"]}
