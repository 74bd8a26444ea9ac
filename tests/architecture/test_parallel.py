"""How `make test` shares the tests out: every test once, and those that need quiet after all others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.architecture.sources import ROOT
from tests.parallel import ALONE, APART, FIRST, TOGETHER, Schedule, unit_of

QUIET = next(iter(ALONE))
TESTS = [
    "packages/p/test_a.py::test_1",
    "packages/p/test_a.py::test_2",
    f"{QUIET}test_q.py::test_1",
    f"{QUIET}test_q.py::test_2",
    *(f"tests/x/test_{letter}.py::test_{number}" for letter in "xyz" for number in (1, 2)),
]


class Process:
    """One that runs tests as pytest-xdist's do: it begins a test when it is told of the next, or that there is none."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.told: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.told += indices

    def shutdown(self) -> None:
        self.shutting_down = True


class Run:
    """All processes, until none has anything left."""

    def __init__(self, count: int) -> None:
        option = SimpleNamespace(loadscopereorder=False)
        config = cast(Any, SimpleNamespace(option=option))
        processes = [Process(f"gw{number}") for number in range(count)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _: processes)
            self.schedule = Schedule(config)
        for process in processes:
            self.schedule.add_node(process)
        for process in processes:
            self.schedule.add_node_collection(process, TESTS)
        #: By process: what it has run, and beside which others.
        self.ran: list[tuple[str, str, int]] = []
        self.schedule.schedule()

    def step(self, process: Process) -> bool:
        """Runs one test if it may begin; a process that has ended is taken away."""
        if len(process.told) > process.shutting_down ^ 1:
            index = process.told.pop(0)
            self.ran.append((TESTS[index], process.gateway.id, len(self.schedule.nodes)))
            self.schedule.mark_test_complete(process, index)
            return True
        if process.shutting_down:
            assert self.schedule.remove_node(process) is None
            return True
        return False

    def to_the_end(self) -> None:
        while self.schedule.nodes:
            progress = [self.step(process) for process in self.schedule.nodes]
            assert any(progress), "all wait for each other"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_every_test_runs_once_and_the_quiet_ones_with_nothing_beside_them(count: int) -> None:
    run = Run(count)
    run.to_the_end()
    assert sorted(test for test, _, _ in run.ran) == sorted(TESTS)
    quiet = [(test, beside) for test, _, beside in run.ran if test.startswith(QUIET)]
    assert [test for test, _, _ in run.ran[-2:]] == [test for test, _ in quiet]
    assert {beside for _, beside in quiet} == {1}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_after_a_crash_the_others_run_what_is_left(count: int) -> None:
    run = Run(count)
    crashed = run.schedule.nodes[0]
    lost = run.schedule.remove_node(crashed)
    assert lost == TESTS[crashed.told[0]]
    again = Process("again")  # pytest-xdist starts another process in its place
    run.schedule.add_node(again)
    run.schedule.add_node_collection(again, TESTS)
    run.schedule.schedule()
    run.to_the_end()
    assert sorted(test for test, _, _ in run.ran) == sorted(set(TESTS) - {lost})


def test_tests_of_a_file_stay_together() -> None:
    assert unit_of("tests/x/test_a.py::test_1[a::b]") == unit_of("tests/x/test_a.py::test_2") == "tests/x/test_a.py"
    assert unit_of(f"{TOGETHER[0]}test_a.py::test") == unit_of(f"{TOGETHER[0]}test_b.py::test")
    for path in APART:
        assert unit_of(f"{path}::test[1]") != unit_of(f"{path}::test[2]")


@pytest.mark.parametrize("path", [*ALONE, *TOGETHER, *APART, *FIRST])
def test_what_is_named_is_there(path: str) -> None:
    assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
