"""The scheduler's decisions: pure, without sockets, clocks or threads."""

from scaler_scheduler.core.actions import (
    Action,
    Asked,
    Disconnect,
    MonitorLeft,
    PublishLog,
    Send,
    SendToStorage,
    Stop,
)
from scaler_scheduler.core.core import (
    ALLOWED_MESSAGES,
    FEATURE_CHAINS,
    FEATURE_KEPT_RESULTS,
    FEATURE_LIVE_OWNERS,
    FEATURE_RESULT_WINDOW,
    FEATURE_SAMPLES,
    Event,
    Numbered,
    SchedulerCore,
    Settled,
    StorageOpened,
    StorageReplied,
)
from scaler_scheduler.core.entities.requirements import FEATURE_CODE_SETS
from scaler_scheduler.core.policy import Policy
from scaler_scheduler.core.succession.recovering import FEATURE_PRESENT_HELD

__all__ = [
    "ALLOWED_MESSAGES",
    "FEATURE_CHAINS",
    "FEATURE_CODE_SETS",
    "FEATURE_KEPT_RESULTS",
    "FEATURE_LIVE_OWNERS",
    "FEATURE_PRESENT_HELD",
    "FEATURE_RESULT_WINDOW",
    "FEATURE_SAMPLES",
    "Action",
    "Asked",
    "Disconnect",
    "Event",
    "MonitorLeft",
    "Numbered",
    "Policy",
    "PublishLog",
    "SchedulerCore",
    "Send",
    "SendToStorage",
    "Settled",
    "Stop",
    "StorageOpened",
    "StorageReplied",
]
