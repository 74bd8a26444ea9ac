"""Each program of the first documents, as printed, in a process of its own, at real clusters."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import RealCluster
from tests.support.documents import Program, matches, programs
from tests.support.processes import Stage

PROGRAMS = programs(Path(__file__).with_name("programs.md"))

WITH_A_CLUSTER_OF_THEIR_OWN = (
    "send_object", "graph_with_every_kind_of_node", "nested", "graph_built_within_a_task", "clear_and_disconnect",
)  # fmt: skip

WITH_A_CLUSTER_AT_A_GIVEN_PORT = ("combo", "combo_uvloop")

AT_A_CLUSTER = tuple(
    name for name in PROGRAMS if name not in (*WITH_A_CLUSTER_OF_THEIR_OWN, *WITH_A_CLUSTER_AT_A_GIVEN_PORT)
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("programs")) as stage:
        yield stage


@pytest.fixture(scope="module")
def cluster(stage: Stage) -> RealCluster:
    """It has what every one of the programs asks for."""
    return RealCluster(stage, 2, scheduler=("--allocate-policy", "capability"), workers=("-pwc", "gpu,linux"))


def run(stage: Stage, program: Program, address: str = "") -> None:
    path = stage.directory / f"{program.name}.py"
    path.write_text(program.at(address) if address else program.text, encoding="utf-8")
    command = stage.start_file(path)
    assert command.wait(90) == 0, command.text
    printed = "\n".join(command.lines)
    assert matches(printed, program.output), f"printed:\n{printed}\n{command.text}\nexpected:\n{program.output}"


@pytest.mark.parametrize("name", AT_A_CLUSTER)
def test_at_a_cluster(stage: Stage, cluster: RealCluster, name: str) -> None:
    run(stage, PROGRAMS[name], cluster.address)


@pytest.mark.parametrize("name", WITH_A_CLUSTER_OF_THEIR_OWN)
def test_with_a_cluster_of_its_own(stage: Stage, name: str) -> None:
    run(stage, PROGRAMS[name])


@pytest.mark.parametrize("name", WITH_A_CLUSTER_AT_A_GIVEN_PORT)
def test_a_cluster_at_a_given_port(stage: Stage, name: str) -> None:
    if name == "combo_uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    run(stage, PROGRAMS[name], f"tcp://127.0.0.1:{stage.ports()}")


def test_the_comparison_can_fail() -> None:
    assert matches("a\nb\n", "a…") and matches("x1", "x…") and matches("", "…")
    assert not matches("ab", "b") and not matches("", "a")
