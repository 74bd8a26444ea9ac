"""Where the time of tasks goes: which workers are asked, for how long, and what of their answers is published."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, peer

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import SampleStacks, WorkerStatus
from scaler_protocol.stack_trees import StackTrees
from scaler_scheduler.core import Policy, Send
from scaler_scheduler.core.watching.stack_sampling import (
    BYTES_PER_HEARTBEAT,
    FEATURE_STACK_SAMPLES,
    KEPT_BYTES,
    RENEW_SECONDS,
    SECONDS,
    WORKER_BYTES,
    WORKERS_AT_ONCE,
)

FUNCTION = ObjectId(b"f" * 16)
ASKED = SampleStacks(SECONDS, WORKER_BYTES)


@pytest.fixture
def story() -> Story:
    story = Story(Policy(shows_texts=True))
    story.worker("w", features=(FEATURE_STACK_SAMPLES,))
    story.worker("plain")
    story.actions()
    return story


def trees(function: ObjectId = FUNCTION, calls: int = 1) -> bytes:
    made = StackTrees()
    for number in range(calls):
        made.add(function, [(f"call_{number}", "program.py", number)], 1_000)
    return made.take(1 << 20)


def watch(story: Story, *, stacks: bool = True) -> list[tuple[bytes, object]]:
    story.core.stack_sampler.want(stacks, story.now)
    sent = [action for action in story.actions() if isinstance(action, Send)]
    return [(one.peer_id, one.message) for one in sent if isinstance(one.message, SampleStacks)]


def published(story: Story) -> list[tuple[str, bytes]]:
    return [(block.name, block.stack_samples) for block in story.core.stack_sampler.publication(story.now).blocks]


def test_a_worker_is_asked_while_a_monitor_watches(story: Story) -> None:
    assert not watch(story, stacks=False)
    assert watch(story) == [(peer("w"), ASKED)]
    assert not watch(story), "it has time left"
    story.now += SECONDS - RENEW_SECONDS
    assert watch(story) == [(peer("w"), ASKED)]
    assert watch(story, stacks=False) == [(peer("w"), SampleStacks())]
    assert not watch(story, stacks=False)


def test_what_ends_by_itself_is_not_ended_again(story: Story) -> None:
    watch(story)
    story.now += SECONDS
    assert not watch(story, stacks=False)


def test_no_worker_is_asked_where_monitors_do_not_see_texts() -> None:
    story = Story()
    story.worker("w", features=(FEATURE_STACK_SAMPLES,))
    story.actions()
    assert not watch(story)
    publication = story.core.stack_sampler.publication(story.now)
    assert publication.is_hidden and not publication.blocks and not publication.sampled_count


def test_what_a_worker_tells_is_published_as_it_is(story: Story) -> None:
    watch(story)
    story.receive("w", WorkerStatus(stack_samples=trees()))
    assert published(story) == [("w", trees())]
    assert not published(story), "each is told once"
    publication = story.core.stack_sampler.publication(story.now)
    assert (publication.sampled_count, publication.able_count, publication.worker_count) == (1, 1, 2)
    assert not story.core.tables.workers[peer("w")].status.stack_samples


def test_what_a_worker_may_not_tell_is_dropped(story: Story) -> None:
    story.receive("w", WorkerStatus(stack_samples=trees()))
    assert not published(story), "it was not asked"
    watch(story)
    for told in (b"no trees", trees()[:-1], trees(calls=4_000)):
        story.receive("w", WorkerStatus(stack_samples=told))
    story.receive("plain", WorkerStatus(stack_samples=trees()))
    assert not published(story)
    story.now += 2 * SECONDS
    story.receive("w", WorkerStatus(stack_samples=trees()))
    assert not published(story), "its time is over"


def test_a_worker_may_not_tell_more_than_it_was_allowed() -> None:
    """Of many workers, each is allowed less."""
    story = Story(Policy(shows_texts=True))
    for number in range(WORKERS_AT_ONCE):
        story.worker(f"w{number}", features=(FEATURE_STACK_SAMPLES,))
    story.actions()
    watch(story)
    long, short = trees(calls=400), trees(calls=100)
    assert len(short) < BYTES_PER_HEARTBEAT // WORKERS_AT_ONCE < len(long) < WORKER_BYTES
    for told in (long, short):
        story.receive("w0", WorkerStatus(stack_samples=told))
    assert published(story) == [("w0", short)]


def test_what_is_kept_between_two_publications_is_bounded(story: Story) -> None:
    watch(story)
    told = trees(calls=700)
    assert WORKER_BYTES // 2 < len(told) <= WORKER_BYTES
    for _ in range(2 * KEPT_BYTES // len(told)):
        story.receive("w", WorkerStatus(stack_samples=told))
    assert KEPT_BYTES - len(told) <= sum(len(data) for _, data in published(story)) <= KEPT_BYTES


def test_of_very_many_workers_some_sample_at_a_time_in_turn() -> None:
    story = Story(Policy(shows_texts=True))
    names = [f"w{number}" for number in range(WORKERS_AT_ONCE + 20)]
    for name in names:
        story.worker(name, features=(FEATURE_STACK_SAMPLES,))
    story.actions()
    first = watch(story)
    assert len(first) == WORKERS_AT_ONCE
    assert {message.byte_limit for _, message in first} == {BYTES_PER_HEARTBEAT // WORKERS_AT_ONCE}  # type: ignore[attr-defined]
    story.now += SECONDS
    second = {peer_id for peer_id, _ in watch(story)}
    assert len(second) == WORKERS_AT_ONCE
    assert second | {peer_id for peer_id, _ in first} == {peer(name) for name in names}
