"""The table of `docs/operations/security.md` that says what the holder of each secret can do at most: each row is tried
with real servers, what it gives and what it does not give."""

from __future__ import annotations

import concurrent.futures
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler_protocol import codes
from scaler_protocol.codec import encode
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, Owner, TaskId, family_in, new_peer_id
from scaler_protocol.keys import ALL_ROLES, KeyOptions, Keyring, Pass, pass_of
from scaler_protocol.keys.derivation import new_secret
from scaler_protocol.keys.issued import revoke
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.keys.tickets import ticket_id
from scaler_protocol.keys.web import ADAPTER_LABEL, PAGE_LABEL, token_of
from scaler_protocol.messages import (
    NO_PEER,
    Cancel,
    CancelReply,
    Control,
    ControlReply,
    Dispatch,
    Get,
    Hello,
    WorkerOffer,
)
from scaler_protocol.objects import ObjectClient
from scaler_protocol.session import Complained, Received, SessionDialer
from scaler_protocol.transport import DealerEndpoint
from scaler_protocol.web.guards import cookie_name
from tests.architecture.sources import ROOT
from tests.fuzz import sealed
from tests.fuzz.sealed import SealedWire
from tests.fuzz.wire import Wire
from tests.integration.test_keys import KEY, write
from tests.integration.test_web_tokens import link_of, status
from tests.support.endpoints import TIMERS, Bench
from tests.support.processes import WAIT, Stage, until

PAGE = ROOT / "docs" / "operations" / "security.md"
HEADING = "## What each secret opens"
NAMES = {
    codes.ROLE_CLIENT: "client",
    codes.ROLE_WORKER: "worker",
    codes.ROLE_SCHEDULER: "scheduler",
    codes.ROLE_MONITOR: "monitor",
    codes.ROLE_MANAGER: "manager",
}
ALL = {name: name for name in NAMES.values()}
VALUE = b"of ana" * 50_000

Check = Callable[["Cluster"], None]
CHECKS: dict[str, Check] = {}


def row(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def rows() -> list[str]:
    """Returns the first cells of the table."""
    lines = PAGE.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]


class Cluster:
    """Servers with a key, a worker with a ticket of ana's, and a program of ana's that has stored something."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.keyring = stage, Keyring([KEY])
        port = stage.ports()
        self.address, self.storage_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        self.key = write(stage.directory / "cluster.key", key_text([KEY]))
        given = "--key-file", self.key
        self.storage = stage.start("scaler_storage", self.storage_address, *given)
        self.scheduler = stage.start(
            "scaler_scheduler", self.address, "-osa", self.storage_address, "--allow-control", *given
        )
        stage.start("scaler_worker", self.address, "-n", "1", "--key-file", self.file(codes.ROLE_WORKER, user="ana"))
        self.ana = self.client(self.file(codes.ROLE_CLIENT, user="ana"))
        self.reference = self.ana.send_object(VALUE)
        self.object_id = self.reference.object_id
        self.owner: Owner = self.ana._ready().connection.storage.present_owner()

    def shown(self, *roles: int, user: str = "joe", expires: float = 0.0) -> Pass:
        return pass_of(self.keyring.derive(user, frozenset(roles), expires=expires), "a test")

    def file(self, role: int, *, user: str = "joe", is_operator: bool = False) -> str:
        made = self.keyring.derive(user, frozenset({role}), is_operator=is_operator)
        return write(self.stage.directory / f"{user}-{NAMES[role]}-{is_operator}.key", ticket_text(made))

    def client(self, file: str) -> Client:
        return Client(self.address, key_file=file, timeout_seconds=WAIT)

    def roles(self, address: str, shown: Pass | None) -> set[str]:
        """Returns in which roles a server lets this pass in, by TCP."""
        return {name for role, name in NAMES.items() if self.is_let_in(address, shown, role)}

    def is_let_in(self, address: str, shown: Pass | None, role: int) -> bool:
        with benched() as bench:
            of_standby = new_peer_id() if role == codes.ROLE_SCHEDULER else NO_PEER
            dialer = dialed(address, shown, role=role, last_server_id=of_standby)
            bench.add(dialer)
            bench.until(lambda: bool({"Opened", "Rejected"} & set(bench.kinds(dialer))), "an answer")
            return "Opened" in bench.kinds(dialer)

    def opens(self, shown: Pass | None, scheduler: str, storage: str) -> None:
        assert self.roles(self.address, shown) == set(scheduler.split())
        assert self.roles(self.storage_address, shown) == set(storage.split())

    def objects(self, shown: Pass | None, role: int) -> closing[ObjectClient]:
        """Returns a connection to the storage. The directory of shared memory is open to processes of the storage's
        account, as this one is, so it is not used."""
        client = ObjectClient(self.storage_address, role, "test", shown=shown)
        with suppress(ObjectNotFound, StorageError):
            client.get(ObjectId(b"?" * 16))  # from now on it is known
        client._link().directory = None
        return closing(client)

    def is_read(self, objects: ObjectClient, owner: Owner) -> bool:
        """Returns whether the value of ana's is served to this peer, with the right that it shows."""
        try:
            return VALUE in bytes(objects.get(self.object_id, owner=owner))
        except ObjectNotFound:
            return False
        except StorageError as error:
            assert error.code == codes.NOT_ALLOWED
            return False


