"""The transition tables of the code say the same as `protocol/spec/states.toml`.

The code of a role may know more states than its machine, for a socket that is being redialed is nobody else's affair,
and fewer, where something else than a table tells them apart. Each comparison therefore names, state by state, what a
state of the code is in the specification. Then every move of the code has to be a way of the machine, and every way of
the machine a move of the code; what is not, is listed with its reason.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from scaler.client.core import states as client
from scaler_protocol.session import dialer_states as dialer
from scaler_scheduler.core.entities import states as scheduler
from scaler_scheduler.core.succession import succession
from scaler_storage.core import states as storage
from scaler_worker.core import processors
from scaler_worker.manager import units

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "protocol" / "tools"))

from speclib import states  # noqa: E402  (the tools are no package)

MACHINES = {machine.id: machine for machine in states.read(ROOT / "protocol" / "spec")}

Edge = tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    machine: str
    transitions: Mapping[tuple[Any, Any], Any]
    all_states: Iterable[Enum]
    #: what a state of the code is in the specification
    names: Mapping[Enum, str]
    #: where leaving a state and coming to it mean different things: what it is when it is left
    names_when_left: Mapping[Enum, str] = field(default_factory=dict)
    #: moves of the code that concern nothing of this machine
    apart: Collection[tuple[Any, Any]] = ()
    #: ways of the machine that no single move of the code takes
    elsewhere: Mapping[Edge, str] = field(default_factory=dict)

    def edges(self) -> dict[Edge, tuple[Any, Any]]:
        """The code's moves as the machine would tell them."""
        left = {**self.names, **self.names_when_left}
        return {
            (left[row[0]], self.names[target]): row for row, target in self.transitions.items() if row not in self.apart
        }


Task, Dial, Object, Processor = scheduler.State, dialer.State, storage.ObjectState, processors.State

COMPARISONS = [
    Comparison(
        "unit-at-manager",
        units.TRANSITIONS,
        units.State,
        {
            units.State.ENDED: "absent",
            units.State.STARTING: "starting",
            units.State.RUNNING: "running",
            units.State.STOPPING: "stopping",
        },
    ),
    Comparison(
        "session-dialer",
        dialer.TRANSITIONS,
        Dial,
        {
            Dial.IDLE: "idle",
            Dial.DIALING: "dialing",
            Dial.WAITING: "dialing",  # the pause before the next Hello
            Dial.OPEN: "open",
            Dial.INTERRUPTED: "resuming",  # the same
            Dial.RESUMING: "resuming",
            Dial.ENDED: "ended",
        },
        names_when_left={Dial.ENDED: "idle"},  # a new start is a new session: its machine begins anew
    ),
    Comparison(
        "task-at-client",
        client.TRANSITIONS,
        client.State,
        {client.State.QUEUED: "unsent", client.State.SENT: "submitted", client.State.ENDED: "ended"},
    ),
    Comparison(
        "task-at-scheduler",
        scheduler.TRANSITIONS,
        Task,
        {
            Task.NEW: "new",
            Task.WAITING: "waiting",
            Task.QUEUED: "queued",
            Task.DISPATCHED: "dispatched",
            Task.CANCELING: "canceling",
            Task.SUCCESS: "ended-success",
            Task.FAILED: "ended-failed",
            Task.CANCELED: "ended-canceled",
            Task.LOST: "ended-lost",
            Task.REFUSED: "ended-refused",
        },
        elsewhere={
            ("new", "ended-canceled"): "it waits first, and ends in the same step",
            ("new", "ended-refused"): "it waits first, and ends in the same step",
            ("new", "ended-success"): "the worker that has presented it is given it first, in the same step",
        },
    ),
    Comparison(
        # A worker moves its processors, and with each the first task of its slice.
        "task-at-worker",
        processors.TRANSITIONS,
        Processor,
        {
            Processor.STARTING: "absent",
            Processor.IDLE: "reported",  # its last task has ended
            Processor.RUNNING: "running",
            Processor.BLOCKED: "blocked",
            Processor.RESUMING: "blocked",  # until it has a place again
            Processor.STOPPING: "canceling",
            Processor.EXITED: "reported",
        },
        names_when_left={Processor.IDLE: "held"},  # the next one is about to begin
        apart={
            (Processor.STARTING, processors.Step.READY),
            (Processor.STARTING, processors.Step.STOP),
            (Processor.STARTING, processors.Step.EXIT),
            (Processor.IDLE, processors.Step.STOP),
            (Processor.IDLE, processors.Step.EXIT),
        },
        elsewhere={
            ("absent", "held"): "it is put into the queue",
            ("held", "reported"): "it is taken out of the queue",
            ("held", "returned"): "it is taken out of the queue",
            ("held", "dropped"): "the queue is emptied",
            ("running", "dropped"): "its processor is killed, and what it says no longer counts",
            ("blocked", "dropped"): "its processor is killed, and what it says no longer counts",
            ("canceling", "dropped"): "its processor is killed, and what it says no longer counts",
        },
    ),
    Comparison(
        "standby",
        succession.TRANSITIONS,
        succession.State,
        {
            succession.State.LOOKING: "looking",
            succession.State.WAITING: "waiting",
            succession.State.SERVING: "serving",
            succession.State.FOLLOWED: "followed",
            succession.State.ENDED: "ended",
        },
        elsewhere={("serving", "ended"): "the process ends"},
    ),
    Comparison(
        # Uploads belong to sessions and have a table of their own; the object is absent or awaited meanwhile.
        "object",
        storage.TRANSITIONS,
        Object,
        {Object.ABSENT: "absent", Object.AWAITED: "awaited", Object.STORED: "stored"},
        elsewhere={
            ("absent", "uploading"): "an upload begins",
            ("awaited", "uploading"): "an upload begins",
            ("uploading", "stored"): "the object comes into being out of absent or awaited",
            ("uploading", "absent"): "an upload ends",
            ("uploading", "awaited"): "an upload ends",
        },
    ),
]

each = pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison.machine)


def ways(machine: states.Machine) -> set[Edge]:
    """Without those that lead back: a state may always stay as it is."""
    return {(row.source, row.target) for row in machine.transitions if row.source != row.target}


@each
def test_every_state_of_the_code_has_a_name_in_the_specification(comparison: Comparison) -> None:
    assert set(comparison.names) == set(comparison.all_states)
    known = set(MACHINES[comparison.machine].states)
    assert {*comparison.names.values(), *comparison.names_when_left.values()} <= known


@each
def test_every_move_of_the_code_is_a_way_of_the_machine(comparison: Comparison) -> None:
    known = ways(MACHINES[comparison.machine])
    strange = {edge: row for edge, row in comparison.edges().items() if edge[0] != edge[1] and edge not in known}
    assert not strange, f"the specification knows no such way: {strange}"


@each
def test_every_way_of_the_machine_is_a_move_of_the_code(comparison: Comparison) -> None:
    missing = ways(MACHINES[comparison.machine]) - set(comparison.edges()) - set(comparison.elsewhere)
    assert not missing, f"the code never goes {sorted(missing)}"


@each
def test_the_exceptions_are_still_needed(comparison: Comparison) -> None:
    assert set(comparison.apart) <= set(comparison.transitions)
    assert set(comparison.elsewhere) <= ways(MACHINES[comparison.machine]) - set(comparison.edges())


def test_every_machine_that_has_a_table_in_code_is_compared() -> None:
    # Sessions at a server and workers at a scheduler are where they are kept: there is no table of theirs to compare.
    assert set(MACHINES) - {comparison.machine for comparison in COMPARISONS} == {
        "session-server",
        "worker-at-scheduler",
    }


def test_the_monitor_counts_tasks_by_these_states() -> None:  # MON-5
    counted = {state.value for state in (*scheduler.UNFINISHED, *scheduler.FINISHED)}
    machine = MACHINES["task-at-scheduler"]
    expected = {name.removeprefix("ended-") for name in machine.states if name != machine.start}
    assert counted == (expected - {"lost"}) | {"worker_lost"}
    chapter = (ROOT / "protocol" / "spec" / "14-monitor.md").read_text(encoding="utf-8")
    clause = chapter[chapter.index("**MON-5**") : chapter.index("**MON-6**")]
    schema = (ROOT / "protocol" / "schema" / "v1" / "monitor.capnp").read_text(encoding="utf-8")
    comment = schema[schema.index("taskCounts @8") : schema.index("sentCounts @9")]
    for name in counted:
        assert f"`{name}`" in clause and name in comment, f"{name} is in code and not in chapter and schema"
