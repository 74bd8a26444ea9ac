"""Clients and workers in other languages work with ours, and with each other. `make ports` builds them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError, ProcessorDiedError, TaskTimeoutError
from scaler_protocol import codes
from scaler_protocol.keys import new_secret
from scaler_protocol.keys.files import make_file
from scaler_protocol.keys.places import FILE_VARIABLE
from scaler_protocol.keys.texts import key_text
from tests.support.clusters import RealCluster, watching
from tests.support.ports import CPP_CLIENT, CPP_WORKER, TYPESCRIPT_CLIENT, PortClient, need
from tests.support.processes import WAIT, Stage, until

FUNCTIONS = "conformance.adapters.named_functions"
LARGE = bytes(range(256)) * 70_000  # 18 MB: several chunks each way

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Named for all: ports look for no key by themselves."""
    path = tmp_path_factory.mktemp("key") / "cluster.key"
    make_file(str(path), key_text([new_secret()]).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(path))
        yield


class PortCluster(RealCluster):
    """Our storage and scheduler, with workers of this language."""

    def __init__(self, stage: Stage, language: str, *options: str) -> None:
        super().__init__(stage, 0)
        if language == "cpp":
            need(CPP_WORKER)
            self.start_cpp_worker(*options)
        else:
            self.start_workers(1, "--functions", FUNCTIONS)
        self.wait_for_workers(1)

    def start_cpp_worker(self, *options: str) -> None:
        self.workers.append(self.stage.start_program_file(CPP_WORKER, "--scheduler", self.address, *options))


@pytest.fixture(scope="module")
def cpp_cluster(module_stage: Stage) -> PortCluster:
    return PortCluster(module_stage, "cpp", "--places", "2")


@pytest.fixture(scope="module")
def python_cluster(module_stage: Stage) -> PortCluster:
    return PortCluster(module_stage, "python")


@pytest.fixture(params=["cpp client, python worker", "cpp client, cpp worker", "typescript client, python worker",
                        "typescript client, cpp worker"])  # fmt: skip
def port_client(request: pytest.FixtureRequest, module_stage: Stage) -> Iterator[PortClient]:
    client, _, worker = request.param.partition(", ")
    language = client.split()[0]
    need({"cpp": CPP_CLIENT, "typescript": TYPESCRIPT_CLIENT}[language])
    cluster: PortCluster = request.getfixturevalue(f"{worker.split()[0]}_cluster")
    with PortClient(module_stage, language) as port:
        port.connect(cluster.address)
        yield port


# ---------------------------------------------------------------- our client, the worker in C++


@pytest.fixture
def client(cpp_cluster: PortCluster) -> Iterator[Client]:
    with Client(cpp_cluster.address) as client:
        yield client


def test_a_worker_in_cpp_serves_our_client(client: Client) -> None:
    assert client.submit_named("concat", b"a\x00", b"", b"b").result(WAIT) == b"a\x00b"
    futures = [client.submit_named("add", b"%d" % number, b"1") for number in range(300)]
    assert [future.result(WAIT) for future in futures] == [b"%d" % (number + 1) for number in range(300)]
    assert client.submit_named("reverse", LARGE).result(WAIT) == LARGE[::-1]


def test_tasks_in_cpp_submit_others(client: Client) -> None:
    depth = [b"submit_child"] * 5
    assert client.submit_named(depth[0].decode(), *depth[1:], b"add", b"40", b"2").result(WAIT) == b"42"


def test_failures_in_cpp_are_told(client: Client) -> None:
    with pytest.raises(Exception, match="as told"):
        client.submit_named("fail", b"as told").result(WAIT)
    with pytest.raises(DeserializeObjectError, match="no_such"):
        client.submit_named("no_such").result(WAIT)
    with pytest.raises(DeserializeObjectError, match="by name only"):
        client.submit(len, "what is pickled").result(WAIT)
    with pytest.raises(ProcessorDiedError):
        client.submit_named("crash", b"3").result(WAIT)
    with pytest.raises(TaskTimeoutError):
        client.submit_named("spin_ms", b"60000", timeout=0.2).result(WAIT)
    assert client.submit_named("echo", b"still here").result(WAIT) == b"still here"


def test_a_task_in_cpp_is_canceled_running_and_waiting(client: Client) -> None:
    futures = [client.submit_named(name, b"60000") for name in ("sleep_ms", "spin_ms", "sleep_ms", "echo")]
    assert all(future.cancel() for future in futures[:3])
    assert futures[3].result(WAIT) == b"60000"


def test_what_a_task_in_cpp_prints_is_seen(cpp_cluster: PortCluster, capfd: pytest.CaptureFixture[str]) -> None:
    with Client(cpp_cluster.address, stream_output=True) as client:
        client.submit_named("print_text", "grüße\n".encode() * 200, b"no line").result(WAIT)
    assert capfd.readouterr().out.count("grüße") == 200


def test_profiles_from_cpp(client: Client) -> None:
    future = client.submit_named("sleep_ms", b"30")
    future.result(WAIT)
    assert 0.03 <= future.profiling_info().duration_s < WAIT


def test_workers_of_two_languages_serve_one_client(stage: Stage) -> None:
    cluster = PortCluster(stage, "cpp", "--capability", "cpp")
    cluster.start_workers(1, "--functions", FUNCTIONS, "--per-worker-capabilities", "python")
    cluster.wait_for_workers(2)
    with Client(cluster.address) as client:  # children go to whichever worker has a place
        futures = [
            client.submit_named("submit_child", b"submit_child", b"reverse", b"%d" % n, capabilities={language: -1})
            for n in range(10, 15)
            for language in ("cpp", "python")
        ]
        assert [future.result(WAIT) for future in futures][::2] == [b"01", b"11", b"21", b"31", b"41"]
        assert [future.result(WAIT) for future in futures][1::2] == [b"01", b"11", b"21", b"31", b"41"]


# ---------------------------------------------------------------- clients in other languages


def test_calls_go_there_and_come_back(port_client: PortClient) -> None:
    assert port_client.call("concat", b"a\x00", b"", b"b") == b"a\x00b"
    assert port_client.call("concat") == b""
    calls = [[(b"%d" % number).hex(), b"1".hex()] for number in range(300)]
    tasks = port_client.ask("map", function="add", calls=calls)["tasks"]
    assert [port_client.result(task) for task in tasks] == [b"%d" % (number + 1) for number in range(300)]


def test_large_values_go_by_the_storage(port_client: PortClient) -> None:
    assert port_client.call("reverse", LARGE) == LARGE[::-1]


def test_tasks_submit_others(port_client: PortClient) -> None:
    depth = [b"submit_child"] * 3
    assert port_client.call("submit_child", *depth, b"add", b"40", b"2") == b"42"
    status, error = port_client.error(port_client.submit("submit_child", b"fail", b"as told"))
    assert (status, error["code"]) == (codes.STATUS_FAILED, codes.TASK_RAISED) and "as told" in error["message"]


def test_failures_are_told(port_client: PortClient) -> None:
    status, error = port_client.error(port_client.submit("fail", b"as told"))
    assert (status, error["code"]) == (codes.STATUS_FAILED, codes.TASK_RAISED) and "as told" in error["message"]
    status, error = port_client.error(port_client.submit("no_such"))
    assert (status, error["code"]) == (codes.STATUS_REFUSED, codes.FUNCTION_UNREADABLE)
    status, error = port_client.error(port_client.submit("crash"))
    assert (status, error["code"]) == (codes.STATUS_PROCESSOR_DIED, codes.PROCESSOR_DIED) and error["exit_code"] < 0
    status, error = port_client.error(port_client.submit("sleep_ms", b"60000", timeout=0.2))
    assert (status, error["code"]) == (codes.STATUS_TIMED_OUT, codes.TASK_TIMED_OUT)


def test_a_cancel_is_answered(port_client: PortClient) -> None:
    task = port_client.submit("sleep_ms", b"60000")
    port_client.ask("cancel", tasks=[task, "00" * 16], grace=0.5)
    assert port_client.error(task)[0] == codes.STATUS_CANCELED
    assert port_client.event("cancel", task=task)["outcome"] == codes.CANCEL_CANCELED
    assert port_client.event("cancel", task="00" * 16)["outcome"] == codes.CANCEL_UNKNOWN


def test_wrong_commands_are_told_and_change_nothing(port_client: PortClient) -> None:
    assert port_client.answer("frobnicate")["unsupported"] is True
    for wrong in ({"function": 3}, {"function": "echo", "arguments": "00"}, {"function": "echo", "arguments": ["0x"]}):
        assert port_client.answer("submit", **wrong)["error"]["text"], wrong
    assert port_client.answer("connect", scheduler="tcp://127.0.0.1:1")["error"]["text"]
    assert port_client.error(port_client.submit("concat", *[b""] * 70_000))[1]["code"] == codes.TOO_LARGE
    assert port_client.call("echo", b"still here") == b"still here"


@pytest.mark.parametrize("language", ["cpp", "typescript"])
def test_a_wrong_address_is_told(stage: Stage, language: str) -> None:
    need({"cpp": CPP_CLIENT, "typescript": TYPESCRIPT_CLIENT}[language])
    cluster = PortCluster(stage, "python")
    with PortClient(stage, language) as client:
        for wrong in ("localhost", "tcp://localhost", "tcp://127.0.0.1:0", "http://127.0.0.1:2345"):
            assert "tcp://127.0.0.1:2345" in client.answer("connect", scheduler=wrong)["error"]["text"], wrong
        client.connect(cluster.address)
        assert client.call("echo", b"at last") == b"at last"


# ---------------------------------------------------------------- what is killed


@pytest.mark.parametrize("language", ["cpp", "typescript"])
def test_a_scheduler_that_is_killed_costs_nothing(stage: Stage, language: str) -> None:
    need({"cpp": CPP_CLIENT, "typescript": TYPESCRIPT_CLIENT}[language])
    cluster = PortCluster(stage, "cpp", "--heartbeat", "0.2")
    with PortClient(stage, language) as client:
        client.connect(cluster.address, heartbeat=0.2)
        tasks = [client.submit("sleep_ms", b"300") for _ in range(4)]
        large = client.submit("reverse", LARGE)
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        assert [client.result(task) for task in tasks] == [b""] * 4
        assert client.result(large) == LARGE[::-1]


def test_a_task_in_cpp_outlives_its_scheduler(stage: Stage) -> None:
    """It is presented to the next one, so the process that runs it is not killed. (WRK-34, WRK-36)"""
    cluster = PortCluster(stage, "cpp", "--heartbeat", "0.2")
    (worker,) = cluster.workers
    with Client(cluster.address, heartbeat_interval_seconds=0.2) as client:
        future = client.submit_named("sleep_ms", b"4000")
        until(lambda: len(stage.family(worker)) == 2, "its processor is there")
        cluster.wait_until(lambda status: any(one.held_count for one in status.workers), "the task is held")
        before = {process.pid for process in stage.family(worker)}
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        cluster.wait_for_workers(1)
        assert future.result(WAIT) == b""
    assert {process.pid for process in stage.family(worker)} == before


@pytest.mark.parametrize("language", ["cpp", "typescript"])
def test_of_two_schedulers_the_one_that_serves_is_found(stage: Stage, language: str) -> None:
    """Addresses are lists, and a standby turns dialers away. When the first is gone, the second serves. (HSK-39)"""
    need({"cpp": CPP_CLIENT, "typescript": TYPESCRIPT_CLIENT}[language])
    cluster = PortCluster(stage, "cpp", "--heartbeat", "0.2")
    standby = f"tcp://127.0.0.1:{stage.ports()}"
    options = ("-osa", cluster.storage_address, "--standby-of", cluster.address, "--standby-lease-seconds", "1")
    stage.start("scaler_scheduler", standby, *options)
    with watching(standby) as watch:
        until(lambda: bool(watch.snapshot().standby_of), "the second waits")
    both = f"{standby},{cluster.address}"
    cluster.start_cpp_worker("--scheduler", both, "--heartbeat", "0.2")
    cluster.wait_for_workers(2)
    with PortClient(stage, language) as client:
        client.connect(both, heartbeat=0.2)
        assert client.call("echo", b"from the first") == b"from the first"
        cluster.scheduler.end(signal.SIGTERM)
        task = client.submit("echo", b"from the second")
        assert client.result(task) == b"from the second"


@pytest.mark.parametrize("language", ["cpp", "typescript"])
def test_a_worker_that_is_killed_costs_nothing(stage: Stage, language: str) -> None:
    need({"cpp": CPP_CLIENT, "typescript": TYPESCRIPT_CLIENT}[language])
    cluster = PortCluster(stage, "cpp", "--heartbeat", "0.2", "--lease", "2")
    with Client(cluster.address) as client, PortClient(stage, language) as port:
        port.connect(cluster.address)
        futures = [client.submit_named("sleep_ms", b"400") for _ in range(2)]
        tasks = [port.submit("sleep_ms", b"400"), port.submit("reverse", LARGE)]
        cluster.workers[0].end(signal.SIGKILL)
        cluster.start_cpp_worker("--heartbeat", "0.2")
        assert [future.result(WAIT) for future in futures] == [b""] * 2
        assert [port.result(task) for task in tasks] == [b"", LARGE[::-1]]


def test_a_worker_that_is_told_to_end_hands_its_tasks_back(stage: Stage) -> None:
    cluster = PortCluster(stage, "cpp", "--grace", "20")
    with Client(cluster.address) as client:
        futures = [client.submit_named("sleep_ms", b"300") for _ in range(4)]
        cluster.wait_until(lambda status: any(worker.held_count for worker in status.workers), "a task is held")
        assert cluster.workers[0].end(signal.SIGTERM) == 0
        cluster.start_cpp_worker()
        assert [future.result(WAIT) for future in futures] == [b""] * 4


def test_nothing_is_left_of_a_client_and_its_tasks(stage: Stage) -> None:
    cluster = PortCluster(stage, "cpp")
    for language, program in (("cpp", CPP_CLIENT), ("typescript", TYPESCRIPT_CLIENT)):
        if program.exists():
            with PortClient(stage, language) as client:
                client.connect(cluster.address)
                assert client.call("reverse", LARGE) == LARGE[::-1]
    cluster.wait_until_empty()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--scheduler",),
        ("--scheduler", "tcp://127.0.0.1:1", "--places", "0"),
        ("--scheduler", "localhost"),
        ("--what", "is this"),
    ],
)
def test_a_wrong_command_line_is_told(stage: Stage, words: tuple[str, ...]) -> None:
    need(CPP_WORKER)
    command = stage.start_program_file(CPP_WORKER, *words)
    assert command.wait() == 2 and "usage:" in command.text


def test_a_worker_at_a_storage_says_so(stage: Stage) -> None:
    need(CPP_WORKER)
    cluster = RealCluster(stage, 0)
    command = stage.start_program_file(CPP_WORKER, "--scheduler", cluster.storage_address)
    assert command.wait() == 1
    assert "storage" in command.text
