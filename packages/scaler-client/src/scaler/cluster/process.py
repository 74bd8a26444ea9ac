"""Child processes that are commands of other distributions."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections import deque

from scaler.utility.exceptions import ScalerError

END_SECONDS = 10.0
"""How long a child may take to end by itself before it is killed."""

_KEPT_LINES = 50

_DISTS = {"scaler_storage": "scaler-storage", "scaler_scheduler": "scaler-scheduler", "scaler_worker": "scaler-worker"}


class ClusterStartError(ScalerError):
    """A local cluster did not start; the text has what the process that failed had to say."""


def require(*modules: str) -> None:
    """ImportError that says what to install, unless all of these are."""
    missing = [_DISTS[module] for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(
            f"a local cluster needs {', '.join(missing)}, not installed here: run `pip install scaler-client[cluster]`"
        )


class ChildProcess:
    """One of the cluster's commands. It watches this process and ends when it does. (PARENT_VARIABLE)"""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
            # Ctrl-C in a terminal reaches its whole group: the program decides what becomes of its cluster.
            start_new_session=os.name == "posix",
        )
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader = threading.Thread(target=self._pass_on, name=f"scaler-{name}", daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise what the child said, if it has ended."""
        code = self._process.poll()
        if code is None:
            return
        self._reader.join(1.0)
        said = "\n  ".join(self._last_lines) or "nothing"
        raise ClusterStartError(f"the {self.name} ended with exit code {code}; it said:\n  {said}")

    def ask_to_end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """Wait for the end, bounded; then make it."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)
        self._reader.join(1.0)

    def _pass_on(self) -> None:
        """Standard error goes where ours goes, and its end is kept for the error message."""
        stream = self._process.stderr
        assert stream is not None
        with stream:
            for line in stream:
                text = line.decode(errors="replace")
                self._last_lines.append(text.rstrip())
                try:
                    sys.stderr.write(text)
                    sys.stderr.flush()
                except (ValueError, OSError, AttributeError):
                    pass  # our own standard error is closed or gone; the child's must still be read


def _environment() -> dict[str, str]:
    """Ours, so that what this program can import its tasks can too, wherever it was found."""
    from scaler_protocol.process import PARENT_VARIABLE

    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "PYTHONPATH": path, PARENT_VARIABLE: str(os.getpid())}
