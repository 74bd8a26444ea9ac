"""Programs with a local cluster, as people write them: at module level, without shutdown(), ended in every way."""

from __future__ import annotations

import inspect
import signal
from pathlib import Path
from typing import Any

import pytest

import scaler
from scaler import Client, SchedulerClusterCombo
from scaler.cluster.cluster import Cluster
from scaler.cluster.keywords import ClientOptions, ClusterOptions
from scaler.cluster.object_storage_server import ObjectStorageServerProcess
from scaler.utility.exceptions import ClientQuitException, DeserializeObjectError
from tests.support.clusters import storage_status
from tests.support.processes import WAIT, Command, Stage

BEGIN = """
import sys, time
from scaler import Client, SchedulerClusterCombo
cluster = SchedulerClusterCombo(n_workers=1{more})
client = Client(cluster.get_address())
print(client.submit(abs, -1).result())
"""
INFO = ', logging_level="INFO"'
ALL_HAS_ENDED = "ClusterProcess: all workers have ended"


def program(stage: Stage, end: str, more: str = INFO) -> Command:
    return stage.start_program(BEGIN.format(more=more) + end)


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_program_that_shuts_nothing_down_ends_in_order(stage: Stage, is_warm: bool) -> None:
    end = "" if is_warm else "sys.exit()"
    begin = "" if is_warm else "import scaler.cluster.combo\nscaler.cluster.combo.can_start_warm = lambda: False\n"
    ended = stage.start_program(begin + BEGIN.format(more=INFO) + end)
    assert ended.wait() == 0
    assert ended.lines == ["1"]
    assert "Traceback" not in ended.text and "Exception ignored" not in ended.text
    assert ALL_HAS_ENDED in ended.text, "its workers were told to end, and had the time"


def test_a_program_that_raises_shows_its_own_traceback_and_no_other(stage: Stage) -> None:
    ended = program(stage, "raise RuntimeError('of the program')")
    assert ended.wait() == 1
    assert ended.text.count("Traceback") == 1 and "Exception ignored" not in ended.text
    assert "RuntimeError: of the program" in ended.error_lines
    assert ALL_HAS_ENDED in ended.text


@pytest.mark.parametrize(
    "waits", ["time.sleep(60)", "client.map(time.sleep, [60, 60])", "client.submit(time.sleep, 60).result()"]
)
def test_ctrl_c_ends_a_program_in_order(stage: Stage, waits: str) -> None:
    running = program(stage, f"print('now', flush=True)\n{waits}")
    running.wait_for("^now$")
    assert running.end(signal.SIGINT) != 0
    assert "KeyboardInterrupt" in running.error_lines
    assert running.text.count("Traceback") == 1 and "Exception ignored" not in running.text
    assert ALL_HAS_ENDED in running.text


DAEMONS = """
import asyncio, concurrent.futures, threading
slow = client.submit(time.sleep, 60)
async def awaited():
    await client.submit(time.sleep, 60)
def forever():
    while True:
        try:
            client.submit(abs, -1).result()
        except BaseException as error:
            print("failed", error, flush=True)
            raise
ways = [
    slow.result,
    slow.exception,
    lambda: client.map(time.sleep, [60, 60]),
    lambda: list(client.imap(time.sleep, [60, 60])),
    lambda: concurrent.futures.wait([slow]),
    lambda: list(concurrent.futures.as_completed([slow])),
    lambda: client.get({{"key": (time.sleep, 60)}}, ["key"]),
    lambda: asyncio.run(awaited()),
    forever,
]
begun = threading.Barrier(len(ways) + 1)
def run(way):
    begun.wait()
    way()
for way in ways:
    threading.Thread(target=run, args=(way,), daemon=True).start()
begun.wait()
"""


def test_daemon_threads_that_wait_say_nothing_at_exit(stage: Stage) -> None:
    """As those that wait for a pool of threads: the interpreter stops them where they are. Formerly each of them had a
    traceback that its task was canceled."""
    ended = program(stage, DAEMONS.format(), more="")
    assert ended.wait() == 0
    assert ended.lines == ["1"]
    assert not ended.error_lines


def test_exit_hooks_of_the_program_can_use_the_cluster(stage: Stage) -> None:
    """They were registered after ours, so they run before it."""
    ended = program(stage, "import atexit\natexit.register(lambda: print(client.submit(abs, -2).result()))")
    assert ended.wait() == 0 and ended.lines == ["1", "2"]


