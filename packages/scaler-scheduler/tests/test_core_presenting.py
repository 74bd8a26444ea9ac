"""A scheduler that follows on another: what workers present and clients submit is put together. (SCH-61 to SCH-73)"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, names, peer, task
from tests.support.succession_story import FORMER, OWN, Story, adopted, dispatched

from scaler_protocol.codec import encode_task_error
from scaler_protocol.codes import (
    HELD_ENDED,
    KIND_OBJECT,
    NO_SUCH_OBJECT,
    OK,
    OWNER_GONE,
    ROLE_CLIENT,
    STATUS_FAILED,
)
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import PeerId, result_object_id
from scaler_protocol.keys import Keyring
from scaler_protocol.messages import (
    NO_SALT,
    Cancel,
    Delivered,
    Dispatch,
    Duplicate,
    Explain,
    Hello,
    Release,
    ReleaseOwner,
    Results,
    TaskError,
    WorkerStatus,
)
from scaler_protocol.session import Lost
from scaler_scheduler.core import (
    FEATURE_PRESENT_HELD,
    StorageReplied,
    invariants,
)


def test_a_task_that_is_presented_and_submitted_is_not_dispatched() -> None:
    """In either order, and its result is its client's."""
    for is_client_first in (True, False):
        story = Story()
        if is_client_first:
            story.client("c")
            story.submits("c", "t")
        story.worker("w")
        story.holds("w", "t", attempt=3)
        if not is_client_first:
            story.client("c")
            story.submits("c", "t")
        assert not dispatched(story.settle().get("w")) and not dispatched(story.settle(10.0).get("w"))
        story.ends("w", "t", attempt=3)
        (result,) = story.settle()["c"]
        assert isinstance(result, Results) and (names(result.ids), result.payload) == (["t"], b"value")


def test_how_a_task_ended_is_told_when_it_is_submitted() -> None:
    story = Story()
    story.worker("w")
    story.holds("w", "t", state=HELD_ENDED)
    story.ends("w", "t")
    story.client("c")
    assert "c" not in story.settle()
    story.submits("c", "t")
    (result,) = story.settle()["c"]
    assert isinstance(result, Results) and result.payload == b"value"


def test_tasks_of_the_predecessors_clients_wait_for_its_workers() -> None:
    story = Story()
    story.client("c")
    story.submits("c", "t")
    story.client("fresh", former=PeerId(b""), generation=0)
    story.submits("fresh", "f")
    story.worker("w")
    story.holds("w")
    assert dispatched(story.settle()["w"]) == ["f"], "its client has never had another scheduler"
    assert story.core.next_deadline() is not None
    assert not dispatched(story.settle(3.9).get("w"))
    assert dispatched(story.settle(0.2)["w"]) == ["t"], "two heartbeats are over"


@pytest.mark.parametrize(("counts", "is_over"), (((2, 2), True), ((2, 0), False), ((3, 2), False)))
def test_it_does_not_wait_for_more_workers_than_there_were(counts: tuple[int, int], is_over: bool) -> None:
    """Zero: this worker cannot tell."""
    story = Story()
    story.client("c")
    story.submits("c", "t")
    for name, count in zip("vw", counts, strict=True):
        story.worker(name, count=count)
        assert not any(dispatched(messages) for messages in story.settle().values())
        story.holds(name)
    assert any(dispatched(messages) for messages in story.settle().values()) == is_over


def test_a_worker_that_breaks_off_before_it_has_presented_anything_is_awaited() -> None:
    """For two heartbeats more; but one that does so again and again holds nothing up for ever."""
    story = Story()
    story.client("c")
    story.submits("c", "t")
    story.worker("v", former=PeerId(b""))
    for number in range(3):
        story.worker(f"w{number}")
        story.settle(3.0)
        story.core.handle(Lost(peer(f"w{number}"), 202, "broken off", False), story.now)
        assert not dispatched(story.settle().get("v")), f"{number}"
    assert not dispatched(story.settle(2.9).get("v"))
    assert dispatched(story.settle(0.2)["v"]) == ["t"], "12 s have passed"


def test_a_worker_gets_nothing_before_its_last_holding() -> None:
    story = Story()
    story.client("c", former=PeerId(b""), generation=0)
    story.submits("c", "t")
    story.worker("w")
    story.holds("w", "other", is_last=False)
    assert "w" not in story.settle()
    story.holds("w", "another")
    first, second = story.settle()["w"]
    assert first == Delivered(0, 0) and isinstance(second, Dispatch)


def test_nothing_is_taken_of_a_holding_that_is_not_due() -> None:
    """Of a worker without a past, and of one that has said all. (SCH-62)"""
    for former in (PeerId(b""), FORMER):
        story = Story()
        story.worker("w", former=former)
        if former:
            story.holds("w")
        story.holds("w", "t")
        story.settle()
        assert not story.core.tables.presentation.tasks and not story.disconnected


