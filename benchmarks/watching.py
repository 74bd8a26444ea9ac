"""`python -m benchmarks.watching`: what does it cost the scheduler to be watched?

The scheduler's core, its codec, its sessions and its socket are real, and so are the watchers, in processes of their
own. Workers and clients are played: each second so many tasks are submitted, dispatched and answered, and every worker
tells its status each two seconds, with samples of its tasks when it is asked for them. What is counted is processor
time of publications, of the socket's thread, and of reading statuses, which are there without watchers too, but
shorter. The ways to watch take turns, so that what else the machine does befalls them alike.

A graph of 5,000 tasks of 20 functions waits all the time: it costs something only where graphs are watched. In rows
with `functions`, each status tells how long the tasks of 20 functions ran, as those of real workers do. In the row with
`stacks`, as many workers as the scheduler asks tell where the time of their tasks went.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.scale.cluster import FUNCTION, GRAPH_HEADER, SETTLED, Cluster, peer, task_ids
from benchmarks.scale.measures import ARGUMENT, SUBMIT_TASKS, queue
from scaler_protocol import codec
from scaler_protocol.codec.checks import SAMPLE_BYTES
from scaler_protocol.codes import ROLE_MONITOR
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import ID_BYTES, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Capability,
    Hello,
    Limits,
    Message,
    NameFunctions,
    ProcessorStatus,
    SampleStacks,
    SampleTasks,
    Software,
    Submit,
    Welcome,
    WorkerOffer,
    WorkerStatus,
)
from scaler_protocol.session import Lost, Opened, Received, SessionServer
from scaler_protocol.stack_trees import StackTrees
from scaler_protocol.transport import RouterEndpoint
from scaler_scheduler import publishing
from scaler_scheduler.core import FEATURE_SAMPLES, Policy, Send
from scaler_scheduler.core.watching.stack_sampling import FEATURE_STACK_SAMPLES
from scaler_scheduler.desk import Desk
from scaler_scheduler.dumps import Dumps
from scaler_scheduler.publishing import Identity, Publisher, StorageFigures
from scaler_scheduler.watchers import Watchers


@dataclass(frozen=True, slots=True)
class Way:
    watchers: int
    topics: tuple[str, ...] = ()
    tells_functions: bool = False


_ALL = ("status", "tasks", "logs", "graphs")
WAYS = {
    "no monitor": Way(0),
    "no monitor, functions": Way(0, tells_functions=True),
    "status": Way(1, _ALL[:1]),
    "status, functions": Way(1, _ALL[:1], tells_functions=True),
    "all without graphs": Way(1, _ALL[:-1]),
    "all topics": Way(1, _ALL),
    "all, functions": Way(1, _ALL, tells_functions=True),
    "all, functions, stacks": Way(1, (*_ALL, "stacks"), tells_functions=True),
    "ten watchers": Way(10, _ALL),
}
FUNCTIONS = [ObjectId(b"function %7d" % number) for number in range(20)]
GRAPH_TASKS = 5_000
BUCKETS = (10, 11, 12, 13)
PER_MESSAGE = 16
STATUS_SECONDS = 2.0
READY_SECONDS = 120.0
WATCHER = """
import sys
from scaler.monitoring import Subscription
from scaler_protocol.keys import KeyOptions
with Subscription(sys.argv[1], sys.argv[2:], keys=KeyOptions(insecure=True)) as subscription:
    while True:
        subscription.poll(1.0)
