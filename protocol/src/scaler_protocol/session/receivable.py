"""What each dialer may receive: the last column of the table in chapter 02. It refuses all else. (HSK-28)"""

from __future__ import annotations

from scaler_protocol.codes import ROLE_CLIENT, ROLE_MANAGER, ROLE_MONITOR, ROLE_SCHEDULER, ROLE_WORKER
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    ClusterStatus,
    ControlReply,
    Delivered,
    Dispatch,
    DumpPart,
    Explanation,
    GraphPart,
    GraphShapes,
    KeptResults,
    ManagerTarget,
    ObjectReply,
    Recall,
    Results,
    SampleStacks,
    SampleTasks,
    SharedValue,
    Shutdown,
    ShutdownReply,
    StackReply,
    StackRequest,
    StackSamples,
    StorageStatus,
    TaskLog,
    TaskSamples,
    Value,
)

#: role of the dialer -> messages of the role that a scheduler may send to it
FROM_SCHEDULER: dict[int, frozenset[type]] = {
    ROLE_CLIENT: frozenset({Results, KeptResults, CancelReply, TaskLog, Explanation, ShutdownReply, StackReply}),
    ROLE_WORKER: frozenset({Dispatch, Cancel, Recall, SampleTasks, Shutdown, Delivered, StackRequest, SampleStacks}),
    ROLE_MONITOR: frozenset(
        {
            ClusterStatus,
            TaskSamples,
            GraphShapes,
            GraphPart,
            TaskLog,
            Explanation,
            DumpPart,
            StackReply,
            StackSamples,
            ControlReply,
        }
    ),
    ROLE_MANAGER: frozenset({ManagerTarget}),
    ROLE_SCHEDULER: frozenset({Shutdown}),
}

#: whatever the role of the dialer
FROM_STORAGE: frozenset[type] = frozenset({Value, SharedValue, ObjectReply, StorageStatus})
