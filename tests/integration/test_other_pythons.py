"""Workers of another minor version of Python never get bytecode of the client's. (CLI-15, SCH-39, WRK-26)

A worker that only says that it reads other code stands in for one of another version; with an interpreter of another
version that has the dependencies (on the PATH, named by SCALER_OTHER_PYTHONS, or those of `make test-pythons`) the same
runs for real.
"""

from __future__ import annotations

import operator
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.code_tag import CODE_TAG, called
from tests.support import api_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage

ROOT = Path(__file__).resolve().parents[2]
OTHER_TAG = "cpython-399"
PRETENDER = f"import scaler_protocol.code_tag\nscaler_protocol.code_tag.CODE_TAG = {OTHER_TAG!r}\n"
SOURCES = os.pathsep.join([str(ROOT), *map(str, (ROOT / "packages").glob("*/src")), str(ROOT / "protocol" / "src")])


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, 0)


def start_pretender(cluster: RealCluster, tmp_path: Path) -> None:
    """A worker that reads other code than ours, as far as it says."""
    (tmp_path / "sitecustomize.py").write_text(PRETENDER)
    path = os.pathsep.join([str(tmp_path), cluster.stage.environment()["PYTHONPATH"]])
    start_other(cluster, sys.executable, path)


def start_other(cluster: RealCluster, python: str, path: str) -> None:
    arguments = (f"PYTHONPATH={path}", python, "-m", "scaler_worker", cluster.address, "-n", "1")
    cluster.workers.append(cluster.stage.start_program_file(Path("/usr/bin/env"), *arguments))


@cache
def other_python() -> str | None:
    names = [f"python3.{minor}" for minor in range(10, 20) if minor != sys.version_info[1]]
    named = os.environ.get("SCALER_OTHER_PYTHONS", "").split(os.pathsep)
    made = sorted((ROOT / "build" / "pythons").glob("venv-*/bin/python"), reverse=True)
    for found in (*named, *map(shutil.which, names), *made):
        if found and subprocess.run([found, "-c", CAN_RUN], capture_output=True, timeout=WAIT).returncode == 0:
            return str(found)
    return None


CAN_RUN = f"import sys, capnp, zmq, cloudpickle, psutil; sys.exit(sys.version_info[1] == {sys.version_info[1]})"


def by_value() -> Iterator[Callable[[Client], bool]]:
    """Functions and arguments that carry bytecode."""
    yield lambda client: client.submit(lambda x: x + 1, 1).result(WAIT) == 2
    yield lambda client: client.map(lambda x: x + 1, range(200)) == list(range(1, 201))
    yield lambda client: client.map(callable, [lambda: 1] * 200) == [True] * 200
    yield lambda client: client.get({"a": (abs, -1), "b": (lambda x: x + 1, "a")}, "b") == 2
    yield lambda client: client.submit(operator.add, 1, client.submit(lambda: 1)).result(WAIT) == 2
    yield lambda client: client.submit(callable, client.send_object(lambda: 1)).result(WAIT)


def test_a_task_with_bytecode_waits_for_its_version(cluster: RealCluster, tmp_path: Path) -> None:
    """By name all runs at once; what has bytecode waits, says why, and runs when the right worker has come."""
    start_pretender(cluster, tmp_path)
    with Client(cluster.address) as client:
        assert client.submit(abs, -1).result(WAIT) == 1
        assert client.map(operator.neg, [1, 2]) == [-1, -2]
        assert client.submit(api_tasks.add, 1, b=2).result(WAIT) == 3
        future = client.submit(lambda x: x + 1, 1)
        told = client.explain(future)
        assert f"needs {called(CODE_TAG)}" in told and "Python 3.99" in told
        assert client.submit(abs, -2).result(WAIT) == 2, "the waiting task blocks no other task"
        cluster.start_workers(1)
        assert future.result(WAIT) == 2


def test_in_a_mixed_cluster_bytecode_goes_to_its_version(cluster: RealCluster, tmp_path: Path) -> None:
    start_pretender(cluster, tmp_path)
    cluster.start_workers(1)
    cluster.wait_for_workers(2)
    with Client(cluster.address) as client:
        for check in by_value():
            assert check(client)
        nested = client.submit(lambda client: client.submit(lambda: 7).result(), client)
        assert nested.result(WAIT) == 7


def test_for_real(cluster: RealCluster) -> None:
    python = other_python()
    if python is None:
        pytest.skip("needs an interpreter of another minor version of Python with pycapnp, pyzmq, cloudpickle, psutil")
    start_other(cluster, python, SOURCES)
    cluster.wait_for_workers(1)
    with Client(cluster.address) as client:
        assert client.submit(abs, -1).result(WAIT) == 1
        theirs = client.submit(api_tasks.code_tag).result(WAIT)
        assert theirs != CODE_TAG
        waiting = client.submit(lambda: api_tasks.code_tag())
        told = client.explain(waiting)
        assert f"needs {called(CODE_TAG)}" in told and called(theirs) in told
        with pytest.raises(Exception, match=f"carries code of {called(theirs)}, and this process runs"):
            client.submit(api_tasks.made_by_value).result(WAIT)
        cluster.start_workers(1)
        cluster.wait_for_workers(2)
        assert waiting.result(WAIT) == CODE_TAG
        for check in by_value():
            assert check(client)
        found = set(client.map(lambda _: api_tasks.code_tag(), range(100)))
        assert found == {CODE_TAG}