def test_standard_output_is_the_programs_own(stage: Stage) -> None:
    """At the loudest level, and whatever tasks print."""
    end = "client.submit(print, 'printed by a task').result()\ncluster.shutdown()"
    ended = program(stage, end, ', logging_level="DEBUG"')
    assert ended.wait() == 0
    assert ended.lines == ["1"]
    assert "printed by a task" in ended.error_lines and ALL_HAS_ENDED in ended.text


@pytest.mark.parametrize(("end", "more"), [("", ""), ("client.shutdown()", ", protected=False")])
def test_a_quiet_program_has_no_line_of_its_cluster(stage: Stage, end: str, more: str) -> None:
    ended = program(stage, end, more)
    assert ended.wait() == 0
    assert ended.text == "1"


def test_logs_go_to_standard_output_when_they_are_told_to(stage: Stage) -> None:
    ended = program(stage, "", ', logging_paths=("/dev/stdout",), logging_level="INFO"')
    assert ended.wait() == 0
    assert any(ALL_HAS_ENDED in line for line in ended.lines) and not ended.error_lines


NO_THREADS = """
import atexit, _thread
def refuse(*_arguments):
    raise RuntimeError("can't create new thread at interpreter shutdown")
@atexit.register
def end():
    _thread.start_new_thread = refuse
    globals().pop("results")
def numbers():
    yield from range(100)
"""


@pytest.mark.parametrize("half_read", ["stream(numbers)", "imap(abs, [client.submit(abs, -1)] * 100)"])
def test_what_is_half_read_at_module_level_ends_in_order(stage: Stage, half_read: str) -> None:
    """The hook is registered first, so it runs last. From then on no thread begins, as in Python 3.12 and later."""
    end = f"results = client.{half_read}\nprint(next(results))\n"
    ended = stage.start_program(f"{NO_THREADS}{BEGIN.format(more='')}{end}")
    assert ended.wait() == 0
    assert len(ended.lines) == 2 and not ended.error_lines


def test_a_forked_child_leaves_the_cluster_alone(stage: Stage) -> None:
    end = """
import os
def use(cluster):
    child = os.fork()
    if not child:
        del cluster
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
cluster, kept = None, [cluster]
use(kept.pop())
"""
    made = BEGIN.format(more="").replace("client = Client", "again = cluster\nclient = Client")
    ended = stage.start_program(made + end + "print(client.submit(abs, -2).result())")
    assert ended.wait() == 0, ended.text
    assert ended.lines == ["1", "2"]


def test_a_program_for_which_warnings_are_errors(stage: Stage) -> None:
    """Also of its cluster's processes: none leaves a socket to the garbage collector."""
    code = f"import os\nos.environ['PYTHONWARNINGS'] = 'error'\n{BEGIN.format(more='')}"
    ended = stage.start_program(
        code + "client.submit(lambda inner: inner.submit(abs, -1).result(), client).result()\n"
        "print(type(client.submit(os._exit, 3).exception()).__name__)"
    )
    assert ended.wait() == 0
    assert ended.lines == ["1", "ProcessorDiedError"]
    assert "Warning" not in ended.text


# ---------------------------------------------------------------- what else people write


def test_a_client_takes_a_cluster_for_its_address(stage: Stage) -> None:
    with Client(SchedulerClusterCombo(n_workers=1)) as client:
        assert client.submit(lambda inner: inner.submit(abs, -3).result(), client).result(WAIT) == 3


def test_a_storage_is_started_where_none_answers(stage: Stage) -> None:
    port = stage.ports()
    scheduler, storage = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{stage.ports()}"
    with SchedulerClusterCombo(1, scheduler, storage_address=storage) as combo, Client(combo) as client:
        large = b"x" * 1_000_000
        assert client.submit(len, client.send_object(large)).result(WAIT) == len(large)
        assert storage_status(storage).object_count


