"""A scheduler and a storage that do nothing on their own, and a real agent process between them and the test."""

from __future__ import annotations

import dataclasses
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil
import pytest
from tests.support.keyed import keyed

from scaler_protocol import codec, values
from scaler_protocol.codes import NO_SUCH_OBJECT, OK, ROLE_WORKER
from scaler_protocol.columns import join_ids, join_u32, split_ids, split_u32
from scaler_protocol.ids import ObjectId, PeerId, TaskId, content_id, new_peer_id, task_id_source
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Credit,
    Dispatch,
    Get,
    Message,
    ObjectReply,
    Put,
    Release,
    Results,
    Returned,
    TaskError,
    TaskHeader,
    TaskLog,
    Timers,
    Value,
    WorkerStatus,
)
from scaler_protocol.session import Lost, Opened, Received, SessionServer, WelcomeFields
from scaler_protocol.transport import RouterEndpoint
from scaler_worker.config import ClusterConfig
from scaler_worker.service import run_agent

WAIT_SECONDS = 30.0

T = TypeVar("T")


@dataclass
class Result:
    status: int
    kind: int
    value: bytes
    profile: bytes = b""

    @property
    def loaded(self) -> Any:
        assert self.status == 0, self.error
        return values.loads(self.value)

    @property
    def error(self) -> TaskError:
        return codec.decode_task_error(self.value)


@dataclass
class FakeStorage:
    endpoint: RouterEndpoint
    objects: dict[ObjectId, bytes] = field(default_factory=dict)
    owners: dict[ObjectId, PeerId] = field(default_factory=dict)
    got: list[ObjectId] = field(default_factory=list)
    #: Gets of these wait until `store` brings them, as at a true storage
    awaited: dict[ObjectId, list[tuple[PeerId, Get]]] = field(default_factory=dict)

    def on_received(self, peer_id: PeerId, message: Message) -> None:
        reply: Message
        if isinstance(message, Put):
            self.objects[message.object_id] = self.objects.get(message.object_id, b"") + bytes(message.payload)
            self.owners[message.object_id] = message.owner
            reply = ObjectReply(message.request_id, OK)
        elif isinstance(message, Get):
            if message.wait_seconds and message.object_id in self.awaited:
                self.awaited[message.object_id].append((peer_id, message))
                return
            reply = self._value(message)
        else:
            assert isinstance(message, Release), message
            reply = ObjectReply(message.request_id, OK)
        self.endpoint.send(peer_id, reply)

    def _value(self, get: Get) -> Message:
        self.got.append(get.object_id)
        data = self.objects.get(get.object_id)
        if data is None:
            return ObjectReply(get.request_id, NO_SUCH_OBJECT, "there is no such object")
        end = get.offset + get.chunk_bytes if get.chunk_bytes else len(data)
        return Value(get.request_id, len(data), get.offset, data[get.offset : end])

    def store(self, object_id: ObjectId, content: bytes) -> None:
        self.objects[object_id] = content
        for peer_id, get in self.awaited.pop(object_id):
            self.endpoint.send(peer_id, self._value(get))

    def put(self, value: Any) -> ObjectId:
        data = b"".join(values.dumps(value))
        object_id = content_id(data)
        self.objects[object_id] = data
        return object_id


