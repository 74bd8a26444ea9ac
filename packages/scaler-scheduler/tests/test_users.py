"""Whose clients, workers, tasks and objects there are (MON-25 to MON-27)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, WELCOME, Story, ids, peer, task

from scaler_protocol.codec.checks import OWNERS_MAX
from scaler_protocol.codes import (
    KIND_INLINE,
    KIND_OBJECT,
    OBJECT_CODE_SET,
    OBJECT_FUNCTION,
    OBJECT_OTHER,
    OBJECT_RESULT,
    ROLE_CLIENT,
    ROLE_MANAGER,
    ROLE_WORKER,
    STATUS_FAILED,
)
from scaler_protocol.columns import join_u16, join_u32, join_u64, split_ids
from scaler_protocol.ids import GraphId, ObjectId, PeerId
from scaler_protocol.keys import Identity, Keyring
from scaler_protocol.messages import (
    Capability,
    Explain,
    Hello,
    HostTraffic,
    ManagerOffer,
    NameFunctions,
    ObjectEntry,
    Results,
    StorageStatus,
    Submit,
    TaskHeader,
    WorkerOffer,
)
from scaler_protocol.session import Lost, Opened
from scaler_scheduler.core import Policy
from scaler_scheduler.core.notes.names import OBJECTS_KEPT
from scaler_scheduler.core.watching.owned import HOSTS_SHOWN, LARGEST_SHOWN

CLAIMED = (Capability("user:eve"),)


def opened(name: str, role: int, user: str | None) -> Opened:
    identity = None if user is None else Identity(user, frozenset({role}), False, bytes(32), 0.0)
    worker = WorkerOffer(name, CLAIMED, 10, 1)
    manager = ManagerOffer(peer(name), name, CLAIMED, 1)
    return Opened(peer(name), Hello(1, 1, role, peer(name), worker=worker, manager=manager), WELCOME, identity)


@pytest.mark.parametrize(("user", "shown"), [("ana", "ana"), (None, "")])
def test_the_user_is_that_of_the_session_and_nothing_that_the_peer_says(user: str | None, shown: str) -> None:
    story = Story()
    for name, role in (("c", ROLE_CLIENT), ("w", ROLE_WORKER), ("m", ROLE_MANAGER)):
        story.handle(opened(name, role, user))
    story.submit("c", ["a"])
    status = story.core.snapshot(story.now)
    entries = (*status.clients, *status.workers, *status.managers)
    assert [entry.user for entry in entries] == [shown] * 3
    assert story.core.explanation(Explain(1, task("a")), story.now).user == shown
    dumped = {line["kind"]: line for line in story.core.dump(story.now)}
    assert [dumped[kind]["user"] for kind in ("client", "worker", "manager")] == [shown] * 3
    json.dumps(dumped)


ZERO = join_u32([0])
KEYRING = Keyring((bytes(range(32)),))


def joins(
    story: Story, name: str, user: str, *, family: str = "", parent: str = "", role: int = ROLE_CLIENT, weight: int = 0
) -> None:
    """A client, with the grant that it is given: of its own family, or of the one of the task that it is in."""
    grant = KEYRING.grant(peer(name), peer(family or name))
    hello = Hello(1, 1, ROLE_CLIENT, peer(name), share_weight=weight)
    if parent:
        hello = replace(hello, parent_task=task(parent))
    welcome = replace(WELCOME, owner_grant=grant)
    story.handle(Opened(peer(name), hello, welcome, Identity(user, frozenset({role}), False, bytes(32), 0.0)))


def in_task(story: Story, name: str, parent: str) -> None:
    """A client of ana's program, with the ticket of the worker that has the task."""
    joins(story, name, "svc", family="ana", parent=parent, role=ROLE_WORKER)


