"""What the scheduler notes of its storage: values leave for the disk, memory or disk is full, the session breaks."""

from __future__ import annotations

import socket

import pytest
from tests.support.session_sides import Dialer

from scaler_protocol.messages import StorageStatus, Timers
from scaler_protocol.process.ports import free_ports
from scaler_protocol.session import Lost
from scaler_scheduler.core.watching.storage_events import MIB, Event, StorageEvents, StorageSession
from scaler_scheduler.storage_process import warn_of_silence

ADDRESS = "tcp://a:1"


def storage(memory: int, disk: int = 0, room: int = 0, trouble: str = "") -> StorageStatus:
    """MiB; the limit of the memory is 1,000."""
    return StorageStatus(
        0,
        memory_bytes=memory * MIB,
        memory_limit_bytes=1000 * MIB,
        disk_bytes=disk * MIB,
        disk_room_bytes=room * MIB,
        disk_trouble=trouble,
    )


def told(*statuses: StorageStatus) -> list[tuple[str, str]]:
    events = StorageEvents()
    return [(kind, subject) for status in statuses for kind, subject, _ in events.told(status)]


def test_spilling_begins_once() -> None:
    filling, spilling = storage(700, room=5000), storage(750, disk=100, room=4900)
    assert told(filling, spilling, storage(500, disk=400, room=4600), spilling) == [("storage_spilling", "")]
    assert told(spilling, storage(10), spilling) == [("storage_spilling", "")] * 2, "once more when it has ended"
    (event,) = StorageEvents().told(spilling)
    assert "750 MiB of 1,000 MiB are taken" in event[2]


def test_a_storage_that_keeps_all_objects_on_its_disk_is_not_short_of_memory() -> None:
    assert told(storage(10, disk=100, room=4900), storage(590, disk=3000, room=2000)) == []


def test_a_full_memory_and_a_full_disk_are_limits() -> None:
    full, nearly = storage(960), storage(920)
    assert told(nearly, full, nearly, full, storage(100), full) == [("limit_reached", "storage memory")] * 2
    assert told(storage(990, disk=100, room=900)) == [("storage_spilling", "")], "values leave for the disk"
    both = told(storage(700, disk=990, room=10), storage(990, disk=1000, room=0))
    assert both == [("storage_spilling", ""), ("limit_reached", "storage disk"), ("limit_reached", "storage memory")]
    assert told(StorageStatus(0, memory_bytes=1 << 60)) == [], "without a limit"


def test_trouble_is_told_when_it_is_another() -> None:
    bad, worse, well = storage(1, trouble="no space"), storage(1, trouble="broken"), storage(1)
    assert told(well, bad, bad, worse, well, bad) == [("storage_trouble", "")] * 3


def test_a_session_that_breaks_is_told_long_before_its_lease_ends() -> None:
    """As the scheduler looks once a second. A connection that breaks is noticed at once, where a transport tells."""
    dialer, session = Dialer(), StorageSession(ADDRESS)
    assert dialer.round() == []
    dialer.say(dialer.welcome(timers=Timers()))
    dialer.round()
    begun = dialer.now
    assert session.look(begun, is_open=dialer.core.is_open) == ("storage_connected", "", ADDRESS)
    dialer.core.disconnected(begun)
    told: list[tuple[float, Event | None]] = []
    while not told or told[-1][0] < 70:
        dialer.now += 1.0
        lost = [event.text for event in dialer.round() if isinstance(event, Lost)]
        found = [session.ended(text, dialer.now) for text in lost]
        found.append(session.look(dialer.now, is_open=dialer.core.is_open))
        told += [(dialer.now - begun, event) for event in found]
    broke = ("storage_lost", "", "its connection broke, or it is silent: it is dialed again")
    over = ("storage_lost", "", "no sign of the scheduler for 60 s")
    assert [(at, event) for at, event in told if event is not None] == [(2.0, broke), (60.0, over)]


def test_a_session_that_is_resumed_or_follows_is_told_once() -> None:
    session = StorageSession(ADDRESS)
    assert [session.look(0.0, is_open=False), session.look(9.0, is_open=False)] == [None, None], "it was never there"
    assert session.look(9.5, is_open=True) == ("storage_connected", "", ADDRESS)
    looks = [session.look(at, is_open=is_open) for at, is_open in ((10.0, False), (10.9, False), (11.0, True))]
    assert looks == [None] * 3, "it moved to another socket"
    assert session.look(20.0, is_open=False) is None and session.look(21.0, is_open=False) is not None
    assert session.look(31.0, is_open=False) is None
    assert session.look(32.0, is_open=True) == ("storage_connected", "", f"{ADDRESS}, after 12 s without it")
    assert session.ended("it was restarted", 40.0) == ("storage_lost", "", "it was restarted")
    assert session.look(40.0, is_open=True) == ("storage_connected", "", f"{ADDRESS}, after 0 s without it")


def test_a_storage_that_refuses_the_scheduler_says_why_once() -> None:
    session = StorageSession(ADDRESS)
    told = [session.ended(text, at) for at, text in enumerate(("no key", "no key", "wrong key", "wrong key"))]
    assert [event and event[2] for event in told] == ["no key", None, "wrong key", None]
    assert session.look(8.0, is_open=True) == ("storage_connected", "", f"{ADDRESS}, after 8 s without it")


@pytest.mark.parametrize(
    ("is_taken", "reason", "expected"),
    (
        (False, "", "no process listens there"),
        (True, "", "another program may have the port"),
        (True, "it has as many sessions as it may", "it has as many sessions as it may"),
    ),
)
def test_why_no_storage_is_there_yet_is_told(is_taken: bool, reason: str, expected: str, caplog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if is_taken else free_ports(1)
        warn_of_silence(f"tcp://127.0.0.1:{port}", reason)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"127.0.0.1:{port} yet ({expected}" in line or f"{expected}); tasks that need one wait" in line
