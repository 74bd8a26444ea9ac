"""The life of a connection, and what becomes of what is posted when it ends."""

from __future__ import annotations

import concurrent.futures
import gc
import itertools
import threading
import time
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.core.records import Outcomes, Submission
from scaler.client.io import life
from scaler.client.io.connection import Connection
from scaler.client.io.life import IllegalMove, Life, Move
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import TaskHeader
from scaler_protocol.process.ports import free_ports


def test_every_other_move_is_refused() -> None:
    for state, move in itertools.product(Life, Move):
        if (state, move) in life.TRANSITIONS:
            assert life.after(state, move) is life.TRANSITIONS[state, move]
        else:
            with pytest.raises(IllegalMove, match=f"{state.name} cannot {move.name}"):
                life.after(state, move)
    assert {life for (state, _), life in life.TRANSITIONS.items() if state is Life.CLOSED} == {Life.CLOSED}


def test_a_welcome_that_comes_while_it_leaves_changes_nothing() -> None:
    """The scheduler came back, or answered late, when the program had closed the client already."""
    assert life.after(Life.LEAVING, Move.WELCOME) is Life.LEAVING


class Told:
    """A collector; `then` is what another thread does at the moment it is told."""

    def __init__(self, then: Any = None) -> None:
        self.outcomes: list[Outcomes] = []
        self._then = then

    def complete(self, outcomes: Outcomes) -> None:
        self.outcomes.append(outcomes)
        if self._then is not None:
            self._then()


def call(number: int, collector: Told) -> Submission:
    task_id, function = TaskId(bytes((number,)) * 16), ObjectId(b"f" * 16)
    return Submission(TaskHeader(), function, (task_id,), b"x", (1,), collector)


def test_no_session_leaves_before_the_next_owns_what_it_did(cluster: FakeCluster) -> None:
    """The client is interrupted again after its second session has taken all over, and before its first has left. A
    goodbye of the second would release what the third has not taken over."""
    connection = Connection(cluster.address, timeout_seconds=WAIT, heartbeat_seconds=1)
    first = connection.driver.endpoint
    connection._redial()
    second = connection.driver.endpoint
    connection._note_taken_over(connection.peer_id, True)
    connection._redial()
    connection.host_turn(0.0)
    assert not first._is_closed and not second._is_closed
    connection._note_taken_over(connection.peer_id, False)
    connection.host_turn(0.0)
    assert not first._is_closed and not second._is_closed, "the third has not taken over all of it"
    connection._note_taken_over(connection.peer_id, True)
    connection.host_turn(0.0)
    assert first._is_closed and second._is_closed
    assert not connection.driver.endpoint._is_closed
    connection.driver.endpoint.close()
    connection.driver.watch.close()


def test_what_is_posted_while_it_closes_ends_too(cluster: FakeCluster) -> None:
    cluster.hold()
    connection = Connection(
        cluster.address, timeout_seconds=WAIT, heartbeat_seconds=1, shown=find_pass(cluster.address)
    ).open()
    late, later = Told(), Told()
    first = Told(lambda: connection.driver.inbox.append(call(2, late)))
    connection.post(call(1, first))
    connection.close()
    connection.post(call(3, later))
    assert [len(told.outcomes) for told in (first, late, later)] == [1, 1, 1]


def test_calls_of_many_threads_end_when_a_client_leaves_among_them(cluster: FakeCluster) -> None:
    cluster.hold()
    for _ in range(5):
        client = Client(cluster.address, timeout_seconds=WAIT)
        futures: list[concurrent.futures.Future[int]] = []
        begun = threading.Barrier(5)

        def submit(client: Client = client, begun: threading.Barrier = begun, futures: Any = futures) -> None:
            begun.wait(WAIT)
            try:
                while True:
                    futures.append(client.submit(abs, -1))
            except Exception:
                pass  # the client has left

        threads = [threading.Thread(target=submit) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait(WAIT)
        eventually(lambda futures=futures: len(futures) > 20, "calls are being made")  # type: ignore[misc]
        client.disconnect()
        for thread in threads:
            thread.join(WAIT)
        _, unfinished = concurrent.futures.wait(futures, WAIT)
        assert not unfinished and all(future.cancelled() for future in futures)


def test_an_interrupt_while_it_opens_leaves_no_client_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)
    connection = Connection(f"tcp://127.0.0.1:{port}", timeout_seconds=WAIT, heartbeat_seconds=1)

    def interrupted(_timeout: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(connection._settled), "wait", lambda event, timeout: interrupted(timeout))
    with pytest.raises(KeyboardInterrupt):
        connection.open()
    connection._thread.join(WAIT)
    assert not connection._thread.is_alive() and connection.is_closed


def test_a_callback_that_ends_the_program_silences_no_other(client: Client) -> None:
    def leave(_future: object) -> None:
        raise SystemExit(1)

    called = threading.Event()
    future = client.submit(abs, -1)
    future.add_done_callback(leave)
    assert future.result(WAIT) == 1
    later = client.submit(abs, -2)
    later.add_done_callback(lambda _: called.set())
    assert later.result(WAIT) == 2 and called.wait(WAIT)


@pytest.mark.parametrize("timeout", ("x", object(), [1]))
def test_a_timeout_that_is_no_number_harms_nothing(client: Client, timeout: Any) -> None:
    futures = [client.submit(abs, -1) for _ in range(3)]
    for wait in (
        lambda: futures[0].result(timeout),
        lambda: futures[0].exception(timeout),
        lambda: client.submit(abs, -1).result(timeout),
        lambda: futures[1].cancel(timeout),
        lambda: client.map(abs, [1], timeout=timeout),
        lambda: client.get({"a": (abs, -1)}, ["a"], timeout=timeout),
    ):
        with pytest.raises(TypeError, match="must be a number of seconds"):
            wait()
    with pytest.raises(ValueError, match="must be a number of seconds"):
        futures[2].result(float("nan"))
    assert not client._ready().connection.driver.watch.is_lent
    begun_at = time.monotonic()
    assert [client.submit(abs, -n).result(WAIT) for n in range(10)] == list(range(10))
    assert time.monotonic() - begun_at < 2.0


def test_futures_of_a_graph_and_of_names_and_results_keep_their_client(cluster: FakeCluster) -> None:
    cluster.hold()
    futures = Client(cluster.address).get({"a": (abs, -1), "b": (abs, -2)}, ["a", "b"], block=False)
    named = Client(cluster.address).submit_named("nothing")
    results = Client(cluster.address).imap(abs, range(-3, 0))
    gc.collect()
    eventually(lambda: cluster.held_count() == 6, "all are with the cluster")
    assert not any(future.done() for future in (*futures.values(), named))
    cluster.release()
    assert [future.result(WAIT) for future in futures.values()] == [1, 2]
    assert list(results) == [3, 2, 1]


def test_the_results_of_an_imap_drop_their_client_with_themselves(cluster: FakeCluster) -> None:
    results = Client(cluster.address).imap(abs, range(-3, 0))
    connection = results._gathering.calls.connection
    assert next(results) == 3
    del results
    gc.collect()
    eventually(lambda: connection.is_closed, "no object of the program keeps the connection")
