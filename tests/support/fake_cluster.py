"""A scheduler, its workers and its storage in one thread, on the real wire: enough to test a client against.

Tasks run in order, in this thread. What the fake does wrong on purpose is set by its attributes.
"""

from __future__ import annotations

import select
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scaler_protocol import codes, columns, values
from scaler_protocol.addresses import AddressError
from scaler_protocol.codec import encode_task_error
from scaler_protocol.ids import ObjectId, PeerId, TaskId, content_id, new_peer_id, result_object_id
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Duplicate,
    Explain,
    Explanation,
    Get,
    Message,
    ObjectReply,
    Put,
    Release,
    Results,
    Shutdown,
    ShutdownReply,
    StackReply,
    StackRequest,
    StorageStatus,
    StorageStatusRequest,
    Submit,
    TaskError,
    TaskLog,
    Timers,
    Value,
)
from scaler_protocol.session import Lost, Opened, Received, SessionServer, WelcomeFields
from scaler_protocol.transport import RouterEndpoint
from tests.support.keyed import keyed


class Task:
    def __init__(self, task_id: TaskId, function: ObjectId, parts: list[tuple[int, bytes]], is_unwanted: bool) -> None:
        self.task_id = task_id
        self.function = function
        self.parts = parts
        self.is_unwanted = is_unwanted


def tasks_of(submit: Submit) -> list[Task]:
    ids = columns.split_ids(submit.ids)
    functions = columns.split_ids(submit.functions)
    indexes = columns.split_u16(submit.function_indexes) or (0,) * len(ids)
    counts = columns.split_u16(submit.part_counts) or (1,) * len(ids)
    sizes = columns.split_u32(submit.part_sizes)
    kinds = submit.part_kinds or bytes(len(sizes))
    flags = submit.task_flags or bytes(len(ids))
    payload = bytes(submit.payload)
    tasks, part, offset = [], 0, 0
    for task_id, index, count, flag in zip(ids, indexes, counts, flags, strict=True):
        parts = []
        for size, kind in zip(sizes[part : part + count], kinds[part : part + count], strict=True):
            parts.append((kind, payload[offset : offset + size]))
            offset += size
        part += count
        tasks.append(Task(TaskId(task_id), ObjectId(functions[index]), parts, flag == codes.TASK_UNWANTED))
    return tasks


class _DependencyFailed(Exception):
    """The error of another task is this one's too. (SCH-19)"""