def dialed(address: str, shown: Pass | None, **hello: Any) -> DealerEndpoint:
    said = Hello(1, 1, peer_id=new_peer_id(), timers=TIMERS, **hello)
    return DealerEndpoint(address, SessionDialer(hello=said, server_name="scheduler"), shown)


@contextmanager
def benched() -> Iterator[Bench]:
    bench = Bench()
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[Cluster]:
    """No peer of the tests comes by the local lane, which needs no ticket, but for the row that is about it."""
    cluster = Cluster(module_stage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCALER_NO_LANE", "1")
        yield cluster
        cluster.ana.clear()
        cluster.ana.disconnect()


def test_each_row_of_the_page_is_tried() -> None:
    assert rows() == list(CHECKS)


@pytest.mark.parametrize("name", rows())
def test_what_it_opens(cluster: Cluster, name: str) -> None:
    CHECKS[name](cluster)
    assert cluster.ana.submit(len, cluster.reference).result(WAIT) == len(VALUE), "the value of ana's is as it was"


# ---------------------------------------------------------------- the key


@contextmanager
def sleeping(cluster: Cluster, count: int = 1) -> Iterator[list[ScalerFuture]]:
    """Tasks of ana's that run or wait until somebody cancels them."""
    futures = [cluster.ana.submit(time.sleep, 600) for _ in range(count)]
    try:
        yield futures
    finally:
        for future in futures:
            future.cancel()
        concurrent.futures.wait(futures, WAIT)


@row("the cluster's key")
def the_key(cluster: Cluster) -> None:
    cluster.opens(cluster.shown(*ALL_ROLES), " ".join(ALL), "client worker scheduler monitor")
    family = family_in(cluster.owner.grant, cluster.owner.peer_id)
    assert cluster.keyring.grant(cluster.owner.peer_id, family) == cluster.owner.grant, "it makes the grants of others"
    with cluster.objects(cluster.keyring.own_pass(), codes.ROLE_CLIENT) as objects:
        assert cluster.is_read(
            objects, Owner(cluster.owner.peer_id, cluster.keyring.grant(cluster.owner.peer_id, family))
        )


# ---------------------------------------------------------------- tickets


@row("a client's ticket")
def a_client(cluster: Cluster) -> None:
    shown = cluster.shown(codes.ROLE_CLIENT)
    cluster.opens(shown, "client", "client")
    with cluster.client(cluster.file(codes.ROLE_CLIENT)) as joe:
        assert joe.submit(os.getuid).result(WAIT) == os.getuid(), "tasks are of the workers' account"
        own = joe._ready().connection.storage.present_owner()
        with sleeping(cluster) as (running,):
            assert cancel_outcome(cluster, shown, running.task_id) == codes.CANCEL_UNKNOWN
        with cluster.objects(shown, codes.ROLE_CLIENT) as objects:
            objects.put(ObjectId(b"joe's".ljust(16)), own.peer_id, [b"own"], own.grant)
            assert bytes(objects.get(ObjectId(b"joe's".ljust(16)), owner=own)) == b"own"
            # with the grant of ana's client too, which a worker of joe's may have from one of her tasks
            for owner in (own, Owner(cluster.owner.peer_id, own.grant), Owner(cluster.owner.peer_id), cluster.owner):
                assert not cluster.is_read(objects, owner)
            for grant in (own.grant, cluster.owner.grant):
                with pytest.raises(StorageError):
                    objects.release(cluster.owner.peer_id, [cluster.object_id], grant=grant)
        with pytest.raises(ValueError, match="operator"):
            joe.shutdown()


def cancel_outcome(cluster: Cluster, shown: Pass, task_id: TaskId) -> int:
    with benched() as bench:
        session = bench.dialer(cluster.address, shown=shown)
        bench.open(session)
        session.send(Cancel(task_id))
        bench.until(lambda: task_id in bench.replies(session), "the answer to the Cancel")
        (reply,) = messages(bench, session, CancelReply)
        return reply.outcomes[0] if reply.outcomes else 0


def messages(bench: Bench, session: DealerEndpoint, kind: type) -> list[Any]:
    return [
        event.message
        for event in bench.events[session]
        if isinstance(event, Received) and isinstance(event.message, kind)
    ]


@row("a worker's ticket")
def a_worker(cluster: Cluster) -> None:
    """A worker of its own takes one task of ana's, and with it the right to read all that ana's program has stored. Of
    a program whose tasks it never had, it has none. What it was given is of no use to others."""
    shown = cluster.shown(codes.ROLE_WORKER, user="ana")
    cluster.opens(shown, "worker", "worker client")
    with benched() as bench, cluster.client(cluster.file(codes.ROLE_CLIENT)) as joe:
        joe.send_object(b"j" * 300_000)
        not_met = joe._ready().connection.storage.present_owner()
        offer = WorkerOffer("of the test", credit=1)
        session = dialed(cluster.address, shown, role=codes.ROLE_WORKER, worker=offer)
        bench.add(session)
        bench.open(session)
        with sleeping(cluster, 4):
            bench.until(lambda: bool(messages(bench, session, Dispatch)), "a task of ana's")
            header = messages(bench, session, Dispatch)[0].header
            lent = Owner(header.client, header.owner_grant)
            with cluster.objects(shown, codes.ROLE_WORKER) as objects:
                assert cluster.is_read(objects, lent)
                assert not cluster.is_read(objects, Owner(not_met.peer_id, header.owner_grant))
                assert not cluster.is_read(objects, Owner(not_met.peer_id))
                objects.release(header.client, [cluster.object_id], grant=header.owner_grant)
                assert cluster.is_read(objects, lent), "it releases nothing of hers"
            # of joe's, which have somehow come by what is ana's worker's, or ana's own
            for role in (codes.ROLE_WORKER, codes.ROLE_CLIENT):
                with cluster.objects(cluster.shown(role), role) as objects:
                    assert not cluster.is_read(objects, lent) and not cluster.is_read(objects, cluster.owner)
            bench.remove(session)


@row("a manager's ticket")
def a_manager(cluster: Cluster) -> None:
    cluster.opens(cluster.shown(codes.ROLE_MANAGER), "manager", "")


@row("a monitor's ticket")
def a_monitor(cluster: Cluster) -> None:
    cluster.opens(cluster.shown(codes.ROLE_MONITOR), "monitor", "monitor")
    assert control_outcome(cluster, cluster.file(codes.ROLE_MONITOR), bytes(16)) == codes.CONTROL_NO_OPERATOR
    with benched() as bench:
        session = dialed(cluster.storage_address, cluster.shown(codes.ROLE_MONITOR), role=codes.ROLE_MONITOR)
        bench.add(session)
        bench.open(session)
        session.send(Get(1, cluster.object_id, owner=cluster.owner.peer_id, grant=cluster.owner.grant))
        bench.until(lambda: "Complained" in bench.kinds(session), "a refusal")
        (refused,) = [event for event in bench.events[session] if isinstance(event, Complained)]
        assert refused.code == codes.NOT_ALLOWED


def control_outcome(cluster: Cluster, file: str, task_id: bytes) -> int:
    with Subscription(cluster.address, ("status",), keys=KeyOptions(file)) as watching:
        state = watching.first(WAIT)
        assert state.status is not None
        assert {"ana"} <= {client.user for client in state.status.clients}, "it is shown whose programs there are"
        reply = answer(watching, Control(7, codes.CONTROL_CANCEL_TASK, task_id), ControlReply, WAIT)
        return int(reply.outcome)


@row("an operator's ticket for a monitor")
def an_operators_monitor(cluster: Cluster) -> None:
    file = cluster.file(codes.ROLE_MONITOR, is_operator=True)
    with sleeping(cluster) as (running,):
        until(lambda: control_outcome(cluster, file, running.task_id) != codes.CONTROL_UNKNOWN, "the task is known")
        with pytest.raises(concurrent.futures.CancelledError):
            running.result(WAIT)
    cluster.opens(KeyOptions(file).find_pass(cluster.address), "monitor", "monitor")


@row("an operator's ticket for a client")
def an_operators_client(cluster: Cluster) -> None:
    other = Cluster(cluster.stage)
    file = other.file(codes.ROLE_CLIENT, is_operator=True)
    shown = KeyOptions(file).find_pass(other.address)
    other.opens(shown, "client", "client")
    with other.objects(shown, codes.ROLE_CLIENT) as objects:
        assert not other.is_read(objects, Owner(other.owner.peer_id))
    other.client(file).shutdown()
    assert other.scheduler.wait() == 0


@row("a scheduler's ticket")
def a_scheduler(cluster: Cluster) -> None:
    shown = cluster.shown(codes.ROLE_SCHEDULER)
    cluster.opens(shown, "scheduler", "scheduler")
    with cluster.objects(shown, codes.ROLE_SCHEDULER) as objects:
        assert cluster.is_read(objects, cluster.owner)


@row("an expired ticket, of any role")
def an_expired_ticket(cluster: Cluster) -> None:
    cluster.opens(cluster.shown(*ALL_ROLES, expires=time.time() - 60), "", "")


@row("a revoked ticket, of any role")
def a_revoked_ticket(cluster: Cluster) -> None:
    shown, other = cluster.shown(*ALL_ROLES), cluster.shown(codes.ROLE_MONITOR)
    revoke(cluster.key, [ticket_id(shown.public_key)])
    for server in (cluster.storage, cluster.scheduler):
        server.wait_for("revoked tickets of .* have changed", 1)
    cluster.opens(shown, "", "")
    cluster.opens(other, "monitor", "monitor")


# ---------------------------------------------------------------- parts of secrets


@row("a ticket without the secret half of its pair, as a listener may have it")
def a_stolen_ticket(cluster: Cluster) -> None:
    real, own = cluster.shown(*ALL_ROLES), cluster.shown(codes.ROLE_CLIENT)
    cluster.opens(Pass(real.server_keys, own.public_key, own.secret_key, real.ticket), "", "")


@row("the servers' public key")
def the_public_key(cluster: Cluster) -> None:
    real = cluster.shown(codes.ROLE_CLIENT)
    forged = pass_of(Keyring([new_secret()]).derive("joe", ALL_ROLES), "a test")
    for ticket in (b"", forged.ticket):
        cluster.opens(Pass(real.server_keys, forged.public_key, forged.secret_key, ticket), "", "")


@row("no secret")
def no_secret(cluster: Cluster) -> None:
    """Neither without CURVE nor with another key of the servers is a byte answered behind the greeting."""
    hello = [bytes(one) for one in encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id()))]
    for address in (cluster.address, cluster.storage_address):
        port = int(address.rpartition(":")[2])
        wire = Wire(port)
        with suppress(OSError):
            wire.send(hello)
        assert not list(wire.received(1.0))
        wire.close()
        if sealed.is_possible():
            assert SealedWire(
                port, pass_of(Keyring([new_secret()]).derive("joe", ALL_ROLES), "").server_keys[0]
            ).is_closed


