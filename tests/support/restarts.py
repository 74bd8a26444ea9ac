"""A scheduler that is killed and started again, and how often each task has begun."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

from tests.support.clusters import RealCluster


def begins(log: Path) -> Counter[str]:
    """How often each name stands in the log."""
    return Counter(log.read_text().split()) if log.exists() else Counter()


def restart_scheduler(cluster: RealCluster) -> None:
    cluster.scheduler.end(signal.SIGKILL)
    cluster.start_scheduler()
