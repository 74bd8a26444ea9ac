"""What one user's client may do to the tasks of another's: nothing. (SCH-55 to SCH-57, OWN-7, OWN-16)"""

from __future__ import annotations

from dataclasses import replace

from tests.support.scheduler_story import FUNCTION, Story, ids, peer, task

from scaler_protocol.codes import KIND_OBJECT, ROLE_CLIENT, UNIT_RUNNING
from scaler_protocol.columns import join_u32
from scaler_protocol.keys import ANY_USER, Identity, families_of
from scaler_protocol.messages import Capability, Dispatch, Hello, ProcessorStatus, Submit, TaskHeader, WorkerStatus
from scaler_scheduler.core import Settled
from scaler_scheduler.core.actions import Send
from scaler_scheduler.core.entities.headers import LEND_AGAIN_SECONDS


def identity(user: str, *, is_operator: bool = False) -> Identity:
    return Identity(user, frozenset({ROLE_CLIENT}), is_operator, holder=user.encode().ljust(32), expires=0.0)


def users(story: Story, **names: str) -> None:
    for name, user in names.items():
        if peer(name) not in story.core.tables.clients:
            story.client(name)
        story.core.tables.clients[peer(name)].identity = identity(user)
        story.core.tables.clients[peer(name)].grant = f"grant of {user}".encode().ljust(16)


def nested(parent: str) -> Hello:
    return replace(Hello(1, 1, ROLE_CLIENT, peer("n")), parent_task=task(parent))


def test_tasks_are_taken_over_by_their_user_alone(story: Story) -> None:
    users(story, c="ana", other="joe", again="ana")
    story.submit("c", ["t"])
    story.settle()
    story.submit("other", ["t"])
    assert story.settle() == ["other <- Error 301 (SCH-56)"]
    story.submit("again", ["t"])
    assert "again <- Error" not in " ".join(story.settle())
    assert story.core.tables.chunk_of(task("t")).client.peer_id == peer("again")


def test_a_cancel_of_anothers_task_is_of_an_unknown_one(story: Story) -> None:
    users(story, c="ana", other="joe")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("other", ["t"])
    assert story.settle() == ["other <- CancelReply t unknown"]
    assert task("t") in story.core.tables.where


def lend(story: Story) -> list[tuple[bytes, bytes, bytes]]:
    """Returns what is asked for as it is: of whom, in which family, for whose workers. The grant has its number."""
    asked: list[tuple[bytes, bytes, bytes]] = []

    def lend(owner: bytes, family: bytes, user: bytes) -> bytes:
        asked.append((owner, family, user))
        return bytes(48) + bytes((len(asked),))

    story.core.tables.lend = lend
    return asked


def headers(story: Story) -> list[tuple[str, TaskHeader]]:
    sent = [action for action in story.actions() if isinstance(action, Send)]
    return [
        (action.peer_id.rstrip(b".").decode(), action.message.header)
        for action in sent
        if isinstance(action.message, Dispatch)
    ]


def test_a_dispatch_has_a_grant_for_the_workers_user_whatever_the_submit_says(story: Story) -> None:
    """Of its client, and not the client's own. (OWN-24)"""
    asked = lend(story)
    users(story, c="ana")
    story.worker("w", identity=identity("joe"))
    story.submit("c", ["t"], owner_grant=b"forged")
    ((_, header),) = headers(story)
    assert header.owner_grant == bytes(48) + b"\1"
    assert asked == [(peer("c"), story.core.tables.clients[peer("c")].family, families_of("joe"))]


def test_on_the_local_lane_a_grant_names_no_user(story: Story) -> None:
    """Such a worker has another name at the storage, if it shows a ticket there. (OWN-24)"""
    asked = lend(story)
    users(story, c="ana")
    story.worker("w", identity=replace(identity("root", is_operator=True), holder=b""))
    story.submit("c", ["t"])
    headers(story)
    assert [user for _, _, user in asked] == [ANY_USER]


def test_one_header_is_one_for_all_workers_of_a_user_until_the_grant_is_another(story: Story) -> None:
    """A processor is told of each header once, and a grant is a MAC: neither is made for each Dispatch."""
    asked = lend(story)
    users(story, c="ana")
    for name, user in (("w1", "joe"), ("w2", "joe"), ("w3", "eve")):
        story.worker(name, identity=identity(user))
    header = TaskHeader()

    def dispatched(*names: str) -> dict[str, TaskHeader]:
        for name in names:
            story.receive("c", Submit(header, FUNCTION, ids([name]), name.encode(), join_u32([len(name)])))
        return dict(headers(story))

    first = dispatched("a", "b", "c")
    assert len(asked) == 2 and first["w1"] is first["w2"] and first["w1"].owner_grant != first["w3"].owner_grant
    for name, at in (("a", "w1"), ("b", "w2"), ("c", "w3")):
        story.results(at, [name])
    headers(story)
    again = dispatched("d", "e", "f")
    assert len(asked) == 2 and all(again[name] is first[name] for name in first)
    story.now += LEND_AGAIN_SECONDS
    for name, at in (("d", "w1"), ("e", "w2"), ("f", "w3")):
        story.results(at, [name])
    headers(story)
    later = dispatched("g", "h", "i")
    assert len(asked) == 4 and later["w1"].owner_grant != first["w1"].owner_grant


