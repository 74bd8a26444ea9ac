"""A server that has as many sessions as it may: each program tells its user that, and what to do (ERR-10, ERR-11)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.explain import __main__ as explain
from scaler.monitoring import Subscription
from scaler.top import __main__ as top
from scaler.utility.exceptions import RejectedError
from scaler_protocol.codes import ROLE_CLIENT, ROLE_MANAGER, ROLE_MONITOR, ROLE_WORKER
from scaler_protocol.health import __main__ as health
from tests.support.fake_publisher import FakePublisher
from tests.support.processes import Stage
from tests.support.waiting import WAIT

SENTENCE = "this scheduler has 1 sessions, as many as it may: end some, or dial again later"


@pytest.fixture
def full() -> Iterator[FakePublisher]:
    server = FakePublisher(roles=(ROLE_CLIENT, ROLE_WORKER, ROLE_MONITOR, ROLE_MANAGER), most_sessions=1)
    with Subscription(server.address) as holder:
        end_at = time.monotonic() + WAIT
        while not server.watching and time.monotonic() < end_at:
            holder.poll(0.02)
        assert server.watching, "the one place is taken"
        yield server
    server.close()


def test_a_client_is_told(full: FakePublisher) -> None:
    with pytest.raises(RejectedError) as caught:
        Client(full.address, timeout_seconds=1)
    assert str(caught.value) == f"{SENTENCE} (tried for 1 s)"


COMMANDS = {
    "scaler_top": lambda address: top.main([address, "--once", "--timeout", "1"]),
    "scaler_explain": lambda address: explain.main([address, "00" * 16, "--timeout", "1"]),
    "scaler_health": lambda address: health.main([address, "--timeout", "1"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_it_and_ends(name: str, full: FakePublisher, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[name](full.address) == 1
    assert capsys.readouterr().err == f"{name}: error: {SENTENCE}\n"


def test_a_watcher_says_it_until_there_is_room(full: FakePublisher) -> None:
    with Subscription(full.address) as waiting:
        end_at = time.monotonic() + WAIT
        while waiting.state.text != SENTENCE and time.monotonic() < end_at:
            waiting.poll(0.1)
        assert waiting.state.text == SENTENCE and not waiting.is_refused


def test_a_worker_logs_it_and_gives_up_in_the_end(full: FakePublisher, stage: Stage) -> None:
    worker = stage.start("scaler_worker", full.address, "-n", "1", "--death-timeout-seconds", "1")
    assert worker.wait() == 1
    assert not worker.error_lines
    (error,) = [line for line in worker.lines if line.startswith("[ERROR]")]
    assert f"{SENTENCE} (tried for 1 s)" in error
    assert any(line.startswith("[INFO]") and f"{SENTENCE}; trying again" in line for line in worker.lines)


def test_a_manager_logs_it_once_and_goes_on(full: FakePublisher, stage: Stage) -> None:
    manager = stage.start("scaler_worker.manager", "baremetal_native", full.address, "--max-task-concurrency", "1")
    manager.wait_for(f"{SENTENCE}; trying again")
    assert manager.end() == 0
    assert not manager.error_lines
    assert len([line for line in manager.lines if SENTENCE in line]) == 1
