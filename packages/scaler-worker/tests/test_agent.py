"""A whole worker, agent, zygote and processors, against a scheduler that only does what the test says."""

from __future__ import annotations

import io
import os
import signal
import stat
import sys
import threading
import time
from struct import unpack
from typing import Any

import numpy
import psutil
import pytest

from scaler_protocol import task_context, values
from scaler_protocol.codes import (
    CALL_RAW,
    CALL_SEPARATE,
    CANCEL_CANCELED,
    CANCEL_TOO_LATE,
    CANCEL_UNKNOWN,
    FLAG_PROFILING,
    FLAG_STREAM_OUTPUT,
    FUNCTION_UNREADABLE,
    KIND_INLINE,
    KIND_NONE,
    KIND_OBJECT,
    KIND_TASK,
    PROCESSOR_DIED,
    RESULT_UNREADABLE,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    TASK_RAISED,
    TASK_TIMED_OUT,
)
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import ObjectId, content_id, result_object_id
from scaler_protocol.messages import Dispatch, Recall, Shutdown, TaskHeader
from scaler_protocol.values import PartReference


def double(value: Any) -> Any:
    return 2 * value


def dumped(value: Any) -> bytes:
    return b"".join(values.dumps(value))


# ---------------------------------------------------------------- calls


def test_a_task_runs(cluster: Any, worker: Any) -> None:
    assert cluster.run(double, 21).loaded == 42


def test_many_tiny_tasks_run_each_once_and_in_order(cluster: Any, worker: Any) -> None:
    ids = cluster.dispatch(double, *[(number,) for number in range(3000)])
    results = cluster.wait_results(ids, "3000 results")
    assert [result.loaded for result in results] == [2 * number for number in range(3000)]
    assert list(cluster.results) == ids
    assert cluster.credits[-1] == 1000


def test_keyword_arguments_builtins_and_lambdas(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda *a, k=0, **kw: (a, k, kw))
    part = b"".join(values.dumps_call((1,), {"k": 2, "z": 3}))
    (task,) = cluster.dispatch_parts(function, [part])
    assert cluster.wait_results([task])[0].loaded == ((1,), 2, {"z": 3})
    assert cluster.run(max, 3, 9, 4).loaded == 9


def test_separate_parts_and_keywords(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda a, b, *, c: (a, b, c))
    parts = [dumped(1), dumped("two"), dumped([3])]
    (task,) = cluster.dispatch_parts(
        function, parts, count=1, part_counts=join_u16([3]), call_format=CALL_SEPARATE, keywords=("c",)
    )  # fmt: skip
    assert cluster.wait_results([task])[0].loaded == (1, "two", [3])


def test_raw_calls_take_and_give_bytes(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda a, b: b + a)
    (task,) = cluster.dispatch_parts(
        function, [b"\x00world", b"hello"], count=1, part_counts=join_u16([2]), call_format=CALL_RAW
    )  # fmt: skip
    assert cluster.wait_results([task])[0].value == b"hello\x00world"


def test_object_parts_are_fetched_and_arrays_are_writable(cluster: Any, worker: Any) -> None:
    def add_one(array: numpy.ndarray, scale: int) -> float:
        array += 1
        return float(array.sum()) * scale

    array_id = cluster.storage.put(numpy.zeros(100_000))
    call = b"".join(values.dumps_call((PartReference(1),), {"scale": 2}))
    (task,) = cluster.dispatch_parts(
        cluster.storage.put(add_one), [call, array_id], count=1, part_counts=join_u16([2]),
        part_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
    )  # fmt: skip
    assert cluster.wait_results([task])[0].loaded == 200_000.0


def test_results_of_earlier_tasks_are_parts(cluster: Any, worker: Any) -> None:
    earlier = cluster.new_ids(2)
    call = b"".join(values.dumps_call((PartReference(1), PartReference(2)), {}))
    stored = cluster.storage.put("stored")
    batch = Dispatch(
        TaskHeader(client=cluster.client_id),
        cluster.storage.put(lambda a, b: (a, b)),
        join_ids(cluster.new_ids(1)),
        call + b"".join(earlier) + dumped("inline") + stored,
        join_u32([len(call), 16, 16]),
        part_counts=join_u16([3]),
        part_kinds=bytes([KIND_INLINE, KIND_TASK, KIND_TASK]),
        input_ids=join_ids(earlier),
        input_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
        input_sizes=join_u32([len(dumped("inline")), 16]),
    )
    cluster.send(batch)
    cluster.wait_until(lambda: cluster.results, "the result")
    (result,) = cluster.results.values()
    assert result.loaded == ("inline", "stored")


