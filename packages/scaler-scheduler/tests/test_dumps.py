"""A dump in parts: whole, of one moment, forgotten after a while, and never a burden (MON-16, MON-17)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.scheduler_story import WELCOME, Story, names, peer

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.messages import DumpPart, DumpRequest, Hello
from scaler_protocol.session import Opened
from scaler_scheduler import dumps
from scaler_scheduler.core import Asked
from scaler_scheduler.core.watching import dumping
from scaler_scheduler.dumps import Dumps, RecentEvents


class Counted:
    """A state that says how often it was looked at."""

    def __init__(self, lines: int = 1) -> None:
        self.count = 0
        self._lines = lines

    def lines(self, now: float) -> list[dict[str, object]]:
        self.count += 1
        return [{"look": self.count, "filler": "x" * 1000}] * self._lines


def whole(keeper: Dumps, name: str, now: float) -> bytes:
    first = keeper.answer(peer(name), DumpRequest(0, 0), now)
    return first.data + b"".join(
        keeper.answer(peer(name), DumpRequest(n, n), now).data for n in range(1, first.part_count)
    )


def test_parts_make_one_text_of_one_moment() -> None:
    state = Counted(300)
    keeper = Dumps(lambda now: iter(state.lines(now)))
    first = keeper.answer(peer("m"), DumpRequest(7, 0), 1.0)
    assert (first.request_id, first.part, first.part_count) == (7, 0, 6)
    assert all(len(keeper.answer(peer("m"), DumpRequest(0, n), 99.0).data) <= dumps.PART_BYTES for n in range(6))
    looks = {json.loads(line)["look"] for line in whole(keeper, "m", 1000.0).splitlines()}
    assert len(looks) == 1


def test_what_is_not_there() -> None:
    keeper = Dumps(lambda now: iter(Counted().lines(now)))
    assert keeper.answer(peer("m"), DumpRequest(1, 1), 0.0) == DumpPart(1, 1)
    keeper.answer(peer("m"), DumpRequest(2, 0), 0.0)
    assert keeper.answer(peer("m"), DumpRequest(3, 1), 0.0) == DumpPart(3, 1)
    assert keeper.answer(peer("n"), DumpRequest(4, 2**32 - 1), 0.0) == DumpPart(4, 2**32 - 1)


def test_who_asks_again_and_again_is_given_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Counted()
    cost = iter(float(n) for n in range(100))
    monkeypatch.setattr(dumps.time, "thread_time", lambda: next(cost))  # each dump takes a second
    keeper = Dumps(lambda now: iter(state.lines(now)))
    for number, at in enumerate((0.0, 1.0, 49.0)):
        whole(keeper, f"m{number}", at)
    assert state.count == 1
    whole(keeper, "m", 51.0)
    assert state.count == 2


def test_it_is_forgotten() -> None:
    keeper = Dumps(lambda now: iter(Counted(100).lines(now)))
    for number in range(6):
        whole(keeper, f"m{number}", 10.0 * number)
    kept = [number for number in range(6) if keeper.answer(peer(f"m{number}"), DumpRequest(0, 1), 50.0).part_count]
    assert kept == [2, 3, 4, 5]
    keeper.tick(51.0 + dumps.KEPT_SECONDS)
    assert not any(keeper.answer(peer(f"m{number}"), DumpRequest(0, 1), 50.0).part_count for number in range(6))


def test_recent_events_are_few_and_without_what_was_said() -> None:
    recent = RecentEvents()
    for number in range(dumps.EVENTS_KEPT + 5):
        recent.note((float(number), "from", peer("c"), DumpRequest))
    lines = list(recent.lines(1005.0))
    assert len(lines) == dumps.EVENTS_KEPT
    assert lines[-1] == {"kind": "event", "seconds_ago": 1.0, "from": peer("c").hex(), "what": "DumpRequest"}


def test_no_value_is_in_it_and_very_many_tasks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumping, "TASKS_LIMIT", 3)
    story = Story()
    grant = b"family-of-many!!" + b"mac-of-the-grant"
    welcome = replace(WELCOME, owner_grant=grant)
    story.handle(Opened(peer("c"), Hello(1, 1, ROLE_CLIENT, peer("c")), welcome))
    salt = b"sixteen of a kind"[:16]
    story.submit("c", ["a", "b", "c-with-a-value"], result_salt=salt)
    story.submit("c", "de")
    lines = list(story.core.dump(0.0))
    tables = next(line for line in lines if line["kind"] == "tables")
    assert (tables["unfinished"], tables["listed"]) == (5, 3)
    (batch,) = [line for line in lines if line["kind"] == "batch"]
    assert names(bytes.fromhex(batch["ids"]))[:2] == ["a", "b"] and batch["places"] == [["queued", 3]]
    value = b"c-with-a-value"
    text = json.dumps(lines).replace(batch["ids"], "")
    assert value.decode() not in text and value.hex() not in text
    assert salt.hex() not in text and repr(salt) not in text, "a program that knows the salt can forge results (OWN-15)"
    assert grant.hex() not in text and repr(grant) not in text, "a program with the grant can take its objects"


def test_a_watcher_may_ask_and_nobody_else() -> None:
    story = Story()
    story.receive("m", DumpRequest(1))
    assert Asked(peer("m"), 1, DumpRequest(1)) in story.actions()
