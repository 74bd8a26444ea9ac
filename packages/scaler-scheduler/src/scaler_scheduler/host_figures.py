"""What the system says of this process and its host. To ask takes a descriptor, and there may be none left."""

from __future__ import annotations

from typing import NamedTuple

import psutil


class Figures(NamedTuple):
    cpu: float = 0.0
    rss_bytes: int = 0
    host_free_bytes: int = 0


class HostFigures:
    """The figures of now; the last ones again when the system cannot be asked."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._last = Figures()

    def read(self) -> Figures:
        try:
            self._last = Figures(
                self._process.cpu_percent() / 100,
                self._process.memory_info().rss,
                psutil.virtual_memory().available,
            )
        except (OSError, psutil.Error):
            pass  # such as EMFILE, of which the transport has told already
        return self._last