"""


class Clock:
    """Goes on by a second for each second of work, so that a busy machine does not change how often is published."""

    def __init__(self) -> None:
        self.now = 0.0
        self.thread_time = time.thread_time

    def monotonic(self) -> float:
        return self.now


class Storage:
    """What a publisher asks of the session with the storage."""

    is_open = False


class Watched(Cluster):
    """`core_seconds` is what tasks take, `watch_seconds` what is counted here."""

    def __init__(self, workers: int) -> None:
        self.sample_limit = 0
        #: of each worker that is to tell stacks: in so many bytes
        self.stack_bytes: dict[PeerId, int] = {}
        self.tells_functions = False
        self.watch_seconds = 0.0
        self.clock = Clock()
        setattr(publishing, "time", self.clock)  # noqa: B010
        super().__init__(clients=10, policy=Policy(shows_texts=True))
        queue(self, 4 * PER_MESSAGE * workers)  # so much waits that busy workers get and answer many at a time
        self.join_workers(workers, credit=2 * PER_MESSAGE)
        server = SessionServer(server_id=peer(3, 0), role_name="scheduler", allowed_roles=(ROLE_MONITOR,))
        self.router = RouterEndpoint("tcp://127.0.0.1:0", server)
        storage: Any = Storage()
        identity = Identity(peer(3, 0), Software(), "", 1.0)
        self.watchers = Watchers(self.router.send, self.router.unacknowledged, self.router.user_of)
        figures = StorageFigures(storage, self.core.owned_objects)
        self.publisher = Publisher(
            identity, self.core, self.watchers, self.router, storage, figures, settle=self._settle
        )
        dumps = Dumps(lambda now: iter(()))
        self.desk = Desk(self.core, self.router, self.watchers, self.publisher, figures, dumps)
        names = ("simulate", *(f"function_{number}" for number in range(len(FUNCTIONS))))
        self._handle([Received(self.clients[0], 1, NameFunctions(FUNCTION + b"".join(FUNCTIONS), names))])
        self._wait_with_a_graph()

    def _wait_with_a_graph(self) -> None:
        """No worker can run it. Each task but those of the first function waits for one of the function before."""
        header = replace(GRAPH_HEADER, capabilities=(Capability("no-worker-has-this"),))
        each = GRAPH_TASKS // len(FUNCTIONS)
        before: list[TaskId] = []
        for number, function in enumerate(FUNCTIONS):
            ids = task_ids(-(number + 2) * each, each)
            waits = {"dependency_counts": join_u16([1] * each), "dependencies": join_ids(before)} if before else {}
            sizes = join_u32([0] * each)
            submit = Submit(header, function, join_ids(ids), b"", sizes, **waits)  # type: ignore[arg-type]
            self._receive(self.clients[0], submit)
            before = ids

    def _join(self, peer_id: PeerId, role: int, offer: WorkerOffer) -> None:
        welcome = Welcome(1, peer(3, 0), 1, 1, limits=Limits(), features=(FEATURE_SAMPLES, FEATURE_STACK_SAMPLES))
        self._handle([Opened(peer_id, Hello(1, 1, role, peer_id, worker=offer), welcome)])

    def _take(self, peer_id: PeerId, message: Message) -> None:
        if isinstance(message, SampleTasks):
            self.sample_limit = message.sample_limit
        elif isinstance(message, SampleStacks):
            self.stack_bytes[peer_id] = message.byte_limit
        else:
            super()._take(peer_id, message)

    def _settle(self) -> None:
        for action in self.core.handle(SETTLED, 0.0):
            if isinstance(action, Send):
                self._take(action.peer_id, action.message)

    def tell_statuses(self, workers: Sequence[PeerId], ended_count: int) -> None:
        sample = bytes(ID_BYTES) + FUNCTION + bytes(SAMPLE_BYTES - 2 * ID_BYTES)
        processor = ProcessorStatus(4711, 2, 0.9, 1 << 25, TaskId(peer(4, 0)))
        sampled = min(self.sample_limit, ended_count)
        status = WorkerStatus(
            0.1, 1 << 25, 1 << 35, 3, 0, (processor,),
            ended_count=ended_count if self.sample_limit else 0, samples=sample * sampled,
        )  # fmt: skip
        if self.tells_functions:
            status = replace(status, functions=_ROWS, function_buckets=_BUCKETS)
        plain = encoded(status)
        with_stacks = {
            limit: encoded(replace(status, stack_samples=trees(limit)))
            for limit in set(self.stack_bytes.values())
            if limit
        }
        told = [(worker, with_stacks.get(self.stack_bytes.get(worker, 0), plain)) for worker in workers]

        def receive() -> None:
            for worker, data in told:
                self.core.handle(Received(worker, 1, codec.decode(data, ()).message), 0.0)
            self._settle()

        self.count(receive)

    def serve_monitors(self) -> None:
        now = time.monotonic()
        for event in self.router.poll(now):
            if isinstance(event, Received):
                self.desk.asked(event.peer_id, event.seq, event.message)  # type: ignore[arg-type]
            elif isinstance(event, Lost):
                self.desk.lost(event.peer_id)
        self.desk.settle(now)
        self.router.settle(now)

    def count(self, work: Callable[[], None]) -> None:
        began_at = time.thread_time()
        work()
        self.watch_seconds += time.thread_time() - began_at


_ROWS = b"".join(struct.pack("<16sQQ", function, 900_000, 800_000) for function in FUNCTIONS)
_BUCKETS = b"".join(
    struct.pack("<HHI", row, bucket, 100) for row in range(len(FUNCTIONS)) for bucket in BUCKETS
)  # 100 tasks of each function in each bucket


def encoded(status: WorkerStatus) -> bytes:
    (envelope,) = codec.encode(status, 1, 1)
    return bytes(envelope)


def trees(limit: int) -> bytes:
    """Of 20 functions, each with 20 calls in 5 others."""
    made = StackTrees()
    for function in FUNCTIONS:
        for number in range(100):
            outer, inner = (f"step_{number % 5}", "program.py", number % 5), (f"call_{number}", "library.py", number)
            made.add(function, [outer, inner], 10_000)
    return made.take(limit)


def second(cluster: Watched, tasks: int, number: int) -> None:
    """What happens in one second. It takes as long as it takes: what is counted is processor time."""
    for first in range(0, tasks, SUBMIT_TASKS):
        client = cluster.clients[first // SUBMIT_TASKS % len(cluster.clients)]
        cluster.submit(client, task_ids((number + 10) * tasks + first, SUBMIT_TASKS), ARGUMENT)
    cluster.run(tasks, PER_MESSAGE)
    half = len(cluster.workers) // int(STATUS_SECONDS)
    start = number % int(STATUS_SECONDS) * half
    cluster.tell_statuses(cluster.workers[start : start + half], int(tasks * STATUS_SECONDS) // len(cluster.workers))
    cluster.clock.now += 1.0
    cluster.count(cluster.publisher.tick)
    cluster.count(cluster.serve_monitors)


def measure(cluster: Watched, way: Way, options: argparse.Namespace, number: int) -> float:
    """Processor time of what is counted, as a share of one core."""
    cluster.tells_functions = way.tells_functions
    cluster.stack_bytes.clear()
    command = [sys.executable, "-c", WATCHER, cluster.router.address, *way.topics]
    watchers = [subprocess.Popen(command) for _ in range(way.watchers)]
    try:
        ready_at = time.monotonic() + READY_SECONDS
        while len(cluster.watchers) != way.watchers:
            assert time.monotonic() < ready_at, f"waited {READY_SECONDS:g} s for {way}"
            time.sleep(0.05)
            cluster.serve_monitors()
        second(cluster, options.tasks, number)  # now all are told whether to send samples
        before = cluster.watch_seconds + other_threads_seconds()
        for step in range(options.seconds):
            second(cluster, options.tasks, number + 1 + step)
        assert ("stacks" in way.topics) == any(cluster.stack_bytes.values()), "workers sample only while they are asked"
        spent = cluster.watch_seconds + other_threads_seconds() - before
        return spent / int(options.seconds)
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
        while len(cluster.watchers):
            for peer_id in list(cluster.watchers):
                cluster.desk.lost(peer_id)
                cluster.router.disconnect(peer_id)


def other_threads_seconds() -> float:
    return time.process_time() - time.thread_time()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--tasks", type=int, default=50_000, help="in each second (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=6, help="of each measurement (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s; the median counts")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    options = parser.parse_args(arguments)
    if options.quick:
        options.workers, options.tasks, options.seconds, options.rounds = 100, 5_000, 3, 1
    cluster = Watched(options.workers)
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    number = 0
    for _ in range(options.rounds):
        for name, way in WAYS.items():
            found[name].append(measure(cluster, way, options, number))
            number += options.seconds + 1
            print(f"{name}: {found[name][-1]:.2%}", file=sys.stderr, flush=True)
    cluster.router.close()
    alone = statistics.median(found["no monitor"])
    print(f"{options.workers:,} workers, {options.tasks:,} tasks/s, of one core, median of {options.rounds}")
    for name, shares in found.items():
        median = statistics.median(shares)
        more = f"more than without watchers: {median - alone:6.2%}, {median / alone:5.1f} times as much"
        print(f"{name:22} {median:6.2%}, {more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
