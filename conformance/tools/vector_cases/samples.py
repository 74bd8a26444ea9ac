"""Messages to make vectors of: for each kind a small one, and one with every field set."""

from __future__ import annotations

import struct

from conformance.tools.vector_cases.case import an_id

from scaler_protocol import codes
from scaler_protocol.columns import join_u16, join_u32, join_u64
from scaler_protocol.messages import (
    Acknowledge,
    Bye,
    Cancel,
    CancelReply,
    Capability,
    ClientEntry,
    ClusterEvent,
    ClusterStatus,
    Control,
    ControlReply,
    Count,
    Credit,
    Delivered,
    Dispatch,
    DumpPart,
    DumpRequest,
    Duplicate,
    Error,
    Explain,
    Explanation,
    FunctionEntry,
    FunctionName,
    Get,
    GraphPart,
    GraphRequest,
    GraphShape,
    GraphShapes,
    Hello,
    Holding,
    HostTraffic,
    KeptResults,
    Limits,
    LiveOwners,
    ManagerEntry,
    ManagerOffer,
    ManagerStatus,
    ManagerTarget,
    MemoryFile,
    Message,
    NameFunctions,
    ObjectEntry,
    ObjectReply,
    Ping,
    Pong,
    ProcessorStatus,
    Put,
    PutShared,
    Recall,
    Reject,
    Release,
    ReleaseOwner,
    Results,
    Resume,
    Returned,
    SampleBlock,
    SampleStacks,
    SampleTasks,
    SharedValue,
    Shutdown,
    ShutdownReply,
    SnapshotRequest,
    Software,
    StackBlock,
    StackReply,
    StackRequest,
    StackSamples,
    StorageStatus,
    StorageStatusRequest,
    Submit,
    TaskError,
    TaskFailure,
    TaskHeader,
    TaskLog,
    TaskSamples,
    Timers,
    Unit,
    UserEntry,
    Value,
    WaitingClass,
    Watch,
    Welcome,
    WorkerEntry,
    WorkerOffer,
    WorkerStatus,
)

GRANT = an_id(0x6A) + an_id(0x6B)
PEER, SERVER, OBJECT, TASK, OTHER_TASK = an_id(0xC1), an_id(0x5C), an_id(0x0B), an_id(1), an_id(2)
SOFTWARE = Software("scaler-client", "0.1.0", "Python 3.11.7", "löwe", 4711)
CAPABILITIES = (Capability("gpu", 2), Capability("linux"))
BUSY = WorkerStatus(
    0.25,
    2**33,
    2**36,
    7,
    1,
    (ProcessorStatus(4712, 2, 1.0, 2**31, TASK, 1.5), ProcessorStatus(4713, 1)),
    0.125,
    9,
    TASK + OBJECT + struct.pack("<QQII", 2_500_000, 1_500_000, 4712, codes.STATUS_FAILED),
    11,
    2,
)
#: A tree of calls of one function: two calls, and what is left out below the first.
TREES = (
    OBJECT + struct.pack("<IHH", 6 + 10 + 6 + 9 + 6 + 7 + 24, 3, 3)
    + struct.pack("<IBB", 12, 6, 4) + "prixé".encode() + b"a.py"
    + struct.pack("<IBB", 7, 5, 4) + b"innerb.py" + struct.pack("<IBB", 0, 7, 0) + b"(other)"
    + struct.pack("<HHIHHIHHI", 0, 0, 250_000, 1, 1, 2**32 - 1, 1, 2, 40)
)  # fmt: skip
NAMES = (FunctionName(OBJECT, "prix_de_l'été"), FunctionName(an_id(0x0C)))

