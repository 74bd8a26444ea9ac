"""Who keeps an object alive, and what happens when an owner lets go, leaves, or was never there (OWN)."""

from __future__ import annotations

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import task_id_source
from scaler_protocol.messages import Hello, ObjectReply, Put, ReleaseOwner, Welcome
from scaler_protocol.session import Opened, Received
from scaler_storage.core import ALLOWED_MESSAGES, CoreLimits, Send, StorageCore, Strike, Tick


def test_the_last_owner_takes_the_object_along(story):
    story.put("c1", "o", b"ab", owner="c1")
    story.put("w1", "o", b"ab", owner="c2")
    assert story.release("c1", "o", owner="c1") == [("c1", ("reply", 3, codes.OK))]
    assert story.status("c1").object_count == 1
    assert story.release("w1", "o", owner="c2") == [("w1", ("reply", 5, codes.OK))]
    status = story.status("c1")
    assert (status.object_count, status.owner_count, status.memory_bytes) == (0, 0, 0)


def test_releasing_what_is_not_there_is_no_error(story):
    story.put("c1", "o", b"ab")
    assert story.release("c1", "o", "p", "o", owner="c9") == [("c1", ("reply", 2, codes.OK))]
    assert story.release("c1", "p", "o", "o") == [("c1", ("reply", 3, codes.OK))]
    assert story.status("c1").object_count == 0


def test_a_silent_release(story):
    story.put("c1", "o", b"ab")
    assert story.release("c1", "o", silent=True) == []
    assert story.status("c1").object_count == 0


def test_an_owner_that_put_twice_lets_go_once(story):
    story.put("c1", "o", b"ab")
    story.put("c1", "o", b"ab")
    story.release("c1", "o")
    assert story.status("c1").object_count == 0


def test_objects_outlive_the_session_that_put_them(story):
    story.put("c1", "o", b"ab")
    story.lose("c1")
    assert story.get("w1", "o") == [("w1", ("value", 2, 2, 0, b"ab"))]


def test_when_an_owner_leaves_all_it_owns_goes(story):
    story.put("c1", "mine", b"ab", owner="c1")
    story.put("c1", "shared", b"ab", owner="c1")
    story.put("w1", "shared", b"ab", owner="c2")
    story.put("w1", "partial", b"ab", total=9, owner="c1")
    story.duplicate("w1", "awaited", "copy", owner="c1", wait=5.0)
    assert story.release_owner("s1", "c1") == [("w1", ("reply", 5, codes.OWNER_GONE)), ("s1", ("reply", 6, codes.OK))]
    status = story.status("s1")
    assert (status.object_count, status.owner_count, status.memory_bytes, status.waiter_count) == (1, 1, 2, 0)
    assert story.get("w1", "shared") == [("w1", ("value", 8, 2, 0, b"ab"))]


def test_nothing_more_is_stored_for_an_owner_that_left(story):
    story.put("w1", "half", b"ab", total=4, owner="c1")
    story.put("s1", "other", b"ab", owner="c2")
    story.release_owner("s1", "c1")
    assert story.put("w1", "half", b"cd", total=4, offset=2, owner="c1") == [("w1", ("reply", 4, codes.OWNER_GONE))]
    assert story.put("w1", "new", b"ab", owner="c1") == [("w1", ("reply", 5, codes.OWNER_GONE))]
    assert story.put("w1", "other", b"ab", owner="c1") == [("w1", ("reply", 6, codes.OWNER_GONE))]
    assert story.duplicate("w1", "other", "copy", owner="c1") == [("w1", ("reply", 7, codes.OWNER_GONE))]
    assert story.release("w1", "other", owner="c1") == [("w1", ("reply", 8, codes.OK))]
    assert story.status("s1").object_count == 1


def test_an_owner_may_be_released_without_a_reply(story):  # STO-11
    story.put("c1", "o", b"ab", owner="c1")
    assert story.release_owner("s1", "c1", silent=True) == []
    assert story.status("s1").object_count == 0


