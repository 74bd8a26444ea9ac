"""Packages that a code set requires: installed once per host into a directory of their own, by `uv` or `pip`.
(WRK-53)"""

from __future__ import annotations

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
from pathlib import Path

from scaler_protocol.codes import ENVIRONMENT_FAILED, STORAGE_UNREACHABLE
from scaler_protocol.running.errors import TaskFailed
from scaler_worker.code_sets.options import ALL, PlaceOptions
from scaler_worker.code_sets.places import PlaceError, Places, make_private

logger = logging.getLogger("scaler.code")

POLL_SECONDS = 0.05
LAST_LINES = 30
LAST_BYTES = 8 * 1024
TOLD_AFTER_SECONDS = 5.0
"""A build that takes longer is told of by a line in the log of the worker."""

_PACKAGES = "packages"
_DONE = "done"


class Environments:
    def __init__(self, root: Path, options: PlaceOptions) -> None:
        self._root = root
        self._options = options
        self._places = Places(root / "environments", options.environment_bytes)

    def use(self, family: str, requirements: str) -> Path:
        """Where these packages are. TaskFailed with what the installer wrote last, if they cannot be installed."""
        options = self._options
        if options.takes != ALL:
            text = "this worker installs no packages (--client-code): ask its operator to install them"
            raise TaskFailed(ENVIRONMENT_FAILED, text)
        try:
            make_private(self._root)
            place = self._places.use(
                f"{family}-{_key(requirements)}",
                lambda directory: _build(directory, requirements, options),
                lambda directory: (directory / _DONE).exists(),
                # One process builds at a time, and a process that waits for it gives up a little later.
                options.environment_seconds + 10.0,
            )
        except PlaceError as error:
            raise TaskFailed(ENVIRONMENT_FAILED, f"the packages of the task cannot be installed: {error}") from error
        except OSError as error:
            text = f"the packages of the task cannot be installed on this worker: {error}"
            raise TaskFailed(STORAGE_UNREACHABLE, text) from error
        return place / _PACKAGES


def _key(requirements: str) -> str:
    """Packages with compiled code are for one version of Python on one kind of machine."""
    machine = f"{sys.implementation.cache_tag} {sys.platform} {platform.machine()} {platform.libc_ver()}"
    return hashlib.blake2b(f"{machine}\n{requirements}".encode(), digest_size=16).hexdigest()


def _build(directory: Path, requirements: str, options: PlaceOptions) -> None:
    file = directory / "requirements.txt"
    file.write_text(requirements, encoding="utf-8")
    target = directory / _PACKAGES
    command = _command(file, target)
    logger.info("installing the packages of a client's tasks: %s", " ".join(command))
    with tempfile.TemporaryFile() as output:
        code = _run(command, output.fileno(), options.environment_seconds)
        if code == 0:
            target.mkdir(exist_ok=True)
            (directory / _DONE).touch()
            return
        told = _last_lines(output.fileno())
    why = f"took longer than {options.environment_seconds:g} s" if code is None else f"ended with {code}"
    text = f"the packages of the task cannot be installed: {os.path.basename(command[0])} {why}:\n{told}"
    raise TaskFailed(ENVIRONMENT_FAILED, text)


def _command(file: Path, target: Path) -> list[str]:
    uv = shutil.which("uv")
    if uv is not None:
        head = [uv, "pip", "install", "--python", sys.executable, "--compile-bytecode", "--no-progress"]
    else:
        head = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--no-warn-conflicts",
        ]
    return [*head, "--target", str(target), "--requirement", str(file)]


def _run(command: list[str], output: int, most_seconds: float) -> int | None:
    """The exit code; None: it took too long. It ends with us, and with an interrupt of the task."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=False
    )
    begun_at, is_told = time.monotonic(), False
    try:
        while True:
            try:
                return process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - begun_at
                if seconds >= most_seconds:
                    return None
                if seconds >= TOLD_AFTER_SECONDS and not is_told:
                    is_told = True
                    logger.warning("installing the packages of a client's tasks takes longer than %g s", seconds)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _last_lines(output: int) -> str:
    size = os.fstat(output).st_size
    os.lseek(output, max(0, size - LAST_BYTES), os.SEEK_SET)
    text = os.read(output, LAST_BYTES).decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-LAST_LINES:])
