"""A client on Windows at a cluster on Linux, over TCP, with the key in a file.

SCALER_CHECKED_ADDRESS is the cluster's address, SCALER_CHECKED_KEY a copy of its key.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import itertools
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo, progress
from scaler.utility.exceptions import TaskTimeoutError
from scaler_protocol.keys import acl

#: empty on the workers, which import this module for the class in it
ADDRESS = os.environ.get("SCALER_CHECKED_ADDRESS", "")
KEY_FILE = pathlib.Path(os.environ.get("SCALER_CHECKED_KEY", ""))
WAIT = 60.0


@pytest.fixture(scope="module", autouse=True)
def key_file() -> None:
    os.environ["SCALER_KEY_FILE"] = str(KEY_FILE)  # conftest.py has taken away what was there


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(ADDRESS) as client:
        yield client


class OwnError(Exception):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.number = number


def test_this_is_windows() -> None:
    assert sys.platform == "win32" and os.name == "nt"


# ---------------------------------------------------------------- calls


def test_a_map_of_ten_thousand(client: Client) -> None:
    assert client.map(lambda x: x * x, range(10_000)) == [x * x for x in range(10_000)]


def test_text_of_all_alphabets(client: Client) -> None:
    assert client.map(str.upper, ["aé世", "x" * 1000, ""] * 500) == ["AÉ世", "X" * 1000, ""] * 500
    assert client.starmap(pow, [(2, 3), (4, 5)]) == [8, 1024]


def test_a_thousand_calls(client: Client) -> None:
    futures = [client.submit(lambda x: x + 1, number) for number in range(1000)]
    assert len(list(concurrent.futures.as_completed(futures, WAIT))) == 1000
    assert [future.result(WAIT) for future in futures] == list(range(1, 1001))


def test_functions_and_classes_of_the_program(client: Client) -> None:
    beyond = 7

    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

        def add(self, other: int) -> int:
            return self.value + other

    def made(number: int) -> Any:
        return lambda x: x + number + beyond

    assert client.submit(made(3), 1).result(WAIT) == 11
    assert client.submit(Local(4).add, 5).result(WAIT) == 9
    returned = client.submit(lambda: Local(3)).result(WAIT)
    assert type(returned) is Local and returned.value == 3


def test_errors_come_back_as_they_were_raised(client: Client) -> None:
    def divide(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError) as caught:
        client.submit(divide, 0).result(WAIT)
    assert "in divide" in "".join(traceback.format_exception(caught.value))

    def fail() -> None:
        raise OwnError(1, "two")

    with pytest.raises(OwnError) as own:
        client.submit(fail).result(WAIT)
    assert own.value.number == 1 and own.value.args == (1, "two")
    with pytest.raises(TypeError):
        client.submit(len, threading.Lock())
    with pytest.raises(Exception, match="exited with code 3"):
        client.submit(lambda: os._exit(3)).result(WAIT)
    assert client.submit(divide, 2).result(WAIT) == 0.5


def test_cancel(client: Client) -> None:
    running = client.submit(time.sleep, 60)
    queued = [client.submit(time.sleep, 30) for _ in range(20)]
    assert running.cancel(WAIT) and running.cancelled()
    assert all(future.cancel(WAIT) for future in queued)
    assert client.submit(abs, -1).result(WAIT) == 1


def test_timeouts(client: Client) -> None:
    future = client.submit(time.sleep, 60)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.3)
    future.cancel(WAIT)


def test_graphs(client: Client) -> None:
    graph: dict[str, Any] = {"a": 2, "b": 3, "product": (lambda a, b: a * b, "a", "b"), "all": (sum, ["a", "b", 5])}
    assert client.get(graph, ["product", "all"]) == {"product": 6, "all": 10}
    chain: dict[str, Any] = {"n0": 0, **{f"n{n}": (lambda x: x + 1, f"n{n - 1}") for n in range(1, 300)}}
    assert client.get(chain, "n299") == 299
    with pytest.raises(Exception, match="cycle"):
        client.get({"a": (abs, "b"), "b": (abs, "a")}, ["a"])


def test_large_values_there_and_back(client: Client) -> None:
    data = os.urandom(1 << 20) * 16
    sent = client.send_object(data, name="data")
    futures = [client.submit(lambda data, at: (len(data), data[at]), sent, at) for at in range(8)]
    assert [future.result(WAIT) for future in futures] == [(16 << 20, data[at]) for at in range(8)]
    assert client.submit(lambda data: data, sent).result(WAIT) == data


def test_arrays(client: Client) -> None:
    import numpy

    array = numpy.arange(1 << 18, dtype=numpy.float64)
    found = client.submit(lambda array: array + 1, array).result(WAIT)
    assert found.shape == array.shape and found[5] == 6
    found[0] = 7  # a result belongs to the program


def test_tasks_that_submit_tasks(client: Client) -> None:
    def fibonacci(client: Client, number: int) -> int:
        if number < 2:
            return number
        left, right = (client.submit(fibonacci, client, number - less) for less in (1, 2))
        return int(left.result()) + int(right.result())

    assert client.submit(fibonacci, client, 6).result(WAIT) == 8


def test_futures_are_arguments_and_call_back(client: Client) -> None:
    five, one = client.submit(abs, -5), client.submit(abs, -1)
    six = client.submit(lambda x, y: x + y, five, y=one)
    called = threading.Event()
    six.add_done_callback(lambda future: called.set())
    assert six.result(WAIT) == 6 and called.wait(WAIT)
    assert not concurrent.futures.wait([five, one, six], WAIT).not_done


def test_profiling_and_explaining() -> None:
    with Client(ADDRESS, profiling=True) as client:
        future = client.submit(sum, range(100_000))
        future.result(WAIT)
        assert future.profiling_info().duration_s >= 0
        slow = client.submit(time.sleep, 60)
        assert client.explain(slow)
        slow.cancel(WAIT)


def test_a_progress_display(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    progress([client.submit(abs, -number) for number in range(20)])
    assert "20/20" in capsys.readouterr().err


# ---------------------------------------------------------------- results as they come, code of the program


def test_results_as_they_come(client: Client) -> None:
    endless = client.imap(lambda x: x * 2, itertools.count(), window=50)
    assert list(itertools.islice(endless, 200)) == list(range(0, 400, 2))
    endless.close()
    futures = [client.submit(abs, -number) for number in range(20)]
    assert sorted(int(future.result()) for future in client.as_completed(futures, WAIT)) == list(range(20))


def test_a_generator_runs_as_a_task(client: Client) -> None:
    def count(end: int) -> Iterator[int]:
        yield from range(end)

    assert list(client.stream(count, 100, window=8)) == list(range(100))
    with client.stream(itertools.count, window=2) as values:
        assert [next(values) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_values_come_in_an_event_loop() -> None:
    async def main() -> list[int]:
        async with Client(ADDRESS) as client:
            return [value async for value in client.imap(abs, range(-20, 0))]

    assert asyncio.run(main()) == list(range(20, 0, -1))


def test_the_stack_of_a_running_task(client: Client) -> None:
    slow = client.submit(time.sleep, 60)
    end_at = time.monotonic() + WAIT
    while not client.stack(slow).text and time.monotonic() < end_at:  # each question is answered by its worker
        pass
    stack = client.stack(slow)
    assert slow.cancel(WAIT)
    assert stack.state == "running" and stack.worker and stack.text, stack.reason


def test_a_tasks_own_time(client: Client) -> None:
    with pytest.raises(TaskTimeoutError):
        client.submit_verbose(time.sleep, (60,), {}, timeout=0.5).result(WAIT)


def test_modules_of_the_program_travel(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_bytes(b"from own_package.sums import add\r\n")
    (package / "sums.py").write_bytes("def add(a, b):\r\n    return f'é{a + b}'\r\n".encode())
    monkeypatch.syspath_prepend(str(tmp_path))
    with Client(ADDRESS, code=[package]) as client:
        own_package = importlib.import_module("own_package")
        assert client.submit(own_package.add, 1, 2).result(WAIT) == "é3"


def test_leaving_waits_where_it_is_told_to() -> None:
    with Client(ADDRESS, on_exit="wait") as client:
        future = client.submit(lambda: time.sleep(0.5) or 7)
    assert future.result(0) == 7


def test_a_task_opens_a_client_of_its_own(client: Client) -> None:
    def outer() -> int:
        from scaler import Client

        with Client() as own:
            return int(own.submit(abs, -3).result())

    assert client.submit(outer).result(WAIT) == 3


# ---------------------------------------------------------------- threads, loops, several clients


@pytest.mark.parametrize("policy", ["WindowsProactorEventLoopPolicy", "WindowsSelectorEventLoopPolicy"])
def test_in_an_event_loop(client: Client, policy: str) -> None:
    async def main() -> None:
        assert await client.submit(abs, -4) == 4
        assert await asyncio.gather(*(client.submit(abs, -number) for number in range(50))) == list(range(50))
        assert await asyncio.get_running_loop().run_in_executor(client, abs, -9) == 9
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.submit(time.sleep, 20), 0.5)

    asyncio.set_event_loop_policy(getattr(asyncio, policy)())
    try:
        asyncio.run(main())
    finally:
        asyncio.set_event_loop_policy(None)


def test_twenty_threads(client: Client) -> None:
    def work(number: int) -> list[int]:
        found = [int(client.submit(lambda a, b: a + b, number, i).result(WAIT)) for i in range(5)]
        assert client.map(abs, range(-50, 0)) == list(range(50, 0, -1))
        return found

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        found = list(threads.map(work, range(20), timeout=WAIT))
    assert found == [[number + i for i in range(5)] for number in range(20)]


def test_several_clients() -> None:
    clients = [Client(ADDRESS) for _ in range(4)]
    assert [client.submit(abs, -n).result(WAIT) for n, client in enumerate(clients)] == [0, 1, 2, 3]
    for client in clients:
        client.disconnect()
    with pytest.raises(Exception, match="disconnected"):
        clients[0].submit(abs, 1)


# ---------------------------------------------------------------- what tasks print

PRINTS = """
import sys
from scaler import Client
def talk(number):
    print("out", number, "caf\\u00e9 \\u4e16")
    print("err", number, file=sys.stderr)
    return number
with Client(sys.argv[1], stream_output=True) as client:
    assert client.map(talk, range(5)) == [0, 1, 2, 3, 4]
"""


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "utf-8"])
def test_no_line_of_a_task_is_lost_in_any_code_page(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run(
        [sys.executable, "-c", PRINTS, ADDRESS], env=environment, capture_output=True, timeout=WAIT, check=False
    )
    out, err = ended.stdout.decode(encoding), ended.stderr.decode(encoding)
    assert ended.returncode == 0, err
    character = "世" if encoding == "utf-8" else r"\u4e16"
    assert sorted(said(out)) == [f"out {number} café {character}" for number in range(5)]
    assert sorted(said(err)) == [f"err {number}" for number in range(5)]


def said(text: str) -> list[str]:
    """Without the names of the workers, which stand before each line."""
    return [line.rpartition("] ")[2] for line in text.splitlines()]


# ---------------------------------------------------------------- keys


def test_the_key_is_found_where_windows_keeps_settings(tmp_path: pathlib.Path) -> None:
    place = tmp_path / "scaler"
    place.mkdir()
    (place / "cluster.key").write_bytes(KEY_FILE.read_bytes())
    acl.keep_private(str(place / "cluster.key"))  # Wine lets every user read a new file
    environment = {**os.environ, "LOCALAPPDATA": str(tmp_path)}
    del environment["SCALER_KEY_FILE"]
    program = f"from scaler import Client\nwith Client({ADDRESS!r}) as client: print(client.submit(abs, -1).result())"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert ended.stdout.split() == ["1"], ended.stderr


def test_a_key_that_others_can_read_is_refused(tmp_path: pathlib.Path) -> None:
    copied = tmp_path / "copied.key"
    copied.write_bytes(KEY_FILE.read_bytes())
    with pytest.raises(Exception, match="can be read or written by other users") as caught:
        Client(ADDRESS, key_file=copied, timeout_seconds=5)
    assert f'icacls "{copied}" /inheritance:r /grant:r ' in str(caught.value)
    acl.keep_private(str(copied))
    with Client(ADDRESS, key_file=copied) as client:
        assert client.submit(abs, -1).result(WAIT) == 1


def test_without_a_key_the_place_for_it_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEY_FILE")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    with pytest.raises(Exception, match="no key for") as caught:
        Client(ADDRESS, timeout_seconds=5)
    assert str(tmp_path / "scaler" / "cluster.key") in str(caught.value)


def test_a_wrong_key_is_refused(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.key"
    made = subprocess.run(
        [sys.executable, "-m", "scaler_protocol.keys", "make", str(other)],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    with pytest.raises(Exception, match="key") as caught:
        Client(ADDRESS, key_file=other, timeout_seconds=5)
    assert "Traceback" not in str(caught.value)


# ---------------------------------------------------------------- sentences


def test_addresses_that_lead_nowhere() -> None:
    wrong = ["tcp://127.0.0.1:9", "tcp://nosuch.invalid:2345", "127.0.0.1:2345", "ipc:///tmp/x", "tcp://127.0.0.1"]
    for address in wrong:
        with pytest.raises(Exception, match=r"\w+") as caught:
            Client(address, timeout_seconds=1)
        assert address.rpartition("/")[2] in str(caught.value), caught.value


def test_what_only_windows_has_is_explained(client: Client) -> None:
    for call, arguments in ((os.getpid, ()), (str, (pathlib.Path("a"),))):
        with pytest.raises(Exception, match="only Windows has"):
            client.submit(call, *arguments).result(WAIT)  # type: ignore[arg-type]


def test_a_cluster_is_refused_in_one_sentence() -> None:
    with pytest.raises(NotImplementedError, match="runs on Linux and macOS only"):
        SchedulerClusterCombo(n_workers=1)


def test_a_shared_cluster_is_not_ended(client: Client) -> None:
    with pytest.raises(ValueError, match="protected"):
        client.shutdown()
