"""Options complete in a shell: the command answers as argcomplete's shell functions ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("argcomplete", reason="completion needs argcomplete")

COMMANDS = {
    "scaler": ("scaler", "--co", {"--config"}),
    "scaler_scheduler": (
        "scaler_scheduler",
        "--load-balance-",
        {"--load-balance-seconds", "--load-balance-trigger-times"},
    ),
    "scaler_cluster": ("scaler_worker", "--event-loop u", {"uvloop"}),
    "scaler_object_storage_server": ("scaler_storage", "--memory-", {"--memory-limit"}),
    "scaler_top": ("scaler.top", "--rec", {"--record"}),
    "scaler_health": ("scaler_protocol.health", "--wor", {"--worker"}),
    "scaler_key": ("scaler_protocol.keys", "derive --oper", {"--operator"}),
    "scaler_dump": ("scaler.dump", "--time", {"--timeout"}),
    "scaler_trace": ("scaler.trace", "--ver", {"--version"}),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_may_follow(command: str, tmp_path: Path) -> None:
    module, begun, expected = COMMANDS[command]
    line = f"{command} {begun}"
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-m", module], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert expected <= {word.strip() for word in answer.read_text().splitlines()}
    assert "PYTHON_ARGCOMPLETE_OK" in Path(module_file(module)).read_text()[:1024]


def module_file(module: str) -> str:
    from importlib.util import find_spec

    spec = find_spec(f"{module}.__main__")
    assert spec is not None and spec.origin is not None
    return spec.origin
