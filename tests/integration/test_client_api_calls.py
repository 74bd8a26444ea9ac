"""What a client promises for one call, with real roles: where and how it runs, what it takes and what it brings."""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.client.futures import explaining
from scaler.utility.exceptions import ClientQuitException, MissingObjects, TaskTimeoutError
from scaler_protocol.ids import shown_task
from tests.support import api_tasks, tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

HALF_A_GIGABYTE = 2**29
MEMORY_FOR_LARGE_ARGUMENTS = 8 * 2**30


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    """One worker to begin with: without any capability. The policy is the default."""
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


# ---------------------------------------------------------------- where and how


def test_a_task_waits_for_a_worker_with_its_capability(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    with Client(cluster.address) as client:
        present = client.submit_verbose(round, args=(3.15,), kwargs={}, capabilities={"gpu": -1})
        two = client.submit_verbose(round, (2.7,), {}, capabilities={"gpu": 2})
        assert client.submit(round, 1.1).result(WAIT) == 1, "the waiting tasks block no other task"
        assert not present.done() and not two.done()
        assert "none of 1 worker offers gpu=2" in client.explain(two)
        cluster.start_workers(1, "--per-worker-capabilities", "gpu=1")
        assert present.result(WAIT) == 3
        assert not two.done() and "none of 2 workers offers gpu=2" in client.explain(two)
        cluster.start_workers(1, "--per-worker-capabilities", "gpu=2")
        assert two.result(WAIT) == 3


def test_children_that_need_the_gpu_of_their_waiting_parent(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, workers=("--per-worker-capabilities", "gpu=1"))
    with Client(cluster.address) as client:
        roots = [client.submit_verbose(tasks.wait_with_gpu, (client, 3), {}, capabilities={"gpu": 1}) for _ in range(2)]
        assert [root.result(WAIT) for root in roots] == [8, 8]


def test_a_program_that_waits_for_nobody_is_warned(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(explaining, "LOOK_SECONDS", 0.1)
    cluster = RealCluster(stage, 0)
    with Client(cluster.address) as client:
        future = client.submit(tasks.square, 3)
        assert "no worker is connected" in client.explain(future)
        until(lambda: "no worker can run it: it is queued, and no worker is connected" in caplog.text, "the warning")
        cluster.start_workers(1)
        assert future.result(WAIT) == 9


def test_a_failing_task_is_tried_again_as_often_as_asked(client: Client, tmp_path: Path) -> None:
    assert client.submit_verbose(api_tasks.fail_until, (str(tmp_path / "a"), 3), {}, retries=2).result(WAIT) == 3
    with pytest.raises(ValueError, match="run 2"):
        client.submit_verbose(api_tasks.fail_until, (str(tmp_path / "b"), 3), {}, retries=1).result(WAIT)
    assert client.map(api_tasks.fail_until, [str(tmp_path / "c")], [2], retries=1) == [2]


def test_a_task_that_runs_for_too_long_ends(client: Client) -> None:
    future = client.submit_verbose(tasks.slow_square, (3, 100.0), {}, timeout=0.2)
    with pytest.raises(TaskTimeoutError) as caught:
        future.result(WAIT)
    assert isinstance(caught.value, TimeoutError)
    assert client.submit(tasks.square, 3).result(WAIT) == 9


def test_higher_priority_goes_first(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = client.submit(api_tasks.note_and_sleep, str(log), "first", 100.0)
    until(lambda: "running on worker" in client.explain(first), "the first task runs")
    # The worker may take one more into its hands while it is busy, whatever comes later.
    ahead = client.submit(api_tasks.note_and_sleep, str(log), "ahead", 0.0)
    client.explain(ahead)
    rest = [
        client.submit_verbose(api_tasks.note_and_sleep, (str(log), str(number), 0.0), {}, priority=number)
        for number in range(5)
    ]
    assert first.cancel()
    concurrent.futures.wait([ahead, *rest], WAIT)
    assert [name for name in log.read_text().split() if name != "ahead"] == ["first", "4", "3", "2", "1", "0"]


def test_what_a_running_task_and_those_behind_it_do(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = client.submit(api_tasks.note_and_sleep, str(log), "first", 30.0)
    until(log.exists, "the first task has begun")
    until(lambda: "running on worker" in client.explain(first), "the worker has told that it runs")
    many = [client.submit_verbose(round, (number,), {}, priority=-1) for number in range(50)]
    last = client.submit_verbose(round, (50,), {}, priority=-2)
    until(lambda: "is queued, behind" in client.explain(last), "it is behind others")
    assert "1 of 1 worker could run it" in client.explain(last)
    assert first.cancel() and "canceled" in client.explain(first)
    assert [one.result(WAIT) for one in [*many, last]] == list(range(51))


# ---------------------------------------------------------------- what it takes


def test_futures_are_arguments(client: Client) -> None:
    future = client.submit(api_tasks.same, bytes(300_000))
    length = client.submit(len, future)
    assert client.submit(api_tasks.add, length, b=client.submit(int, "7")).result(WAIT) == 300_007
    chain = client.submit(api_tasks.same, 0)
    for _ in range(200):
        chain = client.submit(api_tasks.add, chain, 1)
    assert chain.result(WAIT) == 200
    assert client.map(api_tasks.add, [length, chain], [1, 2]) == [300_001, 202]
    failing = client.submit(api_tasks.add, client.submit(api_tasks.raise_with_all), 1)
    with pytest.raises(ValueError, match="outer"):
        failing.result(WAIT)


def test_futures_are_arguments_inside_of_tasks(client: Client) -> None:
    assert client.submit(api_tasks.chain_below, client, 30).result(WAIT) == 30


def test_references_belong_to_their_client(cluster: RealCluster, client: Client) -> None:
    reference = client.send_object([1, 2, 3], name="three")
    assert client.submit(api_tasks.add, reference, b=[4]).result(WAIT) == [1, 2, 3, 4]
    assert client.map(len, [reference, reference]) == [3, 3]
    (returned,) = client.submit(list, [reference]).result(WAIT)
    assert client.submit(len, returned).result(WAIT) == 3, "inside of a list it arrives as a reference"
    with pytest.raises(TypeError, match="does not travel inside of other values"):
        client.submit(len, [client.submit(abs, 1)])
    with Client(cluster.address) as other, pytest.raises(MissingObjects, match="three"):
        other.submit(len, reference)
    client.clear()
    for use in (lambda: client.submit(len, reference), lambda: client.map(len, [reference])):
        with pytest.raises(MissingObjects, match="three"):
            use()
    assert client.submit(len, [1]).result(WAIT) == 1, "the client stays usable"


@pytest.mark.skipif(
    psutil.virtual_memory().available < MEMORY_FOR_LARGE_ARGUMENTS, reason="needs 8 GiB of memory that is available"
)
def test_arguments_and_results_of_more_than_half_a_gigabyte(client: Client) -> None:
    data = bytes(HALF_A_GIGABYTE + 300)
    result = client.submit(api_tasks.same, data).result(WAIT)
    assert len(result) == len(data) and result[:1] == b"\0"


@pytest.mark.skipif(
    psutil.virtual_memory().available < MEMORY_FOR_LARGE_ARGUMENTS, reason="needs 8 GiB of memory that is available"
)
def test_a_function_of_half_a_gigabyte_for_ten_thousand_tasks(client: Client) -> None:
    function = functools.partial(api_tasks.size_and_more, bytes(500_000_000))
    futures = [client.submit(function, number) for number in range(5_000)]
    expected = list(range(500_000_000, 500_005_000))
    assert client.map(function, range(5_000)) == expected
    assert [future.result(WAIT) for future in futures] == expected


# ---------------------------------------------------------------- what it brings


def test_the_memory_peak_of_a_short_task(client: Client) -> None:
    small, large, after = (client.submit(api_tasks.use_memory, size, profiling=True) for size in (1, 200, 1))
    assert [future.result(WAIT) for future in (small, large, after)] == [1, 200, 1]
    info = large.profiling_info()
    assert info.duration_s < 1.0, "shorter than any sampling of once a second"
    assert 190 * 2**20 < info.memory_peak < 400 * 2**20 and info.peak_memory == info.memory_peak
    assert all(one.profiling_info().memory_peak < 50 * 2**20 for one in (small, after))


def test_what_tasks_print_is_shown_with_where_it_comes_from(
    cluster: RealCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with Client(cluster.address, stream_output=True) as client:
        future = client.submit(api_tasks.say, "hello")
        future.result(WAIT)
        out, err = "", ""

        def is_shown() -> bool:
            nonlocal out, err
            captured = capfd.readouterr()
            out, err = out + captured.out, err + captured.err
            return "no end of line" in out and "as an error" in err

        until(is_shown, "what the task printed")
    lines = out.splitlines()
    assert [line.partition("] ")[2] for line in lines] == ["hello", "no end of line"]
    assert all(line.startswith("[worker ") and f", task {shown_task(future.task_id)}] " in line for line in lines)
    assert f"task {shown_task(future.task_id)}] hello as an error\n" in err


def test_four_calls_of_a_serializer_for_one_task(cluster: RealCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Client(cluster.address, serializer=api_tasks.Counting(str(log))) as client:
        assert client.submit(api_tasks.add, 1, 2).result(WAIT) == 3
        assert sorted(log.read_text()) == ["d"] * 4 + ["s"] * 4
        assert client.submit(api_tasks.same, bytes(200_000)).result(WAIT) == bytes(200_000)
        assert client.map(api_tasks.same, [bytes(200_000)]) == [bytes(200_000)]
        assert client.submit(list).result(WAIT) == [], "a call without arguments"
        assert client.submit(api_tasks.submit_below, client, 4).result(WAIT) == (5, "Counting")


# ---------------------------------------------------------------- sessions


def test_twenty_threads_open_and_close_clients(cluster: RealCluster) -> None:
    def session(number: int) -> int:
        with Client(cluster.address) as client:
            result: int = client.submit(tasks.square, number).result(WAIT)
            return result

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(session, range(100))) == [number * number for number in range(100)]


def test_a_client_without_an_address_inside_of_tasks(client: Client) -> None:
    assert client.map(api_tasks.session_below, range(20)) == list(range(1, 21))


def test_use_after_disconnecting(cluster: RealCluster) -> None:
    client = Client(cluster.address)
    future = client.submit(tasks.slow_square, 2, 100.0)
    ended = client.submit_verbose(tasks.square, (2,), {}, priority=9)
    client.disconnect()
    client.disconnect()
    assert future.cancelled() and ended.done()
    for use in (
        lambda: client.submit(tasks.square, 1),
        lambda: client.submit_verbose(tasks.square, (1,), {}),
        lambda: client.map(tasks.square, [1]),
        lambda: client.get({"a": 1}, ["a"]),
        lambda: client.send_object(1),
        client.clear,
    ):
        with pytest.raises(ClientQuitException):
            use()


# ---------------------------------------------------------------- figures


def test_the_figures_of_the_cluster_are_of_this_moment(cluster: RealCluster) -> None:
    cluster.wait_until_empty()  # else the objects of earlier tests are released meanwhile
    with Client(cluster.address) as client:
        until(lambda: client.cluster_info().object_bytes == 0, "the figures are no longer those of a moment before")
        info = client.cluster_info()
        assert info.worker_count == 1 and info.host_count == 1 and info.address == cluster.address
        reference = client.send_object(bytes(3_000_000))
        until(lambda: client.cluster_info().object_bytes >= 3_000_000, "it is counted")
        reference.release()
        until(lambda: client.cluster_info().object_bytes == 0, "it is released")
