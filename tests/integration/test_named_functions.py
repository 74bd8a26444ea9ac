"""Functions called by name, through real processes. (BAT-12)"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError, ProcessorDiedError, ScalerError
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage

FUNCTIONS = "conformance.adapters.named_functions"


@pytest.fixture(scope="module")
def client(module_stage: Stage) -> Iterator[Client]:
    cluster = RealCluster(module_stage, 1, workers=("--functions", FUNCTIONS))
    with Client(cluster.address) as client:
        yield client


def test_bytes_go_there_and_come_back(client: Client) -> None:
    assert client.submit_named("concat", b"a\x00", bytearray(b"b"), memoryview(b"c")).result(WAIT) == b"a\x00bc"
    assert client.submit_named("concat").result(WAIT) == b""
    futures = [client.submit_named("add", b"%d" % number, b"1") for number in range(500)]
    assert [future.result(WAIT) for future in futures] == [b"%d" % (number + 1) for number in range(500)]


def test_large_values_go_by_the_storage(client: Client) -> None:
    value = bytes(range(256)) * 40_000
    result = client.submit_named("reverse", value).result(WAIT)
    assert type(result) is bytes and result == value[::-1]


def test_named_functions_submit_others(client: Client) -> None:
    assert client.submit_named("submit_child", b"submit_child", b"add", b"40", b"2").result(WAIT) == b"42"


def test_failures_are_told(client: Client) -> None:
    with pytest.raises(Exception, match="as told") as caught:
        client.submit_named("fail", b"as told").result(WAIT)
    assert type(caught.value).__name__ == "Failure"
    with pytest.raises(DeserializeObjectError, match="'no_such'"):
        client.submit_named("no_such").result(WAIT)
    with pytest.raises(ProcessorDiedError):
        client.submit_named("crash").result(WAIT)
    with pytest.raises(ScalerError):
        client.submit_named("spin_ms", b"60000", timeout=0.1).result(WAIT)
    running = client.submit_named("sleep_ms", b"60000")
    assert running.cancel() and running.cancelled()


def test_a_named_result_is_an_argument_like_any_bytes(client: Client) -> None:
    assert client.submit(len, client.submit_named("echo", b"four")).result(WAIT) == 4


@pytest.mark.parametrize(
    ("name", "arguments", "words"), [("echo", ("text",), "argument 1"), (3, (), "name"), ("", (), "name")]
)
def test_what_is_not_bytes_fails_at_its_line(
    client: Client, name: str, arguments: tuple[bytes, ...], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        client.submit_named(name, *arguments)