def test_without_keys_no_grant_is_made(story: Story) -> None:
    asked = lend(story)
    story.worker("w")
    story.client("c")
    story.submit("c", ["t"])
    ((_, header),) = headers(story)
    assert header.owner_grant == b"" and asked == []


def test_a_client_is_in_a_task_only_of_its_own_users_worker(story: Story) -> None:
    users(story, c="ana")
    story.submit("c", ["t"])
    story.settle()
    pool, other = identity("pool"), identity("joe")
    assert not story.core.is_in_task_of(nested("t"), pool), "it waits"
    assert story.core.family_of(nested("t"), pool) == b""
    story.worker("w")
    story.core.tables.workers[peer("w")].user = pool.user
    story.settle()
    assert story.core.is_in_task_of(nested("t"), pool) and story.core.family_of(nested("t"), pool) == peer("c")
    assert not story.core.is_in_task_of(nested("t"), other) and story.core.family_of(nested("t"), other) == b""
    assert not story.core.is_in_task_of(nested("unknown"), pool)
    story.results("w", ["t"])
    story.settle()
    assert not story.core.is_in_task_of(nested("t"), pool)


# ------------------------------------------------------------ results that are kept for a graph


def graphs(story: Story) -> None:
    """Of ana's graph one task has ended, and its result is kept for the other, which no worker can take yet."""
    users(story, c="ana", other="joe")
    story.worker("w", credit=1)
    story.submit_graph("c", {"a": [], "b": ["a"]})
    assert story.settle() == ["w <- Dispatch a"]
    story.results("w", ["a"])
    story.receive("w", WorkerStatus())
    story.settle()
    assert task("a") in story.core.tables.dependencies.kept


def test_a_kept_result_is_not_replaced_by_another_users_task(story: Story) -> None:
    graphs(story)
    story.submit("other", ["a"])
    assert story.settle() == ["other <- Error 301 (SCH-56)"]
    story.submit_graph("other", {"x": [], "a": ["x"]})
    assert story.settle() == ["other <- Error 301 (SCH-56)"], "in slices as well"
    assert task("a") not in story.core.tables.where


def test_a_kept_result_is_not_replaced_by_what_another_user_gives(story: Story) -> None:
    graphs(story)
    before = story.core.tables.dependencies.kept[task("a")]
    story.give("other", {"a": b"forged"})
    assert story.settle() == ["other <- Error 305 (SCH-56)"]
    assert story.core.tables.dependencies.kept[task("a")] is before


def test_no_task_depends_on_another_users(story: Story) -> None:
    graphs(story)
    story.submit_graph("other", {"mine": ["a"]})
    story.submit_graph("other", {"mine": ["b"]})
    assert story.settle() == ["other <- Error 305 (SCH-16)"] * 2


def test_a_task_that_was_submitted_while_a_batch_was_looked_at_is_not_taken_over() -> None:
    story = Story()
    backlog = story.core.tables.backlog
    backlog.turn_steps = backlog.slice_tasks = backlog.units_at_once = 1
    users(story, c="ana", other="joe")
    story.settle()
    many = {str(number): [] for number in range(40)} | {"late": ["0"]}
    story.submit_graph("other", many)
    while not story.core.tables.where:
        story.handle(Settled())
    story.submit("c", ["late"])
    story.work_off()
    assert len(story.core.tables.where) == 41
    assert story.core.tables.chunk_of(task("late")).client.peer_id == peer("c")


# ------------------------------------------------------------ parents


def test_a_blocked_task_lends_nothing_to_another_users(story: Story) -> None:
    users(story, c="ana", other="joe", again="ana")
    story.worker("w", capabilities={"gpu": 1})
    gpu = (Capability("gpu", 1),)
    story.submit("other", ["early"], parent_task=task("parent"), capabilities=gpu, depth=1)
    story.cancel("other", ["early"])
    story.submit("c", ["parent"], capabilities=gpu)
    story.settle()
    story.receive("w", WorkerStatus(blocked_count=1, processors=(ProcessorStatus(state=3, task_id=task("parent")),)))
    story.submit("other", ["thief"], parent_task=task("parent"), capabilities=gpu, depth=1)
    assert story.settle() == []
    story.submit("again", ["child"], parent_task=task("parent"), capabilities=gpu, depth=1)
    assert story.settle() == ["w <- Dispatch child"]


def depths(story: Story) -> dict[str, int]:
    """As the tasks that are unfinished have them."""
    return {task_id.rstrip(b".").decode(): story.core.tables.chunk_of(task_id).header.depth
            for task_id in story.core.tables.where}  # fmt: skip


