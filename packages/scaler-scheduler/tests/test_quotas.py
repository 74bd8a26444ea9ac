"""What the unfinished tasks of each user may be at most (LIM-35)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.scheduler_story import Story, peer

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.columns import join_u64
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Error, StorageStatus, UserEntry
from scaler_scheduler.core import Policy, Send, Settled
from scaler_scheduler.core.watching.monitor import USERS_LIMIT

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


def test_monitors_are_told_what_users_have_of_what_they_may_have() -> None:
    """Those that are nearest to a limit come first. (MON-68, MON-70)"""
    story = Story(Policy(user_tasks=10, user_task_bytes=20))
    for name, identity in (("a", ANA), ("b", ANA), ("c", BEN), ("d", None)):
        story.client(name, identity=identity)
        story.submit(name, [f"{name}0"] if identity is BEN else named(name, 2))
    story.submit("c", ["c" + 10 * "1"])
    story.settle()

    def told() -> tuple[UserEntry, ...]:
        return story.core.snapshot(0.0).users

    ana, ben = UserEntry("ana", 4, 8), UserEntry("ben", 2, 13)
    assert told() == (ben, ana), "and a session without a user is not listed"
    status = story.core.snapshot(0.0)
    assert (status.user_task_limit, status.user_task_bytes_limit) == (10, 20)
    owned = story.core.owned_objects
    request = owned.request()
    of_users = join_u64([0, 90, 5, 0])
    none = bytes(8 * 4)
    answer = StorageStatus(
        request.request_id, owner_objects=none, owner_bytes=none, user_limit_bytes=100, owner_user_bytes=of_users
    )
    assert owned.told(answer) == StorageStatus(request.request_id, user_limit_bytes=100)
    assert told() == (replace(ana, object_bytes=90), replace(ben, object_bytes=5))
    owned.told(replace(answer, user_limit_bytes=0, owner_user_bytes=b""))
    assert told() == (ben, ana), "the storage has no quota any more"
    story.lost("c")
    story.settle()
    assert told() == (ana,)


def test_of_many_users_those_are_told_that_are_nearest_to_a_limit() -> None:
    story = Story(FEW)
    for number in range(USERS_LIMIT + 5):
        identity = replace(ANA, user=f"u{number}")
        story.client(f"c{number}", identity=identity)
        story.submit(f"c{number}", named(f"t{number}.", 2 if number > USERS_LIMIT else 1))
    users = story.core.snapshot(0.0).users
    assert len(users) == USERS_LIMIT and [one.task_count for one in users[:5]] == [2, 2, 2, 2, 1]


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
