"""What happens to workers and managers is told with their names. (MON-36)"""

from __future__ import annotations

from tests.support.scheduler_story import FUNCTION, Story, task

from scaler_protocol.codec import encode_task_error
from scaler_protocol.codes import PROCESSOR_DIED, STATUS_PROCESSOR_DIED
from scaler_protocol.ids import shown_task
from scaler_protocol.messages import NameFunctions, TaskError, WorkerStatus
from scaler_scheduler.core.notes import cluster_events


def told(story: Story) -> list[tuple[str, str, str]]:
    return [(one.kind, one.subject, one.text) for one in story.core.snapshot(story.now).events]


def test_what_happens_to_a_manager_is_told() -> None:
    story = Story()
    story.manager("m")
    story.manager("n")
    for trouble in ("", "no quota", "no quota", "", "no quota", "no account"):
        story.has("m", trouble=trouble)
    story.lost("m")
    story.lost("n", is_orderly=True)
    assert told(story) == [
        ("manager_joined", "m", ""),
        ("manager_joined", "n", ""),
        ("manager_trouble", "m", "no quota"),
        ("manager_trouble", "m", "no quota"),
        ("manager_trouble", "m", "no account"),
        ("manager_left", "m", ""),
        ("manager_left", "n", ""),
    ], "a trouble that lasts is told once"


def test_a_worker_that_was_lost_and_is_there_again_is_told_so() -> None:
    story = Story()
    story.worker("a")
    story.worker("b")
    story.lost("a")
    story.lost("b", is_orderly=True)
    story.now += 12.0
    for name in "ab":
        story.worker(name)
    story.lost("a", is_orderly=True)
    story.worker("a")
    assert [(subject, text) for kind, subject, text in told(story) if kind == "worker_joined"] == [
        ("a", ""),
        ("b", ""),
        ("a", "it is there again, 12 s after it was lost"),
        ("b", ""),
        ("a", ""),
    ]


def test_a_worker_that_is_gone_is_told_with_the_reason_and_what_it_held() -> None:
    story = Story()
    story.client("c")
    story.receive("c", NameFunctions(FUNCTION, ("price" * 20,)))
    for name, credit, reserve in (("a", 5, 0), ("b", 2, 0)):
        story.worker(name, credit, reserve)
        story.submit("c", [f"{name}{number}" for number in range(credit)])
        story.settle()
        story.lost(name)
        story.cancel("c", [f"{name}{number}" for number in range(credit)])
        story.settle()
    story.worker("idle")
    story.lost("idle", is_orderly=True)
    gone = [one for one in story.core.snapshot(story.now).events if one.kind != "worker_joined"]
    named = {name: f"{'price' * 8} {shown_task(task(name))}" for name in ("a0", "a1", "a2", "b0", "b1")}
    first = f"silent for too long; it held {named['a0']}, {named['a1']}, {named['a2']}, and 2 more"
    second = f"silent for too long; it held {named['b0']}, {named['b1']}"
    assert [(one.kind, one.subject, one.text, one.task_count) for one in gone] == [
        ("worker_lost", "a", first[: cluster_events.TEXT_CHARACTERS], 5),
        ("worker_lost", "b", second, 2),
        ("worker_left", "idle", "silent for too long", 0),
    ]


def test_the_names_of_lost_workers_have_a_bound() -> None:
    story = Story()
    events = story.core.tables.events
    for number in range(cluster_events.EVENTS_KEPT + 5):
        events.note_gone(f"w{number}", "", 0, is_orderly=False)
    assert len(events._lost_at) == cluster_events.EVENTS_KEPT
    events.note_joined("w0", "Python on a")
    events.note_joined("w5", "Python on a")
    assert [event.text for event in events.last(story.now, 2)] == [
        "Python on a",
        "Python on a; it is there again, 0 s after it was lost",
    ]


def test_a_worker_that_takes_no_tasks_is_told_once() -> None:
    story = Story()
    story.worker("a", 0, 0)
    for trouble in ("no process", "no process", "", "no process"):
        story.receive("a", WorkerStatus(trouble=trouble))
    assert [(subject, text) for kind, subject, text in told(story) if kind == "worker_trouble"] == [
        ("a", "no process"),
        ("a", "no process"),
    ], "a trouble that lasts is told once"


def test_the_loss_of_a_client_without_unfinished_tasks_is_no_event() -> None:
    """Each task that submits tasks has a client, and loses it when its process is ended."""
    story = Story()
    story.client("c")
    story.client("idle")
    story.submit("c", ["t"])
    story.lost("idle")
    story.lost("c")
    assert [(kind, text.partition(":")[0]) for kind, _, text in told(story)] == [
        ("client_lost", "its 1 unfinished tasks end")
    ]


def dies(story: Story, worker: str, name: str, attempt: int = 1) -> None:
    error = encode_task_error(TaskError(code=PROCESSOR_DIED, exit_code=11, peak_memory_bytes=3 * 2**20))
    story.results(worker, [name], status=STATUS_PROCESSOR_DIED, value=error, attempt=attempt)
    story.settle()


def deaths(story: Story) -> list[tuple[str, int, str]]:
    events = story.core.snapshot(story.now).events
    return [(one.subject, one.task_count, one.text) for one in events if one.kind == "processor_died"]


def test_processors_that_die_are_told_at_once_and_then_once_a_minute() -> None:
    story = Story()
    story.client("c")
    story.receive("c", NameFunctions(FUNCTION, ("price" * 20,)))
    story.worker("w", credit=9)
    story.submit("c", list("abcd"))
    story.settle()
    how = "exited with code 11, memory peak 3 MiB"
    named = {name: f"{'price' * 8} {shown_task(task(name))}: {how}" for name in "abcd"}
    dies(story, "w", "a")
    expected = [("w", 1, named["a"])]
    assert deaths(story) == expected
    story.now += 10.0
    dies(story, "w", "a", attempt=2)
    dies(story, "w", "b")
    dies(story, "w", "a", attempt=3)
    assert deaths(story) == expected, "the others of this minute are counted"
    assert story.core.events.look_at == 60.0 and (story.core.next_deadline() or 60.0) <= 60.0
    story.now = 60.0
    story.settle()
    expected.append(("w", 2, f"3 more died within 60 s; the last: {named['a']}"))
    assert deaths(story) == expected, "one of them does not run again"
    story.now = 80.0
    dies(story, "w", "c")
    story.now = 120.0
    story.settle()
    expected.append(("w", 1, f"another one died within 60 s; the last: {named['c']}"))
    assert deaths(story) == expected
    story.now = 180.0
    story.settle()
    assert deaths(story) == expected and story.core.events.look_at == float("inf")
    dies(story, "w", "d")
    assert deaths(story) == [*expected, ("w", 1, named["d"])], "after a quiet minute at once again"


def test_each_worker_with_processors_that_die_is_told_and_the_notes_have_a_bound() -> None:
    story = Story()
    events = story.core.tables.events
    for _ in range(2):
        for number in range(cluster_events.EVENTS_KEPT + 5):
            story.now += 0.01
            story.core.tables.history.now = story.now
            events.note_death(f"w{number}", "died", 1)
    assert events.count == len(events._deaths) == cluster_events.EVENTS_KEPT
    story.now += 60.0
    story.settle()
    assert events.count == 2 * cluster_events.EVENTS_KEPT
    story.now += 60.0
    story.settle()
    assert not events._deaths
