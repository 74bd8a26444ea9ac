"""Which objects are the largest, and what travelled to and from each host (MON-53)."""

from __future__ import annotations

import pytest
from tests.support.steps import steps_of

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import (
    Hello,
    HostTraffic,
    ObjectEntry,
    Software,
    StorageStatus,
    StorageStatusRequest,
    Welcome,
)
from scaler_protocol.session import Opened
from scaler_storage.core import StorageCore
from scaler_storage.core.status import HOSTS, LARGE_BYTES, LOOKED_AT, MOST_TOLD, Largest, Traffic

from .conftest import Story, oid, peer

KIB = 1024


def told(story: Story, count: int = 10, name: str = "s1") -> StorageStatus:
    ((_, status),) = story.request(name, StorageStatusRequest(99, b"", count))
    assert isinstance(status, StorageStatus)
    return status


def names(status: StorageStatus) -> list[str]:
    return [one.object_id.rstrip(b".").decode() for one in status.largest]


def test_the_largest_come_first_and_small_ones_not_at_all(story: Story) -> None:
    for name, size in (("a", 64), ("b", 300), ("c", 65), ("d", 90), ("e", 63)):
        story.put("c1", name, bytes(size * KIB))
    assert names(told(story)) == ["b", "d", "c", "a"]
    assert names(told(story, 2)) == ["b", "d"] and names(told(story, 0)) == []
    story.release("c1", "b")
    story.put("c1", "b", b"small")
    assert names(told(story)) == ["d", "c", "a"]


def test_whose_an_object_is_and_how_old(story: Story) -> None:
    story.put("c1", "a", bytes(LARGE_BYTES))
    story.now += 7
    story.put("w1", "a", bytes(LARGE_BYTES), owner="c2")
    (entry,) = told(story).largest
    assert entry.owner in (peer("c1"), peer("c2"))
    assert entry == ObjectEntry(oid("a"), entry.owner, 2, LARGE_BYTES, 7.0)


@pytest.mark.parametrize("asker", ["c1", "w1"])
def test_only_a_scheduler_is_told(story: Story, asker: str) -> None:
    story.put("c1", "a", bytes(LARGE_BYTES))
    status = told(story, name=asker)
    assert (status.largest, status.traffic) == ((), ())


def test_very_many_objects_are_not_all_looked_at() -> None:
    core, largest = StorageCore(), Largest()
    numbers = range(20 * LOOKED_AT)
    for number in numbers:
        largest.add(ObjectId(number.to_bytes(16, "big")), LARGE_BYTES + number, 0.0)
    objects = {ObjectId(number.to_bytes(16, "big")): _Stored(LARGE_BYTES + number) for number in numbers}
    core.objects.objects = objects  # type: ignore[assignment]
    found = largest.told(core.objects, 10_000, 1.0)
    assert len(found) == MOST_TOLD and found[0].total_bytes == LARGE_BYTES + LOOKED_AT - 1
    assert steps_of(largest.told, core.objects, 10_000, 1.0) < 60 * LOOKED_AT


class _Value:
    extent = None

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes


class _Stored:
    def __init__(self, total_bytes: int) -> None:
        self.value, self.owners = _Value(total_bytes), {peer("c1")}


def opened(story: Story, name: str, host: str) -> None:
    hello = Hello(1, 1, ROLE_CLIENT, peer(name), software=Software(host=host))
    story.handle(Opened(peer(name), hello, Welcome(1, peer("storage"), 1, 1)))


def test_what_travels_is_counted_by_host_and_outlives_its_peers(story: Story) -> None:
    for name, host in (("x", "n1"), ("y", "n1"), ("z", "n2")):
        opened(story, name, host)
    story.put("x", "a", bytes(100))
    story.put("y", "b", bytes(20), total=50)
    story.get("z", "a", chunk=30)
    story.put("z", "a", bytes(100), owner="c1")  # it is there already: the bytes came all the same
    story.lose("x")
    found = {one.host: (one.put_bytes, one.got_bytes) for one in told(story, 1).traffic}
    assert found == {"n1": (120, 0), "n2": (100, 30)}


def test_hosts_beyond_some_are_counted_together() -> None:
    traffic = Traffic()
    for number in range(HOSTS + 5):
        traffic.opened(peer(f"p{number}"), f"n{number}" * 100)
        traffic.put(peer(f"p{number}"), 1)
        traffic.lost(peer(f"p{number}"))
    counted = traffic.told()
    assert len(counted) == HOSTS + 1 and max(len(one.host) for one in counted) == 100
    assert next(one for one in counted if not one.host) == HostTraffic("", 5, 0)
    traffic.got(peer("p0"), 1)
    assert traffic.told() == counted, "its reader has left"