def test_what_tasks_submit_counts_for_the_user_of_the_program() -> None:
    """Their clients have the ticket of the worker, which is another user's. The same in tasks of tasks."""
    story = Story()
    joins(story, "ana", "ana")
    story.handle(opened("w", ROLE_WORKER, "svc"))
    story.submit("ana", ["parent"])
    story.settle()
    in_task(story, "child", "parent")
    story.submit("child", ["nested"], parent_task=task("parent"), depth=1)
    story.settle()
    in_task(story, "grandchild", "nested")
    story.receive("grandchild", Submit(TaskHeader(parent_task=task("nested")), ids(["f"]), ids(["deep"]), b"", ZERO))
    story.settle()
    status = story.core.snapshot(story.now)
    assert {entry.user for entry in status.clients} == {"ana"}
    assert [entry.user for entry in status.functions] == ["ana", "ana"]
    assert {story.core.explanation(Explain(1, task(one)), story.now).user for one in ("nested", "deep")} == {"ana"}
    assert {line["user"] for line in story.core.dump(story.now) if line["kind"] == "client"} == {"ana"}
    story.results("w", ["deep"], status=STATUS_FAILED)
    story.settle()
    assert [failure.user for failure in story.core.task_samples(story.now).failures] == ["ana"]
    assert set(story.core.tables.combinations.users) == {"ana"}, "nor has the worker's user less room (SCH-49)"
    assert story.core.tables.clients[peer("child")].identity.user == "svc", "which rights depend on"


def test_a_client_that_names_a_task_of_another_user_has_no_part_in_its_share() -> None:
    """Watchers see the ids of tasks. (SCH-91)"""
    story = Story()
    joins(story, "ana", "ana")
    story.handle(opened("w", ROLE_WORKER, "svc"))
    story.submit("ana", ["parent"])
    story.settle()
    joins(story, "joe", "joe", parent="parent")
    ana, joe = (story.core.tables.clients[peer(name)] for name in ("ana", "joe"))
    assert ana.share is not joe.share and joe.user == "joe"


def test_a_program_that_comes_after_the_clients_in_its_tasks_has_its_user_and_its_weight() -> None:
    """At a scheduler that follows on another. (SCH-74)"""
    story = Story(Policy(user_weights={"ana": 4.0, "svc": 0.25}))
    in_task(story, "child", "parent")
    child = story.core.tables.clients[peer("child")]
    share = child.share
    assert (child.user, share.of_user.weight, share.weight) == ("svc", 0.25, 1.0)
    joins(story, "ana", "ana", weight=50)
    assert (child.user, share.of_user.weight, share.weight) == ("ana", 4.0, 0.5)
    in_task(story, "other", "parent")
    joins(story, "again", "joe", family="ana")
    assert (child.user, share.of_user.weight, share.weight) == ("ana", 4.0, 0.5), "only what was not known is learned"


def test_what_clients_own_is_as_the_storage_has_said_last() -> None:
    story = Story()
    story.client("a")
    story.client("b")
    owned = story.core.owned_objects
    request = owned.request()
    assert split_ids(request.owners) == (peer("a"), peer("b"))
    story.handle(Lost(peer("a"), 0, "", True))
    sizes = join_u64([3, 4]), join_u64([2**40, 5])
    status = StorageStatus(request.request_id, 7, 2, 9, 0, *sizes)
    assert owned.told(status) == StorageStatus(request.request_id, 7, 2, 9, 0)
    (entry,) = story.core.snapshot(story.now).clients
    assert (entry.object_count, entry.object_bytes) == (4, 5)


