"""What the unfinished tasks of each user may be at most (LIM-35)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.support.scheduler_story import Story, peer

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Error
from scaler_scheduler.core import Policy, Send, Settled

ANA, BEN = (Identity(user, frozenset({ROLE_CLIENT}), False, bytes(32)) for user in ("ana", "ben"))
REFUSED = "c <- Error 306 (LIM-35)"
FEW = Policy(user_tasks=5)
SMALL = Policy(user_task_bytes=10)
"""The payload of a task in these stories is its name."""


def error_of(story: Story) -> Error:
    (error,) = [
        action.message for action in story.actions() if isinstance(action, Send) and isinstance(action.message, Error)
    ]
    return error


def named(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


@pytest.mark.parametrize("identity", [ANA, None], ids=["user", "without keys"])
def test_a_batch_beyond_the_quota_is_refused_whole_and_says_whose_it_is(identity: Identity | None) -> None:
    story = Story(FEW)
    story.client("c", identity=identity)
    story.submit("c", named("a", 4))
    assert story.settle() == []
    story.submit("c", ["b0", "b1"])
    error = error_of(story)
    assert not error.fatal and "4 unfinished tasks" in error.text and "5 (--user-tasks)" in error.text
    assert ("user ana has" in error.text, "this client has" in error.text) == (identity is not None, identity is None)
    assert len(story.core.tables.where) == 4 and story.core.tables.refused_count == 1
    (limit,) = [event for event in story.core.snapshot(0.0).events if event.kind == "limit_reached"]
    assert limit.subject == "quota of a user" and error.text in limit.text
    story.submit("c", ["b0"])
    assert story.settle() == [], "one more is within the quota"


def test_the_bytes_of_a_batch_count_until_its_last_task_has_ended() -> None:
    story = Story(SMALL)
    story.client("c")
    story.submit("c", ["a000", "a1"])
    story.cancel("c", ["a000"])
    story.settle()
    story.submit("c", ["b0000"])
    assert "MiB (--user-task-bytes)" in error_of(story).text
    story.cancel("c", ["a1"])
    story.settle()
    story.submit("c", ["b0000", "c0000"])
    assert story.settle() == []


def test_tasks_that_end_in_any_way_give_room_back() -> None:
    story = Story(FEW)
    story.client("c")
    story.worker("w", credit=2)
    story.submit("c", named("a", 5))
    story.settle()
    story.results("w", ["a0"])
    story.cancel("c", ["a4"])
    story.settle()
    story.submit("c", ["b0", "b1"])
    assert REFUSED not in story.settle()
    story.submit("c", ["b2"])
    assert REFUSED in story.settle()
    story.lost("w")
    story.settle()
    story.lost("c")
    story.settle()
    story.client("d")
    story.submit("d", named("d", 5))
    assert story.settle() == []


def test_the_sessions_of_a_user_share_its_quota_and_other_users_do_not() -> None:
    for identities, is_shared in (((ANA, ANA), True), ((ANA, BEN), False), ((None, None), False)):
        story = Story(FEW)
        for name, identity in zip("dc", identities, strict=True):
            story.client(name, identity=identity)
        story.submit("d", named("d", 3))
        story.submit("c", named("c", 3))
        assert (REFUSED in story.settle()) is is_shared


def test_what_is_submitted_again_is_accepted_and_counted_once() -> None:
    """A client came back before its former self was given up. (SCH-8)"""
    for policy in (FEW, SMALL):
        story = Story(policy)
        story.client("d", identity=ANA)
        story.submit("d", named("a", 5))
        story.client("c", identity=ANA)
        story.submit("c", named("a", 5))
        assert REFUSED not in story.settle()
        assert story.core.tables.clients[peer("c")].unfinished_count == 5
        story.submit("c", ["b0"])
        assert REFUSED in story.settle()


def test_a_large_batch_that_is_looked_at_in_portions() -> None:
    story = Story(FEW)
    backlog = story.core.tables.backlog
    backlog.turn_steps = backlog.slice_tasks = backlog.units_at_once = 1
    story.client("c")
    story.submit_graph("c", {"a0": (), "a1": ("a0",), "a2": ("a1",), "a3": ("a2",)})
    story.submit_graph("c", {"b0": (), "b1": ("b0",)})
    while backlog:
        story.handle(Settled())
    assert [client.unfinished_count for client in story.core.tables.clients.values()] == [4]
    assert story.core.tables.refused_count == 1


@pytest.mark.parametrize("seed", range(20))
def test_no_refusal_depends_on_what_others_have(seed: int) -> None:
    """The law: with several users, each batch is refused exactly if its own user has no room for it."""
    choose = random.Random(seed)
    story = Story(Policy(user_tasks=12, user_task_bytes=60))
    users = {name: (ANA, BEN, None)[index // 2] for index, name in enumerate("abcdef")}
    for name, identity in users.items():
        story.client(name, identity=identity)
    open_batches: dict[str, list[list[str]]] = {name: [] for name in users}
    refusals: Counter[str] = Counter()
    for step in range(150):
        name = choose.choice(list(users))
        own = [one for one in users if users[one] is users[name] and (users[one] is not None or one == name)]
        if choose.random() < 0.4 and open_batches[name]:
            story.cancel(name, open_batches[name].pop(0))
            story.settle()
            continue
        batch = [f"{name}{step}.{number}" for number in range(choose.randint(1, 6))]
        had = [one for other in own for tasks in open_batches[other] for one in tasks]
        has_room = len(had) + len(batch) <= 12 and sum(map(len, [*had, *batch])) <= 60
        story.submit(name, batch)
        is_refused = any("Error 306" in line for line in story.settle())
        assert is_refused is not has_room, f"{name} at step {step}"
        refusals[name] += is_refused
        if has_room:
            open_batches[name].append(batch)
    assert len(refusals) == len(users)