def test_a_custom_serializer_reads_and_writes(cluster: Any, worker: Any) -> None:
    class Reversing:
        @staticmethod
        def serialize(value: Any) -> bytes:
            return dumped(value)[::-1]

        @staticmethod
        def deserialize(data: bytes) -> Any:
            assert type(data) is bytes
            return values.loads(data[::-1])

    serializer = cluster.storage.put(Reversing())
    part = b"".join(values.dumps_call((4,), {}))[::-1]
    (task,) = cluster.dispatch_parts(cluster.storage.put(double), [part], serializer=serializer)
    (result,) = cluster.wait_results([task])
    assert values.loads(result.value[::-1]) == 8


def test_a_large_result_becomes_an_object_of_the_client(cluster: Any, worker: Any) -> None:
    (task,) = cluster.dispatch(double, (b"x" * 100_000,))
    (result,) = cluster.wait_results([task])
    object_id = result_object_id(task, 1)
    assert (result.kind, result.value) == (KIND_OBJECT, object_id)
    assert values.loads(cluster.storage.objects[object_id]) == b"x" * 200_000
    assert cluster.storage.owners[object_id] == cluster.client_id


def test_each_processor_draws_its_own_random_numbers(cluster: Any, start_worker: Any) -> None:
    def draw() -> tuple[int, float]:
        import random

        return os.getpid(), random.random()

    start_worker()
    first = cluster.run(draw).loaded
    cluster.run(os._exit, 0)
    second = cluster.run(draw).loaded
    assert first[0] != second[0] and first[1] != second[1]


# ---------------------------------------------------------------- failures


def test_an_error_travels_with_its_cause_and_the_users_frames(cluster: Any, worker: Any) -> None:
    def inner() -> None:
        raise KeyError("deep")

    def outer() -> None:
        try:
            inner()
        except KeyError as error:
            raise ValueError("shown") from error

    result = cluster.run(outer)
    error = result.error
    assert (result.status, error.code) == (STATUS_FAILED, TASK_RAISED)
    assert (error.type_name, error.message) == ("builtins.ValueError", "shown")
    assert "in inner" in error.text and "in outer" in error.text and "scaler_worker" not in error.text
    raised = values.loads(error.serialized)
    assert isinstance(raised, ValueError) and isinstance(raised.__cause__, KeyError)


