"""Commands of ours that import nothing from the directory in which they are started.

`python -m module` puts this directory before the standard library. Another account that may write there, as in /tmp or
a project's share, would only have to leave an `asyncio.py`. Tasks of a local cluster import from where the program
does. Tasks of other workers may import from the directory in which a worker manager was started: it comes behind
everything else, and only after a worker has imported its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

TASK_DIRECTORY_VARIABLE = "SCALER_TASK_DIRECTORY"
"""Set in the environment of workers: the directory that tasks may import from."""

_RUN = (
    "import sys; sys.path[:1] == [''] and sys.path.pop(0); "
    "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def without_directory(command: Sequence[str], *, is_any_version: bool = False) -> list[str]:
    """Returns `python -m module …` as a command that does the same without the directory. `is_any_version`: this Python
    may be an older one than ours."""
    python, flag, module, *arguments = command
    assert flag == "-m", command
    if is_any_version or sys.version_info < (3, 11):
        return [python, "-c", _RUN, module, *arguments]
    return [python, "-P", flag, module, *arguments]


def add_task_directory() -> None:
    """Adds it in a worker, before its first task."""
    directory = os.environ.pop(TASK_DIRECTORY_VARIABLE, "")
    if directory and directory not in sys.path:
        sys.path.append(directory)
