"""Two users with tickets of one cluster: neither reads, replaces, releases or cancels what is the other's."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.codes import CANCEL_UNKNOWN, NOT_ALLOWED, ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.keys import management
from scaler_protocol.keys.lookup import find_pass
from scaler_protocol.messages import Cancel, CancelReply
from scaler_protocol.objects import ObjectClient, Owner
from scaler_protocol.session import Received
from scaler_protocol.streams import CREDIT, VALUE, stream_object_id
from tests.support import stream_tasks
from tests.support.endpoints import Bench
from tests.support.processes import Stage

WAIT = 60
SIZE = 300_000


class Keyed:
    """A cluster with a key, a worker with a ticket, and two users with tickets."""

    def __init__(self, stage: Stage, folder: Path, *of_worker: str) -> None:
        self.key = folder / "cluster.key"
        port = stage.ports()
        self.address, self.storage_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        management.make(str(self.key))
        self.tickets = {}
        for user, role in (("ana", ROLE_CLIENT), ("joe", ROLE_CLIENT), ("pool", ROLE_WORKER)):
            self.tickets[user] = folder / f"{user}.key"
            output, roles = str(self.tickets[user]), frozenset({role})
            management.derive(str(self.key), user=user, roles=roles, is_operator=False, expires=0.0, output=output)
        stage.start("scaler_storage", self.storage_address, "--key-file", str(self.key))
        stage.start("scaler_scheduler", self.address, "-osa", self.storage_address, "--key-file", str(self.key))
        stage.start("scaler_worker", self.address, "-n", "1", "--key-file", str(self.tickets["pool"]), *of_worker)

    def client(self, user: str) -> Client:
        return Client(self.address, key_file=str(self.tickets[user]))

    def storage(self, user: str) -> ObjectClient:
        shown = find_pass(self.storage_address, str(self.tickets[user]))
        return ObjectClient(self.storage_address, ROLE_CLIENT, "test", shown=shown)


@pytest.fixture(scope="module")
def cluster(module_stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    yield Keyed(module_stage, tmp_path_factory.mktemp("keys"))


def twice(value: bytes) -> bytes:
    return value * 2


def nest(values: list[bytes]) -> list[bytes]:
    """A client inside a task, which is the worker's process, uses what the program has stored."""
    with Client() as client:
        reference = client.send_object(values[0])
        return [*client.map(twice, values), client.submit(twice, reference).result(WAIT)]


def nest_deeper(values: list[bytes]) -> list[bytes]:
    with Client() as client:
        result: list[bytes] = client.submit(nest, values).result(WAIT)
        return result


def test_both_users_compute_with_values_of_all_sizes(cluster: Keyed) -> None:
    with cluster.client("ana") as ana, cluster.client("joe") as joe:
        for client, letter in ((ana, b"a"), (joe, b"j")):
            large = letter * SIZE
            assert client.submit(twice, large).result(WAIT) == large * 2
            assert client.map(twice, [letter, large]) == [letter * 2, large * 2]
            reference = client.send_object(large)
            assert client.submit(twice, reference).result(WAIT) == large * 2
            graph = {"a": (twice, large), "b": (twice, "a")}
            assert client.get(graph, "b") == large * 4


def test_clients_in_tasks_read_what_their_program_has_stored(cluster: Keyed) -> None:
    with cluster.client("ana") as ana:
        for size in (1, SIZE):
            value = b"n" * size
            for function in (nest, nest_deeper):
                assert ana.submit(function, [value, value]).result(WAIT) == [value * 2] * 3


def spoil() -> int:
    """Changes what every later task of this process finds."""
    builtins.divmod = lambda one, other: ("spoiled", "spoiled")  # type: ignore[assignment, misc]
    os.environ["OF_THIS_USER"] = "joe"
    os.chdir("/")
    return os.getpid()


def look() -> tuple[object, str | None, str, int]:
    return divmod(7, 2), os.environ.get("OF_THIS_USER"), os.getcwd(), os.getpid()


def look_in_a_task() -> tuple[object, str | None, str, int]:
    with Client() as client:
        return client.submit(look).result(WAIT)


def test_what_a_task_changes_in_its_process_no_other_user_finds(cluster: Keyed) -> None:
    """On one worker with one place. Each user finds its process again. A task in a task is its program's. (WRK-70)"""
    with cluster.client("ana") as ana, cluster.client("joe") as joe:
        before = ana.submit(look).result(WAIT)
        spoiled = joe.submit(spoil).result(WAIT)
        for _ in range(3):
            assert ana.submit(look).result(WAIT) == before and before[0] == (3, 1)
            assert joe.submit(look).result(WAIT) == (("spoiled", "spoiled"), "joe", "/", spoiled)
        assert ana.submit(look_in_a_task).result(WAIT)[:3] == before[:3]
        assert before[3] != spoiled


