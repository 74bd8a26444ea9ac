"""What the address that a user typed may mean: the scheduler, its monitor, or a path of earlier days."""

from __future__ import annotations

import os
import re

from scaler_protocol.addresses import AddressError, check_resolvable, default_monitor_address
from scaler_protocol.errors import ScalerError

#: `ipc:///tmp/0.0.0.0_8516_monitor`: where the predecessor's schedulers published, named after their own address.
_OLD_MONITOR = re.compile(r"ipc://.*?([^/_]+)_(\d+)_monitor\Z")
FEATURE_SERVING = "serving"
"""Of a watcher with several addresses: a standby sends it on to the next. (HSK-40)"""

_EVERY_INTERFACE = ("*", "0.0.0.0", "::")


class MonitorError(ScalerError):
    """Watching is not possible; the text is one sentence that says what to do."""


def watchable(text: str) -> str:
    """The address to try, or the list, checked. Old monitor paths become the TCP address that they were named after."""
    old = _OLD_MONITOR.match(text)
    if old and not os.path.exists(text.removeprefix("ipc://")):
        host = "127.0.0.1" if old[1] in _EVERY_INTERFACE else old[1]
        text = default_monitor_address(f"tcp://{host}:{old[2]}")
    try:
        check_resolvable(text)
    except AddressError as error:
        raise MonitorError(str(error)) from None
    return text
