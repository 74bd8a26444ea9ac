"""Tasks of different code sets never meet in one process (WRK-50), and tasks of different users neither (WRK-70)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.holder_story import CLIENT, OPENED
from tests.support.worker_story import Story, handed

from scaler_protocol.ids import USER_BYTES, ObjectId, PeerId
from scaler_protocol.keys.derivation import own_family
from scaler_protocol.messages import NO_OBJECT
from scaler_worker.core import Settings
from scaler_worker.core.actions import Action, HandOver, StartProcessor, StopProcessor
from scaler_worker.core.events import ProcessorExited, ProcessorReady, RoundEnded, Started

from .test_core_random import AgentMachine

ONE, TWO, THREE = (ObjectId(name.ljust(16)) for name in (b"one", b"two", b"three"))


class GroupedMachine(AgentMachine):
    """Any order of anything, with tasks of three groups."""

    SETTINGS = Settings("w", lambda error: b"error", 50, 6, 2, task_timeout_seconds=30.0, suspends_hard=True)
    CODE_SETS = (NO_OBJECT, ONE, TWO)


GroupedMachine.TestCase.settings = AgentMachine.TestCase.settings
TestGrouped = GroupedMachine.TestCase


def grant(user: str) -> bytes:
    """Returns what stands in the header of a task of this user. The MAC is the storage's affair."""
    return own_family(CLIENT, user) + bytes(16)


class UsersMachine(AgentMachine):
    """Any order of anything, with tasks of three users, and of peers without grants."""

    SETTINGS = GroupedMachine.SETTINGS
    CODE_SETS = (NO_OBJECT, NO_OBJECT, ONE)
    GRANTS = (b"", grant("ana"), grant("joe"), grant("kim"))


UsersMachine.TestCase.settings = AgentMachine.TestCase.settings
TestUsers = UsersMachine.TestCase


def test_a_fresh_processor_takes_any_group_and_stays_in_it() -> None:
    story = Story().start()
    assert handed(story.dispatch(1, code_set=ONE)) == {1: [1]}
    story.end(1, 1)
    assert handed(story.dispatch(2, code_set=ONE)) == {1: [2]}
    story.end(1, 2)
    actions = story.dispatch(3)
    assert not handed(actions) and StartProcessor(2) in actions
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [3]}


def test_a_processor_that_has_run_tasks_without_a_code_set_is_not_fresh() -> None:
    story = Story().start()
    story.dispatch(1)
    story.end(1, 1)
    assert StartProcessor(2) in story.dispatch(2, code_set=ONE)
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}


def test_two_groups_in_turns_fork_no_further_process() -> None:
    story = Story().start()
    story.dispatch(1, code_set=ONE)
    story.end(1, 1)
    story.dispatch(2, code_set=TWO)
    story.step(ProcessorReady(2, 2))
    story.end(2, 2)
    for number in range(10, 30, 2):
        assert handed(story.dispatch(number, code_set=ONE)) == {1: [number]}
        assert not any(isinstance(action, StartProcessor) for action in story.end(1, number))
        assert handed(story.dispatch(number + 1, code_set=TWO)) == {2: [number + 1]}
        assert not any(isinstance(action, StartProcessor) for action in story.end(2, number + 1))


def test_a_slice_has_tasks_of_one_group() -> None:
    story = Story().start()
    story.learn()
    story.dispatch(1, 2, code_set=ONE)
    story.dispatch(3, code_set=TWO)
    story.dispatch(4, 5, code_set=ONE)
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [1, 2]}, "in the order in which they came"


def test_many_groups_keep_no_more_idle_processors_than_spare_ones() -> None:
    story = Story().start()
    for number in range(1, 12):
        actions = story.dispatch(number, code_set=ObjectId(b"%016d" % number))
        for stopped in [one.processor for one in actions if isinstance(one, StopProcessor)]:
            story.step(ProcessorExited(stopped, 0))
        if number > 1:
            (started,) = [one.processor for one in actions if isinstance(one, StartProcessor)]
            assert handed(story.step(ProcessorReady(started, started))) == {started: [number]}
        story.end(number, number)
        assert len(story.core.tables.processors) <= 4


def test_an_idle_processor_makes_room_where_no_other_may_be_started() -> None:
    story = Story(max_processors=1).start()
    story.dispatch(1, code_set=ONE)
    story.end(1, 1)
    assert StopProcessor(1) in story.dispatch(2, code_set=TWO)
    assert StartProcessor(2) in story.step(ProcessorExited(1, 0))
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}


