"""The key of the cluster that is played, in a file of this account alone, as ports under test are given it."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from scaler_conformance.wire.keys import KEY_BYTES, ClusterKey


class KeyFile:
    def __init__(self) -> None:
        self.key = ClusterKey(secrets.token_bytes(KEY_BYTES))
        self._folder = tempfile.TemporaryDirectory(prefix="scaler-conformance-")
        self.path = self.write("cluster.key", self.key.text())

    def write(self, name: str, text: str) -> str:
        """Another file beside it, or the same one with other content; its path."""
        path = Path(self._folder.name, name)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return str(path)

    def remove(self, name: str) -> None:
        Path(self._folder.name, name).unlink(missing_ok=True)

    def close(self) -> None:
        self._folder.cleanup()