def test_releasing_an_owner_again_is_no_error(story):
    assert story.release_owner("s1", "c1") == [("s1", ("reply", 1, codes.OK))]
    assert story.release_owner("s1", "c1") == [("s1", ("reply", 2, codes.OK))]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, gone_owners=2)])
def test_only_so_many_owners_are_remembered_as_gone(story):
    for owner in ("c7", "c8", "c9"):
        story.release_owner("s1", owner)
    assert story.put("w1", "o", b"ab", owner="c7") == [("w1", ("reply", 4, codes.OK))]
    assert story.put("w1", "p", b"ab", owner="c8") == [("w1", ("reply", 5, codes.OWNER_GONE))]


def test_only_the_scheduler_may_say_that_an_owner_is_gone():
    may = {role for role, messages in ALLOWED_MESSAGES.items() if ReleaseOwner in messages}
    assert may == {codes.ROLE_SCHEDULER}


def test_who_only_watches_stores_nothing():
    assert Put not in ALLOWED_MESSAGES[codes.ROLE_MONITOR]


def test_a_message_that_should_have_been_refused_is_our_own_mistake(story):
    with pytest.raises(AssertionError, match="STO-15"):
        story.release_owner("c1", "c1")


# ---------------------------------------------------------------- owners of very many objects


def peer(name):
    return name.encode().ljust(16, b".")


def test_no_turn_is_long_however_much_an_owner_has():
    core = StorageCore()
    core.handle(Opened(peer("s1"), Hello(1, 1, 3, peer("s1")), Welcome(1, peer("storage"), 1, 1)), 0.0)
    source = task_id_source()
    for object_id in source(100_000):
        core.handle(Received(peer("s1"), 1, Put(1, object_id, peer("c1"), 1, 0, b"x")), 0.0)
    turns, answered = [], []
    actions = core.handle(Received(peer("s1"), 1, ReleaseOwner(7, peer("c1"))), 0.0)
    while core.departures:
        assert core.next_deadline() == 0.0 and core.is_busy_with(peer("s1")) and not core.is_busy_with(peer("c1"))
        assert not answered, "only when everything is released"
        turns.append(sum(isinstance(action, Strike) for action in actions))
        actions = core.handle(Tick(), 0.0)
        answered = [action for action in actions if isinstance(action, Send)]
    assert [action.message for action in answered] == [ObjectReply(7)]
    assert max(turns) <= core.limits.turn_releases and not core.objects.objects
    assert not core.is_busy_with(peer("s1"))


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, turn_releases=1)])
def test_what_happens_while_an_owner_is_released(story):
    for name in ("a", "b", "shared", "d"):
        story.put("c1", name, b"ab", owner="c1")
    story.put("w1", "shared", b"ab", owner="c2")
    story.later(0)
    assert story.release_owner("s1", "c1") == []
    assert story.put("w1", "late", b"x", owner="c1") == [("w1", ("reply", 7, codes.OWNER_GONE))]
    assert story.release("c1", "d", owner="c1") == [("c1", ("reply", 8, codes.OK))], "it may release by itself, too"
    assert story.release_owner("s1", "c1") == [], "said again: answered again"
    told = [line for _ in range(8) for line in story.later(0)]
    assert told == [("s1", ("reply", 6, codes.OK)), ("s1", ("reply", 9, codes.OK))]
    assert story.get("w1", "shared") == [("w1", ("value", 10, 2, 0, b"ab"))]
    assert story.status("s1").object_count == 1


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, turn_releases=1)])
def test_a_scheduler_that_does_not_wait_for_the_end_of_it(story):
    for name in ("a", "b", "d"):
        story.put("c1", name, b"ab", owner="c1")
    story.later(0)
    story.release_owner("s1", "c1")
    story.lose("s1")
    assert [line for _ in range(6) for line in story.later(0)] == []
    assert story.status("c1").object_count == 0