def test_a_child_begins_in_another_processor_of_its_group() -> None:
    story = Story().start()
    story.dispatch(1, code_set=ONE)
    story.block(1, spare=2)
    assert handed(story.dispatch(2, code_set=ONE, depth=1)) == {2: [2]}
    story.end(2, 2)
    assert not handed(story.dispatch(3, code_set=TWO, depth=1))
    assert handed(story.step(RoundEnded())) == {}


# ---------------------------------------------------------------- users


class Users:
    """A story whose processors start and exit as soon as they are told to. It counts what they ran."""

    def __init__(self, **settings: object) -> None:
        self.story = Story(**settings).start()
        self.users: dict[int, set[bytes]] = {1: set()}  #: of all tasks of each processor
        self.started = 0
        self.count = 0

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, StartProcessor):
                self.started += 1
                self.users[action.processor] = set()
                self.perform(self.story.step(ProcessorReady(action.processor, 1000 + action.processor)))
            elif isinstance(action, StopProcessor):
                self.perform(self.story.step(ProcessorExited(action.processor, 0)))
            elif isinstance(action, HandOver):
                self.users[action.processor] |= {task.header.owner_grant[:USER_BYTES] for task in action.tasks}

    def dispatch(self, user: str, tasks: int = 1) -> None:
        names = range(self.count + 1, self.count + 1 + tasks)
        self.count += tasks
        self.perform(self.story.dispatch(*names, owner_grant=grant(user) if user else b""))

    def end(self) -> bool:
        """One task ends. False: none runs."""
        running = [one for one in self.story.core.tables.processors.values() if one.slice]
        if running:
            self.perform(self.story.end(running[0].number, self.story.held(running[0].number)[0]))
        return bool(running)

    def end_all(self) -> None:
        while self.end():
            pass
        assert not self.story.core.tables.tasks, "every task has ended"


def test_a_processor_runs_tasks_of_one_user() -> None:
    users = Users()
    for user in ("ana", "joe", "ana", "", "joe", "ana"):
        users.dispatch(user)
        users.end_all()
    assert sorted(map(len, users.users.values())) == [1, 1, 1]
    assert users.started == 2, "one for each further user, and the next tasks of a user find it"


def test_a_processor_that_has_run_nothing_serves_any_user() -> None:
    users = Users()
    users.dispatch("joe")
    assert users.started == 0 and users.users[1] == {grant("joe")[:USER_BYTES]}


def test_a_task_that_waits_counts_for_its_user_before_it_begins() -> None:
    """The processor is not ready when the tasks of two users come."""
    story = Story()
    story.step(Started(), OPENED)
    story.dispatch(1, owner_grant=grant("ana"))
    story.dispatch(2, owner_grant=grant("joe"))
    assert handed(story.step(ProcessorReady(1, 1001))) == {1: [1]}
    assert StartProcessor(2) in story.end(1, 1)
    assert handed(story.step(ProcessorReady(2, 1002))) == {2: [2]}


def test_two_programs_of_one_user_share_a_processor() -> None:
    story = Story().start()
    for number, owner in enumerate((b"a" * 16, b"b" * 16), 1):
        family = own_family(PeerId(owner), "ana")
        assert handed(story.dispatch(number, client=PeerId(owner), owner_grant=family + bytes(16))) == {1: [number]}
        story.end(1, number)
    assert not story.core.tables.is_grouped


def test_an_operator_may_let_users_share_processors() -> None:
    users = Users(shares_processors=True)
    for user in ("ana", "joe", "", "ana"):
        users.dispatch(user)
        users.end_all()
    assert users.started == 0 and len(users.users[1]) == 3


def test_shared_processors_keep_code_sets_apart() -> None:
    story = Story(shares_processors=True).start()
    story.dispatch(1, owner_grant=grant("ana"), code_set=ONE)
    story.end(1, 1)
    assert StartProcessor(2) in story.dispatch(2, owner_grant=grant("joe"), code_set=ONE)


STEPS = st.lists(st.tuples(st.sampled_from(["ana", "joe", "kim"]), st.integers(0, 3), st.integers(0, 4)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([1, 2, 3, 10]))
def test_no_processor_meets_two_users_and_all_tasks_end(steps: list[tuple[str, int, int]], most: int) -> None:
    """If there is room for a processor of each user, none is replaced, however the users take turns."""
    users = Users(max_processors=most)
    for user, dispatched, ended in steps:
        if dispatched:
            users.dispatch(user, dispatched)
        for _ in range(ended):
            users.end()
    users.end_all()
    assert all(len(met) <= 1 for met in users.users.values())
    if most >= 3:
        assert users.started <= 2, "the first processor, and one for each further user"