def test_a_claimed_depth_does_not_hold_up_others(story: Story) -> None:
    """A user floods the scheduler with tasks of depth 1000 without a parent, and with one that no worker takes."""
    users(story, c="ana", liar="joe")
    story.worker("w", credit=1, reserve=5)
    story.submit("liar", ["running"])
    story.settle()
    story.submit("liar", ["never"], capabilities=(Capability("nowhere", 1),))
    story.submit("liar", range(20), depth=1_000)
    story.submit("liar", range(20, 40), depth=1_000, parent_task=task("never"))
    story.submit("liar", range(40, 60), depth=1_000, parent_task=task("unknown"))
    assert story.settle() == [], "the reserve is for nested tasks"
    story.submit("c", ["lone"])
    story.now = 1.0
    story.results("w", ["running"])
    assert "w <- Dispatch lone" in story.settle()
    assert set(depths(story).values()) == {0}


def test_a_task_proves_the_depth_of_its_children(story: Story) -> None:
    users(story, c="ana", child="ana", other="joe")
    story.worker("w", credit=1, reserve=5)
    story.submit("c", ["a"])
    story.settle()
    story.submit("child", ["b"], depth=7, parent_task=task("a"))
    assert story.settle() == ["w <- Dispatch b"]
    story.submit("child", ["c"], depth=0, parent_task=task("b"))
    story.submit("other", ["d"], depth=2, parent_task=task("b"))
    assert story.settle() == ["w <- Dispatch c"]
    assert depths(story) == {"a": 0, "b": 1, "c": 2, "d": 0}


def test_operators_are_believed(story: Story) -> None:
    story.client("root", identity=identity("root", is_operator=True))
    story.submit("root", ["a"], depth=3)
    assert depths(story) == {"a": 3}


# ------------------------------------------------------------ what a worker says of tasks that it does not hold


def test_a_worker_has_no_object_released_that_is_not_of_its_attempt(story: Story) -> None:
    users(story, c="ana")
    story.worker("w")
    story.worker("liar")
    story.submit("c", ["t"], result_salt=b"salt".ljust(16))
    assert story.settle() == ["w <- Dispatch t"]
    chunk = story.core.tables.chunk_of(task("t"))
    present, other = chunk.value_id(task("t"), 1), chunk.value_id(task("t"), 2)
    for worker in ("liar", "w"):
        for attempt, value in ((2, present), (3, other), (2, b"another object of c".ljust(16)[:16])):
            story.results(worker, ["t"], kind=KIND_OBJECT, value=value, attempt=attempt)
    story.results("liar", ["t"], kind=KIND_OBJECT, value=present)
    story.results("liar", ["t"], value=b"forged")
    assert story.settle() == []
    story.results("liar", ["t"], kind=KIND_OBJECT, value=other, attempt=2)
    assert story.settle() == ["storage <- Release of c 1 objects"], "of a stale attempt"
    story.results("w", ["t"])
    assert story.settle() == ["c <- Results t"]


# ------------------------------------------------------------ managers


def dispatched(story: Story, name: str) -> bool:
    """Whether a new task of ana gets to a worker."""
    story.submit("c", [name])
    return any("<- Dispatch" in line for line in story.settle())


def has_too_many(story: Story, user: Identity) -> None:
    """A manager may have no worker any more, and says that ana's is in its only unit."""
    story.client("c", identity=identity("ana"))
    story.worker("w", identity=identity("ana"))
    story.manager("m", identity=user)
    story.has("m", most=0, workers=("w",), u1=UNIT_RUNNING)
    for _ in range(100):
        story.settle()
        story.now += 1.0


def test_a_manager_takes_no_worker_of_another_user_out_of_work(story: Story) -> None:
    """Its unit is ended, and a worker in it would get no tasks. (SEC-19)"""
    has_too_many(story, identity("joe"))
    assert dispatched(story, "t")


def test_a_worker_that_another_user_lists_is_found_by_its_own_manager(story: Story) -> None:
    has_too_many(story, identity("joe"))
    story.manager("own", identity=identity("ana"))
    story.has("own", workers=("w",), u7=UNIT_RUNNING)
    manager = story.core._scaler.managers[peer("own")]
    assert [worker.name for worker in story.core._scaler._workers_of(manager, "u7")] == ["w"]


def test_an_operators_manager_has_workers_of_all_users(story: Story) -> None:
    has_too_many(story, identity("root", is_operator=True))
    assert not dispatched(story, "t")


def test_a_worker_is_in_no_unit_of_another_users_manager(story: Story) -> None:
    """Else the unit is never empty, and the manager is never told to end it."""
    story.client("c", identity=identity("ana"))
    story.manager("m", identity=identity("ana"))
    story.worker("liar", identity=identity("joe"), unit=("m", "u1"))
    story.worker("w", identity=identity("ana"), unit=("m", "u1"))
    story.has("m", u1=UNIT_RUNNING)
    manager = story.core._scaler.managers[peer("m")]
    assert [worker.name for worker in story.core._scaler._workers_of(manager, "u1")] == ["w"]


def test_the_id_of_a_manager_is_free_for_its_user_whoever_uses_it(story: Story) -> None:
    """A manager that comes again after its session was lost is not refused because another user has taken its id."""
    story.manager("m", as_peer="thief", identity=identity("joe"))
    story.manager("m", as_peer="own", identity=identity("ana"))
    assert story.settle() == []
    story.manager("m", as_peer="twin", identity=identity("ana"))
    assert story.settle() == ["Disconnect"]