# ---------------------------------------------------------------- the page and the adapter


@contextmanager
def page(cluster: Cluster, port: int = 0) -> Iterator[str]:
    given = (cluster.address, "--port", str(port), "--key-file", cluster.key, "--allow-control")
    command = cluster.stage.start("scaler.ui", *given)
    yield link_of(command)[0]
    command.end()


@contextmanager
def adapter(cluster: Cluster) -> Iterator[str]:
    port = cluster.stage.ports()
    given = (cluster.address, "--host", "127.0.0.1", "--port", str(port), "--key-file", cluster.key)
    command = cluster.stage.start("scaler_worker.adapter", *given, "--max-workers", "1")
    command.wait_for("NativeWorkerAdapter: listen to")
    yield f"http://127.0.0.1:{port}/"
    command.end()


INFORMATION = {"action": "get_worker_adapter_info"}
TOKENS = {"page": token_of(KEY, PAGE_LABEL), "adapter": token_of(KEY, ADAPTER_LABEL)}


@row("the page's token")
def the_pages_token(cluster: Cluster) -> None:
    pytest.importorskip("aiohttp", reason="the page needs its extra")
    with page(cluster) as url, adapter(cluster) as other:
        assert status(url + "state.json", TOKENS["page"]) == 200
        with sleeping(cluster) as (running,):
            order = f"{url}control?do=cancel-task&id={running.task_id.hex()}"
            assert status(order, "", {}) == 403
            until(lambda: status(order, TOKENS["page"], {}) == 200, "the page shows the task")
            with pytest.raises(concurrent.futures.CancelledError):
                running.result(WAIT)
        assert status(other, TOKENS["page"], INFORMATION) == 401


