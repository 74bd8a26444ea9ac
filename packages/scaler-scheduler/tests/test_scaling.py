"""Worker managers at the scheduler (spec chapter 19), told as stories."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, peer, task

from scaler_protocol.codec import encode
from scaler_protocol.codes import BAD_IDENTITY, ROLE_MANAGER, UNIT_RUNNING, UNIT_STARTING, UNIT_STOPPING
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Capability, Explain
from scaler_protocol.session.bounds import Quota
from scaler_scheduler.core import Disconnect, Policy
from scaler_scheduler.core.entities.workers import KEEPING_SECONDS
from scaler_scheduler.core.policy import CAPABILITY, NONE, Scaling
from scaler_scheduler.core.scaling import controller
from scaler_scheduler.core.scaling.manager import AWAITED_SECONDS, NO_SHOW_SECONDS
from scaler_scheduler.core.succession.recovering import FEATURE_PRESENT_HELD

STARTING, RUNNING, STOPPING = UNIT_STARTING, UNIT_RUNNING, UNIT_STOPPING
PATIENCE = Scaling().patience_seconds


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("client")
    story.manager("m")
    return story


def later(story: Story, seconds: float) -> list[str]:
    """What is told in this time, a second at a time."""
    told = []
    for _ in range(int(seconds)):
        story.now += 1.0
        told += story.settle()
    return told


def running(story: Story, *units: str, credit: int = 1) -> None:
    """These units of `m` run, with one worker each."""
    for unit in units:
        story.worker(f"w-{unit}", credit=credit, unit=("m", unit))
    story.has("m", **dict.fromkeys(units, RUNNING))


def test_units_of_any_size_are_counted_up_to_the_end_of_a_field(story: Story) -> None:
    """Checks that what the core sends fits the schema: the story encodes each message. (FRM-21)"""
    story.manager("vast", workers_per_unit=2**32 - 1)
    story.has("vast", most=2**32 - 1, a=STARTING, b=STARTING, c=RUNNING)
    story.submit("client", ["t"])
    status = story.core.snapshot(story.now, 0)
    encode(status)
    assert [one.target_count for one in status.managers if one.name == "vast"] == [2**32 - 1]
    assert story.core.explanation(Explain(1, task("t")), story.now).starting_count == 2**32 - 1
    assert story.settle()


def test_nothing_to_do_is_a_target_too(story: Story) -> None:
    assert story.settle() == [], "it has not said what it has"
    story.has("m")
    assert story.settle() == ["m <- Target 0"]
    assert later(story, 5) == [], "nothing has changed"


def test_work_and_no_workers(story: Story) -> None:
    story.has("m")
    story.submit("client", range(25))
    assert story.settle() == ["m <- Target 3"], "ten tasks for each, as long as nothing is known of them"


def test_what_is_on_its_way_is_not_asked_for_again(story: Story) -> None:
    story.has("m")
    story.submit("client", range(25))
    story.settle()
    story.has("m", u1=STARTING, u2=STARTING, u3=STARTING)
    assert later(story, 30) == []


def test_no_more_than_there_can_be(story: Story) -> None:
    story.has("m", most=2)
    story.submit("client", range(1000))
    assert story.settle() == ["m <- Target 2"]
    story.has("m", most=1)
    assert story.settle() == ["m <- Target 1"], "without patience: it must not be asked for more than it has told"


def test_long_tasks_bring_one_worker_each(story: Story) -> None:
    story.has("m")
    story.submit("client", range(6))
    assert story.settle() == ["m <- Target 1"]
    running(story, "u1")
    assert "m <- Target 6" in later(story, 3)


def test_idle_units_end_after_a_while(story: Story) -> None:
    story.submit("client", ["a"])
    running(story, "u1", "u2")
    assert story.settle() == ["m <- Target 2", "w-u1 <- Dispatch a"]
    story.runs("w-u1", "a")
    assert later(story, PATIENCE + 1) == ["m <- Target 1 stop u2"]
    story.has("m", u1=RUNNING, u2=STOPPING)
    assert later(story, 5) == []
    story.lost("w-u2", is_orderly=True)
    story.has("m", u1=RUNNING)
    assert story.settle() == ["m <- Target 1"], "the unit is named no longer"


def test_a_unit_that_works_is_not_named(story: Story) -> None:
    running(story, "u1", "u2")
    story.submit("client", ["a", "b"])
    assert story.settle() == ["m <- Target 2", "w-u1 <- Dispatch a", "w-u2 <- Dispatch b"]
    story.runs("w-u2", "b")
    story.results("w-u1", ["a"], credit=1)
    told = later(story, PATIENCE + 2)
    assert told[-1] == "m <- Target 1 stop u1" and not any("u2" in line for line in told)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_unit_stays_while_its_workers_keep_results_that_the_client_has_not_read(story: Story, is_read: bool) -> None:
    """They would be lost with the unit if the scheduler died now. At most for half a minute. (MGR-7)"""
    story.worker("w", unit=("m", "u1"), features=(FEATURE_PRESENT_HELD,))
    story.has("m", u1=RUNNING)
    story.submit("client", ["a"])
    story.settle()
    story.results("w", ["a"])
    story.progress[peer("client")] = (7, 6)
    story.settle()
    story.has("m", most=0, u1=RUNNING)
    told = later(story, 3)
    assert not [line for line in told if line.endswith("stop u1")]
    if is_read:
        story.progress[peer("client")] = (7, 7)
        told = later(story, 3)
    else:
        told = later(story, KEEPING_SECONDS)
    assert "m <- Target 0 stop u1" in told


def test_a_unit_that_is_to_end_gets_nothing_any_more(story: Story) -> None:
    running(story, "u1", credit=5)
    story.submit("client", ["a"])
    story.settle()
    story.has("m", most=0, u1=RUNNING)
    assert story.settle() == ["w-u1 <- Recall a", "m <- Target 0"], "it is to end, and holds a task"
    story.give_back("w-u1", [])
    story.submit("client", ["b"])
    assert story.settle() == []
    story.results("w-u1", ["a"])
    assert "client <- Results a" in story.settle()
    assert later(story, 1) == ["m <- Target 0 stop u1"]
    assert later(story, 30) == [], "b waits for another worker"


def test_a_unit_that_was_to_end_is_needed_again(story: Story) -> None:
    running(story, "u1", credit=5)
    story.submit("client", ["a"])
    story.settle()
    story.has("m", most=0, u1=RUNNING)
    story.settle()
    story.give_back("w-u1", [])
    story.has("m", most=8, u1=RUNNING)
    story.submit("client", ["b"])
    assert story.settle() == ["m <- Target 1", "w-u1 <- Dispatch b"]


def test_a_late_worker_of_a_unit_that_ends(story: Story) -> None:
    story.has("m", u1=RUNNING)
    later(story, PATIENCE + 1)
    story.worker("w-u1", unit=("m", "u1"))
    story.submit("client", ["a"])
    assert not any("Dispatch" in line for line in story.settle())


def test_a_worker_that_comes_when_its_unit_has_ended(story: Story) -> None:
    """Its Hello has waited in the network, or its manager has told too early that it has ended. (MGR-16)"""
    running(story, "u1")
    story.settle()
    assert "m <- Target 0 stop u1" in later(story, PATIENCE + 1)
    story.lost("w-u1", is_orderly=True)
    story.has("m")
    story.settle()
    story.worker("w-u1", credit=1, unit=("m", "u1"))
    story.submit("client", ["a"])
    assert not any("Dispatch" in line for line in later(story, 5))


def test_a_manager_that_comes_again_is_told_again_what_is_to_end(story: Story) -> None:
    """The first target may never have come there. The unit counts no longer: its workers get no tasks. (MGR-16)"""
    running(story, "u1")
    story.settle()
    assert "m <- Target 0 stop u1" in later(story, PATIENCE + 1)
    story.lost("m")
    story.manager("m")
    story.submit("client", ["a"])
    story.has("m", u1=RUNNING)
    assert story.settle() == ["m <- Target 1 stop u1"]


def test_units_that_were_there_before_the_scheduler(story: Story) -> None:
    """Their workers hold tasks, perhaps, and are on their way: as long as that may be, none of them is ended."""
    story.has("m", most=0, u1=RUNNING, u2=RUNNING)
    story.worker("w-u2", credit=1, unit=("m", "u2"))
    assert story.settle() == ["m <- Target 0 stop u2"]
    assert later(story, AWAITED_SECONDS - 1) == []
    assert later(story, 2) == ["m <- Target 0 stop u2 u1"]


def test_load_that_comes_and_goes_moves_nothing(story: Story) -> None:
    """Hysteresis: ten seconds of calm are needed, not one."""
    running(story, "u1")
    story.settle()
    for number in range(20):
        story.submit("client", [number])
        told = later(story, 1)
        story.results("w-u1", [number], credit=1)
        told += later(story, 2)
        assert not any("Target" in line for line in told)


def test_a_unit_whose_workers_never_come(story: Story) -> None:
    story.has("m", u1=RUNNING)
    story.submit("client", ["a"])
    assert story.settle() == ["m <- Target 1"]
    assert "m <- Target 1 stop u1" in later(story, NO_SHOW_SECONDS + 1)


def test_units_of_several_workers() -> None:
    story = Story()
    story.client("client")
    story.manager("m", workers_per_unit=4)
    story.has("m", most=10)
    story.submit("client", range(45))
    assert story.settle() == ["m <- Target 8"], "three units would be more than it can have"


def test_the_second_takes_over_when_the_first_is_in_trouble(story: Story) -> None:
    story.manager("n")
    story.has("m", most=8)
    story.has("n", most=8)
    story.submit("client", range(25))
    assert story.settle() == ["m <- Target 3", "n <- Target 0"]
    story.has("m", most=8, trouble="no quota")
    assert "n <- Target 3" in later(story, 1)


def test_capabilities_go_to_those_who_have_them() -> None:
    story = Story(Policy(scaling=Scaling(CAPABILITY)))
    story.client("client")
    story.manager("plain")
    story.manager("gpus", capabilities={"gpu": 1})
    story.has("plain")
    story.has("gpus")
    story.submit("client", ["a"], capabilities=(Capability("gpu", 1),))
    assert story.settle() == ["plain <- Target 0", "gpus <- Target 1"]


def test_without_scaling_what_is_there_stays() -> None:
    story = Story(Policy(scaling=Scaling(NONE)))
    story.client("client")
    story.manager("m")
    story.has("m", u1=RUNNING)
    assert story.settle() == ["m <- Target 1"]
    story.submit("client", range(100))
    assert later(story, 30) == []


def test_two_managers_with_one_id(story: Story) -> None:
    story.manager("m", as_peer="other")
    (refused,) = [action for action in story.actions() if isinstance(action, Disconnect)]
    assert (refused.peer_id, refused.code) == (peer("other"), BAD_IDENTITY) and "MGR-2" in refused.text
    story.has("other")
    assert story.settle() == []


def test_a_manager_that_is_lost_leaves_its_workers(story: Story) -> None:
    running(story, "u1")
    story.settle()
    story.lost("m")
    story.submit("client", ["a"])
    assert story.settle() == ["w-u1 <- Dispatch a"]
    assert later(story, 30) == []
    story.results("w-u1", ["a"])
    story.manager("m")
    story.has("m", u1=RUNNING)
    assert "m <- Target 1" in story.settle(), "its unit is known for its own again"


@pytest.mark.parametrize("is_first", [True, False])
def test_workers_that_the_manager_knows_by_name(story: Story, is_first: bool) -> None:
    if is_first:
        story.worker("w1", credit=1)
    story.has("m", u1=RUNNING, workers=("w1",))
    if not is_first:
        story.worker("w1", credit=1)
    story.submit("client", ["a"])
    assert story.settle() == ["m <- Target 1", "w1 <- Dispatch a"]
    story.has("m", u1=RUNNING, workers=("w1",), most=0)
    assert story.settle() == ["w1 <- Recall a", "m <- Target 0"]
    story.results("w1", ["a"])
    assert "m <- Target 0 stop u1" in later(story, 1)


def test_a_unit_that_may_be_the_home_of_a_busy_stranger(story: Story) -> None:
    story.has("m", u1=RUNNING)
    story.worker("stranger", credit=1)
    story.submit("client", ["a"])
    story.settle()
    assert not any("stop" in line for line in later(story, 2 * NO_SHOW_SECONDS))
    story.results("stranger", ["a"])
    assert any("stop u1" in line for line in later(story, 2 * NO_SHOW_SECONDS))


def ended(story: Story) -> list[PeerId]:
    return [action.peer_id for action in story.actions() if isinstance(action, Disconnect)]


def test_managers_of_one_user_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """(LIM-30)"""
    monkeypatch.setattr(controller, "MANAGERS", Quota(first=1, further=2))
    monkeypatch.setattr(controller, "UNITS", Quota(first=2, further=4))
    story = Story()
    ana, bo = (Identity(user, frozenset({ROLE_MANAGER}), False, bytes(32)) for user in ("ana", "bo"))
    for name in ("a1", "a2", "a3", "a4"):
        story.manager(name, identity=ana)
    for name in ("b1", "b2"):
        story.manager(name, identity=bo)
    assert ended(story) == [peer("a4"), peer("b2")]
    story.has("a1", u1=RUNNING, u2=RUNNING, u3=RUNNING)
    story.has("a2", u4=RUNNING, u5=RUNNING, u6=RUNNING)
    story.has("b1", u7=RUNNING, u8=RUNNING)
    story.has("a1", u1=RUNNING, u2=RUNNING, u3=RUNNING)
    assert not ended(story), "the first units of bo take nothing from ana"
    story.has("b1", u7=RUNNING, u8=RUNNING, u9=RUNNING)
    assert ended(story) == [peer("b1")]
