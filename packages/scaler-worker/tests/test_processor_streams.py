"""What a processor makes of the streams that it has from its worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import WAIT

PRINTS = r"""
from scaler_worker.processor.main import _use_streams
_use_streams()
import sys
print("caf\xe9 \u2603 \udc80", "out")
print("caf\xe9 \u2603 \udc80", "err", file=sys.stderr)
"""
BECOMES_A_PIPE = r"""
import os, subprocess, sys
sys.stdout.flush()
reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
os.dup2(reader.stdin.fileno(), 1)
"""


@pytest.mark.parametrize("before", ["", BECOMES_A_PIPE], ids=["file", "file-that-became-a-pipe"])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8:strict"])
def test_a_task_may_print_what_the_workers_stream_cannot_show(encoding: str, before: str, tmp_path: Path) -> None:
    """A service without a locale, or with a log in another encoding: that is no fault of the task."""
    with (tmp_path / "out").open("wb") as out:
        ended = subprocess.run(
            [sys.executable, "-c", before + PRINTS],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=WAIT,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")
    assert b"err" in ended.stderr
    if not before:
        assert b"out" in (tmp_path / "out").read_bytes()