SMALL: list[Message] = [
    Hello(1, 1, codes.ROLE_CLIENT, PEER),
    Welcome(1, SERVER, 0, 1),
    Reject(codes.VERSION_MISMATCH, 1, 1, ""),
    Bye(),
    Ping(),
    Pong(),
    Acknowledge(),
    Error(codes.NO_SESSION),
    Cancel(),
    CancelReply(b""),
    TaskLog(TASK, 1, ""),
    Explain(0),
    Explanation(0),
    Shutdown(),
    ShutdownReply(False),
    Credit(0),
    Recall(b""),
    Returned(b""),
    WorkerStatus(),
    Put(0, OBJECT, PEER, 0, 0, b""),
    Get(0, OBJECT),
    Value(0, 0, 0, b""),
    Release(0, PEER, b""),
    ReleaseOwner(0, PEER),
    LiveOwners(0, b"", 0, 0),
    Duplicate(0, OBJECT, an_id(0x0C), PEER),
    ObjectReply(0),
    PutShared(0, OBJECT, PEER, 0, MemoryFile()),
    SharedValue(0, 0, MemoryFile()),
    StorageStatusRequest(0),
    StorageStatus(0),
    SnapshotRequest(0),
    Watch(),
    DumpRequest(0),
    DumpPart(0),
    ClusterStatus(),
    ManagerStatus(),
    ManagerTarget(0),
    NameFunctions(b""),
    SampleTasks(),
    TaskSamples(),
    GraphShapes(),
    KeptResults(TASK, b"", bytes(4)),
    Holding(),
    Delivered(),
    StackRequest(0, TASK),
    StackReply(0, TASK),
    SampleStacks(),
    StackSamples(),
    Control(0),
    ControlReply(0),
    GraphRequest(0),
    GraphPart(0),
]