@row("the cookie of a browser that was shown the page")
def the_pages_cookie(cluster: Cluster) -> None:
    pytest.importorskip("aiohttp", reason="the page needs its extra")
    port = cluster.stage.ports()
    with page(cluster, port) as url, page(cluster) as second:
        cookie = cookie_of(url)
        assert status(url + "state.json", cookie=cookie) == 200
        assert status(url + "control?do=nothing", cookie=cookie, body={}) == 400, "it gives orders"
        assert status(url + "state.json", cookie) == 403, "it is no token"
        assert status(second + "state.json", cookie=cookie) == 403, "of another page"
    with page(cluster, port) as url:
        assert status(url + "state.json", cookie=cookie) == 403, "after a restart"


def cookie_of(url: str) -> str:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    request = urllib.request.Request(f"{url}?token={TOKENS['page']}")
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.build_opener(Stay).open(request, timeout=WAIT)
    found.value.close()
    assert found.value.code == 303
    (given,) = re.findall(rf"{cookie_name(request.host)}=([^;]+)", found.value.headers["Set-Cookie"])
    return str(given)


@row("the adapter's token")
def the_adapters_token(cluster: Cluster) -> None:
    pytest.importorskip("aiohttp", reason="the adapter needs its extra")
    with page(cluster) as url, adapter(cluster) as other:
        assert [status(other, TOKENS["adapter"], {"action": "start_worker_group"}) for _ in range(2)] == [200, 429]
        assert status(url + "state.json", TOKENS["adapter"]) == 403


# ---------------------------------------------------------------- a place


@row("a process of the servers' account, on their host")
def the_lane(cluster: Cluster) -> None:
    forged = pass_of(Keyring([new_secret()]).derive("joe", ALL_ROLES), "a test")
    nothing = Pass(forged.server_keys, forged.public_key, forged.secret_key, b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SCALER_NO_LANE")
        cluster.opens(nothing, " ".join(ALL), "client worker scheduler monitor")
        with cluster.objects(nothing, codes.ROLE_SCHEDULER) as objects:
            assert cluster.is_read(objects, cluster.owner)
    assert Path(cluster.key).read_text(), "and it can read the key"
