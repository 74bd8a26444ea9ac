"""What scaler_ui shows, without a scheduler: messages as one publishes them, and the page served in a thread."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from scaler.monitoring import ClusterState, Condition, Heard
from scaler.ui.feed import Feed
from scaler.ui.model import Model
from scaler.ui.server import application
from scaler_protocol.codes import OBJECT_RESULT
from scaler_protocol.columns import join_u16, join_u64
from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Capability,
    ClientEntry,
    ClusterEvent,
    ClusterStatus,
    Count,
    FunctionEntry,
    FunctionName,
    GraphShape,
    GraphShapes,
    HostTraffic,
    ManagerEntry,
    Message,
    ObjectEntry,
    ProcessorStatus,
    SampleBlock,
    Software,
    StorageStatus,
    TaskFailure,
    TaskLog,
    TaskSamples,
    WaitingClass,
    WorkerEntry,
    WorkerStatus,
)
from scaler_protocol.web.guards import Guard
from tests.support.waiting import WAIT

MIB = 1 << 20
LOOPBACK = Guard(frozenset({"127.0.0.1", "localhost"}))
SERVER = PeerId(b"the scheduler...")
LIVE = ClusterState("tcp://127.0.0.1:2345", Condition.LIVE)
NASTY = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>\"'&amp;"


def task(number: int) -> TaskId:
    return TaskId(b"a client" + number.to_bytes(8, "little"))


def function(name: str) -> FunctionName:
    return FunctionName(ObjectId(name.encode()[:16].ljust(16, b".")), name)


def worker(
    number: int, *, name: str = "", silent_seconds: float = 0.0, still_seconds: float = 0.0, held_count: int = -1
) -> WorkerEntry:
    processor = ProcessorStatus(
        1000 + number, state=2, cpu=0.2 + number % 70 / 100, rss_bytes=(40 + number % 90) * MIB, running_seconds=0.05
    )
    status = WorkerStatus(
        agent_cpu=0.02,
        agent_rss_bytes=32 * MIB,
        host_free_bytes=9000 * MIB,
        queued_count=number % 5,
        processors=(processor,),
    )
    return WorkerEntry(
        PeerId(b"worker.." + number.to_bytes(8, "little")),
        name or f"{number}|node{number // 16}|{1000 + number}",
        Software(host=f"node{number // 16}", process_id=1000 + number),
        capabilities=(Capability("gpu", 2),) if number % 8 == 0 else (),
        credit_limit=6,
        held_count=number % 6 if held_count < 0 else held_count,
        completed_count=1000 + 7 * number,
        lag_seconds=0.0008,
        silent_seconds=silent_seconds,
        still_seconds=still_seconds,
        status=status,
    )


def status(
    workers: Iterable[WorkerEntry],
    *,
    sequence: int = 1,
    done: int = 0,
    queued: int = 0,
    names: Sequence[str] = ("price",),
) -> ClusterStatus:
    functions = [function(name) for name in names]
    return ClusterStatus(
        sequence=sequence,
        server_id=SERVER,
        uptime_seconds=float(sequence),
        cpu=0.31,
        rss_bytes=180 * MIB,
        host_free_bytes=20_000 * MIB,
        interval_seconds=1.0,
        software=Software("scaler", "0.1.0", "Python 3.12", "head", 7),
        scheduler_address="tcp://127.0.0.1:2345",
        storage_address="tcp://127.0.0.1:2346",
        is_storage_connected=True,
        storage=StorageStatus(0, object_count=411, memory_bytes=73 * MIB, owner_count=3),
        task_counts=(
            Count("waiting", queued // 50),
            Count("queued", queued),
            Count("dispatched", 4000),
            Count("success", done),
            Count("failed", done // 5000),
        ),
        sent_counts=(Count("Dispatch", done // 20), Count("Results", done // 25)),
        received_counts=(Count("Results", done // 20), Count("Submit", done // 100)),
        function_counts=tuple(Count(one.function_id.hex(), queued // len(functions)) for one in functions),
        function_names=tuple(functions),
        functions=tuple(work(one, done // len(functions), queued // len(functions)) for one in functions),
        clients=(
            ClientEntry(
                PeerId(b"a client........"), Software(language="Python 3.12", host="desk", process_id=41), queued
            ),
        ),
        waiting_classes=(
            WaitingClass((Capability("gpu", 4),), task_count=12),
            WaitingClass(task_count=queued, able_count=9),
        ),
        managers=(
            ManagerEntry(
                PeerId(b"manager........."),
                "slurm",
                target_count=9,
                max_workers=64,
                running_count=8,
                starting_count=1,
                workers_per_unit=16,
            ),
        ),
        workers=tuple(workers),
    )


def with_objects(status: ClusterStatus, name: str = "table of prices", host: str = "node7") -> ClusterStatus:
    """The first client owns two large objects: one with a name, and one on the disk."""
    client = replace(status.clients[0], object_count=2, object_bytes=6 * MIB)
    largest = (
        ObjectEntry(b"value...........", client.peer_id, 1, 4 * MIB, 9.0, True),
        ObjectEntry(b"named...........", client.peer_id, 3, 2 * MIB, 90.0, False, name, OBJECT_RESULT),
    )
    traffic = (HostTraffic(host, MIB, 3 * MIB), HostTraffic("", 7, 8))
    storage = replace(status.storage, largest=largest, traffic=traffic)
    return replace(status, clients=(client, *status.clients[1:]), storage=storage)


def work(one: FunctionName, done: int, queued: int) -> FunctionEntry:
    """So many tasks of a function have ended, a twentieth not well; nearly all ran for some milliseconds."""
    failed, runs = done // 20, (done - done // 100, done // 200, done // 200)
    return FunctionEntry(
        one.function_id,
        one.name,
        submitted_count=done + queued + 16,
        dispatched_count=16,
        success_count=done - failed,
        failed_count=failed,
        queued_seconds=0.5 * (done + queued + 16),
        dispatched_seconds=0.02 * done,
        run_seconds=0.0075 * done,
        cpu_seconds=0.006 * done,
        buckets=bytes((12, 13, 24)),
        bucket_counts=join_u64(runs),
    )


def row(number: int, name: str, one: WorkerEntry, begun: float, lasted: float, *, is_failed: bool = False) -> bytes:
    """A sample of a task that began so many seconds ago."""
    process = one.status.processors[0].process_id
    microseconds = int(1e6 * begun), int(1e6 * lasted)
    return struct.pack("<16s16sQQII", task(number), function(name).function_id, *microseconds, process, is_failed)


def samples(
    workers: Sequence[WorkerEntry], names: Sequence[str] = ("price",), *, first: int = 0, each: int = 2, ended: int = 0
) -> TaskSamples:
    """`each` tasks of each worker, one after the other in the last second; `ended` is how many it really were."""
    blocks = []
    for place, one in enumerate(workers):
        numbers = range(first + place * each, first + (place + 1) * each)
        rows = [
            row(number, names[number * 7 % len(names)], one, 1 - index / each, 0.9 / each, is_failed=number % 97 == 96)
            for index, number in enumerate(numbers)
        ]
        blocks.append(SampleBlock(one.peer_id, one.name, 0.0, ended or each, b"".join(rows)))
    return TaskSamples(server_id=SERVER, blocks=tuple(blocks), function_names=tuple(map(function, names)))


def failed(
    number: int, name: str = "fit", line: str = "too large", *, at_seconds: float = 1.0, **other: Any
) -> TaskFailure:
    """A task that failed so many seconds ago."""
    return TaskFailure(
        task(number), function(name).function_id, PeerId(b"a client........"), "ana", "1|node0|1001", 1, 1, 500,
        "builtins.ValueError", line, age_seconds=at_seconds, duration_seconds=0.5, cpu_seconds=0.25,
        **other,
    )  # fmt: skip


def failures(
    *them: TaskFailure, count: int = 0, is_history: bool = False, events: Sequence[ClusterEvent] = ()
) -> TaskSamples:
    names = tuple(map(function, ("fit", "price")))
    return TaskSamples(
        server_id=SERVER, failures=them, failed_count=count or len(them), function_names=names,
        is_history=is_history, events=tuple(events),
    )  # fmt: skip


def graph(
    names: Sequence[str],
    states: Sequence[int],
    needs: Sequence[Sequence[int]],
    outcomes: Sequence[int] = (),
    keys: Sequence[str] = (),
) -> GraphShapes:
    functions = {name: function(name) for name in names}
    shape = GraphShape(
        GraphId(b"a graph........."),
        PeerId(b"a client........"),
        len(names),
        sum(state != 4 for state in states),
        ids=b"".join(task(500 + index) for index in range(len(names))),
        states=bytes(states),
        functions=b"".join(functions[name].function_id for name in names),
        dependency_counts=join_u16([len(own) for own in needs]),
        dependencies=join_u16([one for own in needs for one in own]),
        function_names=tuple(functions.values()),
        outcomes=bytes(outcomes),
        failed_count=sum(one not in (0, 2) for one in outcomes),
        canceled_count=sum(one == 2 for one in outcomes),
        key_sizes=bytes(len(key.encode()) for key in keys),
        keys="".join(keys).encode(),
    )
    return GraphShapes(server_id=SERVER, graphs=(shape,))


def printed(text: str, number: int = 1, stream: int = 1) -> TaskLog:
    return TaskLog(task(number), stream, text, worker="0|node0|1000")


def heard(*messages: Message, state: ClusterState = LIVE, at: float | None = None) -> tuple[ClusterState, list[Heard]]:
    """As a watcher hands it on: the state has the last status that was heard."""
    for message in messages:
        if isinstance(message, ClusterStatus):
            state = replace(state, status=message)
    wall_at = time.time() if at is None else at
    return state, [Heard("", message, time.monotonic(), wall_at) for message in messages]


class ServedPage:
    """The whole of scaler_ui but its watcher: `tell` is what that does."""

    def __init__(self, guard: Guard = LOOPBACK) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_up = threading.Event()
        self.url = ""
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(guard)))

    def __enter__(self) -> ServedPage:
        self._thread.start()
        assert self._is_up.wait(WAIT), "the page is not served"
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "the page is still served"
        self._loop.close()

    async def _serve(self, guard: Guard) -> None:
        self.feed = Feed(Model(LIVE.address))
        runner = web.AppRunner(application(self.feed, guard), access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        self._is_up.set()
        await self._stop.wait()
        await runner.cleanup()

    def tell(self, *messages: Message, state: ClusterState = LIVE, at: float | None = None) -> None:
        self.feed.heard(*heard(*messages, state=state, at=at))