def test_the_higher_attempt_wins() -> None:
    for first, second, loser in ((1, 2, "v"), (2, 1, "w"), (1, 1, "w")):
        for is_submitted in (False, True):
            story = Story()
            if is_submitted:
                story.client("c")
                story.submits("c", "t")
            story.worker("v")
            story.holds("v", "t", attempt=first)
            story.worker("w")
            story.holds("w", "t", attempt=second)
            sent = story.settle()
            told = {name: [one for one in messages if isinstance(one, Cancel)] for name, messages in sent.items()}
            assert {name: names(one.ids) for name, found in told.items() for one in found} == {loser: ["t"]}
            assert isinstance(sent["w"][-1], Delivered), "behind the Cancel"
            if not is_submitted:
                story.client("c")
                story.submits("c", "t")
            winner = "w" if loser == "v" else "v"
            story.ends(winner, "t", attempt=max(first, second))
            assert isinstance(story.settle()["c"][0], Results)


def test_a_worker_that_comes_late_stops_what_was_dispatched_meanwhile() -> None:
    story = Story()
    story.client("c")
    story.submits("c", "t")
    story.worker("v")
    story.holds("v")
    story.settle()
    assert dispatched(story.settle(4.1)["v"]) == ["t"]
    story.worker("w")
    story.holds("w", "t")
    assert isinstance(story.settle()["w"][0], Cancel)
    story.ends("w", "t", value=b"stale")
    assert "c" not in story.settle()


def test_what_nobody_submits_is_canceled_after_the_lease() -> None:
    story = Story()
    story.worker("w", credit=1)
    story.holds("w", "t")
    story.client("c", former=PeerId(b""), generation=0)
    story.submits("c", "new")
    assert not dispatched(story.settle(4.1).get("w")), "what it has presented takes its place"
    assert story.core.next_deadline() is not None
    story.settle(60.0)
    sent = story.settle()
    assert invariants.check(story.core) is None and not story.core.tables.presentation.tasks
    assert dispatched(sent.get("w")) == ["new"] or story.core.tables.workers[peer("w")].held


def test_the_client_owns_the_value_before_it_is_told_of_it() -> None:
    """What was lost with the storage runs again. (SCH-70)"""
    for code in (OK, NO_SUCH_OBJECT):
        story = adopted()
        story.ends("w", "t", kind=KIND_OBJECT, value=task("another object"))
        assert "c" not in story.settle()
        (claim,) = [one for one in story.asked if isinstance(one, Duplicate)]
        value = result_object_id(task("t"), 1, NO_SALT, peer("old"))
        assert (claim.source, claim.target, claim.owner) == (value, value, peer("c")), "whatever the worker says"
        story.core.handle(StorageReplied(claim.request_id, code), story.now)
        sent = story.settle()
        if code == OK:
            (result,) = sent["c"]
            assert isinstance(result, Results) and result.payload == value
        else:
            (again,) = [one for one in sent["w"] if isinstance(one, Dispatch)]
            assert (names(again.ids), again.attempts) == (["t"], join_u16([2]))
        released = [one for one in story.asked if isinstance(one, Release) and one.owner == peer("old")]
        assert [one.ids for one in released] == [value]


def test_a_former_name_keeps_what_tasks_may_still_store_for_it() -> None:
    """(SCH-73)"""
    story = Story()
    story.worker("w", count=1)
    story.holds("w", "t")
    story.client("old")
    story.client("c")
    story.submits("c", "t")
    story.settle(4.1)
    story.core.handle(Lost(peer("old"), 0, "goodbye", True), story.now)
    story.settle(1.0)
    assert not [one for one in story.asked if isinstance(one, ReleaseOwner)]
    story.ends("w", "t")
    story.settle()
    story.settle()
    assert [one.owner for one in story.asked if isinstance(one, ReleaseOwner)] == [peer("old")]


@pytest.mark.parametrize("is_told", (False, True))
def test_a_former_name_keeps_what_tasks_have_stored_for_it_until_the_client_owns_it(is_told: bool) -> None:
    """The name's session may end within the recovery. How the task ended is told, or not, before the recovery ends, and
    its client submits it afterwards. (SCH-73)"""
    story = Story()
    story.client("old")
    story.worker("w", count=1)
    value = result_object_id(task("t"), 1, NO_SALT, peer("old"))

    def tell() -> None:
        story.ends("w", "t", kind=KIND_OBJECT, value=value)

    def gone() -> list[PeerId]:
        story.settle()
        return [one.owner for one in story.asked if isinstance(one, ReleaseOwner)]

    story.core.handle(Lost(peer("old"), 202, "silent", False), story.now)
    story.holds("w", "t", state=HELD_ENDED)
    if is_told:
        tell()
    assert not gone()
    if not is_told:
        tell()
    story.client("c")
    story.submits("c", "t")
    assert not gone()
    (claim,) = [one for one in story.asked if isinstance(one, Duplicate)]
    story.core.handle(StorageReplied(claim.request_id, OK), story.now)
    assert gone() == [peer("old")]
    assert [one.ids for one in story.asked if isinstance(one, Release)] == [value]


