"""Two schedulers of one cluster that name each other: crashes, and links that are cut so that each sees a part.

In worlds with crashes alone nothing begins twice, as with one scheduler that is restarted. Where links are cut, both
may serve for a while. Then tasks may begin twice, and all the same each future ends right, and once. (SCH-80 to SCH-83)
"""

from __future__ import annotations

from collections.abc import Callable

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.messages import Hello, Reject, Software
from scaler_protocol.session import Lost, Opened, SessionEvent, WelcomeFields
from scaler_scheduler.core.succession.succession import Duty
from scaler_scheduler.standby import Standby
from tests.simulation.nodes import Port, earliest
from tests.simulation.presenting import PresentingWorld
from tests.simulation.servers import SchedulerNode
from tests.simulation.world import TROUBLE_SECONDS, World

LEASE_SECONDS = 3.0


class PairedScheduler(SchedulerNode):
    """With the real rules for which scheduler serves, and no sockets."""

    other: PairedScheduler | None = None
    lease_seconds = LEASE_SECONDS
    #: told of each change of the duty, and after each turn
    on_change: Callable[[], None] = staticmethod(lambda: None)
    on_turn: Callable[[], None] = staticmethod(lambda: None)

    def pair(self, other: PairedScheduler, lease_seconds: float) -> None:
        self.other = other
        self.lease_seconds = lease_seconds
        self._look_for_other()

    def start(self) -> None:
        self._is_over = False
        super().start()
        self._storage.dialer.bye(0, "")
        if self.other is not None:
            self._look_for_other()

    def _look_for_other(self) -> None:
        assert self.other is not None
        now = self.world.clock.now
        self.standby = Standby(
            self.server_id, self.other.name, self.lease_seconds, Software(), self._generation, self._changed
        )
        self.standby.succession.begin(now)
        self.link = Port(self, self.other, self.standby.hello(self.new_id()), "scheduler")
        self.standby.use(self.link.dialer)
        self.wake()

    def _generation(self) -> int:
        return self.core.generation

    def _changed(self) -> None:
        succession = self.standby.succession
        self.world.note_event(self.name, f"{succession.duty.value}: {succession.why}")
        self.on_change()
        if succession.duty is Duty.SERVING:
            assert self.other is not None
            is_beside = self.link.dialer.is_open and self.other.serves
            self.world.law(not is_beside, f"{self.name} serves beside {self.other.name}, with which it has a session")
            self.core.serve(succession.seen_generation + 1, self.world.clock.now)
            self._storage.dialer.redial()
        else:
            self._is_over = True

    @property
    def serves(self) -> bool:
        return self.is_up and self.standby.succession.duty is Duty.SERVING

    def _turned_away(self, hello: Hello) -> Reject | None:
        return self.standby.turned_away(hello)

    def _welcome(self, hello: Hello, identity: object = None) -> WelcomeFields:
        if hello.role != ROLE_SCHEDULER:
            return super()._welcome(hello, identity)
        return WelcomeFields(generation=self.core.generation, is_standby=self.standby.is_waiting)

    def poll_server(self, now: float) -> list[SessionEvent]:
        events = []
        for event in super().poll_server(now):
            if isinstance(event, (Opened, Lost)) and self.standby.concerns(event):
                self.standby.on_peer(event)
            else:
                events.append(event)
        return events

    def round(self, now: float) -> None:
        self.standby.on_link(self.link.poll(now), now)
        self.standby.tick(now)
        super().round(now)
        self.link.settle(now)
        tables = self.core.tables
        if self.standby.is_waiting:
            self.world.law(not tables.clients and not tables.workers, f"{self.name} serves as a standby")
        self.on_turn()
        if self._is_over:
            self.crash()
            self.world.clock.after(0.1, self.start)

    def next_deadline(self) -> float | None:
        return earliest(super().next_deadline(), self.link.dialer.next_deadline(), self.standby.next_deadline())

    def crash(self) -> None:
        super().crash()
        self.link.close()