class FakeCluster:
    """Both servers in the test's own thread: `wait_until` is the only thing that moves them."""

    def __init__(self, heartbeat_seconds: float = 2.0) -> None:
        admission = keyed()
        storage_server = SessionServer(
            server_id=new_peer_id(), role_name="storage", allowed_roles=range(1, 6), admission=admission
        )
        self.storage = FakeStorage(RouterEndpoint("tcp://127.0.0.1:*", storage_server))
        server = SessionServer(
            server_id=new_peer_id(),
            role_name="scheduler",
            allowed_roles=[ROLE_WORKER],
            welcome=lambda hello, identity: WelcomeFields(storage_address=self.storage.endpoint.address),
            timers=Timers(heartbeat_seconds=heartbeat_seconds),
            admission=admission,
        )
        self.endpoint = RouterEndpoint("tcp://127.0.0.1:*", server)
        self.address = self.endpoint.address
        self.client_id = new_peer_id()
        self.new_ids = task_id_source()
        self.worker: PeerId | None = None
        self.opened: list[Opened] = []
        self.lost: list[Lost] = []
        self.results: dict[TaskId, Result] = {}
        self.credits: list[int] = []
        self.cancel_replies: list[tuple[TaskId, int]] = []
        self.returned: list[Returned] = []
        self.logs: list[TaskLog] = []
        self.statuses: list[WorkerStatus] = []
        self.messages: list[Message] = []
        self._poller = select.poll()
        for endpoint in (self.endpoint, self.storage.endpoint):
            self._poller.register(endpoint.fileno(), select.POLLIN)

    def wait_until(self, is_done: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
        give_up_at = time.monotonic() + seconds
        while not (done := is_done()):
            assert time.monotonic() < give_up_at, f"waited {seconds} s for {what}; messages: {self.messages[-5:]}"
            if not self._turn() and not is_done():
                self._poller.poll(20)
        return done

    def _turn(self) -> bool:
        now = time.monotonic()
        for event in self.endpoint.poll(now):
            if isinstance(event, Opened):
                self.opened.append(event)
                self.worker = event.peer_id
            elif isinstance(event, Lost):
                self.lost.append(event)
            elif isinstance(event, Received):
                self._on_message(event.message)
        for event in self.storage.endpoint.poll(now):
            if isinstance(event, Received):
                self.storage.on_received(event.peer_id, event.message)
        return self.endpoint.settle(now) | self.storage.endpoint.settle(now)

    def _on_message(self, message: Message) -> None:
        self.messages.append(message)
        if isinstance(message, Results):
            self._on_results(message)
        elif isinstance(message, Credit):
            self.credits.append(message.limit)
        elif isinstance(message, CancelReply):
            ids = [TaskId(task_id) for task_id in split_ids(message.ids)]
            self.cancel_replies += zip(ids, message.outcomes or bytes(len(ids)), strict=True)
        elif isinstance(message, Returned):
            self.returned.append(message)
        elif isinstance(message, TaskLog):
            self.logs.append(message)
        elif isinstance(message, WorkerStatus):
            self.statuses.append(message)

    def _on_results(self, message: Results) -> None:
        if message.credit:
            self.credits.append(message.credit)
        ids = split_ids(message.ids)
        position = 0
        for index, (task_id, size) in enumerate(zip(ids, split_u32(message.sizes), strict=True)):
            status = message.statuses[index] if message.statuses else 0
            kind = message.kinds[index] if message.kinds else 0
            profile = message.profiles[24 * index : 24 * index + 24]
            assert task_id not in self.results, "a task ends once"
            value = bytes(message.payload[position : position + size])
            self.results[TaskId(task_id)] = Result(status, kind, value, profile)
            position += size

    def send(self, message: Message) -> None:
        assert self.worker is not None
        self.endpoint.send(self.worker, message)
        self.endpoint.settle(time.monotonic())

    def dispatch(self, function: Any, *calls: tuple[Any, ...], **header: Any) -> list[TaskId]:
        """One PACKED batch of calls of a function."""
        parts = [b"".join(values.dumps_call(call, {})) for call in calls]
        return self.dispatch_parts(self.storage.put(function), parts, **header)

    def dispatch_parts(self, function: ObjectId, parts: list[bytes], **fields: Any) -> list[TaskId]:
        ids = self.new_ids(fields.pop("count", len(parts)))
        names = {field.name for field in dataclasses.fields(TaskHeader)} & fields.keys()
        header = TaskHeader(**{"client": self.client_id, **{name: fields.pop(name) for name in names}})
        sizes = join_u32([len(part) for part in parts])
        self.send(Dispatch(header, function, join_ids(ids), b"".join(parts), sizes, **fields))
        return ids

    def wait_results(self, ids: list[TaskId], what: str = "the results", seconds: float = WAIT_SECONDS) -> list[Result]:
        self.wait_until(lambda: all(task_id in self.results for task_id in ids), what, seconds)
        return [self.results[task_id] for task_id in ids]

    def run(self, function: Any, *arguments: Any, **header: Any) -> Result:
        return self.wait_results(self.dispatch(function, arguments, **header))[0]

    def cancel(self, *ids: TaskId, grace_seconds: float = 1.0) -> None:
        self.send(Cancel(join_ids(ids), grace_seconds=grace_seconds))

    def close(self) -> None:
        self.endpoint.close()
        self.storage.endpoint.close()


def fork_agent(config: ClusterConfig) -> int:
    """A worker in a process of its own, as the cluster command starts it."""
    process_id = os.fork()
    if process_id:
        return process_id
    code = 99
    try:
        logging.disable(logging.CRITICAL)
        code = run_agent(config, "w")
    finally:
        os._exit(code)


def wait_gone(processes: list[psutil.Process], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Until all have exited, buried or not: whose children orphans become, and when that buries them, is its own."""
    for process in processes:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            readable, _, _ = select.select([descriptor], [], [], seconds)
            assert readable, f"waited {seconds} s for {what}: {process}"
        finally:
            os.close(descriptor)


def wait_exit(process_id: int, what: str, seconds: float = WAIT_SECONDS) -> int:
    """The exit code of a child, or minus its signal."""
    descriptor = os.pidfd_open(process_id)
    try:
        readable, _, _ = select.select([descriptor], [], [], seconds)
        assert readable, f"waited {seconds} s for {what}"
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])


class Worker:
    def __init__(self, process_id: int) -> None:
        self.process_id = process_id
        self.exit_code: int | None = None

    def family(self) -> list[psutil.Process]:
        """Agent, zygote and processors."""
        agent = psutil.Process(self.process_id)
        return [agent, *agent.children(recursive=True)]

    def signal(self, number: int) -> None:
        os.kill(self.process_id, number)

    def wait_exit(self, what: str) -> int:
        self.exit_code = wait_exit(self.process_id, what)
        return self.exit_code


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def start_worker(cluster: FakeCluster) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(**options: Any) -> Worker:
        config = ClusterConfig(cluster.address, shown=find_pass(cluster.address), **options)
        workers.append(Worker(fork_agent(config)))
        # Not before its first Credit: a worker that was welcomed late may have dialed again, and begun another session.
        cluster.wait_until(lambda: cluster.credits, "the worker to say hello")
        return workers[-1]

    yield start
    for worker in workers:
        if worker.exit_code is None:
            family = worker.family()
            worker.signal(signal.SIGKILL)
            worker.wait_exit("the killed agent")
            wait_gone(family[1:], "the agent's zygote and processors to die with it")


@pytest.fixture
def gone() -> Callable[[list[psutil.Process], str], None]:
    """Wait until processes have exited."""
    return wait_gone


@pytest.fixture
def running_path(tmp_path: Any) -> str:
    """A task that has begun makes this file."""
    return str(tmp_path / "running")


@pytest.fixture
def worker(start_worker: Callable[..., Worker]) -> Worker:
    return start_worker()