def test_a_storage_that_answers_is_used(stage: Stage) -> None:
    storage = f"tcp://127.0.0.1:{stage.ports()}"
    server = stage.start("scaler_storage", storage)
    server.wait_for("listen")
    with SchedulerClusterCombo(1, storage_address=storage) as combo, Client(combo) as client:
        reference = client.send_object(b"x" * 1_000_000)
        assert client.submit(len, reference).result(WAIT) == 1_000_000
        assert storage_status(storage).object_count
        assert combo._storage is None
    assert server.process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"logging_level": "LOUD"}, "logging_level: there is no 'LOUD'; choose one of: DEBUG, INFO"),
        ({"event_loop": "fast"}, "event_loop: there is no event loop called 'fast'"),
        ({"allocate_policy": "odd"}, "allocate_policy: there is no 'odd'; choose one of: even, capability"),
        ({"heartbeat_interval_seconds": 0}, "heartbeat_interval: '0' is not a number of seconds above zero"),
        ({"client_timeout_seconds": "long"}, "client_timeout_seconds: 'long'"),
        ({"per_worker_task_queue_size": -5}, "worker_task_queue_size: '-5' is not a whole number above zero"),
        ({"per_worker_capabilities": {"gpu": "many"}}, "per_worker_capabilities: 'gpu=many' is not a capability"),
        ({"protected": "perhaps"}, "protected: 'perhaps' is neither True nor False"),
        ({"logging_paths": ()}, "logging_paths: name at least one"),
    ],
)
def test_wrong_arguments_are_told_in_the_line_that_has_them(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as caught:
        SchedulerClusterCombo(n_workers=1, **arguments)
    assert told in str(caught.value)


def test_a_cluster_of_no_workers_warns() -> None:
    with pytest.warns(RuntimeWarning, match="no workers") as caught, SchedulerClusterCombo(n_workers=0):
        pass
    assert caught[0].filename == __file__


@pytest.mark.parametrize("level", ["warning", 30])
def test_levels_may_be_written_in_other_ways(level: object) -> None:
    process = ObjectStorageServerProcess("tcp://127.0.0.1:2346", logging_level=level)  # type: ignore[arg-type]
    assert "--logging-level=WARNING" in process.command


def test_the_processes_check_their_arguments_too() -> None:
    with pytest.raises(ValueError, match="io_threads: '0' is not a whole number above zero"):
        Cluster("tcp://127.0.0.1:2345", worker_io_threads=0)


def parent(client: Client, count: int) -> int:
    return sum(client.map(abs, range(-count, 0)))


def test_a_cluster_and_its_client_take_the_options_of_both() -> None:
    with scaler.local(
        workers=1, timeout_seconds=20, weight=0.5, trust_results=False, profiling=True, tasks_per_processor=5
    ) as client:
        assert client.submit(abs, -2).result(WAIT) == 2
        assert (client._timeout_seconds, client._weight) == (20.0, 0.5)
        with pytest.raises(DeserializeObjectError):
            client.submit(Path, "of a class that is not trusted").result(WAIT)


def test_the_name_that_a_cluster_alone_has_for_its_workers() -> None:
    local: Any = scaler.local
    with pytest.raises(TypeError, match=r"^the number of workers is local\(workers=\.\.\.\)"):
        local(n_workers=2)


def test_the_keywords_that_are_passed_on_are_those_of_the_classes() -> None:
    """As editors see them: each name with its type."""
    for keywords, taken_by, own in (
        (ClusterOptions, SchedulerClusterCombo, {"self", "n_workers"}),
        (ClientOptions, Client, {"self", "address"}),
    ):
        parameters = inspect.signature(taken_by.__init__).parameters
        told = {name: one.__forward_arg__ for name, one in keywords.__annotations__.items()}
        assert told == {name: one.annotation for name, one in parameters.items() if name not in own}
    passed = inspect.signature(scaler.local).parameters.keys() - {"workers", "options"}
    assert passed == ClientOptions.__annotations__.keys() - ClusterOptions.__annotations__.keys()


@pytest.mark.parametrize("end", ["leave", "disconnect", "shutdown"])
def test_a_cluster_and_its_client_in_one(end: str) -> None:
    with scaler.local(workers=2) as client:
        assert client.submit(parent, client, 10).result(WAIT) == 55
        cluster = client.cluster
        assert cluster is not None
        with cluster.client(timeout_seconds=10) as other:
            assert other.submit(abs, -1).result(WAIT) == 1
        assert client.submit(abs, -2).result(WAIT) == 2
        if end != "leave":
            getattr(client, end)()
    with pytest.raises(ClientQuitException):
        client.submit(abs, -1)
    assert not cluster._children
