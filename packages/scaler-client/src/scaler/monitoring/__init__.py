"""Watching a cluster: one library for scaler_top, scaler_ui, the metrics and the dump::

    with Subscription("tcp://127.0.0.1:2345") as subscription:     # scheduler's or monitor's address, also old ipc://
        state = subscription.first(timeout_seconds=5)              # MonitorError: one sentence that says what to do
        while True:
            for heard in subscription.poll(seconds=1.0):           # returns as soon as there is something
                ...                                                # heard.topic, heard.message
            show(subscription.state)                               # ClusterState: immutable, never None

`subscription.state.condition` is CONNECTING, LIVE or SILENT, and `.text` says what to tell people when it is not LIVE.
A scheduler that is gone makes it SILENT, one that comes back LIVE again; nothing has to be done for either. A
Subscription belongs to one thread; `Watcher` runs one in a thread of its own, for programs with a loop. `Playback` has
the same methods over a recorded file. Nothing here needs POSIX, and nothing is unpickled.
"""

from scaler.monitoring.addresses import MonitorError
from scaler.monitoring.functions import FunctionFigures, functions_of
from scaler.monitoring.recording import Playback, Recorder, Recording, RecordingError
from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler.monitoring.subscription import Subscription
from scaler.monitoring.users import UserFigures, users_of
from scaler.monitoring.watcher import Watcher

__all__ = [
    "ClusterState",
    "Condition",
    "FunctionFigures",
    "Heard",
    "MonitorError",
    "Playback",
    "Recorder",
    "Recording",
    "RecordingError",
    "Subscription",
    "UserFigures",
    "Watcher",
    "functions_of",
    "users_of",
]
