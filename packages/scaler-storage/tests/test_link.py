"""Threads that share one connection to the storage: none waits for another, and an idle one costs nothing."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from tests.support.storage_server import Server, until

from scaler_protocol.codes import ROLE_SCHEDULER, SESSION_REPLACED
from scaler_protocol.errors import ObjectNotFound, StorageUnavailable
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import Put
from scaler_protocol.objects import ObjectClient
from scaler_protocol.objects.link import Link
from scaler_protocol.process.ports import free_ports
from scaler_protocol.session import Lost, SessionEvent
from scaler_protocol.waits import Event

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers run on Linux and macOS")

OWNER = new_peer_id()
WAIT = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(free_ports(1))
    yield running
    assert running.end() == 0, running.lines


@pytest.fixture
def client(server: Server) -> Iterator[ObjectClient]:
    client = ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=WAIT, shown=find_pass(server.address))
    client.put(new_object_id(), OWNER, [b"first"])
    yield client
    client.close()


@pytest.fixture
def unwoken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Threads that nothing has woken for a whole second."""
    found: list[str] = []

    def sleep(event: Event, seconds: float) -> None:
        if not event.wait(seconds):
            found.append(threading.current_thread().name)

    monkeypatch.setattr(Link, "sleep", staticmethod(sleep))
    return found


def test_answers_that_come_in_bunches_leave_no_thread_asleep(
    client: ObjectClient, server: Server, unwoken: list[str]
) -> None:
    """The thread that drives ends, and so does the one that would drive next: the third one's answer is not held up."""
    other = ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=WAIT, shown=find_pass(server.address))
    for _ in range(20):
        ids = [new_object_id() for _ in range(6)]
        begun = [threading.Thread(target=client.get, args=(one, WAIT)) for one in ids]
        for thread in begun:
            thread.start()
        until(lambda: other.status().waiter_count == 6, "all wait")
        bunch = [other.start_put(one, OWNER, [b"value"]) for one in ids]
        for put in bunch:
            put.finish()
        for thread in begun:
            thread.join(WAIT)
    other.close()
    assert not unwoken


def test_many_threads_put_and_get(client: ObjectClient, unwoken: list[str]) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                object_id, value = new_object_id(), bytes((number,)) * 10_000
                client.put(object_id, OWNER, [value])
                assert client.get(object_id) == value
                client.release(OWNER, [object_id], wait=False)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert not failures and not unwoken


class Local:
    """What a caller has in a variable, such as a client in a task."""


def failed_call(client: ObjectClient) -> weakref.ref[Local]:
    local = Local()
    with pytest.raises(StorageUnavailable):
        client.status()
    return weakref.ref(local)


def test_a_call_that_failed_keeps_no_variable_of_its_caller() -> None:
    """The request stays open until the storage answers. Until then its error must not refer to the frames of its caller
    and, after that, nothing may wait for the collector, which an idle process does not run."""
    stopped = Server(free_ports(1))
    client = ObjectClient(
        stopped.address, ROLE_SCHEDULER, "test", timeout_seconds=0.2, shown=find_pass(stopped.address)
    )
    until(lambda: _answers(client), "the storage answers")
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        assert failed_call(client)() is None
    finally:
        stopped.process.send_signal(signal.SIGCONT)
        client.close()
    assert stopped.end() == 0, stopped.lines


def test_a_get_from_a_storage_that_stands_still_ends_in_time() -> None:
    """Also of a thread that could not borrow the socket. Later the same value can be fetched."""
    stopped = Server(free_ports(1))
    client = ObjectClient(
        stopped.address, ROLE_SCHEDULER, "test", timeout_seconds=WAIT, shown=find_pass(stopped.address)
    )
    object_id, ended = new_object_id(), []
    client.put(object_id, OWNER, [b"value"])

    def get() -> None:
        with pytest.raises(TimeoutError, match="has not answered in time"):
            client.get(object_id, end_at=time.monotonic() + 0.2)
        ended.append(threading.current_thread())

    stopped.process.send_signal(signal.SIGSTOP)
    threads = [threading.Thread(target=get) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT / 2)
    are_over = len(ended) == len(threads)
    stopped.process.send_signal(signal.SIGCONT)
    assert are_over and client.get(object_id, end_at=time.monotonic() + WAIT) == b"value"
    assert not client._link()._requests.operations, "what was abandoned is not asked for any more"
    client.close()
    assert stopped.end() == 0, stopped.lines