def test_results_count_as_delivered_when_clients_have_acknowledged_them() -> None:
    """(SCH-71, SCH-72)"""
    story = Story()
    story.worker("w", former=PeerId(b""))
    story.client("c", former=PeerId(b""), generation=0)
    story.submits("c", "t")
    story.settle()
    story.ends("w", "t")
    story.progress[peer("c")] = (7, 6)
    counts = []
    for _ in range(12):
        counts += [one.results_count for one in story.settle(0.3).get("w", ()) if isinstance(one, Delivered)]
    assert set(counts) <= {0}
    story.progress[peer("c")] = (9, 7)
    for _ in range(4):
        counts += [one.results_count for one in story.settle(0.3).get("w", ()) if isinstance(one, Delivered)]
    assert counts[-1] == 1


@pytest.mark.parametrize("waits_for", ["client", "storage"])
def test_results_that_no_client_can_be_told_yet_do_not_count_as_delivered(waits_for: str) -> None:
    """The scheduler alone has them, and may die as well. (SCH-76)"""
    story = Story()
    story.worker("w")
    story.holds("w", "t", state=HELD_ENDED)
    if waits_for == "storage":
        story.client("c")
        story.submits("c", "t")
    story.ends("w", "t", kind=KIND_OBJECT, value=result_object_id(task("t"), 1, NO_SALT, peer("old")))
    story.client("other", former=PeerId(b""), generation=0)
    story.submits("other", "o")
    story.settle()
    story.ends("w", "o")
    counts = []
    for _ in range(12):
        counts += [one.results_count for one in story.settle(0.3).get("w", ()) if isinstance(one, Delivered)]
    assert set(counts) <= {0}
    if waits_for == "client":
        story.client("c")
        story.submits("c", "t")
        story.settle()
    (claim,) = [one for one in story.asked if isinstance(one, Duplicate)]
    story.core.handle(StorageReplied(claim.request_id, OK), story.now)
    for _ in range(12):
        counts += [one.results_count for one in story.settle(0.3).get("w", ()) if isinstance(one, Delivered)]
    assert counts[-1] == 2


def test_the_number_of_workers_is_told_when_it_is_steady() -> None:
    story = Story()
    told: list[int] = []

    def go_on(seconds: float) -> None:
        told.extend(one.worker_count for one in story.settle(seconds).get("w", ()) if isinstance(one, Delivered))

    story.worker("w", former=PeerId(b""))
    go_on(0.0)
    go_on(1.1)
    story.worker("v", former=PeerId(b""))
    go_on(0.0)
    go_on(0.5)
    go_on(0.6)
    assert told == [1, 0, 2]


def test_the_generation_is_above_all_that_was_seen() -> None:
    """(HSK-35, SCH-61)"""
    story = Story()
    story.worker("w", former=PeerId(b""))
    story.client("c", former=PeerId(b""), generation=0)
    story.submits("c", "t")
    story.client("other", generation=6)
    (given,) = [one for one in story.settle()["w"] if isinstance(one, Dispatch)]
    assert given.header.generation == 7, "also in what was submitted before"
    hello = Hello(1, 1, ROLE_CLIENT, peer("x"), features=(FEATURE_PRESENT_HELD,), generation=7, last_server_id=OWN)
    assert story.core.meet(hello) == 7, "it was told by this one"


def test_no_peer_uses_up_the_generations() -> None:
    """Else no later scheduler could be above it. With keys, no user but an operator raises it at all. (HSK-44)"""
    story = Story(Keyring((bytes(32),)))
    highest = Hello(1, 1, ROLE_CLIENT, peer("x"), features=(FEATURE_PRESENT_HELD,), generation=2**64 - 1)
    assert story.core.meet(replace(highest, last_server_id=FORMER), is_operator=False) == 1
    raised = [story.core.meet(replace(highest, last_server_id=FORMER), is_operator=True) for _ in range(2)]
    assert raised == [1 + 2**32, 1 + 2 * 2**32]
    story.core.serve(2**64, story.now)
    assert story.core.meet(replace(highest, last_server_id=FORMER)) == 2**64 - 1, "and it stays within its field"


