"""For pytest: the loop of who changes a core or the protocol, `make quick`. No test of it starts a process or waits.

It runs the cores of all roles, the session and the codec, the specification's rules, and the arrows between parts.
`make test` runs everything.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT

_FILES = re.compile(
    r"packages/[^/]+/tests/test_core[^/]*\.py"
    r"|protocol/tests/test_(codec|columns|ids|session)[^/]*\.py"
    r"|tests/spec/[^/]*\.py|tests/architecture/test_(arrows|circles|purity|texts)\.py"
)

#: Files of these that take more than two seconds, and for what.
SLOW = {
    "packages/scaler-scheduler/tests/test_core_backlog.py": "no turn is long: a million tasks",
    "packages/scaler-scheduler/tests/test_core_random.py": "random events",
    "packages/scaler-scheduler/tests/test_core_shares.py": "random programs",
    "packages/scaler-worker/tests/test_core_random.py": "random events",
    "packages/scaler-worker/tests/test_core_recycling_random.py": "random events",
    "protocol/tests/test_codec_cost.py": "costs of every column",
    "protocol/tests/test_codec_encoded.py": "every message at every size",
    "protocol/tests/test_codec_hostile.py": "random bytes",
}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    name = collection_path.relative_to(ROOT).as_posix()
    return None if _FILES.fullmatch(name) and name not in SLOW else True
