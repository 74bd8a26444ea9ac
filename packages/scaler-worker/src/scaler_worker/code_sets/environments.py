"""Packages that a code set requires: installed once per host into a directory of their own, by `uv` or `pip`.
(WRK-53)"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from scaler_protocol.codes import ENVIRONMENT_FAILED, STORAGE_UNREACHABLE
from scaler_protocol.process.modules import without_directory
from scaler_protocol.running.errors import TaskFailed
from scaler_worker.code_sets.folders import FolderError, Folders, make_private
from scaler_worker.code_sets.options import ALL, CodeOptions

logger = logging.getLogger("scaler.code")

POLL_SECONDS = 0.05
LAST_LINES = 30
LAST_BYTES = 8 * 1024
LINE_CHARACTERS = 120
TOLD_EVERY_SECONDS = 10.0
"""So often the client is told that an installation still runs."""

Tell = Callable[[str], object]

_PACKAGES = "packages"
_DONE = "done"


class Environments:
    def __init__(self, root: Path, options: CodeOptions) -> None:
        self._root = root
        self._options = options
        self._folders = Folders(root / "environments", options.environment_bytes)

    def use(self, sharers: str, requirements: str, tell: Tell) -> Path:
        """Where these packages are. What is told while they are not there is for the client's people; an empty text
        ends it. TaskFailed with what the installer wrote last, if they cannot be installed."""
        options = self._options
        build = _Build(requirements, options, tell)
        if options.takes != ALL:
            text = "this worker installs no packages (--client-code): ask its operator to install them"
            raise TaskFailed(ENVIRONMENT_FAILED, text)
        try:
            make_private(self._root)
            folder = self._folders.use(
                f"{sharers}-{_key(requirements)}",
                build.fill,
                lambda directory: (directory / _DONE).exists(),
                # One process builds at a time, and a process that waits for it gives up a little later.
                options.environment_seconds + 10.0,
                build.tell_begin,
            )
        except FolderError as error:
            raise TaskFailed(ENVIRONMENT_FAILED, f"the packages of the task cannot be installed: {error}") from error
        except OSError as error:
            text = f"the packages of the task cannot be installed on this worker: {error}"
            raise TaskFailed(STORAGE_UNREACHABLE, text) from error
        finally:
            build.tell_end()
        return folder / _PACKAGES


def _key(requirements: str) -> str:
    """Packages with compiled code are for one version of Python on one kind of machine."""
    machine = f"{sys.implementation.cache_tag} {sys.platform} {platform.machine()} {platform.libc_ver()}"
    return hashlib.blake2b(f"{machine}\n{requirements}".encode(), digest_size=16).hexdigest()


class _Build:
    """One process on its way to an environment: it installs the packages, or waits for the process that does."""

    def __init__(self, requirements: str, options: CodeOptions, tell: Tell) -> None:
        self._requirements = requirements
        self._options = options
        self._tell = tell
        self._is_told = False
        self._head = [uv] if (uv := shutil.which("uv")) else without_directory([sys.executable, "-m", "pip"])
        self._installer = "uv" if uv else "pip"
        count = len([line for line in requirements.splitlines() if line[:1] not in ("", " ", "\t", "-", "#")])
        self._packages = f"{count:,} required package{'' if count == 1 else 's'}"

    def tell_begin(self) -> None:
        """The same text in each process that waits, so that a client shows it once for a host."""
        self._say(f"installing {self._packages} with {self._installer}")

    def tell_end(self) -> None:
        if self._is_told:
            self._tell("")

    def _say(self, text: str) -> None:
        self._is_told = True
        self._tell(f"host {platform.node()}: {text}")

    def fill(self, directory: Path) -> None:
        """Install the packages into a directory of their own."""
        file = directory / "requirements.txt"
        file.write_text(self._requirements, encoding="utf-8")
        target = directory / _PACKAGES
        command = self._command(file, target)
        logger.info("installing the packages of a client's tasks: %s", " ".join(command))
        begun_at = time.monotonic()
        with tempfile.TemporaryFile() as output:
            code = self._run(command, output.fileno(), begun_at)
            seconds = time.monotonic() - begun_at
            if code == 0:
                target.mkdir(exist_ok=True)
                (directory / _DONE).touch()
                self._say(f"installed {self._packages} in {seconds:.1f} s")
                return
            told = _last_lines(output.fileno())
        limit = self._options.environment_seconds
        why = f"took longer than {limit:g} s" if code is None else f"ended with {code}"
        self._say(f"{self._packages} cannot be installed: {self._installer} {why}")
        text = f"the packages of the task cannot be installed: {self._installer} {why}:\n{told}"
        raise TaskFailed(ENVIRONMENT_FAILED, text)

    def _command(self, file: Path, target: Path) -> list[str]:
        if self._installer == "uv":
            options = ["--python", sys.executable, "--compile-bytecode", "--no-progress"]
            command = [*self._head, "pip", "install", *options]
        else:
            options = ["--no-input", "--disable-pip-version-check", "--no-warn-conflicts"]
            command = [*self._head, "install", *options]
        return [*command, "--target", str(target), "--requirement", str(file)]

    def _run(self, command: list[str], output: int, begun_at: float) -> int | None:
        """The exit code; None: it took too long. It ends with us, and with an interrupt of the task."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=False
        )
        tell_after = TOLD_EVERY_SECONDS
        try:
            while True:
                try:
                    return process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - begun_at
                    if seconds >= self._options.environment_seconds:
                        return None
                    if seconds >= tell_after:
                        tell_after += TOLD_EVERY_SECONDS
                        self._say(f"still installing {self._packages} after {seconds:.0f} s{_last_line(output)}")
        finally:
            if process.poll() is None:
                _end_with_children(process)


def _end_with_children(process: subprocess.Popen[bytes]) -> None:
    """Ends an installer that runs, and the builds that it has started. All of them stay in the process group of the
    processor, because they must end as well when the processor is killed: so the group cannot name them here."""
    process.send_signal(signal.SIGSTOP)  # it starts no more
    ended = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in ended:
        with contextlib.suppress(psutil.Error):
            child.kill()


def _last_line(output: int) -> str:
    lines = _last_lines(output).splitlines()
    return f": {lines[-1].strip()[:LINE_CHARACTERS]}" if lines else ""


def _last_lines(output: int) -> str:
    """Without a move in the file, of which the installer writes the end."""
    text = os.pread(output, LAST_BYTES, max(0, os.fstat(output).st_size - LAST_BYTES)).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-LAST_LINES:])
