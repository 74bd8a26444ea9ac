"""Many combinations of depth, priority and requirement: each is a line that every turn looks at (SCH-49).

Steps are instructions of the interpreter, counted: some fifty to a microsecond.
"""

from __future__ import annotations

from itertools import combinations as subsets

import pytest
from tests.support.scheduler_story import Story, names, peer
from tests.support.steps import steps_of

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Capability, Explain
from scaler_protocol.session import Received
from scaler_scheduler.core import Settled, invariants
from scaler_scheduler.core.ending import queued
from scaler_scheduler.core.entities import combinations
from scaler_scheduler.core.tables import ready

ANA, BEN = (Identity(user, frozenset({ROLE_CLIENT}), False, bytes(32)) for user in ("ana", "ben"))
REFUSED = "c <- Error 207 (SCH-49)"
NAMES = tuple(f"n{number}" for number in range(8))
WORKERS = 20
MOST_STEPS = 100_000
"""Two milliseconds."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combinations, "COMBINATIONS_OF_A_USER", 8)
    monkeypatch.setattr(combinations, "REQUIREMENTS_OF_A_USER", 5)
    monkeypatch.setattr(combinations, "FIRST_COMBINATIONS", 2)
    monkeypatch.setattr(combinations, "FURTHER_COMBINATIONS", 10)


def asking(number: int) -> tuple[Capability, ...]:
    return (Capability(f"x{number}"),)


# ------------------------------------------------------------ what is refused


@pytest.mark.usefixtures("few")
def test_a_session_has_a_bound_of_combinations_and_a_smaller_one_of_requirements() -> None:
    story = Story()
    story.client("c")
    for number in range(9):
        story.submit("c", [f"p{number}"], priority=number)
    assert story.settle() == [REFUSED]
    (limit,) = [event for event in story.core.snapshot(0.0).events if event.kind == "limit_reached"]
    assert (limit.subject, limit.text[:7]) == ("combinations of tasks", "client ") and "priority" in limit.text
    story.submit("c", ["again"], priority=3)
    assert story.settle() == [], "what is known is never refused"
    story.cancel("c", [f"p{number}" for number in range(8)])
    story.settle()
    for number in range(5):
        story.submit("c", [f"x{number}"], capabilities=asking(number))
    assert story.settle() == [REFUSED], "one with priority 3 is left, which requires nothing"
    story.cancel("c", ["x0"])
    story.submit("c", ["x9"], capabilities=asking(9))
    assert REFUSED not in story.settle()


@pytest.mark.usefixtures("few")
def test_the_sessions_of_a_user_share_its_bound_and_those_without_keys_have_one_each() -> None:
    for identities, count in (((ANA, ANA), 8), ((ANA, BEN), 14), ((None, None), 14)):
        story = Story()
        for name, identity in zip("cd", identities, strict=True):
            story.client(name, identity=identity)
            for number in range(8):
                story.submit(name, [f"{name}{number}"], priority=number + 10 * (name == "d"))
        assert len(story.core.tables.where) == count


@pytest.mark.usefixtures("few")
def test_all_sessions_together_leave_some_to_each() -> None:
    story = Story()
    for name in "abc":
        story.client(name)
        for number in range(8):
            story.submit(name, [f"{name}{number}"], priority=number)
    held = [client.unfinished_count for client in story.core.tables.clients.values()]
    assert held == [8, 6, 2], "each has two, and all together ten more"
    story.lost("a")
    story.settle()
    story.submit("c", ["c9"], priority=9)
    assert len(story.core.tables.where) == 9
    assert list(story.core.tables.combinations.users) == [peer("b"), peer("c")], "nothing is kept of those that left"


@pytest.mark.usefixtures("few")
def test_combinations_of_ended_tasks_take_no_room() -> None:
    """All further ones are taken by others, and each user has its first ones all the same."""
    story = Story()
    for name, count in (("a", 8), ("b", 6)):
        story.client(name)
        for number in range(count):
            story.submit(name, [f"{name}{number}"], priority=number)
    story.client("c")
    for number in range(0, 6, 2):
        ids = [f"c{number}", f"c{number + 1}"]
        for one in ids:
            story.submit("c", [one], priority=int(one[1:]))
        story.submit("c", ["c9"], priority=9)
        assert story.settle() == [REFUSED]
        story.cancel("c", ids)
        story.settle()
    assert story.core.tables.combinations.further_count == 10


@pytest.mark.usefixtures("few")
def test_tasks_that_wait_for_others_and_those_with_workers_are_counted() -> None:
    """They would be queued later, when nothing can be refused."""
    story = Story()
    story.client("c")
    story.worker("w", credit=100)
    story.submit("c", ["root"])
    story.settle()
    for number in range(8):
        story.submit("c", [f"p{number}"], priority=number + 1)
    assert REFUSED in story.settle()
    story.results("w", ["root"])
    story.results("w", [f"p{number}" for number in range(7)])
    story.settle()
    assert not story.core.tables.where


def test_empty_lines_may_be_forgotten_while_one_is_cleared() -> None:
    """Lines of others come between two slices of a Cancel."""
    story = Story()
    story.client("c")
    story.is_checked = False
    for number in range(2 * ready.DISCARDED_RUNS):
        story.submit("c", [f"c{number}"])
    tables = story.core.tables
    client = tables.clients[peer("c")]
    for chunk in list(client.chunks):
        queued.cancel_queued(tables, chunk, list(chunk.ids))
    clearing = tables.ready.discard(client)
    next(clearing)
    story.client("d")
    for number in range(ready.CLASSES_LIMIT):
        story.submit("d", [f"d{number}"], priority=number + 1)
    list(clearing)
    story.is_checked = True
    story.settle()


# ------------------------------------------------------------ what it costs


def crowded(story: Story, capabilities: dict[str, int] | None = None) -> None:
    """As many sessions as all together may have lines, each with as many as it may have."""
    story.is_checked = False
    for number in range(WORKERS):
        story.worker(f"w{number}", credit=1, capabilities=capabilities)
    for number in range(combinations.FURTHER_COMBINATIONS // combinations.REQUIREMENTS_OF_A_USER):
        story.client(f"c{number}")


def turn_of_another(story: Story) -> int:
    """Steps of the longest of the turns in which a task of another client comes, and one of a worker ends."""
    story.client("b")
    steps = []
    for number in range(3):
        name = f"b{number}"
        story.submit("b", [name], priority=1)
        steps.append(steps_of(story.core.handle, Settled(), 0.0))
        busy = story.core.tables.workers[peer("w0")]
        steps.append(steps_of(story.results, "w0", [names(task_id)[0] for task_id in busy.held]))
        steps.append(steps_of(story.core.handle, Settled(), 0.0))
    return max(steps)


def test_lines_that_no_worker_can_take_cost_others_nothing() -> None:
    story = Story()
    crowded(story)
    for session in range(16):
        for number in range(combinations.REQUIREMENTS_OF_A_USER):
            story.submit(f"c{session}", [f"{session}.{number}"], capabilities=asking(1000 * session + number))
    story.handle(Settled())
    assert len(story.core.tables.ready.classes) == 4_096
    assert turn_of_another(story) <= MOST_STEPS
    asked = Received(peer("c1"), 0, Explain(1))
    for _ in range(20):
        story.handle(asked)
    assert steps_of(story.core.handle, Settled(), 0.0) <= 4 * MOST_STEPS
    story.is_checked = True
    story.worker("x", capabilities={"x1001": -1})
    assert "x <- Dispatch 1.1" in story.settle(), "they are not forgotten"


def test_lines_of_a_session_that_wait_for_busy_workers_cost_others_little() -> None:
    story = Story()
    crowded(story, dict.fromkeys(NAMES, -1))
    story.submit("c0", [f"first{number}" for number in range(WORKERS)])
    story.handle(Settled())
    chosen = [some for count in range(1, 8) for some in subsets(NAMES, count)][:250]
    for number, some in enumerate(chosen):
        story.submit("c1", [f"r{number}"], priority=-1, capabilities=tuple(map(Capability, some)))
    for number in range(700):
        story.submit("c1", [f"p{number}"], priority=-2 - number)
    story.handle(Settled())
    assert len(story.core.tables.ready.waiting()) > 900
    assert turn_of_another(story) <= MOST_STEPS
    invariants.check(story.core)
