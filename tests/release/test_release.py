"""Each dist alone in an empty environment, with each Python that can be had. The package's docstring says how."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from tools.environments import StepFailed
from tools.pythons import SUPPORTED, Interpreter, chosen

from tests.architecture.sources import ROOT
from tests.packages.building import Built, build_all
from tests.release.house import house_of
from tests.release.installed import Elsewhere, World

#: Which Pythons: `all` that can be had; `each`, as `all`, but one that cannot be had is a failure; `ends`, the oldest
#: and the newest that can be had; or `own`, the one that runs this.
ASKED_FOR = "SCALER_RELEASE_CHECK"

#: What each dist brings of ours.
PARTS = {
    "scaler-client": {"scaler-client", "scaler-protocol"},
    "scaler-scheduler": {"scaler-scheduler", "scaler-protocol"},
    "scaler-storage": {"scaler-storage", "scaler-protocol"},
    "scaler-worker": {"scaler-worker", "scaler-protocol"},
    "scaler-symphony": {"scaler-symphony", "scaler-protocol"},
    "scaler-conformance": {"scaler-conformance"},
    "scaler-protocol": {"scaler-protocol"},
}
ROLES = ("scaler-storage", "scaler-scheduler", "scaler-worker", "scaler-client")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if not os.environ.get(ASKED_FOR):
        pytest.skip("`make release-check` installs every dist in empty environments")
    return build_all(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module", params=SUPPORTED)
def world(request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory) -> World:
    interpreter = choice()[request.param]
    if isinstance(interpreter, str):
        leave_out(interpreter, os.environ[ASKED_FOR])
    try:
        house = house_of(interpreter, built)
    except StepFailed as failure:
        reason = f"what our dists require cannot be had for it here: {str(failure).splitlines()[-1]}"
        leave_out(reason, os.environ[ASKED_FOR])
    return World(interpreter, house, built, tmp_path_factory.mktemp(f"python-{interpreter.name}"))


@cache
def choice() -> dict[str, Interpreter | str]:
    which = os.environ[ASKED_FOR]
    return chosen("all" if which == "each" else which)


def leave_out(reason: str, which: str) -> NoReturn:
    if which == "each":
        pytest.fail(reason)
    pytest.skip(reason)


def test_a_release_leaves_no_python_out() -> None:
    with pytest.raises(pytest.fail.Exception, match="not on this machine"):
        leave_out("Python 3.10 is not on this machine", "each")
    with pytest.raises(pytest.skip.Exception, match="not on this machine"):
        leave_out("Python 3.10 is not on this machine", "all")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Elsewhere]:
    with Elsewhere(tmp_path) as stage:
        yield stage


@pytest.mark.parametrize("dist", PARTS)
def test_a_dist_alone_brings_what_it_needs(world: World, stage: Elsewhere, dist: str) -> None:
    environment = world.with_installed(dist)
    listed = environment.listed()
    assert environment.ours() == PARTS[dist]
    commands = [command for ours in environment.ours() for command in listed[ours]]
    for started in [environment.start(stage, command, "--help") for command in commands]:
        assert started.wait() == 0 and "usage:" in started.text, started.text


def test_roles_in_environments_of_their_own_are_a_cluster(world: World, stage: Elsewhere) -> None:
    storage, scheduler, worker, client = (world.with_installed(dist) for dist in ROLES)
    port = stage.ports()
    address, objects = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
    storage.start(stage, "scaler_object_storage_server", objects)
    scheduler.start(stage, "scaler_scheduler", address, "-osa", objects)
    worker.start(stage, "scaler_cluster", "-n", "2", address)
    program = f"from scaler import Client\nprint(sum(Client(address={address!r}).map(abs, range(-100, 0))))"
    assert client.run(stage, "python", "-c", program) == "5050"
    scheduler.run(stage, "scaler_health", address)
    watched = json.loads(client.run(stage, "scaler_top", "--once", "--json", address))
    assert len(watched["workers"]) == 2


def test_the_readmes_first_program_runs(world: World, stage: Elsewhere, tmp_path: Path) -> None:
    environment = world.with_installed("scaler-client[cluster]")
    assert environment.ours() == set(ROLES) | {"scaler-protocol"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^## A first program\n\n```python\n(.*?)```", text, re.M | re.S)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    said = environment.run(stage, "python", str(tmp_path / "program.py"))
    assert said.splitlines() == ["16", "332833500", "{'answer': 36}"]


def test_a_client_alone_says_what_a_cluster_needs(world: World, stage: Elsewhere) -> None:
    environment = world.with_installed("scaler-client")
    command = environment.start(stage, "python", "-c", "import scaler; scaler.SchedulerClusterCombo(n_workers=1)")
    assert command.wait() == 1
    assert "not installed: run `pip install 'scaler-client[cluster]'`" in command.error_lines[-1]


def test_the_suite_alone_checks_a_role_of_another_environment(world: World, stage: Elsewhere, tmp_path: Path) -> None:
    suite, storage = world.with_installed("scaler-conformance"), world.with_installed("scaler-storage")
    suite.run(stage, "scaler-conformance", "vectors", "--check")
    manifest = tmp_path / "port.toml"
    server = storage.place / "bin" / "scaler_object_storage_server"
    manifest.write_text(
        f'[port]\nname = "wheels"\nversion = "1"\nkeys = true\n[role.storage]\ncommand = ["{server}", "{{bind}}"]\n',
        encoding="utf-8",
    )
    options = ("--manifest", str(manifest), "--role", "storage", "--layer", "directed", "--case", "STO-1*")
    said = suite.run(stage, "scaler-conformance", "run", *options, "--out", str(tmp_path / "report"))
    assert re.search(r"conforms: [1-9]\d+ pass", said), said


def test_an_sdist_installs_what_the_wheel_does(world: World, built: Built) -> None:
    names = ("scaler-client", "scaler-protocol")
    environment = world.empty("sdists", built.sdists)
    environment.install(*(f"--no-binary={name}" for name in names), "scaler-client")
    assert environment.files() == world.with_installed("scaler-client").files()


def test_uninstalling_leaves_nothing(world: World, stage: Elsewhere) -> None:
    environment = world.empty("everything")
    environment.install("scaler-all", compiles=True)
    assert len(environment.ours()) == len(PARTS) + 1
    program = "import scaler, scaler_scheduler, scaler_storage, scaler_worker, scaler_symphony, scaler_conformance"
    environment.run(stage, "python", "-c", program)
    assert environment.left_over()
    environment.uninstall_all()
    assert not environment.left_over()
