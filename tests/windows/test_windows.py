"""The wheel of the client in a Windows Python under Wine: `make test-windows`. The package's docstring says how."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scaler_protocol.keys.places import configured_key
from scaler_protocol.process.ports import free_ports
from tests.architecture.sources import ROOT
from tests.docs.table import exists
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until
from tests.windows import installed
from tests.windows.installed import WindowsPython
from tests.windows.left_out import FILES, TESTS

ASKED_FOR = "SCALER_TEST_WINDOWS"
INSIDE = Path(__file__).parent / "inside"
CLIENT_COMMANDS = ("dump", "explain", "gui", "health", "key", "top", "trace", "ui")


@pytest.fixture(scope="module")
def windows() -> Iterator[WindowsPython]:
    if not os.environ.get(ASKED_FOR):
        pytest.skip("`make test-windows` runs the client in a Windows Python")
    if shutil.which("wine") is None:
        pytest.fail("needs Wine: `make tools` installs it")  # asked for by name: a skip would look like a success
    try:
        yield installed.make()
    finally:
        installed.end()


@pytest.fixture(scope="module")
def cluster(windows: WindowsPython, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        places = ("--code-directory", str(stage.directory / "places"))
        yield RealCluster(stage, 2, scheduler=("--protected",), workers=places)


def key() -> dict[str, str]:
    return {"SCALER_KEY_FILE": configured_key()}


def pytest_inside(windows: WindowsPython, *arguments: str, environment: dict[str, str], seconds: float) -> str:
    """Tests in Windows; the line that counts them."""
    options = ["--import-mode=importlib", "--strict-markers", "--benchmark-disable", "--maxfail=10", "-ra"]
    command = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.windows.plugin", "--rootdir", "."]
    settings = ["-o", "pythonpath=.", "-o", f"addopts={' '.join(options)}"]
    more = {"PYTHONPATH": "", **environment}
    code, text = windows.run([windows.python, *command, *settings, *arguments], more, seconds)
    print(text)
    assert code == 0, text
    return text.splitlines()[-1]


# ---------------------------------------------------------------- what does not need Wine


@pytest.mark.parametrize("name", [*FILES, *TESTS])
def test_what_is_left_out_is_there_and_has_a_reason(name: str) -> None:
    reason = {**FILES, **TESTS}[name]
    assert len(reason) > 10
    assert (ROOT / name).is_file() if name in FILES else exists(name)


# ---------------------------------------------------------------- tests in Windows


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("folder", "least"), [("packages/scaler-client/tests", 600), ("protocol/tests", 700)])
def test_a_dists_own_tests_pass_in_windows(windows: WindowsPython, folder: str, least: int) -> None:
    if os.environ[ASKED_FOR] == "ends" and folder.startswith("protocol"):
        pytest.skip("`make test-windows` without WHICH=ends runs them: the client's tests show most of it")
    said = pytest_inside(windows, folder, environment={}, seconds=1_740)
    assert int(re.findall(r"(\d+) passed", said)[0]) >= least


@pytest.mark.timeout(1_200)
def test_a_client_on_windows_does_what_one_on_linux_does(windows: WindowsPython, cluster: RealCluster) -> None:
    checks = INSIDE.relative_to(ROOT).as_posix()
    environment = {"SCALER_CHECKED_ADDRESS": cluster.address, "SCALER_CHECKED_KEY": configured_key()}
    pytest_inside(windows, checks, "-o", "python_files=checks_*.py", environment=environment, seconds=1_140)


# ---------------------------------------------------------------- interrupts and restarts


@pytest.mark.parametrize("way", ["result", "map", "get", "wait", "as_completed", "stream", "imap", "constructor"])
def test_ctrl_c_at_a_terminal_ends_a_wait(windows: WindowsPython, cluster: RealCluster, way: str) -> None:
    environment = {**key(), "TERM": "xterm"}
    with at_terminal(windows, [windows.python, INSIDE / "waiting.py", way, cluster.address], environment) as terminal:
        read_until(terminal, "waiting")
        os.write(terminal, b"\x03")
        begun_at = time.monotonic()
        read_until(terminal, "interrupted")
        assert time.monotonic() - begun_at < 10


@contextmanager
def at_terminal(
    windows: WindowsPython, command: list[str | Path], environment: dict[str, str], output: int | None = None
) -> Iterator[int]:
    """The other end of its terminal. What it writes goes there too, unless `output` says where."""
    terminal, inner = pty.openpty()
    # The terminal becomes that of a new session, so that what is typed reaches its foreground processes as signals.
    process = subprocess.Popen(
        ["setsid", "--ctty", "wine", *command],
        stdin=inner,
        stdout=inner if output is None else output,
        stderr=inner if output is None else output,
        env=windows.environment(environment),
        cwd=ROOT,
    )
    os.close(inner)
    try:
        yield terminal
    finally:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(WAIT)
        os.close(terminal)


def read_until(terminal: int, word: str) -> str:
    text, end_at = "", time.monotonic() + WAIT
    while word not in text:
        left = end_at - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], f"waited in vain for {word}: {text!r}"
        text += os.read(terminal, 4096).decode(errors="replace")
    return text


def test_a_restarted_scheduler_costs_no_result(windows: WindowsPython, tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        cluster = RealCluster(stage, 2)
        with windows.start([windows.python, INSIDE / "restarted.py", cluster.address], key(), cwd=ROOT) as one:
            assert one.stdout is not None and "begun" in one.stdout.readline()
            cluster.scheduler.process.kill()
            cluster.scheduler.wait()
            cluster.start_scheduler()
            assert one.stdout.readline() == "all results\n", one.stdout.read()
            assert one.wait(WAIT) == 0


# ---------------------------------------------------------------- commands


def test_commands_show_the_cluster(windows: WindowsPython, cluster: RealCluster, tmp_path: Path) -> None:
    def said(name: str, *arguments: str | Path) -> str:
        code, text = windows.run([windows.command(f"scaler_{name}"), *arguments], key(), 60, tmp_path)
        assert code == 0, text
        return text

    assert "answers at" in said("health", cluster.address)
    assert "scheduler_received" in said("top", "--once", cluster.address)
    assert json.loads(said("top", "--json", cluster.address).splitlines()[-1])
    dumped = said("dump", cluster.address, "-").splitlines()
    assert dumped and all(json.loads(line) for line in dumped)
    assert said("explain", cluster.address, "00" * 16)


def test_a_recording_becomes_a_trace(windows: WindowsPython, cluster: RealCluster, tmp_path: Path) -> None:
    """scaler_top records until Ctrl-C; scaler_trace reads what it has written."""
    recording, trace = tmp_path / "one.rec", tmp_path / "one.json"
    command = [windows.command("scaler_top"), "--record", recording, cluster.address]
    reader, writer = os.pipe()
    with (
        open(reader, "rb") as said,
        open(writer, "wb") as output,
        at_terminal(windows, command, key(), output.fileno()) as terminal,
    ):
        until(lambda: recording.exists() and recording.stat().st_size > 1000, "something is recorded")
        os.write(terminal, b"\x03")
        output.close()
        assert "Traceback" not in said.read().decode(errors="replace")
    code, text = windows.run([windows.command("scaler_trace"), recording, trace], seconds=60)
    assert code == 0, text
    assert "traceEvents" in json.loads(trace.read_text())


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_help_can_be_shown_in_an_old_code_page(windows: WindowsPython, name: str) -> None:
    environment = {"PYTHONIOENCODING": "cp437"}
    code, text = windows.run([windows.command(f"scaler_{name}"), "--help"], environment, 60)
    assert code == 0 and text.startswith(("usage:", "Usage:")), text


def test_a_cluster_command_says_where_it_runs(windows: WindowsPython) -> None:
    code, text = windows.run([windows.command("scaler"), "config.toml"], seconds=60)
    assert code == 2 and text.startswith("scaler: error: scaler runs on Linux and macOS only")
    assert text.count("\n") == 1


def test_the_page_is_served(windows: WindowsPython, cluster: RealCluster) -> None:
    port = free_ports(1)
    arguments = [windows.command("scaler_ui"), "--port", str(port), "--no-token", cluster.address]
    with windows.start(arguments, key(), cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert any(str(port) in line for line in process.stdout), "it ended"
            for path, content in (("/", "<html"), ("/metrics", "scaler_")):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT) as answer:
                    assert content in answer.read().decode()
        finally:
            process.kill()