# fmt: off
FULL: list[Message] = [
    Hello(
        1, 2, codes.ROLE_WORKER, PEER, 8, ("graph", "object-spill"), Limits(1024, 2**33, 100, 2**20), Timers(0.05, 0.5),
        SOFTWARE, Resume(9, 10), WorkerOffer("w1", CAPABILITIES, 2, 1, an_id(0xAA), "u1", ("cpython-312", "raw")), TASK,
        ManagerOffer(an_id(0xAB), "grid", CAPABILITIES, 4), MemoryFile(2**22, 9, an_id(0xFD)), 2**34,
        bytes(range(1, 80)), 2**63, an_id(0xAC), an_id(0xAD) + GRANT,
        2**62,
    ),
    Welcome(
        1, SERVER, 2**63, 77, True, 12, ("graph",), Limits(1024, 2**32, 100, 2**20), Timers(0.1, 1.0), SOFTWARE,
        "tcp://10.0.0.7:2346", "tcp://10.0.0.7:2347", True, 60.5, MemoryFile(2**22, 9, an_id(0xFD)), GRANT, 2**63,
        True,
    ),
    Reject(codes.OVERLOADED, 2, 3, "this scheduler is a standby of tcp://10.0.0.7:2345: dial that one", True, 0.25),
    Bye(codes.SHUTTING_DOWN, "good night"),
    Ping(2**64 - 1),
    Pong(2**64 - 1),
    Error(codes.BAD_BATCH, 2**40, True, "columns disagree", "BAT-2"),
    Cancel(TASK + OTHER_TASK, True, 0.25),
    CancelReply(TASK + OTHER_TASK + an_id(3), bytes((0, 1, 2))),
    TaskLog(TASK, 2, "größer als\nerwartet", "w1"),
    Explain(9, TASK, b"srce", 2**63),
    Explanation(
        9, TASK, "dispatched", 1, 2**33, 3, 2, "w1", True, 4.25, 2, CAPABILITIES, "prix", 5, "cpython-311",
        ("cpython-312", "raw"), 2**31, "ána", True, 300, 7.5, 1.5, True, 52.5,
        TaskFailure(
            TASK, OBJECT, PEER, "ána", "w1", codes.STATUS_SUCCESS, 3, accounts=("attempt 1 on w2: it was lost", ""),
            age_seconds=2.5, duration_seconds=0.25, cpu_seconds=0.125, memory_bytes=2**33, argument_bytes=2**32,
            graph_id=an_id(0x96), parent_task=OTHER_TASK, key="läd-1", submitted_seconds=4.5, ready_seconds=4.25,
            dispatched_seconds=3.5, result_bytes=2**34, is_result_stored=True,
        ),
        OTHER_TASK + an_id(3), bytes((2, 0)), "w1: no process is left", 40.25,
    ),
    Shutdown(30.5),
    ShutdownReply(True, "stopping"),
    Credit(1000, 4),
    Recall(TASK + OTHER_TASK),
    Returned(TASK, False),
    BUSY,
    Put(1, OBJECT, PEER, 2**40, 2**39, b"a chunk of the value", GRANT),
    Get(2, OBJECT, 2**39, 2**23, 30.0, True, PEER, GRANT),
    Value(2, 2**40, 2**39, b"a chunk of the value"),
    Release(3, PEER, OBJECT + an_id(0x0C), GRANT),
    ReleaseOwner(4, PEER),
    LiveOwners(11, PEER + an_id(0xC2), 2**31, 2**31 + 2),
    Duplicate(5, OBJECT, an_id(0x0C), PEER, 1.5, GRANT, SERVER, GRANT[:16]),
    ObjectReply(6, codes.NO_SUCH_OBJECT, "no object has this id"),
    PutShared(9, OBJECT, PEER, 2**38, MemoryFile(2**22, 2**20, OBJECT), GRANT),
    SharedValue(10, 2**38, MemoryFile(4711, 1023, an_id(0x0C))),
    StorageStatusRequest(7, PEER + an_id(0xC2), 32),
    StorageStatus(
        7, 10, 2, 2**34, 3, join_u64([2**33, 0]), join_u64([2**34, 0]), 2**35, 2**20, 2**36, 2**37, 2**36 + 1,
        "No space left on device",
        (ObjectEntry(OBJECT, PEER, 3, 2**40, 60.5, True, "prix", codes.OBJECT_RESULT), ObjectEntry()),
        (HostTraffic("n1", 2**41, 2**42), HostTraffic()), 2**38, join_u64([2**34, 0]),
    ),
    SnapshotRequest(8),
    Watch(("status", "tasks", "graphs", "logs", "x-weather")),
    DumpRequest(2**40, 3),
    DumpPart(2**40, 3, 4, b'{"dump": 1}\n'),
    ClusterStatus(
        8, 99, SERVER, 3600.5, 0.5, 2**30, 2**35, 12,
        task_counts=(Count("queued", 3), Count("success", 2**40)),
        sent_counts=(Count("dispatch", 5),),
        received_counts=(Count("submit", 6),),
        function_counts=(Count(OBJECT.hex(), 3),),
        clients=(ClientEntry(PEER, SOFTWARE, 3, "ána", 12, 2**34), ClientEntry(an_id(0xC2))),
        workers=(
            WorkerEntry(
                SERVER, "w1", SOFTWARE, CAPABILITIES, 4, 2, 2**33, 0.5, 0.25, BUSY, "u1", an_id(0xAA), "ána", 40.5
            ),
        ),
        rejected_count=1, interval_seconds=2.5, software=SOFTWARE, scheduler_address="tcp://0.0.0.0:2345",
        storage_address="tcp://10.0.0.7:2346", is_storage_connected=True, storage=StorageStatus(7, 10, 2, 2**34, 3),
        function_names=NAMES, waiting_classes=(WaitingClass(CAPABILITIES, -5, 2, 2**33, 0), WaitingClass()),
        managers=(ManagerEntry(an_id(0xAA), "grid", CAPABILITIES, 4, 8, 16, 1, 2, 3, "no quota", "bo"), ManagerEntry()),
        recalled_count=2**33, returned_count=17, watcher_count=3, left_out_count=2**34,
        standby_of="tcp://10.0.0.9:2345", standbys=("scaler-scheduler on n2", ""), is_recovering=True,
        recovery_seconds=1.5, expected_count=2**31, presented_count=7,
        repeat_counts=(Count("worker_lost", 2**33), Count("x-moon", 1)),
        queued_buckets=bytes((0, 29, 60)), queued_bucket_counts=join_u64([2**39, 1, 2]), queued_seconds=2**33 + 0.5,
        users=(UserEntry("ána", 2**33, 2**34, 2**35), UserEntry()), user_task_limit=2**36, user_task_bytes_limit=2**37,
    ),
    ManagerStatus(
        3, 8, (Unit("u1", codes.UNIT_RUNNING, "job 17"), Unit("u2", codes.UNIT_STARTING, "", ("w1", "w2"))), "no quota"
    ),
    ManagerTarget(4, 8, ("u1", "u2")),
    NameFunctions(OBJECT + an_id(0x0C), ("prix_de_l'été", "<lambda>")),
    SampleTasks(100),
    TaskSamples(5, SERVER, 3600.5, (SampleBlock(PEER, "w1", 0.25, 9, BUSY.samples), SampleBlock(SERVER)), NAMES),
    GraphShapes(6, SERVER, (
        GraphShape(
            an_id(0x96), PEER, 1000, 998, TASK + OTHER_TASK, bytes((4, 0)), OBJECT + OBJECT, join_u16([0, 1]),
            join_u16([0]), NAMES,
        ),
        GraphShape(),
    )),
    KeptResults(
        TASK + OTHER_TASK + an_id(3), b"HI" + an_id(0x99), join_u32([2, 0, 16]), bytes((0, 0, 1)), bytes((0, 0, 1)),
        an_id(0x96),
    ),
    Holding(
        TASK + OTHER_TASK + an_id(3), join_u16([1, 2, 65_535]), bytes((0, 1, 2)), PEER + an_id(5) + PEER, False,
        GRANT + an_id(0x6C), bytes((len(GRANT), 16)), 12,
    ),
    Delivered(2**40, 12),
    StackRequest(2**63, TASK),
    StackReply(
        2**63, TASK, codes.STACK_NO_ANSWER, "  File \"größer.py\", line 3, in f\n", "its process 7 is running", "w1",
        "dispatched", True, 4.25,
    ),
    SampleStacks(7.5, 32_768),
    StackSamples(
        8, SERVER, 3600.5, (StackBlock(PEER, "w1", 0.25, TREES), StackBlock(SERVER)), NAMES, True, 64, 999, 1000,
    ),
    Control(2**63, codes.CONTROL_DRAIN_WORKER, SERVER, 30.5),
    ControlReply(2**63, codes.CONTROL_UNKNOWN, 2**40),
    GraphRequest(2**63, an_id(0x96), PEER, 65_535, True),
    GraphPart(
        2**63, 65_534, 2**40,
        GraphShape(
            an_id(0x96), PEER, 2**33, 2**32, TASK + OTHER_TASK, bytes((4, 0)), OBJECT + OBJECT, join_u16([1, 2]),
            join_u16([0, 65_533, 65_534]), NAMES, bytes((codes.STATUS_FAILED, 0)), 2**34, 2**35,
            b"\6\0", "läd-1".encode(),
        ),
        65_536,
    ),
]