class FakeCluster:
    def __init__(
        self, address: str = "tcp://127.0.0.1:0", *, is_protected: bool = True, lease_seconds: float = 5.0
    ) -> None:
        self.objects: dict[ObjectId, bytearray] = {}
        self._owners: dict[ObjectId, set[PeerId]] = {}
        #: by who stores it; its chunks come in order
        self._uploads: dict[tuple[PeerId, ObjectId], bytearray] = {}
        self.submits: list[Submit] = []
        self.cancels: list[Cancel] = []
        self.inline_bytes = 64 * 1024
        self.is_holding = False
        """Tasks are accepted and not run, until `release`."""
        self.explain: Callable[[Explain], Explanation] | None = None
        self.stack: Callable[[StackRequest], StackReply] | None = None
        """Answers questions; without it they stay unanswered."""
        self.is_protected = is_protected
        self._held: list[tuple[PeerId, Submit, list[Task]]] = []
        self._results: dict[TaskId, bytes] = {}
        self._errors: dict[TaskId, tuple[int, bytes]] = {}
        self._orders: list[Callable[[], object]] = []
        self._stop = False
        # Clients find it by the ports: servers write it into the runtime directory.
        self._admission = keyed()
        timers = Timers(heartbeat_seconds=min(0.2, lease_seconds / 3), lease_seconds=lease_seconds)
        # First what may fail, because the address is given.
        self._scheduler = RouterEndpoint(
            address,
            SessionServer(
                server_id=new_peer_id(),
                role_name="scheduler",
                allowed_roles=(codes.ROLE_CLIENT,),
                timers=timers,
                welcome=lambda hello, identity: self._welcome,
                admission=self._admission,
            ),
        )
        self._timers = timers
        self._storage = self._new_storage("tcp://127.0.0.1:0")
        #: of a silent storage: what it has not answered
        self._asked: list[tuple[PeerId, Message]] | None = None
        #: clients with a session, and names that nothing more is stored for
        self._clients: set[PeerId] = set()
        self._gone: set[PeerId] = set()
        self._welcome = WelcomeFields(storage_address=self._storage.address, is_protected=is_protected)
        self.address = self._scheduler.address
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="fake-cluster", daemon=True)
        self._thread.start()

    def _new_storage(self, address: str) -> RouterEndpoint:
        return RouterEndpoint(
            address,
            SessionServer(
                server_id=new_peer_id(),
                role_name="storage",
                allowed_roles=(codes.ROLE_CLIENT,),
                timers=self._timers,
                admission=self._admission,
            ),
        )

    # ------------------------------------------------------------ for tests

    def do(self, order: Callable[[], None]) -> None:
        """Run this in the cluster's thread, and wait for it."""
        done = threading.Event()

        def run() -> None:
            order()
            done.set()

        self._orders.append(run)
        self._wake_sender.send(b"!")
        assert done.wait(10), "the fake cluster is stuck"

    def release_owners(self) -> None:
        """As when leases have expired: all that clients own is gone, and they hear of it when they next put something.
        (OWN-4)"""

        def order() -> None:
            self._gone |= self._clients
            self.objects.clear()
            self._owners.clear()

        self.do(order)

    def lose_clients(self) -> None:
        """The other half of it: their sessions are over, and their tasks are canceled."""

        def order() -> None:
            self._held.clear()
            for peer_id in self._clients:
                self._scheduler.disconnect(peer_id, codes.LEASE_EXPIRED, "silent for too long")
            self._clients.clear()

        self.do(order)

    def has_clients(self) -> bool:
        return bool(self._clients)

    def restart_storage(self) -> None:
        def order() -> None:
            address = self._storage.address
            self._storage.close()
            self.objects.clear()
            self._owners.clear()
            end_at = time.monotonic() + 5
            while True:
                try:
                    self._storage = self._new_storage(address)
                    break
                except AddressError:  # zmq gives an address back a moment after the socket was closed
                    assert time.monotonic() < end_at, f"{address} stays taken"
                    time.sleep(0.01)

        self.do(order)

    def owners_of(self, object_id: ObjectId) -> set[PeerId]:
        return self._owners.get(object_id, set())

    def values_of(self, owner: PeerId) -> list[ObjectId]:
        """What is stored in this name and is no function: functions are named by their content."""
        return [
            object_id
            for object_id, content in list(self.objects.items())
            if content_id(bytes(content)) != object_id and owner in self.owners_of(object_id)
        ]

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """It answers nothing."""
        begins, goes_on = threading.Event(), threading.Event()
        self._orders.append(lambda: (begins.set(), goes_on.wait(10)))
        self._wake_sender.send(b"!")
        assert begins.wait(10), "the fake cluster is stuck already"
        try:
            yield
        finally:
            goes_on.set()

    @contextmanager
    def silent_storage(self) -> Iterator[None]:
        """It answers nothing; afterwards it answers all that it was asked."""
        asked: list[tuple[PeerId, Message]] = []

        def answer() -> None:
            self._asked = None
            for peer_id, message in asked:
                self._on_storage(peer_id, message)

        self.do(lambda: setattr(self, "_asked", asked))
        try:
            yield
        finally:
            self.do(answer)

    @property
    def is_asked(self) -> bool:
        """The silent storage."""
        return bool(self._asked)

    def hold(self) -> None:
        self.is_holding = True

    def release(self) -> None:
        def order() -> None:
            self.is_holding = False
            held, self._held = self._held, []
            for peer_id, submit, tasks in held:
                self._run_tasks(peer_id, submit, tasks)

        self.do(order)

    def fail_held(self, index: int, error: BaseException) -> None:
        """One of the held tasks ends with this. In the cluster's thread."""
        peer_id, _, tasks = self._held[0]
        task = tasks.pop(index)
        data = _encoded(error)
        failed, inline = bytes((codes.STATUS_FAILED,)), bytes((codes.KIND_INLINE,))
        results = Results(task.task_id, data, columns.join_u32([len(data)]), statuses=failed, kinds=inline)
        self._scheduler.send(peer_id, results)

    def held_count(self) -> int:
        return sum(len(tasks) for _, _, tasks in self._held)

    def stop(self) -> None:
        self._stop = True
        self._wake_sender.send(b"!")
        self._thread.join(10)
        assert not self._thread.is_alive(), "the fake cluster did not stop"
        self._wake_receiver.close()
        self._wake_sender.close()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        is_busy = True
        while not self._stop:
            if not is_busy:
                fds = [self._scheduler.fileno(), self._storage.fileno(), self._wake_receiver.fileno()]
                if self._wake_receiver.fileno() in select.select(fds, [], [], 0.1)[0]:
                    self._wake_receiver.recv(4096)
            is_busy = False
            while self._orders:
                self._orders.pop(0)()
            for endpoint, handler in ((self._scheduler, self._on_scheduler), (self._storage, self._on_storage)):
                now = time.monotonic()
                for event in endpoint.poll(now):
                    if type(event) is Received:
                        handler(event.peer_id, event.message)
                    elif type(event) is Opened and endpoint is self._scheduler:
                        self._clients.add(event.peer_id)
                    elif type(event) is Lost and endpoint is self._scheduler:
                        self._release_owner(event.peer_id)
                is_busy |= endpoint.settle(now)
        self._scheduler.close()
        self._storage.close()

    # ------------------------------------------------------------ scheduler and worker

    def _on_scheduler(self, peer_id: PeerId, message: Message) -> None:
        if isinstance(message, Submit):
            self.submits.append(message)
            tasks = tasks_of(message)
            if self.is_holding:
                self._held.append((peer_id, message, tasks))
            else:
                self._run_tasks(peer_id, message, tasks)
        elif isinstance(message, Cancel):
            self.cancels.append(message)
            self._cancel(peer_id, set(columns.split_ids(message.ids)))
        elif isinstance(message, Explain) and self.explain is not None:
            self._scheduler.send(peer_id, self.explain(message))
        elif isinstance(message, StackRequest) and self.stack is not None:
            self._scheduler.send(peer_id, self.stack(message))
        elif isinstance(message, Shutdown):
            text = "this scheduler is protected" if self.is_protected else ""
            self._scheduler.send(peer_id, ShutdownReply(is_accepted=not self.is_protected, text=text))

    def _cancel(self, peer_id: PeerId, wanted: set[bytes]) -> None:
        canceled: list[bytes] = []
        for _, _, tasks in self._held:
            canceled += [task.task_id for task in tasks if task.task_id in wanted]
            tasks[:] = [task for task in tasks if task.task_id not in wanted]
        if canceled:
            count = len(canceled)
            statuses, kinds = bytes((codes.STATUS_CANCELED,)) * count, bytes((codes.KIND_NONE,)) * count
            sizes = columns.join_u32([0] * count)
            results = Results(columns.join_ids(canceled), b"", sizes, statuses=statuses, kinds=kinds)
            self._scheduler.send(peer_id, results)
        ids = sorted(wanted)
        outcomes = bytes(codes.CANCEL_CANCELED if one in canceled else codes.CANCEL_TOO_LATE for one in ids)
        self._scheduler.send(peer_id, CancelReply(columns.join_ids(ids), outcomes))

    def _run_tasks(self, peer_id: PeerId, submit: Submit, tasks: list[Task]) -> None:
        ids, statuses, kinds, datas = [], [], [], []
        for task in tasks:
            status, kind, data = self._run_task(peer_id, submit, task)
            if task.is_unwanted and status == codes.STATUS_SUCCESS:
                continue
            ids.append(task.task_id)
            statuses.append(status)
            kinds.append(kind)
            datas.append(data)
        if submit.header.flags & codes.FLAG_STREAM_OUTPUT:
            self._scheduler.send(peer_id, TaskLog(tasks[0].task_id, 1, "printed by the task\n"))
        if ids:
            sizes = columns.join_u32([len(data) for data in datas])
            profile = (1_500_000).to_bytes(8, "little") + (500_000).to_bytes(8, "little") + (4096).to_bytes(8, "little")
            results = Results(
                columns.join_ids(ids),
                b"".join(datas),
                sizes,
                statuses=bytes(statuses) if any(statuses) else b"",
                kinds=bytes(kinds) if any(kinds) else b"",
                profiles=profile * len(ids),
            )
            self._scheduler.send(peer_id, results)

    def _run_task(self, peer_id: PeerId, submit: Submit, task: Task) -> tuple[int, int, bytes]:
        try:
            value = self._call(submit, task)
            if submit.header.serializer:
                data = values.loads(self._object(submit.header.serializer)).serialize(value)
            else:
                data = b"".join(bytes(piece) for piece in values.dumps(value))
        except BaseException as error:
            status, kind, data = codes.STATUS_FAILED, codes.KIND_INLINE, _encoded(error)
            if isinstance(error, _DependencyFailed):
                status, (_, data) = codes.STATUS_REFUSED, error.args[0]
            self._errors[task.task_id] = status, data
            return status, kind, data
        self._results[task.task_id] = data
        if len(data) <= self.inline_bytes:
            return codes.STATUS_SUCCESS, codes.KIND_INLINE, data
        object_id = result_object_id(task.task_id, 1, submit.header.result_salt, peer_id)
        self.objects[object_id] = bytearray(data)
        self._owners[object_id] = {peer_id}
        return codes.STATUS_SUCCESS, codes.KIND_OBJECT, object_id

    def _object(self, object_id: ObjectId) -> bytes:
        """As workers do: what is not there yet may be on its way. (WRK-3)"""
        end_at = time.monotonic() + 3
        while object_id not in self.objects and time.monotonic() < end_at:
            for event in self._storage.poll(time.monotonic()):
                if type(event) is Received:
                    self._on_storage(event.peer_id, event.message)
            self._storage.settle(time.monotonic())
        return bytes(self.objects[object_id])

    def _call(self, submit: Submit, task: Task) -> Any:
        function = values.loads(self._object(task.function))
        datas = []
        for kind, data in task.parts:
            if kind == codes.KIND_OBJECT:
                datas.append(self._object(ObjectId(data)))
            elif kind == codes.KIND_TASK:
                if data in self._errors:
                    raise _DependencyFailed(self._errors[TaskId(data)])
                datas.append(self._results[TaskId(data)])
            else:
                datas.append(data)
        if submit.header.call_format == codes.CALL_SEPARATE:
            loads = values.loads
            if submit.header.serializer:
                loads = values.loads(self._object(submit.header.serializer)).deserialize
            arguments = [loads(data) for data in datas]
            names = submit.header.keywords
            by_position = len(arguments) - len(names)
            keywords = dict(zip(names, arguments[by_position:], strict=True))
            return function(*arguments[:by_position], **keywords)
        arguments, keywords = values.loads(datas[0])

        def resolved(one: Any) -> Any:
            return values.loads(datas[one.index]) if isinstance(one, values.PartReference) else one

        return function(*map(resolved, arguments), **{name: resolved(one) for name, one in keywords.items()})

    # ------------------------------------------------------------ storage

    def _release_owner(self, owner: PeerId) -> None:
        """It has said goodbye, or its lease has expired. (OWN-4)"""
        self._clients.discard(owner)
        self._gone.add(owner)
        for object_id in [one for one, owners in self._owners.items() if owner in owners]:
            self._release_one(object_id, owner)

    def _put_chunk(self, peer_id: PeerId, put: Put) -> None:
        """The object exists when its last byte is here. (STO-3)"""
        upload = self._uploads.setdefault((peer_id, put.object_id), bytearray(put.total_bytes))
        end = put.offset + len(put.payload)
        upload[put.offset : end] = put.payload
        if end == put.total_bytes:
            del self._uploads[peer_id, put.object_id]
            self.objects.setdefault(put.object_id, upload)
            self._owners.setdefault(put.object_id, set()).add(put.owner)

    def _release_one(self, object_id: ObjectId, owner: PeerId) -> None:
        owners = self._owners.get(object_id, set())
        owners.discard(owner)
        if not owners:
            self.objects.pop(object_id, None)
            self._owners.pop(object_id, None)

    def _on_storage(self, peer_id: PeerId, message: Message) -> None:
        if self._asked is None:
            self._answer(peer_id, message)
        else:
            self._asked.append((peer_id, message))

    def _answer(self, peer_id: PeerId, message: Message) -> None:
        reply: Message | None = None
        if isinstance(message, (Put, Duplicate)) and message.owner in self._gone:
            reply = ObjectReply(message.request_id, codes.OWNER_GONE, f"client {message.owner.hex()} has left")
        elif isinstance(message, Put):
            self._put_chunk(peer_id, message)
            reply = ObjectReply(message.request_id)
        elif isinstance(message, Get):
            found = self.objects.get(message.object_id)
            if found is None:
                reply = ObjectReply(message.request_id, codes.NO_SUCH_OBJECT, "no such object")
            else:
                chunk = found[message.offset : message.offset + (message.chunk_bytes or 8 * 1024 * 1024)]
                reply = Value(message.request_id, len(found), message.offset, bytes(chunk))
        elif isinstance(message, Duplicate):
            is_there = message.target in self.objects
            if is_there:
                self._owners.setdefault(message.target, set()).add(message.owner)
            reply = ObjectReply(message.request_id, codes.OK if is_there else codes.NO_SUCH_OBJECT)
        elif isinstance(message, StorageStatusRequest):
            reply = StorageStatus(message.request_id, object_count=len(self.objects))
        elif isinstance(message, Release):
            for object_id in map(ObjectId, columns.split_ids(message.ids)):
                self._release_one(object_id, message.owner)
            reply = ObjectReply(message.request_id) if message.request_id else None
        if reply is not None:
            self._storage.send(peer_id, reply)


def _encoded(error: BaseException) -> bytes:
    try:
        serialized = b"".join(bytes(piece) for piece in values.dumps(error))
        values.loads(serialized)
    except Exception:
        serialized = b""
    kind = type(error)
    return encode_task_error(
        TaskError(
            code=codes.TASK_RAISED,
            type_name=f"{kind.__module__}.{kind.__qualname__}",
            message=str(error),
            text="".join(traceback.format_exception(kind, error, error.__traceback__)),
            serialized=serialized,
        )
    )