def test_a_get_from_a_storage_that_is_away_ends_in_time() -> None:
    client = ObjectClient(f"tcp://127.0.0.1:{free_ports(1)}", ROLE_SCHEDULER, "test", timeout_seconds=WAIT)
    with pytest.raises(TimeoutError):
        client.get(new_object_id(), end_at=time.monotonic() + 0.2)
    client.close()


def _answers(client: ObjectClient) -> bool:
    try:
        client.status()
    except StorageUnavailable:
        return False
    return True


def test_an_idle_connection_sleeps_until_its_heartbeat(client: ObjectClient) -> None:
    link = client._link()
    client.status()
    with link._driver.lock:
        link_due, session_due = link.next_deadline(), link.endpoint.next_deadline()
    assert link_due is None, "nothing waits"
    assert session_due is not None and session_due - time.monotonic() > 1.0


def test_a_put_of_a_session_that_was_cut_off_is_not_stored_behind_its_release(client: ObjectClient) -> None:
    """An interrupt replaces the session while the put is on its way in the old one."""
    link, object_id = client._link(), new_object_id()
    old = link.endpoint
    with pytest.MonkeyPatch.context() as patch, link._driver.lock:
        patch.setattr(old, "close", lambda: None)  # as if its messages were late, and its goodbye with them
        link.recover(time.monotonic())
    link._driver.watch.wake_surely()
    client.release(OWNER, [object_id])
    old.send(Put(1_000_000, object_id, OWNER, 4, 0, b"late"))
    told: list[SessionEvent] = []

    def has_answer() -> bool:
        told.extend(old.poll(time.monotonic()))
        old.settle(time.monotonic())
        return bool(told)

    until(has_answer, "the storage has answered in the old session")
    old.close()
    assert [(type(event), getattr(event, "code", 0)) for event in told] == [(Lost, SESSION_REPLACED)]
    with pytest.raises(ObjectNotFound):
        client.get(object_id)


def test_each_session_of_a_link_replaces_the_one_before(client: ObjectClient) -> None:
    link = client._link()
    peers, incarnations = set(), []
    for _ in range(3):
        client.status()
        with link._driver.lock:
            hello = link.endpoint._dialer.hello
            link.endpoint.bye()
            link.endpoint.redial()  # which counts on
        client.status()
        with link._driver.lock:
            peers.add(hello.peer_id)
            incarnations += [hello.incarnation, link.endpoint.incarnation]
            link.recover(time.monotonic())
        link._driver.watch.wake_surely()
    assert len(peers) == 1
    assert incarnations == sorted(set(incarnations)), "each is higher than all before"


class Waiting:
    """An operation that a thread waits for."""

    is_done = True


def test_a_thread_that_leaves_while_the_others_are_looked_through(client: ObjectClient) -> None:
    """The collector may run where a pair is made of each entry, and with it other threads."""
    link = client._link()
    operations = [Waiting() for _ in range(1_000)]
    events = {operation: Event() for operation in operations}

    def leave(phase: str, _info: object) -> None:
        if phase == "start" and operations:
            link._waiting.pop(operations.pop(), None)  # type: ignore[call-overload]

    threshold = gc.get_threshold()
    with link._driver.lock:
        link._waiting.update(events)  # type: ignore[arg-type]
        gc.callbacks.append(leave)
        gc.set_threshold(1)
        try:
            link._notify_done()
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(leave)
            link._waiting.clear()
    assert all(events[operation].is_set() for operation in operations)
