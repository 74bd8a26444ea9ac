"""Watching: real sockets, and a scheduler that is only its status."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace

import pytest
from tests.support.fake_publisher import FakePublisher
from tests.support.keyed import keyed
from tests.support.processes import WAIT

from scaler.monitoring import Condition, Heard, MonitorError, Subscription
from scaler.monitoring.addresses import watchable
from scaler.monitoring.subscription import REDIAL_SECONDS
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import TaskId, new_peer_id
from scaler_protocol.messages import ClusterStatus, Count, GraphShapes, SnapshotRequest, TaskLog, TaskSamples
from scaler_protocol.session import SessionServer
from scaler_protocol.transport import RouterEndpoint

STATUS = ClusterStatus(sequence=1, server_id=new_peer_id(), task_counts=(Count("queued", 3),))


def test_what_is_published_becomes_the_state(publisher: FakePublisher) -> None:
    with Subscription(publisher.address) as subscription:
        publisher.answer = lambda question: STATUS
        state = subscription.first(WAIT)
        assert state.is_live and state.status == STATUS and state.counts() == {"queued": 3}
        publisher.wait_for_watchers()
        publisher.publish(replace(STATUS, sequence=4), replace(STATUS, sequence=1, server_id=new_peer_id()))
        while subscription.state.restart_count == 0:
            assert subscription.poll(WAIT), "the second scheduler was not heard"
        assert subscription.state.missed_count == 2


def test_each_topic_is_heard_under_its_name(publisher: FakePublisher) -> None:
    said = (STATUS, TaskSamples(), GraphShapes(), TaskLog(TaskId(bytes(16)), 1, "x"))
    with Subscription(publisher.address, ("status", "tasks", "graphs", "logs")) as subscription:
        while not publisher.watching:
            subscription.poll(0.02)
        assert set(publisher.watching.values()) == {("status", "tasks", "graphs", "logs")}
        publisher.publish(*said)
        heard: list[Heard] = []
        while len(heard) < len(said):
            found = subscription.poll(WAIT)
            assert found, heard
            heard += found
    assert [(one.topic, one.message) for one in heard] == list(
        zip(("status", "tasks", "graphs", "logs"), said, strict=True)
    )


def test_after_a_gap_in_samples_the_history_is_asked_for_again(
    publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publication that was left out had failures that no other publication tells."""
    monkeypatch.setattr("scaler.monitoring.subscription.HISTORY_SECONDS", 0.0)
    samples = TaskSamples(sequence=7, server_id=new_peer_id())
    with Subscription(publisher.address, ("tasks",)) as subscription:

        def hear(*said: TaskSamples) -> list[bool]:
            """What was asked for with each Watch so far, when the subscription has heard all this."""
            publisher.publish(*said)
            last = said[-1]
            heard: list[Heard] = []
            while not heard or heard[-1].message != last:
                found = subscription.poll(WAIT)
                assert found, "nothing was heard"
                heard += found
            subscription.ask(SnapshotRequest(last.sequence))
            end_at = time.monotonic() + WAIT
            while SnapshotRequest(last.sequence) not in publisher.asked:
                assert time.monotonic() < end_at, "nothing was asked"
                subscription.poll(0.02)
            return [watch.wants_history for watch in publisher.watches]

        while not publisher.watching:
            subscription.poll(0.02)
        assert hear(samples, replace(samples, sequence=8)) == [True], "the first is no gap, nor is the next"
        assert hear(replace(samples, sequence=10)) == [True, True]
        assert hear(replace(samples, sequence=10, is_history=True), replace(samples, sequence=11)) == [True, True]
        assert hear(TaskSamples(sequence=90, server_id=new_peer_id())) == [True, True], "another scheduler's numbers"
        monkeypatch.setattr("scaler.monitoring.subscription.HISTORY_SECONDS", WAIT)
        missed = [replace(samples, sequence=number) for number in (30, 40, 50, 60)]
        assert hear(*missed) == [True, True, True], "not again so soon"
        subscription._history_at = 0.0  # as if the time were over
        assert hear(replace(samples, sequence=61)) == [True] * 4, "what was missed meanwhile is asked for then"


def test_what_was_heard_is_acknowledged_soon(publisher: FakePublisher) -> None:
    """A scheduler publishes no more to a watcher that acknowledges nothing."""
    with Subscription(publisher.address) as subscription:
        while not publisher.watching:
            subscription.poll(0.02)
        publisher.publish(STATUS)
        end_at = time.monotonic() + WAIT
        while subscription.state.status is None or any(publisher.unacknowledged()):
            assert time.monotonic() < end_at, "it was not acknowledged"
            subscription.poll(0.02)


def test_a_server_that_refuses_is_named_and_not_dialed_without_end() -> None:
    server = SessionServer(
        server_id=new_peer_id(),
        role_name="object storage server",
        allowed_roles=(ROLE_CLIENT,),
        admission=keyed(),
    )
    endpoint = RouterEndpoint("tcp://127.0.0.1:*", server)
    begun_at = time.monotonic()
    with Subscription(endpoint.address) as subscription:
        while "does not talk to a monitor" not in subscription.state.text:
            assert time.monotonic() < begun_at + WAIT, subscription.state
            endpoint.poll(time.monotonic())
            endpoint.settle(time.monotonic())
            subscription.poll(0.01)
    endpoint.close()
    most = (time.monotonic() - begun_at) / REDIAL_SECONDS + 3
    assert endpoint.received_counts["Hello"] <= most


def test_the_seconds_of_a_silence_go_on(publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.monitoring.subscription.OVERDUE_SECONDS", 0.1)
    with Subscription(publisher.address) as subscription:
        publisher.answer = lambda question: replace(STATUS, sequence=0)
        subscription.first(WAIT)
        subscription._interval_seconds = 0.01  # as if many had come
        texts: set[str] = set()
        end_at = time.monotonic() + WAIT
        while len(texts) < 2:
            assert time.monotonic() < end_at, texts
            subscription.poll(0.1)
            texts |= {subscription.state.text} - {""}
        first, second = sorted(texts)
        assert re.search(r"silent since \d\d:\d\d:\d\d \(0 s\)", first) and first.replace("(0 s", "(1 s") == second
        publisher.publish(STATUS)
        while not subscription.state.is_live:
            assert subscription.poll(WAIT), "it is heard again"
        assert subscription.state.text == ""


def test_when_nothing_answers_it_says_so() -> None:
    with Subscription("tcp://127.0.0.1:9") as subscription:
        with pytest.raises(MonitorError, match=r"nothing has answered at tcp://127.0.0.1:9.*is the scheduler running"):
            subscription.first(0.2)
        assert subscription.state.condition is Condition.CONNECTING


@pytest.mark.parametrize("address", ["8516", "tcp://127.0.0.1", "http://127.0.0.1:1", "tcp://no.such.host.invalid:1"])
def test_addresses_that_cannot_be(address: str) -> None:
    with pytest.raises(MonitorError):
        Subscription(address)


def test_addresses_of_earlier_days() -> None:
    assert watchable("ipc:///tmp/0.0.0.0_8516_monitor") == "tcp://127.0.0.1:8518"
    assert watchable("ipc:///tmp/127.0.0.2_80_monitor") == "tcp://127.0.0.2:82"


def test_nothing_is_left_behind(publisher: FakePublisher) -> None:
    before = threading.active_count()
    Subscription(publisher.address).close()
    assert threading.active_count() == before