HISTORY: list[Message] = [
    Watch(("tasks",), True),
    TaskSamples(
        7, SERVER, 1.5, failures=(
            TaskFailure(
                TASK, OBJECT, PEER, "ana", "w1", codes.STATUS_FAILED, 2, codes.TASK_RAISED, "builtins.ValueError",
                "größer als 3", "Traceback …", ("w2: connection closed",), 0.5, 0.25, 0.125, 2**33, 64, an_id(0x96),
                OTHER_TASK, submitted_seconds=2.0, dispatched_seconds=1.0,
            ),
            TaskFailure(TASK),
        ), failed_count=300, is_history=True,
        events=(ClusterEvent(1, 2.5, "worker_lost", "w2", "connection closed", 73), ClusterEvent()),
    ),
    GraphShapes(8, SERVER, (
        GraphShape(
            an_id(0x96), PEER, 2, 0, TASK + OTHER_TASK, bytes((4, 4)), OBJECT + OBJECT, join_u16([0, 1]), join_u16([0]),
            NAMES, bytes((codes.STATUS_FAILED, codes.STATUS_REFUSED)), 2, 0, b"\6\0", "läd-1".encode(),
        ),
    )),
]
"""What became of tasks and of the cluster, in fields that were added to these kinds. (MON-32 to MON-36)"""

FUNCTIONS: list[Message] = [
    WorkerStatus(
        functions=struct.pack("<16sQQ16sQQ", OBJECT, 2_500_000, 1_500_000, bytes(16), 2**40, 0),
        function_buckets=struct.pack("<HHIHHIHHI", 0, 0, 8, 0, 29, 1, 1, 60, 2**32 - 1),
        stack_samples=TREES, host_memory_bytes=2**40, trouble="préparation: no process is left",
    ),
    ClusterStatus(
        9, 100, SERVER, task_counts=(Count("success", 9),),
        functions=(
            FunctionEntry(
                OBJECT, "prix_de_l'été", "ána", 2**40, 7, 2**39, 5, 4, 3, 2, 12.5, 6.25, 2**33 + 0.5, 2**32 + 0.25,
                bytes((0, 29, 60)), join_u64([2**39, 1, 2]),
            ),
            FunctionEntry(),
        ),
    ),
]
"""What functions cost. (MON-38 to MON-41, WRK-54)"""

FULL_HEADER = TaskHeader(
    PEER, codes.CALL_SEPARATE, ("key",), an_id(0x5E), CAPABILITIES, -5, 2, an_id(0xAB),
    codes.FLAG_PROFILING | codes.FLAG_STREAM_OUTPUT, 12.5, 3, an_id(0x96), "cpython-311", an_id(0x5A), 4, GRANT, 2**63,
    an_id(0xC5),
)
# fmt: on