class StandbyWorld(PresentingWorld):
    lease_seconds = LEASE_SECONDS

    def __init__(self, seed: int) -> None:
        self.has_cuts = seed % 3 > 0
        self.change_count = 0
        #: turns of a scheduler while both served, and each had peers
        self.both_count = 0
        super().__init__(seed)

    def _new_schedulers(self) -> tuple[SchedulerNode, ...]:
        first, second = (PairedScheduler(self, self.storage, name) for name in ("scheduler", "scheduler2"))
        first.pair(second, self.lease_seconds)
        second.pair(first, self.lease_seconds)
        for one in (first, second):
            one.on_change, one.on_turn = self._note_change, self._note_turn
        self.pair = first, second
        return self.pair

    def _note_change(self) -> None:
        self.change_count += 1

    def _note_turn(self) -> None:
        self.both_count += all(one.serves and (one.core.tables.clients or one.core.tables.workers) for one in self.pair)

    @property
    def scheduler(self) -> SchedulerNode:
        """The one that serves; of two, the one that will go on."""
        serving = [one for one in self.pair if one.serves]
        return max(serving or self.pair, key=lambda one: (one.core.generation, one.server_id))

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.005, 0.02))
        at = LEASE_SECONDS
        while at < TROUBLE_SECONDS - 6:
            at += self.rng.uniform(1, 8)
            self.clock.at(at, self._trouble_of_two)

    def _trouble_of_two(self) -> None:
        if not self.has_cuts or self.rng.random() < 0.3:
            self._crash_one()
            return
        self.may_fail = True
        what = self.rng.random()
        if what < 0.3:
            self._cut("scheduler", "scheduler2")
        elif what < 0.8:
            # Each sees a part: some of the peers reach the one alone, and the others the other one.
            self._cut("scheduler", "scheduler2")
            for node in (*self.workers, *self.clients):
                if self.rng.random() < 0.8:
                    self._cut(node.name, self.rng.choice(("scheduler", "scheduler2")))
        else:
            seconds = self.rng.choice((1.0, LEASE_SECONDS + 1, 12.0))
            one = self.rng.choice(self.pair)
            self._trouble(f"{one.name} is stopped for {seconds:g} s")
            one.stop_for(seconds)

    def _cut(self, one: str, other: str) -> None:
        seconds = self.rng.choice((1.0, LEASE_SECONDS + 2, 12.0))
        self._trouble(f"{one} and {other} do not reach each other for {seconds:g} s")
        self.network.part(one, other, seconds)

    def _crash_one(self) -> None:
        one = self.rng.choice(self.pair)
        if one.is_up:
            self._trouble(f"{one.name} crashes")
            one.crash()
            self.clock.after(self.rng.uniform(0.05, 4), one.start)

    def _check_nothing_is_left(self) -> None:
        serving = [one.name for one in self.pair if one.serves]
        self.law(len(serving) == 1, f"in the end these serve: {serving}")
        if self.has_cuts:
            World._check_nothing_is_left(self)
        else:
            super()._check_nothing_is_left()


class TakeOverWorld(StandbyWorld):
    """The scheduler that serves is gone, once, in one of three ways: how long it takes until the other one serves."""

    WAYS = ("crashes", "is stopped", "is cut off")

    def __init__(self, seed: int, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self.way = self.WAYS[seed % len(self.WAYS)]
        self.gone_at = self.took_over_at = 0.0
        super().__init__(seed)

    def run(self) -> None:  # type: ignore[override]
        """Which of the two serves is a matter of the two alone: no work, and no end of it."""
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.005, 0.02))
        self.clock.at(self.lease_seconds + self.rng.uniform(1.0, 3.0), self._take_one_away)
        self._run_until(lambda: self.took_over_at, TROUBLE_SECONDS)
        self.law(bool(self.took_over_at), "the other one never serves")

    def _take_one_away(self) -> None:
        first = self.scheduler
        other = next(one for one in self.pair if one is not first)
        self._trouble(f"{first.name} {self.way}")
        self.may_fail, self.gone_at = True, self.clock.now
        if self.way == "crashes":
            first.crash()
            self.clock.after(self.lease_seconds + 1.0, first.start)
        elif self.way == "is stopped":
            first.stop_for(self.lease_seconds + 1.0)
        else:
            self.network.part(first.name, other.name, self.lease_seconds + 1.0)

    def _note_change(self) -> None:
        super()._note_change()
        if self.gone_at and not self.took_over_at:
            self.took_over_at = self.clock.now
