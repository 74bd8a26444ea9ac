"""The decisions of a worker manager (spec chapter 19)."""

from __future__ import annotations

from itertools import count
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, ManagerStatus, ManagerTarget, Welcome
from scaler_protocol.session import Lost, Opened, Received
from scaler_worker.manager import core
from scaler_worker.manager.core import (
    Action,
    Event,
    Leaving,
    ManagerCore,
    StartUnit,
    StopUnit,
    Tell,
    Ticked,
    UnitEnded,
    UnitFound,
    UnitRuns,
)
from scaler_worker.manager.units import IllegalMove, State

SCHEDULER = PeerId(b"s" * 16)
OPENED = Opened(SCHEDULER, Hello(1, 1, 5, PeerId(b"m" * 16)), Welcome(1, SCHEDULER, 1, 1))
LOST = Lost(SCHEDULER, 205, "silent", False)


class Story:
    def __init__(self, max_workers: int = 8, workers_per_unit: int = 1) -> None:
        numbers = count(1)
        self.core = ManagerCore(
            max_workers=max_workers, workers_per_unit=workers_per_unit, new_unit_id=lambda: f"u{next(numbers)}"
        )
        self.now = 0.0
        self._number = 0

    def handle(self, event: Event) -> list[str]:
        return [_line(action) for action in self.core.handle(event, self.now)]

    def target(self, worker_count: int, *stop: str) -> list[str]:
        self._number += 1
        return self.handle(Received(SCHEDULER, self._number, ManagerTarget(self._number, worker_count, stop)))

    def runs(self, *units: str) -> None:
        for unit in units:
            self.handle(UnitRuns(unit, "here"))

    def states(self) -> dict[str, str]:
        return {unit.unit_id: unit.state.name for unit in self.core.units.values()}


def _line(action: Action) -> str:
    if isinstance(action, Tell):
        units = " ".join(f"{unit.unit_id}:{State(unit.state).name.lower()}" for unit in action.status.units)
        trouble = f" ({action.status.trouble})" if action.status.trouble else ""
        return f"tell {action.status.target_number}/{action.status.max_workers} {units}".strip() + trouble
    return f"{'start' if isinstance(action, StartUnit) else 'stop'} {action.unit_id}"


@pytest.fixture
def story() -> Story:
    story = Story()
    story.handle(OPENED)
    return story


def test_it_tells_what_it_has_first() -> None:
    assert Story().handle(OPENED) == ["tell 0/8"]


def test_units_are_started_once(story: Story) -> None:
    assert story.target(2) == ["start u1", "start u2", "tell 1/8 u1:starting u2:starting"]
    assert story.target(2) == ["tell 2/8 u1:starting u2:starting"]
    assert story.handle(UnitRuns("u1", "pid 7")) == ["tell 2/8 u1:running u2:starting"]


def test_no_more_than_there_may_be(story: Story) -> None:
    assert story.target(99)[7] == "start u8" and len(story.core.units) == 8


def test_units_of_several_workers() -> None:
    story = Story(max_workers=10, workers_per_unit=4)
    story.handle(OPENED)
    story.target(5)
    assert len(story.core.units) == 2
    story.target(10)
    assert len(story.core.units) == 2, "a third would make twelve workers of ten"


