"""What happens to workers and managers is told with their names. (MON-36)"""

from __future__ import annotations

from tests.support.scheduler_story import Story

from scaler_scheduler.core import cluster_events


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
