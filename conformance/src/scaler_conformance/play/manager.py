"""A worker manager under test, as the scheduler that the suite plays sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message

from .conversation import ANSWER_SECONDS
from .host import Guest

ABSENT, STARTING, RUNNING, STOPPING = 0, CODES.UNIT_STARTING, CODES.UNIT_RUNNING, CODES.UNIT_STOPPING
_NAMES = {ABSENT: "absent", STARTING: "starting", RUNNING: "running", STOPPING: "stopping"}
#: Which state may follow which from one ManagerStatus to the next; between them a unit may have gone through several.
_FOLLOWS = {
    ABSENT: frozenset(),
    STARTING: frozenset((STARTING, RUNNING, STOPPING, ABSENT)),
    RUNNING: frozenset((RUNNING, STOPPING, ABSENT)),
    STOPPING: frozenset((STOPPING, ABSENT)),
}
#: Units are processes, or more.
UNIT_SECONDS = 15.0


class ManagerGuest(Guest):
    """Keeps every ManagerStatus, and holds each to what holds for all of them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.statuses: list[Message] = []
        #: every unit that was ever listed in this session
        self.seen: dict[str, int] = {}
        self.targets = 0
        self.wanted = 0
        #: what each target has named in `stop`, by its number
        self._stopped: dict[int, tuple[str, ...]] = {}

    # ------------------------------------------------------------ what it tells

    def take_status(self, message: Message) -> None:
        units = {unit["unitId"]: unit["state"] for unit in message["units"]}
        if len(units) != len(message["units"]):
            raise Breach("a ManagerStatus lists a unit twice", "MGR-10")
        for name, state in units.items():
            if not name or state not in (STARTING, RUNNING, STOPPING):
                raise Breach(f"a ManagerStatus lists unit {name!r} in state {state}", "MGR-10")
        for name, before in self.seen.items():
            now = units.get(name, ABSENT)
            if now not in _FOLLOWS[before] and now != before:
                text = f"unit {name} was {_NAMES[before]} and is listed as {_NAMES[now]} now"
                raise Breach(text, "MGR-13" if before == STOPPING else "MGR-10")
        self._check_target(message, units)
        self._check_count(message, units)
        self.seen = {**dict.fromkeys(self.seen, ABSENT), **units}
        self.statuses.append(message)

    def _check_target(self, message: Message, units: Mapping[str, int]) -> None:
        number = message["targetNumber"]
        if number > self.targets:
            text = f"a ManagerStatus acts on target {number}, and {self.targets} was the last of this session"
            raise Breach(text, "MGR-3" if self.targets else "MGR-14")
        if self.statuses and number < self.statuses[-1]["targetNumber"]:
            raise Breach(f"a ManagerStatus acts on target {number} after it acted on a later one", "MGR-4")
        for sent, names in self._stopped.items():
            going_on = [name for name in names if units.get(name) in (STARTING, RUNNING)]
            if sent <= number and going_on:
                text = f"target {sent} is acknowledged, and unit {going_on[0]}, which it named in `stop`,"
                raise Breach(f"{text} is listed as {_NAMES[units[going_on[0]]]}", "MGR-13")

    def _check_count(self, message: Message, units: Mapping[str, int]) -> None:
        """Whether it has started a unit that the last target does not ask for, which it says to act on."""
        if message["targetNumber"] != self.targets or not self.targets:
            return
        wanted = -(-self.wanted // self.workers_per_unit)
        live = [name for name, state in units.items() if state in (STARTING, RUNNING)]
        new = [name for name in live if name not in self.seen]
        if new and len(live) > wanted:
            text = f"unit {new[-1]} is new, and with it {len(live)} units are starting or running; {wanted} are wanted"
            raise Breach(text, "MGR-4")

    @property
    def units(self) -> dict[str, int]:
        """As last listed, with their states."""
        return {unit["unitId"]: unit["state"] for unit in self.statuses[-1]["units"]} if self.statuses else {}

    @property
    def most(self) -> int:
        """So many workers it can have."""
        return int(self.statuses[-1]["maxWorkers"]) if self.statuses else 0

    @property
    def acts_on(self) -> int:
        return int(self.statuses[-1]["targetNumber"]) if self.statuses else 0

    @property
    def workers_per_unit(self) -> int:
        return max(1, int(self.hello["manager"]["workersPerUnit"]))

    def in_state(self, *states: int) -> list[str]:
        return [name for name, state in self.units.items() if state in states]

    # ------------------------------------------------------------ what it is told

    def begin_again(self) -> ManagerGuest:
        """The scheduler has forgotten it; it asks to resume and is given another session."""
        self.lose()
        again = self.host.guest("manager", clause="SES-11")
        assert isinstance(again, ManagerGuest)
        again.wait(lambda: bool(again.statuses), "no ManagerStatus came after the Welcome", "MGR-3")
        return again

    def target(self, workers: int, stop: Iterable[str] = ()) -> int:
        self.targets += 1
        self.wanted = workers
        self._stopped[self.targets] = tuple(stop)
        return self.send("managerTarget", number=self.targets, workerCount=workers, stop=list(stop))

    def wait(self, is_so: Callable[[], bool], otherwise: str, clause: str, seconds: float = UNIT_SECONDS) -> None:
        if not self.pump.until(is_so, seconds):
            raise Breach(f"{otherwise} within {seconds:g} s", clause)

    def wait_until_acted(self) -> None:
        """It has said that it acts on the last target."""
        acted = self.pump.until(lambda: self.acts_on == self.targets, ANSWER_SECONDS)
        if not acted:
            text = f"no ManagerStatus said that target {self.targets} is in force within {ANSWER_SECONDS:g} s"
            raise Breach(text, "MGR-4" if self.acts_on else "MGR-3")

    def wait_for_running(self, units: int) -> list[str]:
        if not self.pump.until(lambda: len(self.in_state(RUNNING)) >= units, UNIT_SECONDS):
            there = {guest.hello["worker"]["unitId"] for guest in self.host.guests if guest.role == "worker"}
            late = [name for name in self.in_state(STARTING) if name in there]
            if late:
                text = f"unit {late[0]} is still listed as starting, and its worker was there {UNIT_SECONDS:g} s ago"
                raise Breach(text, "MGR-3")
            text = f"{units} units were wanted, and {len(self.in_state(RUNNING))} were running after {UNIT_SECONDS:g} s"
            raise Breach(text, "MGR-4")
        return self.in_state(RUNNING)

    def wait_for_none(self, clause: str = "MGR-10") -> None:
        """Every unit has ended, and is listed no more."""
        named = self._stopped[self.targets]
        if not self.pump.until(lambda: not self.units, UNIT_SECONDS):
            if not set(self.units) & set(named):
                raise Breach("no workers are wanted, and units have been started", "MGR-4")
            raise Breach(f"units that were to stop are still listed after {UNIT_SECONDS:g} s", clause)
