"""Real workers with made-up GPUs: each task sees those that it needs, and they are free again however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scaler
from scaler import Client
from scaler.utility.exceptions import ProcessorDiedError
from tests.support import gpu_tasks
from tests.support.processes import until

WAIT = 60
ALL = ("4", "5", "6", "7")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """One worker with all four."""
    with scaler.local(workers=1, gpus=",".join(ALL)) as client:
        yield client


def run(client: Client, function: Any, *arguments: Any, gpu: int = 0) -> Any:
    needs = {"gpu": gpu} if gpu else {}
    return client.submit_verbose(function, arguments, {}, capabilities=needs).result(WAIT)


def test_a_task_sees_exactly_what_it_needs(client: Client) -> None:
    assert run(client, gpu_tasks.seen) == ()
    assert run(client, gpu_tasks.seen, gpu=2) == ALL[:2]
    assert run(client, gpu_tasks.seen, gpu=1) == ALL[:1]
    assert run(client, gpu_tasks.seen, gpu=-1) == run(client, gpu_tasks.seen, gpu=4) == ALL
    assert run(client, gpu_tasks.seen) == (), "after tasks with GPUs, too"
    assert run(client, gpu_tasks.seen_by_program, gpu=1) == "4"


def test_tasks_of_all_kinds_in_one_queue(client: Client) -> None:
    amounts = [0, 1, 2, 4, 1, 0, 3] * 10
    futures = [
        client.submit_verbose(gpu_tasks.seen, (), {}, capabilities={"gpu": amount} if amount else {})
        for amount in amounts
    ]
    assert [len(future.result(WAIT)) for future in futures] == amounts


@pytest.mark.parametrize("amount", [1, 2])
def test_a_parent_and_its_child_have_gpus_of_their_own(client: Client, amount: int) -> None:
    own, childs = run(client, gpu_tasks.seen_with_child, client, amount, gpu=2)
    assert len(own) == 2 and len(childs) == amount and not set(own) & set(childs)


def test_a_child_may_use_what_its_parent_lends(client: Client) -> None:
    assert run(client, gpu_tasks.seen_with_child, client, 1, gpu=4) == (ALL, ALL[:1])


def test_gpus_are_free_after_a_crash(client: Client) -> None:
    with pytest.raises(ProcessorDiedError):
        run(client, gpu_tasks.die, gpu=2)
    assert run(client, gpu_tasks.seen, gpu=4) == ALL
    assert run(client, gpu_tasks.seen, gpu=2) == ALL[:2]


def test_gpus_are_free_after_a_cancel(client: Client, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    future = client.submit_verbose(gpu_tasks.begin_and_stay, (str(begun),), {}, capabilities={"gpu": 3})
    until(begun.exists, "the task runs")
    assert future.cancel()
    assert run(client, gpu_tasks.seen, gpu=4) == ALL


def test_no_two_tasks_at_once_share_a_gpu(tmp_path: Path) -> None:
    with scaler.local(workers=2, gpus=",".join(ALL)) as client:
        needs = [1, 2, 1, 2, 2, 1] * 20
        futures = [
            client.submit_verbose(gpu_tasks.use, (str(tmp_path),), {}, capabilities={"gpu": amount}) for amount in needs
        ]
        assert all(future.result(WAIT) for future in futures)


def test_gpus_of_a_suspended_parent_stay_its_own() -> None:
    with scaler.local(workers=1, gpus=",".join(ALL), hard_processor_suspend=True) as client:
        own, childs = run(client, gpu_tasks.seen_with_child, client, 1, gpu=1)
        assert (own, childs) == (("4",), ("5",))
        assert run(client, gpu_tasks.seen, gpu=4) == ALL
