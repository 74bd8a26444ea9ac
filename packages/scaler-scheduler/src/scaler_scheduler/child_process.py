"""Commands of other parts that a scheduler starts: they end when it does, however it ends."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from scaler_protocol.process import PARENT_VARIABLE, StartupError, secrets_for
from scaler_protocol.process.modules import without_directory


class ChildProcess:
    """`what` is what people call it; `remedy` says what to do where it is not installed. Of the secrets in our
    environment it gets those under `secret_names`. `environment` has what must not stand on its command line, because
    all users of the machine can see command lines."""

    def __init__(
        self,
        what: str,
        module: str,
        arguments: Sequence[str],
        *,
        remedy: str,
        stop_seconds: float = 5.0,
        secret_names: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            raise StartupError(remedy)
        self._what = what
        self._stop_seconds = stop_seconds
        self._process = subprocess.Popen(
            without_directory([sys.executable, "-m", module, *arguments]),
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                **secrets_for(*secret_names),
                **(environment or {}),
                PARENT_VARIABLE: str(os.getpid()),
            },
            pass_fds=descriptors,
        )

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=self._stop_seconds)
        except subprocess.TimeoutExpired:
            logging.warning("%s did not end within %g s: killing it", self._what, self._stop_seconds)
            self._process.kill()
            self._process.wait()
