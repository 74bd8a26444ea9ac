"""Workers that present what they never had: what they name changes nothing for others, and takes bounded memory.
(SCH-59, SCH-60, SCH-74, HSK-37)"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scheduler_story import names, peer, task
from tests.support.succession_story import Story, dispatched, identity_of

from scaler_protocol.codes import HELD_ENDED, HELD_RUNNING, KIND_OBJECT, ROLE_CLIENT
from scaler_protocol.keys import Keyring
from scaler_protocol.messages import NO_TASK, Cancel, Dispatch, Hello, Message, Release, Results
from scaler_protocol.session import Lost
from scaler_scheduler.core import FEATURE_PRESENT_HELD
from scaler_scheduler.core.tables import presentation

KEYRING = Keyring((bytes(range(32)),))


@pytest.fixture
def story() -> Story:
    return Story(KEYRING)


def canceled(messages: list[Message] | None) -> list[str]:
    return [name for one in messages or () if isinstance(one, Cancel) for name in names(one.ids)]


def values(messages: list[Message] | None) -> list[bytes]:
    return [bytes(one.payload) for one in messages or () if isinstance(one, Results)]


def came_back(story: Story, name: str = "c", user: str = "ana") -> None:
    """The client that was called `old`."""
    story.client(name, user=user, family="old")


def test_tasks_are_adopted_for_the_program_that_they_are_of(story: Story) -> None:
    story.worker("w", user="pool")
    story.holds("w", "t")
    came_back(story)
    story.submits("c", "t")
    assert not dispatched(story.settle(10.0).get("w"))
    story.ends("w", "t")
    assert values(story.settle()["c"]) == [b"value"]


@pytest.mark.parametrize("is_first", (True, False), ids=("before", "after"))
def test_a_worker_that_never_had_a_task_of_a_program_presents_none_of_it(is_first: bool) -> None:
    """A grant that it has made up, the grant of another client, and no grant. The honest worker is not in its way."""
    for grant in (b"x" * 16, KEYRING.grant(peer("other")), b""):
        story = Story(KEYRING)
        story.worker("w", user="pool")
        story.worker("liar", user="joe")
        for name in ("liar", "w") if is_first else ("w", "liar"):
            is_liar = name == "liar"
            story.holds(name, "t", attempt=65_535 if is_liar else 1, grant=grant if is_liar else None)
        came_back(story)
        story.submits("c", "t")
        sent = story.settle()
        assert canceled(sent.get("liar")) == ["t"] and not canceled(sent.get("w"))
        story.ends("liar", "t", value=b"a lie", attempt=65_535)
        assert "c" not in story.settle()
        story.ends("w", "t")
        assert values(story.settle()["c"]) == [b"value"]


@pytest.mark.parametrize("is_submitted", (True, False), ids=("submitted", "later"))
@pytest.mark.parametrize("is_first", (True, False), ids=("before", "after"))
def test_tasks_of_one_program_do_not_hide_those_of_another(story: Story, is_first: bool, is_submitted: bool) -> None:
    """The worker of joe has had tasks of joe, and names the task of ana as one of these."""
    if is_submitted:
        came_back(story)
        story.submits("c", "t")
    story.worker("w", user="pool")
    story.worker("liar", user="joe")
    for name in ("liar", "w") if is_first else ("w", "liar"):
        if name == "w":
            story.holds("w", "t")
        else:
            grant = KEYRING.grant(peer("old"), peer("joes"))
            story.holds("liar", "t", attempt=9, grant=grant, state=HELD_ENDED)
            story.ends("liar", "t", value=b"a lie", attempt=9)
    if not is_submitted:
        came_back(story)
        story.submits("c", "t")
    story.settle()
    story.ends("w", "t")
    assert values(story.settle()["c"]) == [b"value"]


def test_a_stranger_that_submits_the_task_of_another_gets_nothing_of_it(story: Story) -> None:
    story.worker("w", user="pool")
    story.holds("w", "t")
    story.ends("w", "t")
    story.client("joes", user="joe")
    story.submits("joes", "t")
    assert "joes" not in story.settle()
    assert dispatched(story.settle(4.1)["w"]) == ["t"], "it is a task of its own, which has not run"


def test_no_worker_names_what_the_scheduler_releases(story: Story) -> None:
    """The names of what a task has stored follow from the task; those of tasks that no client submits are of an owner
    whose grant the worker has shown."""
    story.worker("w", user="pool")
    story.holds("w", "t", grant=b"?" * 16)
    story.ends("w", "t", kind=KIND_OBJECT, value=task("of another"))
    story.settle()
    story.core.handle(Lost(peer("w"), 0, "goodbye", True), story.now)
    story.settle()
    story.settle(61.0)
    assert not [one for one in story.asked if isinstance(one, Release)]


def test_presented_tasks_are_bounded(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each worker and in all; ended ones count too."""
    monkeypatch.setattr(presentation, "TASKS_OF_A_WORKER", 3)
    monkeypatch.setattr(presentation, "TASKS_IN_ALL", 5)
    for worker, state in (("v", HELD_ENDED), ("w", HELD_RUNNING)):
        story.worker(worker)
        story.holds(worker, *[f"{worker}{number}" for number in range(5)], state=state)
    assert len(story.core.tables.presentation.tasks) == 5
    sent = story.settle()
    assert canceled(sent["v"]) == ["v3", "v4"] and canceled(sent["w"]) == ["w2", "w3", "w4"]
    story.core.handle(Lost(peer("v"), 0, "goodbye", True), story.now)
    story.settle()
    assert len(story.core.tables.presentation.tasks) == 2


