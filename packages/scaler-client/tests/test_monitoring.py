"""Watching: real sockets, and a scheduler that is only its status."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import zmq

from scaler.monitoring import Condition, MonitorError, Subscription
from scaler.monitoring.places import monitor_as_seen, scheduler_of, watchable
from scaler_protocol.codec import encode
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import ClusterStatus, Count

STATUS = ClusterStatus(sequence=1, server_id=new_peer_id(), task_counts=(Count("queued", 3),))


def address_of(socket: zmq.Socket[bytes]) -> str:
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


def publish(socket: zmq.Socket[bytes], status: ClusterStatus) -> None:
    socket.send_multipart([b"status", *encode(status)])


def subscribed(socket: zmq.Socket[bytes]) -> None:
    assert socket.poll(10_000), "nobody subscribed within 10 s"
    socket.recv()


def test_what_is_published_becomes_the_state(publisher: zmq.Socket[bytes]) -> None:
    with Subscription(address_of(publisher)) as subscription:
        subscribed(publisher)
        publish(publisher, STATUS)
        state = subscription.first(10)
        assert state.is_live and state.status == STATUS and state.counts() == {"queued": 3}
        publish(publisher, replace(STATUS, sequence=4))
        publish(publisher, replace(STATUS, sequence=1, server_id=new_peer_id()))
        while subscription.state.restart_count == 0:
            assert subscription.poll(10), "the second scheduler was not heard within 10 s"
        assert subscription.state.missed_count == 2


def test_what_is_no_message_of_ours_is_left_out(publisher: zmq.Socket[bytes]) -> None:
    with Subscription(address_of(publisher), ("",)) as subscription:
        subscribed(publisher)
        for frames in ([b"status"], [b"status", b"nonsense"], [b"news", b"", b""]):
            publisher.send_multipart(frames)
        publish(publisher, STATUS)
        assert subscription.first(10).status == STATUS


def test_when_nothing_answers_it_says_so() -> None:
    with Subscription("tcp://127.0.0.1:9") as subscription:
        with pytest.raises(MonitorError, match=r"nothing answers at tcp://127.0.0.1:9.*is the scheduler running"):
            subscription.first(0.2)
        assert subscription.state.condition is Condition.CONNECTING


@pytest.mark.parametrize("address", ["8516", "tcp://127.0.0.1", "http://127.0.0.1:1", "tcp://no.such.host.invalid:1"])
def test_addresses_that_cannot_be(address: str) -> None:
    with pytest.raises(MonitorError):
        Subscription(address)


def test_addresses_of_earlier_days() -> None:
    assert watchable("ipc:///tmp/0.0.0.0_8516_monitor") == "tcp://127.0.0.1:8518"
    assert watchable("ipc:///tmp/127.0.0.2_80_monitor") == "tcp://127.0.0.2:82"
    assert scheduler_of("tcp://127.0.0.1:8518") == "tcp://127.0.0.1:8516"
    assert monitor_as_seen("tcp://0.0.0.0:7", "tcp://10.0.0.1:5") == "tcp://10.0.0.1:7"
    assert monitor_as_seen("", "tcp://10.0.0.1:5") == ""


def test_nothing_is_left_behind(publisher: zmq.Socket[bytes]) -> None:
    before = threading.active_count()
    Subscription(address_of(publisher)).close()
    assert threading.active_count() == before
