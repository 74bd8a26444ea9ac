"""Modules of a client, on workers that do not have them. (CLI-24, CLI-25, WRK-50 to WRK-52)"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.utility.exceptions import CodeRefusedError, DeserializeObjectError, EnvironmentFailedError
from tests.support.clusters import RealCluster
from tests.support.processes import Stage, until

WAIT = 30.0


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> RealCluster:
    """One worker, so that the tasks of all clients meet."""
    return RealCluster(module_stage, workers=("--code-directory", str(module_stage.directory / "places")))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the program of a test has modules of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def imported(name: str) -> Any:
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_functions_of_a_module_run(cluster: RealCluster, modules: Path) -> None:
    path = written(modules / "mine_alone.py", "def double(x):\n    return 2 * x\n")
    mine = imported("mine_alone")
    with Client(cluster.address) as client:
        with pytest.raises(DeserializeObjectError, match="code="):
            client.submit(mine.double, 1).result(WAIT)
        client.send_code(path)
        assert client.submit(mine.double, 4).result(WAIT) == 8
        assert client.map(mine.double, range(50)) == [2 * x for x in range(50)]
        assert client.get({"a": 1, "b": (mine.double, "a")}, ["b"]) == {"b": 2}
    with Client(cluster.address, code=path) as client:
        assert client.submit(mine.double, 5).result(WAIT) == 10


def test_two_clients_have_modules_of_one_name(cluster: RealCluster, modules: Path) -> None:
    """At the same time, on the same worker: neither sees the other's."""

    def which(_: int) -> tuple[str, int]:
        import os

        import mine_shared  # type: ignore[import-not-found]

        return mine_shared.name, os.getpid()

    paths = [written(modules / side / "mine_shared.py", f"name = {side!r}\n") for side in ("one", "two")]
    with Client(cluster.address, code=paths[0]) as one, Client(cluster.address, code=paths[1]) as two:
        futures = [
            (client.submit(which, number), side)
            for number in range(20)
            for client, side in ((one, "one"), (two, "two"))
        ]
        results = [(future.result(WAIT), side) for future, side in futures]
    assert all(name == side for (name, _), side in results)
    processes = {side: {process for (_, process), other in results if other == side} for side in ("one", "two")}
    assert processes["one"].isdisjoint(processes["two"])
    with Client(cluster.address) as plain, pytest.raises(ModuleNotFoundError) as raised:
        plain.submit(which, 0).result(WAIT)
    hint = "Send mine_shared if it is your own, Client(..., code=[...])"
    assert hint in str(raised.value.__cause__), "the worker's traceback"
    assert hint in "".join(getattr(raised.value, "__notes__", [hint]))


def test_a_new_version_holds_for_new_tasks(cluster: RealCluster, modules: Path) -> None:
    """Those that are queued keep the old one."""

    def version(seconds: float) -> int:
        import time

        import mine_new  # type: ignore[import-not-found]

        time.sleep(seconds)
        return int(mine_new.VERSION)

    path = written(modules / "mine_new.py", "VERSION = 1\n")
    with Client(cluster.address, code=path) as client:
        assert client.submit(version, 0.0).result(WAIT) == 1
        queued = [client.submit(version, 0.1) for _ in range(5)]
        path.write_text("VERSION = 2\n")
        client.send_code(path)
        after = [client.submit(version, 0.0) for _ in range(3)]
        assert [future.result(WAIT) for future in after] == [2, 2, 2]
        assert [future.result(WAIT) for future in queued] == [1] * 5
        client.send_code()
        with pytest.raises(ModuleNotFoundError):
            client.submit(version, 0.0).result(WAIT)


def test_packages_directories_archives_and_data(cluster: RealCluster, modules: Path) -> None:
    written(modules / "mine_pack" / "__init__.py", "from mine_pack.part import read\n")
    written(
        modules / "mine_pack" / "part.py",
        "import pathlib\ndef read():\n    return (pathlib.Path(__file__).parent / 'data.txt').read_text()\n",
    )
    written(modules / "mine_pack" / "data.txt", "of the client")
    written(modules / "src" / "mine_source.py", "x = 'source'\n")
    with zipfile.ZipFile(modules / "mine.zip", "w") as archive:
        archive.writestr("mine_zipped.py", "x = 'zipped'\n")
    pack = imported("mine_pack")

    def values() -> tuple[str, str]:
        import mine_source  # type: ignore[import-not-found]
        import mine_zipped  # type: ignore[import-not-found]

        return mine_source.x, mine_zipped.x

    with Client(cluster.address, code=[pack, modules / "src", modules / "mine.zip"]) as client:
        assert client.submit(pack.read).result(WAIT) == "of the client"
        assert client.submit(values).result(WAIT) == ("source", "zipped")