class Demanding(Exception):
    """Pickles, and fails to unpickle: __init__ wants more than `args`."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_demanding() -> None:
    raise Demanding(1, 2)


def raise_unpicklable() -> None:
    error = RuntimeError("holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def raise_unprintable() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise OSError("no")

    raise Unprintable


@pytest.mark.parametrize(
    ("function", "type_name"),
    [(raise_demanding, "Demanding"), (raise_unpicklable, "builtins.RuntimeError"), (raise_unprintable, "Unprintable")],
)
def test_errors_that_cannot_travel_arrive_as_text(cluster: Any, worker: Any, function: Any, type_name: str) -> None:
    error = cluster.run(function).error
    assert error.type_name.endswith(type_name) and error.text
    if function is not raise_unprintable:
        assert error.serialized == b""
    assert cluster.run(double, 1).loaded == 2


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exits_are_failures_of_the_task(cluster: Any, worker: Any, kind: type) -> None:
    def leave() -> None:
        raise kind(3)

    result = cluster.run(leave)
    assert (result.status, result.error.type_name) == (STATUS_FAILED, f"builtins.{kind.__name__}")
    assert cluster.run(double, 1).loaded == 2


def test_a_result_that_cannot_be_serialized_fails_its_task(cluster: Any, worker: Any) -> None:
    error = cluster.run(threading.Lock).error
    assert error.code == RESULT_UNREADABLE and "lock" in error.message and "cannot be serialized" in error.message


def test_a_function_that_cannot_be_read_fails_its_task(cluster: Any, worker: Any) -> None:
    broken = b"\x80\x05cno_such_module\nfunction\n."
    cluster.storage.objects[content_id(broken)] = broken
    (task,) = cluster.dispatch_parts(content_id(broken), [dumped(((), {}))])
    error = cluster.wait_results([task])[0].error
    assert error.code == FUNCTION_UNREADABLE and "no_such_module" in error.message


def test_a_missing_function_fails_its_task(cluster: Any, start_worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler_worker.processor.calls.FUNCTION_WAIT_SECONDS", 0.1)
    start_worker()
    missing = ObjectId(b"m" * 16)
    (task,) = cluster.dispatch_parts(missing, [dumped(((), {}))])
    error = cluster.wait_results([task])[0].error
    assert error.code == FUNCTION_UNREADABLE and missing.hex() in error.message


def test_a_huge_error_stays_within_the_inline_limit(cluster: Any, worker: Any) -> None:
    def fail() -> None:
        raise ValueError("é" * 1_000_000)

    result = cluster.run(fail)
    assert len(result.value) <= 65_536 and "left out" in result.error.message and result.error.serialized == b""


@pytest.mark.parametrize(
    ("death", "exit_code", "word"),
    [
        (lambda: os._exit(3), 3, "code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -9, "SIGKILL"),
        (lambda: __import__("ctypes").string_at(0), -11, "SIGSEGV"),
    ],
)
def test_a_death_is_told_with_its_reason_and_harms_nobody_else(
    cluster: Any, worker: Any, death: Any, exit_code: int, word: str
) -> None:
    fine = cluster.dispatch(double, *[(number,) for number in range(50)])
    (dying,) = cluster.dispatch(death, ())
    more = cluster.dispatch(double, *[(number,) for number in range(50)])
    (result,) = cluster.wait_results([dying], "the news of the death", seconds=10)
    error = result.error
    assert (result.status, error.code, error.exit_code) == (STATUS_PROCESSOR_DIED, PROCESSOR_DIED, exit_code)
    assert word in error.message and error.peak_memory_bytes > 2**20 and error.workers
    assert [result.loaded for result in cluster.wait_results(fine + more)] == [2 * n for n in range(50)] * 2


def test_in_a_slice_only_the_culprit_dies(cluster: Any, worker: Any) -> None:
    def die_at(number: int) -> int:
        if number == 77:
            os._exit(3)
        return number

    cluster.run(die_at, 0)
    ids = cluster.dispatch(die_at, *[(number,) for number in range(200)])
    results = cluster.wait_results(ids)
    assert [result.status for result in results] == [
        STATUS_PROCESSOR_DIED if number == 77 else STATUS_SUCCESS for number in range(200)
    ]


def test_a_task_that_writes_junk_to_the_channel_only_hurts_itself(cluster: Any, worker: Any) -> None:
    def vandalize() -> None:
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"\xff" * 64)
            except OSError:
                pass
        time.sleep(60)

    result = cluster.run(vandalize)
    assert result.status == STATUS_PROCESSOR_DIED
    assert cluster.run(double, 1).loaded == 2


def test_a_task_that_closes_every_descriptor_only_hurts_itself(cluster: Any, worker: Any) -> None:
    result = cluster.run(lambda: os.closerange(3, 64))
    assert result.status == STATUS_PROCESSOR_DIED
    assert cluster.run(double, 1).loaded == 2


def test_what_a_dead_processor_had_started_ends_with_it(cluster: Any, worker: Any, tmp_path: Any, gone: Any) -> None:
    def start_and_die(path: str) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "300"])
        with open(path, "w") as file:
            file.write(str(child.pid))
        os._exit(1)

    cluster.run(start_and_die, str(tmp_path / "child"))
    child = psutil.Process(int((tmp_path / "child").read_text()))
    gone([child], "the task's child to end")


# ---------------------------------------------------------------- cancel


def hold(path: str) -> None:
    with open(path, "w"):
        pass
    time.sleep(300)


@pytest.fixture
def running_path(tmp_path: Any) -> str:
    """A task that has begun makes this file."""
    return str(tmp_path / "running")


def swallow(path: str) -> None:
    with open(path, "w"):
        pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def begin(cluster: Any, function: Any, path: str, **header: Any) -> Any:
    (task,) = cluster.dispatch(function, (path,), **header)
    cluster.wait_until(lambda: os.path.exists(path), "the task to begin")
    return task


@pytest.mark.parametrize("function", [hold, swallow])
def test_a_running_task_is_canceled_even_against_its_will(
    cluster: Any, worker: Any, running_path: str, function: Any
) -> None:
    task = begin(cluster, function, running_path)
    (queued,) = cluster.dispatch(double, (1,))
    started_at = time.monotonic()
    cluster.cancel(task, queued, grace_seconds=0.5)
    results = cluster.wait_results([task, queued])
    took_seconds = time.monotonic() - started_at
    assert [(result.status, result.kind) for result in results] == [(STATUS_CANCELED, KIND_NONE)] * 2
    cluster.wait_until(lambda: len(cluster.cancel_replies) == 2, "both replies")
    assert sorted(cluster.cancel_replies) == sorted([(task, CANCEL_CANCELED), (queued, CANCEL_CANCELED)])
    # A sleep ends by the interrupt alone; code that swallows everything only by the kill.
    assert took_seconds < 0.4 if function is hold else took_seconds >= 0.5
    assert cluster.run(double, 1).loaded == 2


def test_cancel_of_what_has_ended_or_never_was(cluster: Any, worker: Any) -> None:
    (task,) = cluster.dispatch(double, (1,))
    cluster.wait_results([task])
    cluster.cancel(task)
    cluster.wait_until(lambda: cluster.cancel_replies, "the reply")
    assert cluster.cancel_replies == [(task, CANCEL_UNKNOWN)]


def test_a_task_that_cleans_up_and_returns_was_too_late_to_cancel(cluster: Any, worker: Any, running_path: str) -> None:
    def tidy(path: str) -> str:
        try:
            hold(path)
        except KeyboardInterrupt:
            pass
        return "tidied"

    task = begin(cluster, tidy, running_path)
    cluster.cancel(task)
    assert cluster.wait_results([task])[0].loaded == "tidied"
    cluster.wait_until(lambda: cluster.cancel_replies, "the reply")
    assert cluster.cancel_replies == [(task, CANCEL_TOO_LATE)]


def test_a_task_that_runs_too_long_times_out(cluster: Any, worker: Any) -> None:
    result = cluster.run(time.sleep, 60, timeout_seconds=0.2)
    assert (result.status, result.error.code) == (STATUS_TIMED_OUT, TASK_TIMED_OUT)
    assert cluster.run(double, 1, timeout_seconds=5.0).loaded == 2


def test_cancels_at_random_moments_lose_no_task(cluster: Any, worker: Any) -> None:
    """Interrupts hit between tasks, inside them and too late: every task ends once, every cancel is answered once."""
    cluster.run(double, 0)
    canceled = []
    all_ids = []
    for round_number in range(30):
        ids = cluster.dispatch(double, *[(number,) for number in range(200)])
        all_ids += ids
        cluster.wait_until(lambda ids=ids, n=round_number: sum(i in cluster.results for i in ids) > n, "some results")
        chosen = [task for task in ids[round_number::7] if task not in cluster.results]
        if chosen:
            cluster.cancel(*chosen, grace_seconds=5.0)
            canceled += chosen
    cluster.wait_results(all_ids, "all to end")
    cluster.wait_until(lambda: len(cluster.cancel_replies) >= len(canceled), "all replies")
    assert sorted(task for task, _ in cluster.cancel_replies) == sorted(canceled)
    for task in all_ids:
        result = cluster.results[task]
        assert result.status == STATUS_SUCCESS or (result.status == STATUS_CANCELED and task in canceled)


# ---------------------------------------------------------------- nesting, recall


def wait_for_file(path: str) -> None:
    """As a task that waits for a child: the place is lent meanwhile."""
    context = task_context.current()
    assert context is not None
    context.block()
    while not os.path.exists(path):
        time.sleep(0.001)
    context.unblock()


def descend(directory: str, depth: int) -> int:
    context = task_context.current()
    assert context is not None and context.depth == depth
    if os.path.exists(f"{directory}/bottom-{depth}"):
        with open(f"{directory}/done-{depth}", "w"):
            pass
        return depth
    with open(f"{directory}/begun-{depth}", "w"):
        pass
    wait_for_file(f"{directory}/done-{depth + 1}")
    with open(f"{directory}/done-{depth}", "w"):
        pass
    return depth


def test_tasks_nest_fifty_deep_through_one_place(cluster: Any, worker: Any, tmp_path: Any) -> None:
    (tmp_path / "bottom-50").touch()
    ids = []
    for depth in range(51):
        ids += cluster.dispatch(descend, (str(tmp_path), depth), depth=depth)
        if depth < 50:
            path = tmp_path / f"begun-{depth}"
            cluster.wait_until(path.exists, f"depth {depth} to begin")
    results = cluster.wait_results(ids, "all depths to end")
    assert [result.loaded for result in results] == list(range(51))


def test_a_blocked_task_lends_its_place_to_its_equals_and_waits_to_get_it_back(
    cluster: Any, worker: Any, tmp_path: Any, running_path: str
) -> None:
    go, held = str(tmp_path / "go"), str(tmp_path / "held")

    def parent() -> str:
        wait_for_file(go)
        return "parent"

    (blocked,) = cluster.dispatch(parent, ())
    other = begin(cluster, hold, held)
    with open(go, "w"):
        pass
    cluster.wait_until(
        lambda: cluster.statuses and cluster.statuses[-1].blocked_count == 1, "a status with the blocked task"
    )
    assert blocked not in cluster.results, "the other task has the only place"
    cluster.cancel(other)
    assert cluster.wait_results([blocked])[0].loaded == "parent"


def test_a_canceled_task_that_waits_for_children_ends(cluster: Any, worker: Any, tmp_path: Any) -> None:
    begun = str(tmp_path / "begun")

    def parent() -> None:
        context = task_context.current()
        assert context is not None
        context.block()
        try:
            hold(begun)
        finally:
            context.unblock()

    task = begin(cluster, lambda _path: parent(), begun)
    cluster.cancel(task, grace_seconds=10.0)
    assert cluster.wait_results([task], seconds=8)[0].status == STATUS_CANCELED
    assert cluster.run(double, 1).loaded == 2


def test_recall_gives_back_what_no_processor_has(cluster: Any, worker: Any, running_path: str) -> None:
    running = begin(cluster, hold, running_path)
    queued = cluster.dispatch(double, (1,), (2,))
    cluster.send(Recall(join_ids([running, *queued])))
    cluster.wait_until(lambda: cluster.returned, "the answer")
    assert cluster.returned[0].ids == join_ids(queued) and cluster.returned[0].is_recall_answer


def test_tasks_stuck_behind_a_long_one_can_be_recalled(cluster: Any, worker: Any, running_path: str) -> None:
    def usually_tiny(path: str) -> None:
        if path:
            hold(path)

    for _ in range(3):
        cluster.run(usually_tiny, "")
    ids = cluster.dispatch(usually_tiny, *[(path,) for path in (running_path, "", "", "", "")])
    cluster.wait_until(lambda: os.path.exists(running_path), "the first to begin")

    def is_given_back() -> bool:
        cluster.send(Recall(join_ids(ids)))
        seen = len(cluster.returned)
        cluster.wait_until(lambda: len(cluster.returned) > seen, "the answer to a recall")
        return any(returned.ids for returned in cluster.returned)

    cluster.wait_until(is_given_back, "the tasks behind to come back")
    assert b"".join(returned.ids for returned in cluster.returned) == join_ids(ids[1:])


# ---------------------------------------------------------------- output, profile


def test_what_a_task_prints_is_streamed(cluster: Any, worker: Any) -> None:
    def speak() -> None:
        print("one")
        print("two", file=sys.stderr)
        print("three", end="")

    cluster.run(speak, flags=FLAG_STREAM_OUTPUT)
    assert [(log.stream, log.text) for log in cluster.logs] == [(1, "one\n"), (2, "two\n"), (1, "three")]


def test_streamed_output_is_bounded(cluster: Any, worker: Any) -> None:
    def flood() -> None:
        sys.stdout._stream = io.StringIO()  # type: ignore[attr-defined]  # our own log need not have it
        for _ in range(100_000):
            print("x" * 100)

    cluster.run(flood, flags=FLAG_STREAM_OUTPUT)
    assert sum(len(log.text) for log in cluster.logs) < 5 * 2**20


def test_profiles(cluster: Any, worker: Any) -> None:
    def work() -> None:
        data = bytearray(50_000_000)
        time.sleep(0.05)
        del data

    result = cluster.run(work, flags=FLAG_PROFILING)
    duration_ns, cpu_ns, peak_bytes = unpack("<QQQ", result.profile)
    assert duration_ns >= 50_000_000 and 0 < cpu_ns < duration_ns and 40_000_000 < peak_bytes < 80_000_000


# ---------------------------------------------------------------- life and death


def test_a_killed_agent_leaves_nothing_behind(cluster: Any, start_worker: Any, tmp_path: Any, gone: Any) -> None:
    worker = start_worker()
    begin(cluster, swallow, str(tmp_path / "running"))
    family = worker.family()
    assert len(family) >= 3
    worker.signal(signal.SIGKILL)
    worker.wait_exit("the killed agent")
    gone(family[1:], "zygote and processors to die with the agent")


def test_a_worker_whose_zygote_dies_ends(cluster: Any, start_worker: Any) -> None:
    worker = start_worker()
    cluster.run(double, 1)
    os.kill(psutil.Process(worker.process_id).children()[0].pid, signal.SIGKILL)
    assert worker.wait_exit("the agent to end") == 70


def test_sigterm_hands_back_the_queue_and_says_goodbye(cluster: Any, start_worker: Any, tmp_path: Any) -> None:
    worker = start_worker(grace_seconds=20.0)
    path = str(tmp_path / "go")
    (running,) = cluster.dispatch(wait_and_return, (path, str(tmp_path / "begun")))
    cluster.wait_until((tmp_path / "begun").exists, "the task to begin")
    queued = cluster.dispatch(double, (1,), (2,))
    worker.signal(signal.SIGTERM)
    cluster.wait_until(lambda: cluster.returned, "the queue to come back")
    assert cluster.returned[0].ids == join_ids(queued) and not cluster.returned[0].is_recall_answer
    with open(path, "w"):
        pass
    assert cluster.wait_results([running])[0].loaded == "done"
    assert worker.wait_exit("the agent to end") == 0
    cluster.wait_until(lambda: cluster.lost, "the goodbye")
    assert cluster.lost[0].is_orderly


def wait_and_return(path: str, begun: str) -> str:
    with open(begun, "w"):
        pass
    while not os.path.exists(path):
        time.sleep(0.001)
    return "done"


def test_a_scheduler_that_shuts_down_ends_the_worker(cluster: Any, start_worker: Any) -> None:
    worker = start_worker()
    cluster.send(Shutdown(1.0))
    cluster.wait_until(lambda: cluster.lost, "the goodbye")
    assert worker.wait_exit("the agent to end") == 0


def test_a_session_lost_drops_its_tasks_and_the_worker_comes_back(cluster: Any, worker: Any, running_path: str) -> None:
    begin(cluster, hold, running_path)
    cluster.endpoint.disconnect(cluster.worker, 207, "for the test")
    cluster.wait_until(lambda: len(cluster.opened) == 2, "the worker to come back")
    assert cluster.run(double, 4).loaded == 8
    assert len(cluster.results) == 1


def test_status_tells_what_is_going_on(cluster: Any, worker: Any, running_path: str) -> None:
    task = begin(cluster, hold, running_path)
    cluster.dispatch(double, (1,))
    status = cluster.wait_until(
        lambda: next((s for s in cluster.statuses if s.queued_count and any(p.task_id for p in s.processors)), None),
        "a status with all that",
    )
    (processor,) = [p for p in status.processors if p.task_id]
    assert processor.task_id == task and processor.state == 2 and processor.rss_bytes > 2**20
    assert status.agent_rss_bytes > 2**20 and status.host_free_bytes > 0


def test_preload_runs_before_the_first_task(cluster: Any, start_worker: Any) -> None:
    start_worker(preload="os:putenv('SCALER_TEST_PRELOAD', 'yes')")
    import subprocess

    command = ["printenv", "SCALER_TEST_PRELOAD"]
    assert cluster.run(subprocess.check_output, command).loaded == b"yes\n"
