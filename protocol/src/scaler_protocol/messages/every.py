"""The union of the envelope."""

from __future__ import annotations

from scaler_protocol.messages.managers import ManagerStatus, ManagerTarget
from scaler_protocol.messages.monitor import (
    ClusterStatus,
    Control,
    ControlReply,
    DumpPart,
    DumpRequest,
    GraphPart,
    GraphRequest,
    GraphShapes,
    NameFunctions,
    SnapshotRequest,
    StackSamples,
    TaskSamples,
    Watch,
)
from scaler_protocol.messages.objects import (
    Duplicate,
    Get,
    LiveOwners,
    ObjectReply,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    SharedValue,
    StorageStatus,
    StorageStatusRequest,
    Value,
)
from scaler_protocol.messages.session import Acknowledge, Bye, Error, Hello, Ping, Pong, Reject, Welcome
from scaler_protocol.messages.tasks import (
    Cancel,
    CancelReply,
    Dispatch,
    Explain,
    Explanation,
    KeptResults,
    Results,
    Shutdown,
    ShutdownReply,
    StackReply,
    StackRequest,
    Submit,
    TaskLog,
)
from scaler_protocol.messages.workers import (
    Credit,
    Delivered,
    Holding,
    Recall,
    Returned,
    SampleStacks,
    SampleTasks,
    WorkerStatus,
)

Message = (
    Hello | Welcome | Reject | Bye | Ping | Pong | Acknowledge | Error
    | Submit | Dispatch | Results | Cancel | CancelReply | TaskLog | Shutdown | ShutdownReply | Explain | Explanation
    | KeptResults | StackRequest | StackReply
    | Credit | Recall | Returned | WorkerStatus | Holding | Delivered
    | Put | Get | Value | Release | ReleaseOwner | Duplicate | ObjectReply | StorageStatusRequest | StorageStatus
    | PutShared | SharedValue | LiveOwners
    | SnapshotRequest | ClusterStatus | Watch
    | ManagerStatus | ManagerTarget
    | NameFunctions | SampleTasks | TaskSamples | GraphShapes | DumpRequest | DumpPart | SampleStacks | StackSamples
    | Control | ControlReply | GraphRequest | GraphPart
)  # fmt: skip
