"""Commands of other distributions as processes of this program, with the methods that `multiprocessing` gave them."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

from scaler.cluster.options import Command
from scaler.utility.exceptions import ScalerError
from scaler_protocol.keys.options import handed
from scaler_protocol.process import require_posix
from scaler_protocol.process.modules import without_directory

END_SECONDS = 10.0
"""How long a child may take to end by itself before it is killed."""

_KEPT_LINES = 50

_DISTS = {"scaler_storage": "scaler-storage", "scaler_scheduler": "scaler-scheduler", "scaler_worker": "scaler-worker"}


class ClusterStartError(ScalerError):
    """A local cluster did not start; the text has what the process that failed had to say."""


def require(*modules: str) -> None:
    """ImportError that says what to install, unless all of these are."""
    tops = dict.fromkeys(module.partition(".")[0] for module in modules)
    missing = [_DISTS.get(top, top) for top in tops if importlib.util.find_spec(top) is None]
    if missing:
        raise ImportError(
            f"a local cluster needs {', '.join(missing)}, not installed: run `pip install 'scaler-client[cluster]'`"
        )


class Process(Protocol):
    """What we need of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class CommandProcess:
    """One command, not started yet. It watches this process and ends when it does. (PARENT_VARIABLE)

    Its standard error goes where ours goes, and with `joins_streams` its standard output goes there too; with
    `on_line` both its streams go there, line by line.
    """

    joins_streams = False

    def __init__(
        self,
        name: str,
        command: Command,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.command = command
        self._added_environment = dict(environment or {})
        self._on_line = on_line
        #: the text of a key or ticket, which it inherits by a descriptor; empty: it finds its own (SEC-15)
        self.handed = ""
        self._process: Process | None = None
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader: threading.Thread | None = None

    def start(self, descriptors: Sequence[int] = ()) -> None:
        """Start the process.

        Args:
            descriptors: open files that the process inherits.

        Raises:
            RuntimeError: it was started before.
            ImportError: its command is not installed.
            NotImplementedError: this is Windows, where no cluster can run.
        """
        if self._process is not None:
            raise RuntimeError(f"the {self.name} was started before: make another")
        require_posix(f"the {self.name}")
        require(self.command[2])
        is_joined = self.joins_streams or self._on_line is not None
        with self.handing() as (command, inherited):
            self.watch(
                subprocess.Popen(
                    without_directory(command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if is_joined else None,
                    stderr=subprocess.STDOUT if is_joined else subprocess.PIPE,
                    env={**_environment(), **self._added_environment},
                    cwd=None if _working_directory() else "/",
                    # Ctrl-C in a terminal reaches its whole group: the program decides what becomes of its cluster.
                    start_new_session=os.name == "posix",
                    pass_fds=[*descriptors, *inherited],
                )
            )

    @contextmanager
    def handing(self) -> Iterator[tuple[Command, list[int]]]:
        """The command, and what it has to inherit; it is started in the block."""
        if not self.handed:
            yield self.command, []
            return
        with handed(self.handed) as (arguments, descriptors):
            yield [*self.command[:3], *arguments, *self.command[3:]], descriptors

    def watch(self, process: Process) -> None:
        """It has been started: this is it from now on."""
        self._process = process
        self._reader = threading.Thread(target=self._read, name=f"scaler-{self.name}", daemon=True)
        self._reader.start()

    # ------------------------------------------------------------ as of multiprocessing.Process

    @property
    def pid(self) -> int | None:
        """Of the process; None before `start`."""
        return None if self._process is None else self._process.pid

    @property
    def exitcode(self) -> int | None:
        """None while it runs, or was not started; minus the signal when one ended it."""
        return None if self._process is None else self._process.poll()

    def is_alive(self) -> bool:
        """The process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended.

        Args:
            timeout: seconds. None: as long as it takes.
        """
        if self._process is None:
            return
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return
        self._join_reader()

    def terminate(self) -> None:
        """End the process in order, without waiting for its end."""
        if self._process is not None and self.is_alive():
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self.is_alive():
            self._process.kill()

    # ------------------------------------------------------------ what a cluster needs

    def check(self) -> None:
        """Raise what the command said, if it has ended."""
        if self._process is None or self.is_alive():
            return
        self._join_reader()
        said = "\n  ".join(self._last_lines) or "nothing"
        raise ClusterStartError(f"the {self.name} ended with exit code {self.exitcode}; it said:\n  {said}")

    def end(self) -> None:
        """Ask, wait, bounded, and then make it."""
        self.terminate()
        self.join(END_SECONDS)
        self.kill()
        self.join(END_SECONDS)
        close = getattr(self._process, "close", None)  # what a Popen does by itself
        if close is not None:
            close()

    def _join_reader(self) -> None:
        if self._reader is not None:
            self._reader.join(1.0)

    def _read(self) -> None:
        assert self._process is not None
        stream = self._process.stdout or self._process.stderr
        assert stream is not None
        show = self._on_line or _to_standard_error
        with stream:
            for line in stream:
                text = line.decode(errors="replace").rstrip("\r\n")
                self._last_lines.append(text)
                try:
                    show(text)
                except BaseException:  # the process would stand still at a pipe that is full
                    logging.getLogger("scaler").exception("a line of the %s cannot be shown", self.name)
                    show = _to_nowhere  # said once: there may be very many lines

    def __repr__(self) -> str:
        state = "not started" if self._process is None else f"process {self.pid}"
        return f"<{type(self).__name__} {self.name}: {state}>"


def _to_nowhere(text: str) -> None:
    """The last lines are kept all the same."""


def _to_standard_error(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (ValueError, OSError, AttributeError):
        pass  # our own standard error is closed or gone; the child's must still be read


def _environment() -> dict[str, str]:
    """Ours, so that what this program can import its tasks can too, wherever it was found."""
    from scaler_protocol.process import PARENT_VARIABLE, SEARCH_PATH_VARIABLE

    ours = {"PYTHONPATH": _search_path(sys.path), SEARCH_PATH_VARIABLE: os.environ.get("PYTHONPATH", "")}
    return {**os.environ, **ours, PARENT_VARIABLE: str(os.getpid())}


def _search_path(entries: Sequence[object]) -> str:
    """Returns the entries that Python itself would look at, for PYTHONPATH. A directory with a separator in its name
    cannot be there: what is imported from it travels with its code. (lost_modules.py)"""
    directory = _working_directory()
    texts = [_place(entry, directory) for entry in entries if isinstance(entry, str)]
    return os.pathsep.join(entry for entry in texts if entry and os.pathsep not in entry)


def _place(entry: str, directory: str) -> str:
    """Returns where Python looks for modules of this entry. Its finder for a relative entry keeps the working directory
    of its first use, so a program may import from there after it has changed its directory."""
    finder = sys.path_importer_cache.get(entry)
    if not entry or os.path.isabs(entry) or not isinstance(getattr(finder, "path", None), str):
        return entry or directory
    return os.path.join(directory, finder.path)  # type: ignore[union-attr]


def _working_directory() -> str:
    """Empty: it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""
