"""Forked processes that fail by themselves: the reason is in the log, and they are started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WAIT_SECONDS = 30

WORKER_THAT_FAILS_ONCE = """
import logging, pathlib, sys
from scaler_worker.cluster import Cluster
from scaler_worker.config import ClusterConfig
from scaler_protocol.keys import KeyOptions

def run_worker(config, name):
    path = pathlib.Path(sys.argv[1])
    if path.exists():
        return 0
    path.touch()
    raise OSError("no room for a worker")

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
sys.exit(Cluster(ClusterConfig("tcp://127.0.0.1:1", keys=KeyOptions(insecure=True)), run_worker).run())
"""

PROCESSOR_THAT_FAILS = """
import logging, select, sys
from scaler_worker.channel import channel_pair
from scaler_worker.zygote import fork_zygote

def run_processor(end, slot):
    raise OSError("no room for a processor")

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
zygote = fork_zygote(run_processor)
zygote.spawn(1, 0, channel_pair()[1])
assert select.select([zygote.control], [], [], 20)[0], "nobody has ended"
assert [exited.processor for exited in zygote.read()] == [1]
zygote.close()
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def test_a_worker(tmp_path: Path) -> None:
    done = run(WORKER_THAT_FAILS_ONCE, str(tmp_path / "failed"))
    assert "OSError: no room for a worker" in done.stdout, done
    assert "starting it again" in done.stdout and done.returncode == 0


def test_a_processor() -> None:
    done = run(PROCESSOR_THAT_FAILS)
    assert "OSError: no room for a processor" in done.stdout, done
