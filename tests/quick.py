"""For pytest: tests of cores, protocol, specification and arrangement that start no process, `make quick`.

A file is left out if it names a means by which tests start processes, threads or sockets, or if it is in `SLOW`.
`make test` runs every file.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT

FOLDERS = ("protocol/tests/", "packages/", "tests/architecture/", "tests/spec/")

#: What a test names that starts processes, threads or sockets.
_STARTS = re.compile(
    r"\b(subprocess|multiprocessing|os\.fork|Thread|socket|zmq|Stage|asyncio\.run|support\.clusters)\b"
)

#: Files that take more than two seconds, and what they do meanwhile.
SLOW: dict[str, str] = {}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    name = collection_path.relative_to(ROOT).as_posix()
    if not name.startswith(FOLDERS) or name in SLOW:
        return True
    return True if _STARTS.search(collection_path.read_text(encoding="utf-8")) else None