def test_what_a_worker_presented_is_queued_when_the_worker_is_lost() -> None:
    story = Story()
    story.worker("w")
    story.holds("w", "t", "unknown")
    story.client("c")
    story.submits("c", "t")
    story.settle()
    story.core.handle(Lost(peer("w"), 205, "silent", False), story.now)
    story.worker("v")
    story.holds("v")
    (again,) = [one for one in story.settle(4.1)["v"] if isinstance(one, Dispatch)]
    assert (names(again.ids), again.attempts) == (["t"], join_u16([2]))


def test_a_value_that_nobody_may_own_is_made_again() -> None:
    """Another scheduler has released the former name of the client, while both served. (SCH-83)"""
    story = adopted()
    refused = encode_task_error(TaskError(code=OWNER_GONE))
    story.receive("w", Results(task("t"), refused, join_u32([len(refused)]), statuses=bytes([STATUS_FAILED])))
    sent = story.settle()
    (again,) = [one for one in sent["w"] if isinstance(one, Dispatch)]
    assert (names(again.ids), again.attempts) == (["t"], join_u16([2])) and "c" not in sent
    story.receive(
        "w", Results(task("t"), refused, join_u32([len(refused)]), join_u16([2]), statuses=bytes([STATUS_FAILED]))
    )
    (failed,) = story.settle()["c"]
    assert isinstance(failed, Results) and failed.statuses == bytes([STATUS_FAILED]), "once"


def test_watchers_see_what_a_scheduler_waits_for() -> None:
    """(MON-29)"""
    story = Story()
    assert not story.core.snapshot(story.now).is_recovering
    story.client("c")
    status = story.core.snapshot(story.now)
    assert (status.is_recovering, status.recovery_seconds, status.expected_count) == (True, 4.0, 0)
    story.worker("w", count=2)
    story.worker("v", count=2)
    assert story.core.snapshot(story.now).presented_count == 0
    story.holds("w")
    story.now += 1.0
    status = story.core.snapshot(story.now)
    assert (status.expected_count, status.presented_count, status.recovery_seconds) == (2, 1, 3.0)
    story.holds("v")
    story.settle()
    assert not story.core.snapshot(story.now).is_recovering


def events(story: Story) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in story.core.snapshot(story.now).events if one.kind.startswith("scheduler")]


def test_a_restart_is_an_event_and_so_is_its_end() -> None:
    """(MON-36) A peer may name several schedulers before; what waits for their workers is one restart."""
    story = Story()
    story.client("c")
    story.client("d", former=PeerId(b"another".ljust(16, b".")))
    story.client("e", former=OWN)
    (restarted,) = events(story)
    assert restarted[0] == "scheduler_restarted" and "tasks wait until its workers have presented" in restarted[1]
    story.worker("w", count=2)
    story.holds("w")
    story.settle(3.9)
    assert events(story) == [restarted]
    story.settle(0.2)
    recovered = ("scheduler_recovered", "1 worker of the scheduler before has presented what it holds")
    assert events(story) == [restarted, recovered]


def test_all_workers_that_were_there_before_are_counted() -> None:
    story = Story()
    for name in ("w", "v"):
        story.worker(name, count=2)
        story.holds(name)
    story.settle()
    told = "2 workers of the scheduler before have presented what they hold, of 2"
    assert events(story)[1:] == [("scheduler_recovered", told)]


def test_a_standby_that_takes_over_was_not_restarted() -> None:
    story = Story()
    story.core.serve(2, story.now)
    story.worker("w", count=1)
    story.holds("w")
    story.settle()
    assert [kind for kind, _ in events(story)] == ["scheduler_took_over", "scheduler_recovered"]


def test_why_a_held_task_waits_is_explained() -> None:
    """(MON-31)"""
    story = Story()
    story.worker("w", count=2)
    story.client("c")
    story.submits("c", "t")
    story.now += 1.0
    answer = story.core.explanation(Explain(7, task("t")), story.now)
    assert (answer.state, answer.recovery_seconds) == ("queued", 3.0)
    story.holds("w")
    story.settle(4.0)
    assert story.core.explanation(Explain(7, task("t")), story.now).recovery_seconds == 0.0


def test_a_worker_tells_how_long_functions_ran_of_which_it_has_presented_tasks() -> None:
    """It was given them by the predecessor. A ticket of another user than theirs does not matter. (MON-39)"""
    story = Story(Keyring((bytes(32),)))
    story.client("old")
    story.submits("old", "t")
    story.worker("w", user="svc")
    story.worker("x", user="svc", credit=0)
    story.holds("w", "t")
    story.holds("x")
    story.settle()
    row = struct.pack("<16sQQ", FUNCTION, 1_000_000, 0)
    for name in "wx":
        story.receive(name, WorkerStatus(functions=row))
    told = {one.function_id: one.run_seconds for one in story.core.snapshot(story.now).functions}
    assert told == {FUNCTION: 1.0, b"": 1.0}