WORKED_SUBMIT = Submit(
    # The worked example of chapter 8.
    header=TaskHeader(call_format=codes.CALL_RAW),
    functions=an_id(0xF0) + an_id(0xF1),
    ids=an_id(1) + an_id(2) + an_id(3),
    payload=b"hi" + OBJECT + b"!" + an_id(1),
    part_sizes=join_u32([2, 16, 1, 16]),
    function_indexes=join_u16([0, 1, 0]),
    part_counts=join_u16([1, 2, 1]),
    part_kinds=bytes((0, 1, 0, 2)),
    dependency_counts=join_u16([0, 0, 1]),
    dependencies=an_id(1),
)

FULL_DISPATCH = Dispatch(
    header=FULL_HEADER,
    functions=an_id(0xF0),
    ids=an_id(3) + an_id(4),
    payload=an_id(1) + b"four" + an_id(2) + b"HI" + an_id(0x99),
    part_sizes=join_u32([16, 4, 16]),
    function_indexes=join_u16([0, 0]),
    part_counts=join_u16([1, 2]),
    part_kinds=bytes((2, 0, 2)),
    task_flags=bytes((1, 0)),
    attempts=join_u16([1, 3]),
    is_graph_sealed=False,
    input_ids=an_id(1) + an_id(2),
    input_kinds=bytes((0, 1)),
    input_sizes=join_u32([2, 16]),
)

CHAIN_DISPATCH = Dispatch(
    header=FULL_HEADER,
    functions=an_id(0xF0),
    ids=an_id(3) + an_id(4) + an_id(5),
    payload=b"call" + b"four" + an_id(3) + b"five" + an_id(4) + an_id(1) + b"HI",
    part_sizes=join_u32([4, 4, 16, 4, 16, 16]),
    part_counts=join_u16([1, 2, 3]),
    part_kinds=bytes((0, 0, 2, 0, 2, 2)),
    input_ids=an_id(1),
    input_sizes=join_u32([2]),
    awaited_counts=join_u16([0, 1, 2]),
    awaited=an_id(3) + an_id(4) + an_id(7),
)

FULL_RESULTS = Results(
    ids=b"".join(map(an_id, range(1, 10))),
    payload=b"HI" + an_id(0x99) + b"e" * 6,
    sizes=join_u32([2, 16, 0, 1, 1, 1, 1, 1, 1]),
    attempts=join_u16([1, 1, 1, 2, 3, 1, 1, 1, 65_535]),
    statuses=bytes((0, 0, 2, 1, 2, 3, 4, 5, 6)),
    kinds=bytes((0, 1, 2, 0, 0, 0, 0, 0, 0)),
    profiles=b"".join(struct.pack("<QQQ", 10**9 * i, 10**8 * i, 2**20 * i) for i in range(9)),
    credit=1000,
)


FULL_TASK_ERROR = TaskError(
    code=codes.PROCESSOR_DIED,
    type_name="builtins.ZeroDivisionError",
    message="division by zero",
    text="Traceback (most recent call last): …",
    serialized=b"\x80\x05.",
    exit_code=-11,
    peak_memory_bytes=2**33,
    workers=("w1: exit -11", "w2: silent"),
    memory_limit_bytes=1 << 31,
)


def one_task(**changes: object) -> Submit:
    fields: dict[str, object] = {
        "header": TaskHeader(client=PEER),
        "functions": an_id(0xF0),
        "ids": TASK,
        "payload": b"call",
        "part_sizes": join_u32([4]),
    }
    return Submit(**(fields | changes))  # type: ignore[arg-type]


def many_tasks(count: int) -> Submit:
    sizes = [i % 5 for i in range(count)]
    return one_task(
        functions=an_id(0xF0) + an_id(0xF1) + an_id(0xF2),
        ids=b"".join(struct.pack("<QQ", 0x5CA1E7, i) for i in range(count)),
        payload=bytes(i % 251 for i in range(sum(sizes))),
        part_sizes=join_u32(sizes),
        function_indexes=join_u16([i % 3 for i in range(count)]),
    )


def one_result(**changes: object) -> Results:
    fields: dict[str, object] = {"ids": TASK, "payload": b"value", "sizes": join_u32([5])}
    return Results(**(fields | changes))  # type: ignore[arg-type]


def many_results(count: int) -> Results:
    return one_result(
        ids=b"".join(struct.pack("<QQ", 0x5CA1E7, i) for i in range(count)),
        payload=bytes(i % 251 for i in range(3 * count)),
        sizes=join_u32([3] * count),
    )
