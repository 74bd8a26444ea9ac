"""Watching real clusters: either address, the scheduler's loss and return, what is recorded."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from scaler.monitoring import ClusterState, Condition, MonitorError, Subscription
from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_MONITOR
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import Bye, Hello, Watch
from scaler_scheduler.watchers import WATCHERS
from tests.support.clusters import RealCluster
from tests.support.hostile import raw_peer
from tests.support.processes import WAIT, Stage


def wait_for(subscription: Subscription, is_so: Callable[[ClusterState], bool], what: str) -> ClusterState:
    end_at = time.monotonic() + WAIT
    while not is_so(subscription.state):
        assert time.monotonic() < end_at, f"waited in vain until {what}: {subscription.state}"
        subscription.poll(0.2)
    return subscription.state


@pytest.mark.parametrize("name", ["address", "monitor_address"])
def test_the_scheduler_is_found_lost_and_found_again(stage: Stage, name: str) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--status-report-interval-seconds", "0.1"))
    with Subscription(getattr(cluster, name)) as subscription:
        state = subscription.first(WAIT)
        assert state.status is not None and len(state.status.workers) == 1
        wait_for(subscription, lambda state: bool(state.status and state.status.sequence > 1), "the stream is heard")
        cluster.scheduler.end(signal.SIGKILL)
        state = wait_for(subscription, lambda state: state.condition is Condition.SILENT, "the loss is noticed")
        assert "has been silent since" in state.text
        cluster.start_scheduler()
        state = wait_for(subscription, lambda state: state.is_live, "the return is noticed")
        assert state.restart_count == 1 and not state.text
    cluster.stop()


def test_a_scheduler_that_waits_for_its_storage_is_seen(stage: Stage) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    nowhere = f"tcp://127.0.0.1:{stage.ports()}"
    scheduler = stage.start("scaler_scheduler", address, "-osa", nowhere, "--status-report-interval-seconds", "0.1")
    with Subscription(address) as subscription:
        state = wait_for(subscription, lambda state: bool(state.status and state.status.sequence > 1), "it publishes")
        assert state.is_live and state.status is not None and not state.status.is_storage_connected
    scheduler.end()


def test_the_loss_and_return_of_the_storage_are_events(stage: Stage) -> None:
    cluster = RealCluster(stage, 0, scheduler=("--status-report-interval-seconds", "0.1"))
    seen: dict[int, str] = {}

    def are(*kinds: str) -> Callable[[ClusterState], bool]:
        """Why it cannot be reached is told as often as it changes."""

        def is_so(state: ClusterState) -> bool:
            events = state.status.events if state.status else ()
            seen.update((one.number, one.kind) for one in events if one.kind.startswith("storage_"))
            return [kind for kind, _ in groupby(seen[number] for number in sorted(seen))] == list(kinds)

        return is_so

    with Subscription(cluster.address) as subscription:
        state = wait_for(subscription, are("storage_connected"), "the storage is connected")
        assert state.status is not None
        (connected,) = (one for one in state.status.events if one.kind == "storage_connected")
        assert connected.text == state.status.storage_address
        cluster.storage.end(signal.SIGKILL)
        cluster.start_storage()  # which does not know the session: that is the loss
        wait_for(subscription, are("storage_connected", "storage_lost", "storage_connected"), "both are told")
        cluster.storage.end(signal.SIGKILL)
        kinds = ("storage_connected", "storage_lost") * 2
        state = wait_for(subscription, are(*kinds), "a loss is told though no storage follows")
        assert state.status is not None and "it is dialed again" in state.status.events[-1].text
    cluster.stop()


def test_a_watcher_needs_the_key_at_either_address(stage: Stage, tmp_path: Path) -> None:
    key_file = tmp_path / "cluster.key"
    key_file.touch(mode=0o600)
    key_file.write_text(f"scaler-key-1:{'5a' * 32}\n")
    port = stage.ports()
    address, near = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 2}"
    scheduler = stage.start("scaler_scheduler", address, "--key-file", str(key_file))
    for place in (address, near):
        with Subscription(place, keys=KeyOptions(str(key_file))) as subscription:
            assert subscription.first(WAIT).is_live
        stranger = replace_digits(key_file, tmp_path)
        with (
            Subscription(place, keys=KeyOptions(str(stranger))) as subscription,
            pytest.raises(MonitorError, match="key"),
        ):
            subscription.first(WAIT)
        with Subscription(place, keys=KeyOptions(insecure=True)) as subscription, pytest.raises(MonitorError):
            subscription.first(0.5)
    scheduler.end()


def replace_digits(key_file: Path, folder: Path) -> Path:
    stranger = folder / "stranger.key"
    stranger.touch(mode=0o600)
    stranger.write_text(key_file.read_text().replace("5a", "a5"))
    return stranger


def test_monitors_that_leave_at_once_leave_nothing_behind(stage: Stage) -> None:
    """Hello, Watch and Bye are read together: a monitor that has left neither watches nor takes a place."""
    cluster = RealCluster(stage, 0, scheduler=("--status-report-interval-seconds", "0.1"), insecure=True)
    for _ in range(WATCHERS.further + 10):
        with raw_peer(cluster.address) as peer:
            hello = Hello(1, 1, role=ROLE_MONITOR, peer_id=peer.peer_id)
            for frames in (encode(hello), encode(Watch(("status", "tasks")), seq=1), encode(Bye(), seq=2)):
                peer.send(*frames)
            peer.answer()
    with Subscription(cluster.address, keys=cluster.keys) as subscription:
        state = wait_for(subscription, lambda state: bool(state.status and state.status.sequence > 1), "it is served")
        assert state.status is not None and state.status.watcher_count == 1
    cluster.stop()
