"""What the scheduler notes of its storage: that values leave for the disk, and that memory or disk is full."""

from __future__ import annotations

from scaler_protocol.messages import StorageStatus
from scaler_scheduler.core.storage_events import MIB, StorageEvents


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
