"""For pytest: all tests in several processes, `make test`. At the end, one process has the tests that need quiet.

Each process takes one *unit* after another. A unit is a file, whose tests share what the file starts; or a folder of
`TOGETHER`; or one test of `APART`, where a file takes minutes and its tests share nothing. Units of `FIRST` come first:
many small units at the end let all processes end at the same time.

The units of `ALONE` come after all others. Before the first of them, all processes but one have ended.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from scaler_conformance import launch
from scaler_protocol.process import ports

#: Tests with nothing beside them, and why.
ALONE = {
    "tests/fuzz/": "attacks for a fixed time: what they find depends on what they get of the processors",
    "tests/benchmarks/": "the benchmarks' own figures",
}

#: Folders whose tests share what a session makes once.
TOGETHER = ("tests/packages/", "tests/windows/", "tests/pythons/", "tests/hosts/")

#: Files and folders whose tests are units of their own.
APART = (
    "conformance/tests/test_our_roles.py",
    "conformance/tests/test_legal_variants.py",
    "conformance/tests/test_mutants.py",
    "conformance/tests/test_interop.py",
    "tests/chaos/test_chaos.py",
    "tests/docs/test_examples.py",
    "tests/simulation/",
)

#: Folders with the longest units. All others come after them.
FIRST = ("tests/", "conformance/")


def unit_of(nodeid: str) -> str:
    for folder in TOGETHER:
        if nodeid.startswith(folder):
            return folder
    return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]


def is_alone(unit: str) -> bool:
    return unit.startswith(tuple(ALONE))


def rank(unit: str) -> int:
    """When its turn is: lower is earlier."""
    if is_alone(unit):
        return len(FIRST) + 1
    return next((place for place, folder in enumerate(FIRST) if unit.startswith(folder)), len(FIRST))


class Schedule(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Which process runs what. A process begins its last test when it is told of the next, or that there is none."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        """More for a process that has little left. Where only units of ALONE are left, one process stays for them."""
        unit = min(self.workqueue, key=rank)
        if not is_alone(unit) or len(self.nodes) == 1:
            self.workqueue.move_to_end(unit, last=False)
            super()._assign_work_unit(node)
        elif node is not next(one for one in self.nodes if not one.shutting_down):
            node.shutdown()

    def _reschedule(self, node: Any) -> None:
        super()._reschedule(node)
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) == 1:
            super()._reschedule(node)  # with one test alone it would wait for ever

    def remove_node(self, node: Any) -> str | None:
        """A process has ended. The test in which it crashed has failed; others run what it had left."""
        units = self.assigned_work.pop(node)
        left = [(unit, test) for unit, tests in units.items() for test, is_done in tests.items() if not is_done]
        if left:
            unit, crashed = left[0]
            units[unit][crashed] = True
            self.workqueue.update({unit: units[unit] for unit, _ in left if not all(units[unit].values())})
        for other in self.nodes:
            self._reschedule(other)
        return left[0][1] if left else None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each processor: half of the time a test waits, for other processes or for a moment to come."""
    return 2 * (os.cpu_count() or 1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule:
    return Schedule(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Each process has ports of its own, so that none takes what another one has found free and not bound yet."""
    own: dict[str, Any] | None = getattr(config, "workerinput", None)
    if own is not None:
        number, every = int(own["workerid"].removeprefix("gw")), own["workercount"]
        share = len(ports._PORTS) // every
        begin = ports._PORTS.start + number % every * share
        ports._PORTS = range(begin, begin + share)
        launch.free_ports = ports.free_ports
