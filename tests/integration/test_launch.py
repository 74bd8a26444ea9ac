"""`scaler config.toml`: a whole cluster in one terminal, and nothing left of it."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.processes import WAIT, Command, Stage, assert_gone


def start(stage: Stage, tmp_path: Path, *, more: str = "", workers: str = "num-of-workers = 1") -> tuple[Command, int]:
    port = stage.ports()
    path = tmp_path / "scaler.toml"
    path.write_text(
        f"""
        [object_storage_server]
        bind_address = "127.0.0.1:{port + 1}"
        [scheduler]
        bind_address = "tcp://127.0.0.1:{port}"
        {more}
        [cluster]
        {workers}
        """
    )
    return stage.start("scaler", str(path)), port


def ready(stage: Stage, command: Command, port: int) -> list[psutil.Process]:
    command.wait_for(r"scheduler \| .*worker 0 joined")
    with Client(f"tcp://127.0.0.1:{port}") as client:
        assert client.map(abs, range(-3, 0)) == [3, 2, 1]
    return stage.family(command)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_everything_and_a_signal_ends_it(stage: Stage, tmp_path: Path, number: signal.Signals) -> None:
    command, port = start(stage, tmp_path)
    family = ready(stage, command, port)
    assert command.end(number) == 0
    assert_gone(family)
    said = command.lines
    assert any(line.startswith("cluster | [INFO]") and line.endswith("Worker[0] started") for line in said)
    order = [next(i for i, line in enumerate(said) if line.startswith(f"{name} | ")) for name in PARTS]
    assert order == sorted(order) and not command.error_lines
    assert not any("Traceback" in line or "[WARN]" in line for line in said)


PARTS = ("object_storage_server", "scheduler", "cluster")


@pytest.mark.parametrize("part", PARTS)
def test_when_one_part_ends_all_end(stage: Stage, tmp_path: Path, part: str) -> None:
    command, port = start(stage, tmp_path)
    family = ready(stage, command, port)
    modules = dict(zip(PARTS, ("scaler_storage", "scaler_scheduler", "scaler_worker"), strict=True))
    victim = next(one for one in psutil.Process(command.pid).children() if modules[part] in one.cmdline())
    victim.kill()
    assert command.wait() == 128 + signal.SIGKILL
    assert_gone(family)
    assert f"scaler | {part} has ended with signal 9: ending the others" in command.lines


def test_nothing_outlives_it_however_it_ends(stage: Stage, tmp_path: Path) -> None:
    command, port = start(stage, tmp_path)
    family = ready(stage, command, port)
    command.end(signal.SIGKILL)
    assert_gone(family)


def test_a_client_may_end_it(stage: Stage, tmp_path: Path) -> None:
    command, port = start(stage, tmp_path, more="protected = false")
    ready(stage, command, port)
    Client(f"tcp://127.0.0.1:{port}").shutdown()
    assert command.wait() == 0


def test_worker_managers(stage: Stage, tmp_path: Path) -> None:
    more = """
        [[worker_manager]]
        type = "baremetal_native"
        mode = "fixed"
        max_task_concurrency = 2
    """
    command, port = start(stage, tmp_path, workers=f"num_of_workers = 1\n{more}")
    command.wait_for(r"scheduler \| .*worker .* joined", count=3)
    family = ready(stage, command, port)
    assert command.end() == 0
    assert_gone(family)


def test_a_mistake_in_one_section_is_told_and_ends_all(stage: Stage, tmp_path: Path) -> None:
    command, _ = start(stage, tmp_path, workers="num_of_wokers = 1")
    assert command.wait() == 2
    assert any("no key num_of_wokers; did you mean num_of_workers?" in line for line in command.lines), command.text


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 1, "names nothing to start"),
        ("[top]\ntimeout = 3", 1, "names nothing to start"),
        ("[clutser]\nnum_of_workers = 1", 2, "did you mean cluster?"),
        ("[scheduler", 2, "is not TOML"),
    ],
)
def test_what_cannot_be_started(stage: Stage, tmp_path: Path, text: str, code: int, words: str) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text(text)
    command = stage.start("scaler", str(path))
    assert command.wait(WAIT) == code
    (line,) = command.error_lines
    assert line.startswith("scaler: error: ") and words in line and not command.lines
