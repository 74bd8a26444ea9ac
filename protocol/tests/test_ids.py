"""Task ids: fresh, counted for people, and not to be guessed from earlier ones."""

from __future__ import annotations

import itertools
import os

import pytest

from scaler_protocol.ids import ID_BYTES, shown_task, task_id_source


@pytest.mark.parametrize("counts", ((1,) * 100, (100,), (1, 2, 0, 40, 1, 56)))
def test_each_is_another_and_counted(counts: tuple[int, ...]) -> None:
    take = task_id_source()
    ids = [task_id for count in counts for task_id in take(count)]
    assert len(set(ids)) == 100 and {len(task_id) for task_id in ids} == {ID_BYTES}
    source = ids[0].hex()[:8]
    assert [shown_task(task_id) for task_id in ids] == [f"{source}:{number}" for number in range(100)]


def test_the_next_does_not_follow_from_those_before() -> None:
    """(CLI-20)"""
    take = task_id_source()
    parts = [task_id[4:8] for count in (1, 1, 5_000) for task_id in take(count)]
    assert len(set(parts)) > 4_990
    assert len({part[0] for part in parts}) == len({part[3] for part in parts}) == 256
    ends = [int.from_bytes(part, "little") for part in parts]
    steps = {after - before for before, after in itertools.pairwise(ends)}
    assert len(steps) > 4_990, "nor in steps"


def test_the_system_is_not_called_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a call of the system another thread gets the interpreter: the client's own then sends task by task."""
    calls: list[int] = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: calls.append(count) or urandom(count))
    take = task_id_source()
    calls.clear()
    assert len({take(1)[0] for _ in range(1_000)}) == 1_000
    assert len(calls) <= 20
