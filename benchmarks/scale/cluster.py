"""A scheduler core with clients and workers that answer at once, and the processor time that the core took.

Only the core's own time counts. Messages pass through the codec before they are handed in, so that what the core keeps
is what would have come over the wire; workers take no time, so nothing hides what the core costs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

from scaler_protocol import codec, codes
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import Dispatch, Hello, Limits, Message, Results, Submit, TaskHeader, Welcome, WorkerOffer
from scaler_protocol.session import Lost, Opened, Received
from scaler_scheduler.core import Action, Event, Policy, SchedulerCore, Send, SendToStorage, Settled
from scaler_scheduler.core.invariants import is_empty

FUNCTION = ObjectId(b"function".ljust(ID_BYTES, b"."))
#: One object each, as programs have it: what is remembered about headers is found by identity.
HEADER = TaskHeader()
GRAPH_HEADER = TaskHeader(graph_id=GraphId(b"graph".ljust(ID_BYTES, b".")))
#: What a node without dependencies takes: as long as an id, to count alike.
LEAF = b"an argument of 16"[:ID_BYTES]
#: As many answers are handed in between two looks at the clock.
BLOCK = 256
RESULT = b"result.."
SETTLED = Settled()


def peer(role: int, number: int) -> PeerId:
    return PeerId(bytes([role]) * 8 + number.to_bytes(8, "big"))


def task_ids(first: int, count: int) -> list[TaskId]:
    """Spread like the random ones that clients choose: neighbours in a table are no neighbours in memory."""
    return [TaskId((number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)).to_bytes(16, "little"))
            for number in range(first + 1, first + count + 1)]  # fmt: skip


class Cluster:
    def __init__(self, clients: int, policy: Policy | None = None) -> None:
        self.core = SchedulerCore(policy or Policy())
        self.core_seconds = 0.0
        self.finished_count = 0
        self.clients = [peer(1, number) for number in range(clients)]
        self.workers: list[PeerId] = []
        self._credit = 0
        self._seq = 0
        #: what workers were given and have not answered, oldest first
        self._given: deque[tuple[PeerId, bytes]] = deque()
        for client in self.clients:
            self._join(client, codes.ROLE_CLIENT, WorkerOffer())

    def join_workers(self, count: int, credit: int) -> None:
        self.workers = [peer(2, number) for number in range(count)]
        self._credit = credit
        for worker in self.workers:
            self._join(worker, codes.ROLE_WORKER, WorkerOffer(worker.hex(), (), credit, 1))

    def _join(self, peer_id: PeerId, role: int, offer: WorkerOffer) -> None:
        welcome = Welcome(1, peer(3, 0), 1, 1, limits=Limits())
        self._handle([Opened(peer_id, Hello(1, 1, role, peer_id, worker=offer), welcome)])

    # ------------------------------------------------------------ submitting

    def submit(self, client: PeerId, ids: Sequence[TaskId], argument: bytes) -> None:
        count = len(ids)
        self._receive(
            client, Submit(HEADER, FUNCTION, join_ids(ids), argument * count, join_u32([len(argument)] * count))
        )

    def submit_graph(self, client: PeerId, nodes: Sequence[tuple[TaskId, Sequence[TaskId]]], *, is_last: bool) -> None:
        """A part of a graph: each node takes the values of those it depends on."""
        edges = [other for _, others in nodes for other in others]
        parts = [others or (LEAF,) for _, others in nodes]
        counts = join_u16([len(others) for _, others in nodes])
        self._receive(
            client,
            Submit(
                header=GRAPH_HEADER,
                functions=FUNCTION,
                ids=join_ids([task_id for task_id, _ in nodes]),
                payload=b"".join([part for each in parts for part in each]),
                part_counts=join_u16([len(each) for each in parts]),
                part_kinds=bytes(
                    [codes.KIND_INLINE if part is LEAF else codes.KIND_TASK for each in parts for part in each]
                ),
                part_sizes=join_u32([ID_BYTES] * sum(map(len, parts))),
                dependency_counts=counts,
                dependencies=join_ids(edges),
                task_flags=bytes([codes.TASK_UNWANTED]) * len(nodes),
                is_graph_sealed=is_last,
            ),
        )

    def _receive(self, client: PeerId, message: Submit) -> None:
        envelope, payload = codec.encode(message, 1, 1)
        read = codec.decode(bytes(envelope), [bytes(payload)]).message
        del message, envelope, payload
        self._handle([Received(client, self._next_seq(), read)])

    # ------------------------------------------------------------ running

    def run(self, tasks: int, per_message: int) -> None:
        """Workers answer in the order in which they were given work, until so many more tasks have ended."""
        end = self.finished_count + tasks
        while self.finished_count < end:
            assert self._given, "tasks wait and no worker has any"
            self._handle([self._answer(per_message) for _ in range(min(BLOCK, len(self._given)))])

    def _answer(self, per_message: int) -> Received:
        worker, ids = self._given.popleft()
        if len(ids) > ID_BYTES * per_message:
            self._given.appendleft((worker, ids[ID_BYTES * per_message :]))
            ids = ids[: ID_BYTES * per_message]
        count = len(ids) // ID_BYTES
        self.finished_count += count
        message = Results(ids, RESULT * count, join_u32([len(RESULT)] * count), credit=self._credit)
        return Received(worker, self._next_seq(), message)

    def leave(self) -> None:
        """All peers leave; the core may keep nothing of them."""
        self._handle([Lost(peer_id, 0, "", True) for peer_id in (*self.clients, *self.workers)])
        assert is_empty(self.core), "the core remembers a peer that has left"

    # ------------------------------------------------------------ the core

    def _handle(self, events: Iterable[Event]) -> None:
        """Each event wakes the core up by itself: the smallest batches that there can be."""
        handle, actions = self.core.handle, list[Action]()
        began_at = time.process_time()
        for event in events:
            handle(event, 0.0)
            actions += handle(SETTLED, 0.0)
        self.core_seconds += time.process_time() - began_at
        for action in actions:
            if isinstance(action, Send):
                self._take(action.peer_id, action.message)
            else:
                assert isinstance(action, SendToStorage), f"unexpected: {action}"

    def _take(self, peer_id: PeerId, message: Message) -> None:
        if isinstance(message, Dispatch):
            self._given.append((peer_id, message.ids))
        else:
            assert isinstance(message, Results), f"unexpected: {message}"

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq
