"""What scaler_dump tells is enough to make the same scheduler again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import GraphId
from scaler_protocol.messages import Submit, TaskHeader
from tests.simulation.__main__ import run_dump
from tests.simulation.nodes import TIMERS
from tests.simulation.restored import NotADump, Restored, read
from tests.simulation.world import LawBroken, World
from tests.support.scheduler_story import FUNCTION, ids, peer
from tests.support.succession_story import Story

SEEDS = 15
MOST_SEEDS = 200
INSTANTS = (9.0, 16.0)
EXCEPTIONS = ("attempts", "canceling", "lost_workers")
RARE = {"held", "queued", "waiting", "kept", "abandoned", *EXCEPTIONS}
HEAD = {"kind": "dump", "version": 1}
COMPARED = ("client", "batch", "kept", "abandoned", "tasks", "functions")


def dump_of(core: Any, now: float) -> list[dict[str, Any]]:
    """Through its text, as a file would have it."""
    return read("\n".join(json.dumps(line) for line in (HEAD, *core.dump(now))))


def comparable(lines: list[dict[str, Any]]) -> list[str]:
    chosen = [line for line in lines if line["kind"] in COMPARED and line.get("names") is None]
    return sorted(json.dumps(line, sort_keys=True) for line in chosen)


def contents(lines: list[dict[str, Any]]) -> set[str]:
    """What there is at all: kinds of lines, places of tasks, and facts that few tasks have."""
    found = {line["kind"] for line in lines}
    for line in lines:
        found.update("held" if isinstance(place, int) else place for place, _ in line.get("places", ()))
        found.update(name for name in EXCEPTIONS if line.get(name))
    return found


def dumps_of(world: World) -> Iterator[list[dict[str, Any]]]:
    """In the middle of its story; and when all clients have crashed, if tasks of theirs are with workers then."""
    for instant in INSTANTS:
        world._run_until(lambda: False, instant - world.clock.now)
        yield dump_of(world.scheduler.core, world.clock.now)
    for client in world.clients:
        if client.is_up and "." not in client.name:  # those that tasks have live in processors
            client.crash()
    world._run_until(lambda: bool(world.scheduler.core.tables.abandoned), TIMERS.lease_seconds)
    yield dump_of(world.scheduler.core, world.clock.now)


def test_a_scheduler_in_trouble_is_made_again() -> None:
    """Its dump is the same again, and where workers take work, all its tasks end. With as many seeds as it takes to see
    everything that can be in one."""
    seen: set[str] = set()
    for seed in range(MOST_SEEDS):
        if seed >= SEEDS and seen >= RARE:
            return
        world = World(seed)
        world._plan_work()
        world._plan_trouble()
        for lines in dumps_of(world):
            seen |= contents(lines)
            one = Restored(lines)
            assert comparable(dump_of(one.core, 0.0)) == comparable(lines)
            said = one.run()
            takes_work = any(worker.limit for worker in one.core.tables.workers.values())
            assert one.unfinished_count == 0 or not takes_work, said
    raise AssertionError(f"the seeds do not show {RARE - seen}")


def test_batches_that_depend_on_each_other_are_made_again() -> None:
    """A worker has all of a chain, and presents it in two messages, which are adopted one after another: each half has
    left the batch for one of its own, and depends on the other."""
    story = Story()
    story.client("c")
    chain = ["a", "b", "c", "d"]
    batch = Submit(TaskHeader(graph_id=GraphId(peer("graph"))), FUNCTION, ids(chain), b"", join_u32([0] * 4))
    story.receive("c", replace(batch, dependency_counts=join_u16([0, 1, 1, 1]), dependencies=ids(chain[:-1])))
    story.worker("w")
    story.holds("w", "a", "c", is_last=False)
    story.holds("w", "b", "d")
    story.settle()
    lines = dump_of(story.core, story.now)
    assert [line["places"] for line in lines if line["kind"] == "batch"] == [[[0, 2]], [[0, 2]]]
    one = Restored(lines)
    assert comparable(dump_of(one.core, 0.0)) == comparable(lines)
    assert one.run() == "all 4 tasks have ended"


def some_batch() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A dump of a scheduler that has unfinished tasks, and the first batch of them."""
    for seed in range(SEEDS):
        world = World(seed)
        world._plan_work()
        world._run_until(lambda: False, INSTANTS[0])
        lines = dump_of(world.scheduler.core, world.clock.now)
        for line in lines:
            if line["kind"] == "batch":
                return lines, line
    raise AssertionError("in no seed is anything unfinished then")


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"kind": "dump", "version": 2}', "[]"])
def test_what_is_no_dump(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotADump, match="this is no dump of scaler_dump"):
        read(text)
    (tmp_path / "x").write_text(text)
    assert run_dump(tmp_path / "x") == 1
    assert "no dump" in capsys.readouterr().err


def test_a_mistake_in_a_dump_is_found() -> None:
    """The laws are checked when it is made again: here one task is with two workers."""
    lines, batch = some_batch()
    lines.append({**batch, "places": [["queued", sum(count for _, count in batch["places"])]]})
    with pytest.raises(AssertionError) as caught:
        Restored(lines)
    assert not isinstance(caught.value, LawBroken)