def test_no_more_than_a_status_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that are stopping are listed as well. (LIM-9)"""
    monkeypatch.setattr(core, "UNITS_MAX", 3)
    story = Story(max_workers=100)
    story.handle(OPENED)
    assert story.target(100) == ["start u1", "start u2", "start u3", "tell 1/3 u1:starting u2:starting u3:starting"]
    story.runs("u1", "u2", "u3")
    told = story.target(3, "u1")
    assert told[-1] == "tell 2/3 u1:stopping u2:running u3:running", "the place of u1 is taken while it is stopping"


def test_what_runs_ends_only_when_it_is_named(story: Story) -> None:
    story.target(2)
    story.runs("u1", "u2")
    assert story.target(0) == ["tell 2/8 u1:running u2:running"]
    assert story.target(0, "u2") == ["stop u2", "tell 3/8 u1:running u2:stopping"]
    assert story.target(0, "u2") == ["tell 4/8 u1:running u2:stopping"], "once is enough"
    assert story.handle(UnitEnded("u2")) == ["tell 4/8 u1:running"]


def test_what_still_starts_is_given_up(story: Story) -> None:
    story.target(3)
    story.runs("u1")
    assert story.target(1) == ["stop u3", "stop u2", "tell 2/8 u1:running u2:stopping u3:stopping"]
    assert story.target(2)[0] == "start u4", "what stops does not count"


def test_what_ended_by_itself_is_replaced(story: Story) -> None:
    story.target(1)
    story.runs("u1")
    story.now = 100.0
    assert story.handle(UnitEnded("u1", "killed by SIGKILL")) == ["start u2", "tell 1/8 u2:starting"]


def test_what_cannot_be_started_is_tried_again_after_a_pause_that_grows(story: Story) -> None:
    story.target(1)
    pauses = []
    for number in range(1, 9):
        told = story.handle(UnitEnded(f"u{number}", "no quota"))
        assert told == ["tell 1/8 (no quota)"]
        deadline = story.core.next_deadline()
        assert deadline is not None
        pauses.append(deadline - story.now)
        story.now = deadline
        assert story.handle(Ticked()) == [f"start u{number + 1}", f"tell 1/8 u{number + 1}:starting"]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_without_a_session_nothing_changes(story: Story) -> None:
    story.target(2)
    story.runs("u1", "u2")
    assert story.handle(LOST) == []
    assert story.handle(UnitEnded("u2", "killed")) == []
    story.now = 1000.0
    assert story.handle(Ticked()) == []
    assert story.handle(OPENED) == ["tell 0/8 u1:running"]
    assert story.target(2) == ["start u3", "tell 2/8 u1:running u3:starting"]


def test_units_of_a_former_life(story: Story) -> None:
    assert story.handle(UnitFound("old", "job 17")) == ["tell 0/8 old:running"]
    assert story.target(1) == ["tell 1/8 old:running"]
    assert story.target(0, "old") == ["stop old", "tell 2/8 old:stopping"]


def test_leaving_stops_everything(story: Story) -> None:
    story.target(2)
    story.runs("u1")
    assert story.handle(Leaving()) == ["stop u1", "stop u2", "tell 1/0 u1:stopping u2:stopping"]
    story.handle(UnitEnded("u1"))
    story.handle(UnitRuns("u2", "late"))
    assert not story.core.is_done
    story.handle(UnitEnded("u2"))
    assert story.core.is_done


def test_an_illegal_move_says_what(story: Story) -> None:
    story.target(1)
    story.runs("u1")
    with pytest.raises(IllegalMove, match="unit u1, which is RUNNING, cannot RUN"):
        story.runs("u1")


@given(st.data())
def test_whatever_happens(data: Any) -> None:
    """Never beyond the limit or the target, never an end without a name, and the last status tells the truth."""
    wpu = data.draw(st.integers(1, 3))
    core = ManagerCore(max_workers=9, workers_per_unit=wpu, new_unit_id=map(str, count()).__next__)
    now, last, has_session, target = 0.0, ManagerStatus(), False, None
    for number in range(data.draw(st.integers(1, 40))):
        states = {unit_id: unit.state for unit_id, unit in core.units.items()}
        choices: list[Event] = [OPENED if not has_session else LOST, Ticked()]
        choices += [UnitEnded(unit_id, "bad") for unit_id in states]
        choices += [UnitRuns(unit_id, "") for unit_id, state in states.items() if state is State.STARTING]
        if has_session:
            stop = tuple(data.draw(st.sets(st.sampled_from(sorted(states))))) if states else ()
            choices.append(Received(SCHEDULER, 1, ManagerTarget(number + 1, data.draw(st.integers(0, 12)), stop)))
        event = data.draw(st.sampled_from(choices))
        now += data.draw(st.sampled_from([0.0, 1.0, 100.0]))
        actions = core.handle(event, now)
        has_session = event is OPENED or (has_session and event is not LOST)
        if isinstance(event, Received):
            target = event.message
        elif event in (OPENED, LOST):
            target = None
        live = sum(unit.state is not State.STOPPING for unit in core.units.values())
        assert live * wpu <= 9
        for action in actions:
            if isinstance(action, StartUnit):
                assert target is not None and (live - 1) * wpu < target.worker_count
            elif isinstance(action, StopUnit) and states.get(action.unit_id) is State.RUNNING:
                assert target is not None and action.unit_id in target.stop
            elif isinstance(action, Tell):
                last = action.status
        if has_session:
            assert [(unit.unit_id, unit.state) for unit in last.units] == [
                (unit.unit_id, unit.state) for unit in core.units.values()
            ]
