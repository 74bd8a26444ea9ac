"""A size may change the way of a value, never the kind of an answer. (PAY-1, PAY-2)"""

from __future__ import annotations

import concurrent.futures
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client
from scaler_protocol.running.output import CHARACTERS_PER_SECOND
from tests.support import sizes
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage
from tests.support.waiting import eventually

LARGE = 100_000


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


@pytest.mark.parametrize("size", sizes.EVERY_SIZE)
def test_no_answer_depends_on_its_size(client: Client, size: int) -> None:
    assert not sizes.wrong_of_size(client, size)


@pytest.mark.parametrize("how", sizes.LEAVING)
@pytest.mark.parametrize("size", sizes.EVERY_SIZE)
def test_no_answer_that_is_read_afterwards_depends_on_its_size(cluster: RealCluster, how: str, size: int) -> None:
    assert not sizes.wrong_afterwards(Client(cluster.address), how, size)


def test_printed_text_arrives_up_to_what_may_be_printed_in_a_second(
    cluster: RealCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    some = [size for size in sizes.EVERY_SIZE if size < 100_000]
    assert sum(some) < CHARACTERS_PER_SECOND, "beyond that a line says that text is left out"
    with Client(cluster.address, stream_output=True) as client:
        for size in some:
            client.submit(print, "x" * size).result(WAIT)
    assert capfd.readouterr().out.count("x") == sum(some)


def read(future: Any) -> None:
    assert type(future.exception(WAIT)) is sizes.Holding


def several(client: Client) -> list[Any]:
    """All of these fail with the exception of the first."""
    first = client.submit(sizes.with_attribute, LARGE)
    graph = {"a": (sizes.with_attribute, LARGE), "b": (sizes.same, "a"), "c": (sizes.same, "a")}
    of_graph = client.get(graph, ["b", "c"], block=False)
    return [first, client.submit(sizes.same, first), client.submit(sizes.same, first), *of_graph.values()]


def fail_map(client: Client) -> None:
    with pytest.raises(sizes.Holding):
        client.map(sizes.with_attribute, [LARGE] * 5)


def fail_imap(client: Client) -> None:
    results = client.imap(sizes.with_attribute, [LARGE] * 5)
    with pytest.raises(sizes.Holding):
        next(results)


def read_one_by_one(client: Client) -> None:
    """Each is read after those before it are gone."""
    futures = several(client)
    while futures:
        read(futures.pop(0))
        gc.collect()


def drop(client: Client) -> None:
    concurrent.futures.wait(several(client), WAIT)


def cancel(client: Client) -> None:
    client.submit(sizes.with_attribute, LARGE).cancel()


def retry(client: Client) -> None:
    read(client.submit_verbose(sizes.with_attribute, (LARGE,), {}, retries=3))


@pytest.mark.parametrize("use", [read_one_by_one, drop, cancel, retry, fail_map, fail_imap])
def test_large_exceptions_leave_nothing_in_the_storage(
    cluster: RealCluster, client: Client, use: Callable[[Client], None]
) -> None:
    client.submit(sizes.with_attribute, 1).exception(WAIT)
    client.submit(sizes.same, 1).result(WAIT)
    before = cluster.storage_status().object_count
    use(client)
    gc.collect()
    client.submit(abs, 1).result(WAIT)
    eventually(lambda: cluster.storage_status().object_count <= before + 1, "only functions are left")