def test_the_largest_objects_are_told_without_what_opens_them() -> None:
    story = Story()
    story.client("a")
    story.receive("a", NameFunctions(FUNCTION, ("price",)))
    owned = story.core.owned_objects
    assert owned.request().largest_count == LARGEST_SHOWN
    entries = (ObjectEntry(task("o"), peer("a"), 2, 2**40, 7.0, True), ObjectEntry(FUNCTION, peer("gone"), 1, 2**17))
    traffic = (HostTraffic("n" * 999, 1, 2),) * 999
    status = owned.told(StorageStatus(0, largest=entries * LARGEST_SHOWN, traffic=traffic))
    of = story.core.display_id
    shown = ObjectEntry(of(PeerId(task("o"))), of(peer("a")), 2, 2**40, 7.0, True)
    function = ObjectEntry(of(PeerId(FUNCTION)), of(peer("gone")), 1, 2**17, name="price", kind=OBJECT_FUNCTION)
    assert status.largest == (shown, function) * (LARGEST_SHOWN // 2)
    assert status.traffic == (HostTraffic("n" * 100, 1, 2),) * HOSTS_SHOWN


def kinds_of(story: Story, *object_ids: bytes) -> list[tuple[int, str]]:
    entries = tuple(ObjectEntry(one, peer("c"), 1, 2**17) for one in object_ids)
    return [(one.kind, one.name) for one in story.core.owned_objects.told(StorageStatus(0, largest=entries)).largest]


@pytest.mark.parametrize("graph", [b"", task("g")], ids=["plain tasks", "a graph"])
def test_results_and_code_sets_are_told_apart(graph: bytes) -> None:
    story = Story()
    story.client("c")
    story.worker("w")
    story.receive("c", NameFunctions(FUNCTION, ("price",)))
    story.submit("c", ["a", "b", "again", "lied"], graph_id=GraphId(graph))
    story.submit("c", ["small"])
    story.submit("c", ["coded"], code_set=ObjectId(task("code")))
    story.settle()
    chunk = story.core.tables.chunk_of(task("a"))
    stored = {name: chunk.value_id(task(name), 1) for name in ("a", "b")} | {"lied": task("other")}
    stored["again"] = chunk.value_id(task("again"), 2)
    for names in (["a", "b"], ["small"], ["lied"]):
        values = [stored.get(name, b"value") for name in names]
        kinds = bytes(KIND_OBJECT if name in stored else KIND_INLINE for name in names)
        sizes = join_u32([len(value) for value in values])
        story.receive("w", Results(ids(names), b"".join(values), sizes, kinds=kinds))
    story.lost("w")
    story.worker("v")
    story.settle()
    story.receive("v", Results(ids(["again"]), stored["again"], join_u32([16]), join_u16([2]), kinds=b"\1"))
    told = kinds_of(story, *(stored[name] for name in ("a", "b", "again", "lied")), task("code"), b"value")
    result = (OBJECT_RESULT, "price")
    assert told == [result] * 3 + [(OBJECT_OTHER, ""), (OBJECT_CODE_SET, ""), (OBJECT_OTHER, "")]
    assert kinds_of(story, FUNCTION) == [(OBJECT_FUNCTION, "price")]


def test_what_objects_are_is_bounded_and_what_is_shown_stays_known() -> None:
    story = Story()
    known = story.core.tables.known_objects
    for number in range(OBJECTS_KEPT):
        known.note_result(task(number), FUNCTION)
    assert kinds_of(story, task(0)) == [(OBJECT_RESULT, "")]
    for number in range(OBJECTS_KEPT, 2 * OBJECTS_KEPT - 1):
        known.note_result(task(number), FUNCTION)
    result, other = (OBJECT_RESULT, ""), (OBJECT_OTHER, "")
    assert kinds_of(story, task(0), task(1), task(OBJECTS_KEPT)) == [result, other, result]
    assert len(known._known) == OBJECTS_KEPT


@pytest.mark.parametrize("said", [(-1, 2), (0, 0), (0, 1)], ids=["an earlier answer", "an older storage", "too few"])
def test_an_answer_to_something_else_changes_nothing(said: tuple[int, int]) -> None:
    story = Story()
    story.client("a")
    story.client("b")
    request = story.core.owned_objects.request()
    offset, count = said
    columns = join_u64([1] * count), join_u64([1] * count)
    story.core.owned_objects.told(StorageStatus(request.request_id + offset, 7, 2, 9, 0, *columns))
    assert {entry.object_count for entry in story.core.snapshot(story.now).clients} == {0}


def test_many_clients_are_asked_about_in_turns() -> None:
    story = Story()
    count = 2 * OWNERS_MAX + 3
    for number in range(count):
        story.core.handle(opened(f"c{number}", ROLE_CLIENT, None), story.now)
    owned = story.core.owned_objects
    requests = [owned.request() for _ in range(4)]
    sizes = [len(split_ids(request.owners)) for request in requests]
    assert sizes == [OWNERS_MAX, OWNERS_MAX, 3, OWNERS_MAX]
    asked = [one for request in requests[:3] for one in split_ids(request.owners)]
    assert len(set(asked)) == count and requests[3].owners == requests[0].owners