def test_tasks_of_tasks_import_the_same(cluster: RealCluster, modules: Path) -> None:
    path = written(
        modules / "mine_nested.py",
        "def fibonacci(client, n):\n"
        "    if n < 2:\n        return n\n"
        "    one, two = client.submit(fibonacci, client, n - 1), client.submit(fibonacci, client, n - 2)\n"
        "    return one.result() + two.result()\n",
    )
    mine = imported("mine_nested")
    with Client(cluster.address, code=path) as client:
        assert client.submit(mine.fibonacci, client, 5).result(WAIT) == 5


def test_a_traceback_has_the_names_of_the_client(cluster: RealCluster, modules: Path) -> None:
    path = written(modules / "src" / "mine_failing" / "part.py", "def fail():\n    raise ValueError('no')\n")
    written(path.with_name("__init__.py"), "")
    sys.path.insert(0, str(modules / "src"))
    try:
        mine = imported("mine_failing.part")
        with Client(cluster.address, code=modules / "src") as client:
            error = client.submit(mine.fail).exception(WAIT)
    finally:
        sys.path.remove(str(modules / "src"))
    assert isinstance(error, ValueError)
    assert 'File "mine_failing/part.py", line 2, in fail' in str(error.__cause__)


def test_a_module_with_a_name_of_ours_is_refused(cluster: RealCluster, modules: Path) -> None:
    path = written(modules / "zmq.py", "")
    with Client(cluster.address, code=path) as client, pytest.raises(CodeRefusedError, match="zmq"):
        client.submit(int, 1).result(WAIT)


def test_a_worker_of_an_operator_who_wants_none_gets_none(stage: Stage, modules: Path) -> None:
    cluster = RealCluster(stage, workers=("--client-code", "none"))
    path = written(modules / "mine_unwanted.py", "def one():\n    return 1\n")
    mine = imported("mine_unwanted")
    with Client(cluster.address, code=path) as client:
        assert "--client-code" in client.explain(client.submit(mine.one))
        client.clear()
        client.send_code()
        assert client.submit(int, 1).result(WAIT) == 1, "what brings no code runs there"


UV = """#!/bin/sh
echo "one of many lines"
while [ ! -e {gate} ]; do sleep 0.05; done
echo "no such package" >&2
exit $(cat {gate})
"""


@pytest.mark.parametrize("code", [0, 3])
def test_an_installation_is_told_while_it_runs(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """By an installer that waits for this test. Two processes need the packages: what both wait for is told once."""
    caplog.set_level("INFO", "scaler.preparation")
    gate = tmp_path / "gate"
    written(tmp_path / "bin" / "uv", UV.format(gate=gate)).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    cluster = RealCluster(stage, 2, workers=("--code-directory", str(tmp_path / "places")))
    begun = f"host {platform.node()}: installing 2 required packages with uv"
    with Client(cluster.address, requirements=["one==1", "two==2"]) as client:
        futures = [client.submit(time.sleep, 0) for _ in range(2)]
        for future in futures:
            until(lambda future=future: "packages are there: " in client.explain(future), "it waits for its packages")
        assert begun in client.explain(futures[0])
        written(gate.with_suffix(".new"), str(code)).rename(gate)
        if code == 0:
            assert [future.result(WAIT) for future in futures] == [None, None]
            last = "installed 2 required packages in"
        else:
            with pytest.raises(EnvironmentFailedError, match="no such package"):
                futures[0].result(WAIT)
            last = "2 required packages cannot be installed: uv ended with 3"
        until(lambda: any(last in record.getMessage() for record in caplog.records), "the end is told")
        told = [record.getMessage() for record in caplog.records]
        assert told.count(begun) == 1, told
        client.clear()


COUNTING_UV = """#!/bin/sh
echo installed >> {count}
"""


def test_the_next_program_of_a_user_finds_the_packages(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # WRK-68
    """With keys, where each program is a family of its own."""
    count = tmp_path / "count"
    written(tmp_path / "bin" / "uv", COUNTING_UV.format(count=count)).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    cluster = RealCluster(stage, workers=("--code-directory", str(tmp_path / "places")))
    owners = set()
    for _ in range(3):
        with Client(cluster.address, requirements=["one==1"]) as client:
            assert client.submit(abs, -1).result(WAIT) == 1
            owners.add(client._ready().connection.storage.present_owner().family)
            client.clear()
    assert len(owners) == 3 and b"" not in owners, "three programs, with keys"
    assert count.read_text().split() == ["installed"]