def test_an_operator_may_let_users_share_processes(stage: Stage, tmp_path: Path) -> None:
    cluster = Keyed(stage, tmp_path, "--share-processors-between-users")
    with cluster.client("ana") as ana, cluster.client("joe") as joe:
        assert ana.submit(os.getpid).result(WAIT) == joe.submit(os.getpid).result(WAIT)


def owner_of(client: Client) -> Owner:
    connection = client._ready().connection
    assert connection.welcome is not None
    return Owner(connection.peer_id, connection.welcome.owner_grant)


def test_neither_reaches_what_is_the_others(cluster: Keyed) -> None:
    with cluster.client("ana") as ana, cluster.client("joe") as joe:
        value = b"of ana" * SIZE
        reference = ana.send_object(value)
        (object_id,) = [ObjectId(bytes(one)) for one, _ in ana._ready().connection.storage.holdings.all()][-1:]
        first, other = owner_of(ana), owner_of(joe)
        assert len(first.grant) == len(other.grant) == 32, "each is of a family of its own"
        storage = cluster.storage("joe")
        try:
            # The directory of shared memory is open to processes of the storage's own account, as this one is.
            link = storage._link()
            with pytest.raises(ObjectNotFound):
                storage.get(ObjectId(b"?" * 16), owner=other)
            link.directory = None
            with pytest.raises(ObjectNotFound):
                storage.get(object_id, owner=other)
            for stolen in (Owner(first.peer_id, other.grant), Owner(first.peer_id), Owner(PeerId(b""), b"")):
                with pytest.raises(StorageError) as refused:
                    storage.get(object_id, owner=stolen)
                assert refused.value.code == NOT_ALLOWED
            for call in (
                lambda: storage.release(first.peer_id, [object_id], grant=other.grant),
                lambda: storage.put(ObjectId(b"!" * 16), first.peer_id, [b"x"], other.grant),
                lambda: storage.duplicate(object_id, ObjectId(b"!" * 16), first.peer_id, 0.0, other.grant),
            ):
                with pytest.raises(StorageError) as refused:
                    call()
                assert refused.value.code == NOT_ALLOWED
        finally:
            storage.close()
        assert ana.submit(twice, reference).result(WAIT) == value * 2


def test_a_stream_is_its_users_alone(cluster: Keyed, tmp_path: Path) -> None:
    """The other user knows the ids of the stream, of its task and of its client, and has a ticket of its own. It reads
    no value, gives no credit, releases nothing and cancels nothing."""
    log = tmp_path / "log"
    with (
        cluster.client("ana") as ana,
        cluster.client("joe") as joe,
        ana.stream(stream_tasks.noted, str(log), 9, window=2) as stream,
    ):
        assert next(stream) == 0  # with a window of 2, a credit: the values 1 and 2 are stored, and 3 is not
        first, other = owner_of(ana), owner_of(joe)
        own = stream._open.connection.storage
        value, credit = (stream_object_id(stream._open.id, *named) for named in ((VALUE, 2), (CREDIT, 2)))
        own.start_get(value, WAIT, first).finish()
        storage = cluster.storage("joe")
        try:
            storage._link().directory = None  # shared memory is open to processes of this account
            for owner in (other, Owner(first.peer_id, other.grant), Owner(first.peer_id)):
                with pytest.raises((ObjectNotFound, StorageError)):
                    storage.get(value, owner=owner)
            with pytest.raises(StorageError) as refused:
                storage.release(first.peer_id, [value], grant=other.grant)
            assert refused.value.code == NOT_ALLOWED
            with pytest.raises(StorageError) as refused:
                storage.put(credit, first.peer_id, [b""], other.grant)
            assert refused.value.code == NOT_ALLOWED
        finally:
            storage.close()
        assert cancel_outcome(cluster, "joe", stream.task_id) == CANCEL_UNKNOWN
        assert log.read_text().split("\n")[1:] == ["value 0", "value 1", "value 2", ""]
        assert list(stream) == [1, 2, 3, 4, 5, 6, 7, 8]


def cancel_outcome(cluster: Keyed, user: str, task_id: TaskId) -> int:
    """Of a Cancel that names this task, in a session with the user's ticket."""
    bench = Bench()
    try:
        session = bench.dialer(cluster.address, shown=find_pass(cluster.address, str(cluster.tickets[user])))
        bench.open(session)
        session.send(Cancel(task_id))
        bench.until(lambda: task_id in bench.replies(session), "the answer to the Cancel")
        (reply,) = [
            event.message
            for event in bench.events[session]
            if isinstance(event, Received) and isinstance(event.message, CancelReply)
        ]
        return reply.outcomes[0] if reply.outcomes else 0
    finally:
        bench.close()
