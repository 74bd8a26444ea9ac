"""The process under test: started from the manifest, watched, and ended whatever it does."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import IO

from .manifest import RoleEntry
from .verdicts import Ended, NotReady

LOG_LINES = 400
LINE_CHARACTERS = 2000
STOP_SECONDS = 5.0


class Subject:
    def __init__(
        self,
        entry: RoleEntry,
        places: Mapping[str, str],
        variant: str = "",
        *,
        is_testee: bool = False,
        key_file: str = "",
    ) -> None:
        words = [*entry.command, *(entry.variants[variant] if variant else ())]
        self.arguments = [_fill(word, {**places, "python": sys.executable}) for word in words]
        self._entry = entry
        variables = {f"SCALER_{name.upper()}": value for name, value in places.items()}
        if key_file:
            variables["SCALER_KEY_FILE"] = key_file
        #: what it says, the last lines only: a port may be talkative
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        try:
            self.process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.PIPE if is_testee else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=entry.directory,
                env={**os.environ, **variables, **entry.env},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            where = "" if entry.directory.is_dir() else f": there is no directory {entry.directory}"
            told = where or f": {getattr(error, 'strerror', error)}, looked for in {entry.directory} and on the PATH"
            raise NotReady(f"cannot start {self.arguments[0]!r}{told}") from None
        streams = [self.process.stderr] if is_testee else [self.process.stdout, self.process.stderr]
        for stream in streams:
            assert stream is not None
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            # Bounded reads: noise without an end of line must not fill the memory.
            for line in iter(lambda: stream.readline(LINE_CHARACTERS), b""):
                self.log.append(printable(line.decode("utf-8", "replace").rstrip()))

    # ------------------------------------------------------------ life

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def check(self) -> None:
        """Raises when it is gone. Given to the pump, so that no wait outlives the process."""
        code = self.process.poll()
        if code is not None:
            why = "the end of its log says why" if code else "it has to stay in the foreground until asked to end"
            raise Ended(f"the process under test ended by itself {_how(code)}; {why}")

    def ask_to_end(self) -> None:
        asked = signal.Signals[self._entry.stop] if self._entry.stop in signal.Signals.__members__ else signal.SIGTERM
        if self.is_running:
            self.process.send_signal(asked)

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """Wait until it has ended, and end it if it does not. Its exit code, or None when it had to be killed."""
        try:
            code: int | None = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        return code

    def kill(self) -> None:
        """It and all it has started: they share its process group."""
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # what was not written is not read any more
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.process.wait(STOP_SECONDS)


def printable(text: str) -> str:
    """What a port says must not move the cursor of whoever reads it."""
    return "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in text)


def is_listening(address: str) -> bool:
    """Whether anybody accepts connections at this `tcp://` address."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _fill(word: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _how(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.Signals.__members__.values() else str(-code)
        return f"by signal {name}"
    return f"with exit code {code}"


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free now, of those that no system takes for outgoing connections:
    what dials one of its own host before anybody listens could be connected to itself."""
    for _ in range(200):
        port = random.SystemRandom().randrange(16_384, 32_760 - count)
        if all(_is_free(port + number) for number in range(count)):
            return port
    raise OSError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
