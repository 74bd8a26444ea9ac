"""What watchers show of a standby, and of a scheduler that follows on another one. (MON-29, MON-30)"""

from __future__ import annotations

import json

import pytest

from scaler.monitoring import ClusterState, Condition
from scaler.monitoring.succession import succession_text
from scaler.top.board import board_of
from scaler.top.report import as_json, as_text
from scaler.ui.model import cluster
from scaler_protocol.messages import ClusterStatus

STANDBY = ClusterStatus(standby_of="tcp://10.0.0.1:2345\x1b[31m")
SERVING = ClusterStatus(standbys=("scaler-scheduler 1.0 on n2",))
FOLLOWING = ClusterStatus(is_recovering=True, recovery_seconds=1.53, expected_count=4, presented_count=3)
NOT_TOLD = ClusterStatus(is_recovering=True, recovery_seconds=0.0, presented_count=3)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (STANDBY, ["is a standby", "tcp://10.0.0.1:2345"]),
        (FOLLOWING, ["3 of 4 have", "1.5 s more at most"]),
        (NOT_TOLD, [": 3 have", "0.1 s more at most"]),
    ],
)
def test_what_a_scheduler_waits_for_is_one_sentence(status: ClusterStatus, words: list[str]) -> None:
    text = succession_text(status)
    assert all(word in text for word in words) and "\x1b" not in text and "\n" not in text
    assert board_of(ClusterState("tcp://h:1", Condition.LIVE, status=status)).trouble == text
    assert cluster(status, 0.0)["scheduler"]["succession"] == text


def test_a_scheduler_that_serves_waits_for_nothing() -> None:
    assert succession_text(SERVING) == ""
    assert cluster(SERVING, 0.0)["scheduler"]["standbys"] == ["scaler-scheduler 1.0 on n2"]
    told = json.loads(as_json(ClusterState("tcp://h:1", Condition.LIVE, status=SERVING)))["scheduler"]
    assert (told["standbys"], told["standby_of"], told["is_recovering"]) == (["scaler-scheduler 1.0 on n2"], "", False)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (STANDBY, ["duty standby", "is a standby", "tcp://10.0.0.1:2345"]),
        (SERVING, ["duty serves", "this scheduler serves, with a standby: scaler-scheduler 1.0 on n2"]),
    ],
)
@pytest.mark.parametrize("width", [None, 80])
def test_the_screen_says_which_of_two_schedulers_it_shows(
    status: ClusterStatus, words: list[str], width: int | None
) -> None:
    text = as_text(ClusterState("tcp://h:1", Condition.LIVE, status=status), width)
    told = " ".join(text.split())
    assert all(word in told for word in words) and "\x1b" not in text


def test_the_screen_of_a_scheduler_that_is_alone_says_nothing_of_others() -> None:
    text = as_text(ClusterState("tcp://h:1", Condition.LIVE, status=ClusterStatus()))
    assert "duty" not in text and "standby" not in text