def test_a_task_that_one_worker_presents_twice_counts_once(story: Story) -> None:
    story.worker("w")
    story.holds("w", "t", is_last=False)
    story.holds("w", "t", attempt=7, is_last=False)
    story.holds("w")
    assert [one.attempt for one in story.core.tables.presentation.tasks.values()] == [1]


def test_only_workers_of_operators_say_how_many_there_were(story: Story) -> None:
    """Else one worker could have all others' tasks begin again. (HSK-37)"""
    came_back(story)
    story.submits("c", "t")
    story.worker("liar", user="joe", count=1)
    story.holds("liar")
    assert not dispatched(story.settle().get("liar"))
    assert dispatched(story.settle(4.1)["liar"]) == ["t"], "two heartbeats are over"


# ------------------------------------------------------------ clients in tasks


def nested() -> Hello:
    return Hello(1, 1, ROLE_CLIENT, peer("n"), parent_task=task("t"), features=(FEATURE_PRESENT_HELD,))


def test_a_client_in_a_presented_task_is_let_in_and_is_of_its_family(story: Story) -> None:
    """Before the client that has submitted its parent is back. (SCH-74)"""
    pool = identity_of("pool")
    assert story.core.is_in_task_of(nested(), pool) is None, "no worker is back"
    story.worker("other", user="pool")
    story.holds("other")
    assert story.core.is_in_task_of(nested(), pool) is None, "its worker may come"
    story.worker("w", user="pool", credit=1)
    story.holds("w", "t")
    assert story.core.is_in_task_of(nested(), pool) is True
    assert story.core.family_of(nested(), pool) == peer("old")
    assert not story.core.is_in_task_of(nested(), identity_of("joe")), "of another user's worker"

    story.client("n", user="pool", family="old")
    story.submits("n", "child", parent="t")
    (given,) = [one for one in story.settle(4.1)["other"] if isinstance(one, Dispatch)]
    assert given.header.parent_task == task("t")

    came_back(story)
    story.submits("c", "t")
    story.settle()
    assert story.core.is_in_task_of(nested(), pool) is True, "it is adopted"
    story.ends("w", "t")
    assert canceled(story.settle()["other"]) == ["child"], "and has ended"


def test_long_after_the_restart_a_client_in_an_unknown_task_is_refused(story: Story) -> None:
    story.worker("w", user="pool")
    story.holds("w")
    story.settle(61.0)
    assert story.core.is_in_task_of(nested(), identity_of("pool")) is False


def test_a_client_in_a_task_of_another_cluster_waits_only_for_a_scheduler_that_has_just_begun(story: Story) -> None:
    """One without workers, which may be those of a predecessor."""
    pool = identity_of("pool")
    story.settle()
    assert story.core.is_in_task_of(nested(), pool) is None
    assert story.core.is_in_task_of(replace(nested(), features=()), pool) is False, "it does not come back"
    story.settle(10.0)
    assert story.core.is_in_task_of(nested(), pool) is False


def test_a_client_in_no_task_is_refused_at_once(story: Story) -> None:
    """A worker's ticket would else open a scheduler that has just begun to any client. (SCH-55)"""
    outside = replace(nested(), parent_task=NO_TASK)
    story.settle()
    assert story.core.is_in_task_of(outside, identity_of("pool")) is False
    story.worker("w", user="pool")
    story.holds("w", is_last=False)
    assert story.core.is_in_task_of(outside, identity_of("pool")) is False


def with_child(story: Story) -> None:
    story.worker("w", user="pool", credit=1)
    story.holds("w", "t")
    story.client("n", user="pool", family="old")
    story.submits("n", "child", parent="t")


def test_children_end_with_a_parent_that_no_client_submits_again(story: Story) -> None:
    with_child(story)
    story.settle(4.1)
    story.settle(60.0)
    story.settle()
    assert task("child") not in story.core.tables.where


def test_a_liar_ends_no_children_of_another_family(story: Story) -> None:
    with_child(story)
    story.worker("liar", user="joe", credit=0)
    story.holds("liar", "t", grant=KEYRING.grant(peer("old"), peer("joes")))
    story.ends("liar", "t")
    story.settle()
    assert task("child") in story.core.tables.where
