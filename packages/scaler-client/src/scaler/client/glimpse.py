"""The last figures of a cluster, for displays that must not wait for the network."""

from __future__ import annotations

import threading
import time

from scaler.client import info
from scaler_protocol.keys import KeyOptions

FRESH_SECONDS = 2.0
"""Figures of this age are not asked for again."""
_ANSWER_SECONDS = 5.0


class Glimpse:
    """The last figures of a cluster, for a display that must not wait. To look starts a request in the background if
    the figures are old, so the next look has newer ones. At most one request is in flight."""

    def __init__(self) -> None:
        self._info: info.ClusterInfo | None = None
        self._asked_at = 0.0
        self._thread: threading.Thread | None = None

    def look(self, address: str, keys: KeyOptions) -> info.ClusterInfo | None:
        """None until the first answer has come."""
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and (self._thread is None or time.monotonic() > self._asked_at + FRESH_SECONDS):
            self._asked_at = time.monotonic()
            self._thread = threading.Thread(target=self._ask, args=(address, keys), name="scaler-glimpse", daemon=True)
            self._thread.start()
        return self._info

    def _ask(self, address: str, keys: KeyOptions) -> None:
        try:
            self._info = info.cluster_info(address, keys, _ANSWER_SECONDS)
        except BaseException:  # noqa: BLE001 without the role monitor, or without a scheduler, there are no figures
            self._info = None
