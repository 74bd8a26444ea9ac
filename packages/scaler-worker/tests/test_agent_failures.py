"""A whole worker: tasks that fail, die, or are told to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
import time
from typing import Any

import psutil
import pytest
from tests.support.worker_tasks import begin, double, dumped, hold, swallow

from scaler_protocol import values
from scaler_protocol.codes import (
    CANCEL_CANCELED,
    CANCEL_TOO_LATE,
    CANCEL_UNKNOWN,
    FUNCTION_UNREADABLE,
    KIND_NONE,
    NO_SUCH_OBJECT,
    PROCESSOR_DIED,
    RESULT_UNREADABLE,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    TASK_RAISED,
    TASK_TIMED_OUT,
)
from scaler_protocol.ids import ObjectId, PeerId, content_id, stored_at

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
    """An exception whose `__init__` requires more than `args`, with which pickle calls it."""

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
    [(raise_unpicklable, "builtins.RuntimeError"), (raise_unprintable, "Unprintable")],
)
def test_errors_that_cannot_travel_arrive_as_text(cluster: Any, worker: Any, function: Any, type_name: str) -> None:
    error = cluster.run(function).error
    assert error.type_name.endswith(type_name) and error.text
    if function is not raise_unprintable:
        assert error.serialized == b""
    assert cluster.run(double, 1).loaded == 2


def test_an_error_whose_class_wants_more_than_its_arguments_travels(cluster: Any, worker: Any) -> None:
    raised = values.loads(cluster.run(raise_demanding).error.serialized)
    assert type(raised).__name__ == "Demanding" and raised.args == ("1 and 2",)


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
    result = cluster.wait_results([task])[0]
    assert (result.status, result.error.code) == (STATUS_REFUSED, FUNCTION_UNREADABLE)  # WRK-4
    assert "no_such_module" in result.error.message


def test_a_function_is_run_only_if_its_id_is_the_hash_of_its_bytes(cluster: Any, worker: Any) -> None:
    named, stored = (b"".join(values.dumps(function)) for function in (double, hold))
    cluster.storage.objects[content_id(named)] = stored
    result = cluster.wait_results(cluster.dispatch_parts(content_id(named), [dumped(((1,), {}))]))[0]
    assert (result.status, result.error.code) == (STATUS_REFUSED, FUNCTION_UNREADABLE)  # STO-29
    assert content_id(named).hex() in result.error.message and "other bytes" in result.error.message
    cluster.storage.objects[content_id(named)] = named
    assert cluster.run(double, 1).loaded == 2, "what was refused is not kept"


def test_a_function_is_fetched_for_each_family_that_names_it(cluster: Any, worker: Any) -> None:
    """To know its id is no right to run it: the storage says whose it is. (WRK-43)"""
    function = content_id(b"".join(values.dumps(double)))

    def fetched_for(client: PeerId, grant: bytes) -> int:
        before = cluster.storage.got.count(function)
        calls = cluster.dispatch(double, (1,), (2,), client=client, owner_grant=grant)
        assert [result.loaded for result in cluster.wait_results(calls)] == [2, 4]
        return cluster.storage.got.count(function) - before

    ana, joe, inner = PeerId(b"a" * 16), PeerId(b"j" * 16), PeerId(b"i" * 16)
    assert fetched_for(ana, bytes(16)) >= 1
    assert fetched_for(ana, bytes(16)) == 0
    assert fetched_for(joe, bytes(16)) >= 1, "what was loaded for another is not run"
    assert fetched_for(inner, ana + bytes(16)) == 0, "a client in a task is of the family of its program"
    assert fetched_for(PeerId(b"k" * 16), b"") >= 1, "nor is it there where no owner is named"


def test_a_missing_function_fails_its_task(cluster: Any, start_worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler_protocol.running.calls.OBJECT_WAIT_SECONDS", 0.1)
    start_worker()
    missing = ObjectId(b"m" * 16)
    (task,) = cluster.dispatch_parts(missing, [dumped(((), {}))])
    result = cluster.wait_results([task])[0]
    assert (result.status, result.error.code) == (STATUS_REFUSED, NO_SUCH_OBJECT)  # WRK-3
    assert missing.hex() in result.error.message


def test_a_huge_error_stays_within_the_inline_limit(cluster: Any, worker: Any) -> None:
    def fail() -> None:
        raise ValueError("é" * 1_000_000)

    result = cluster.run(fail)
    assert len(result.value) <= 65_536 and "left out" in result.error.message
    assert stored_at(result.error.serialized) is not None, "the exception itself is an object"


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
        for descriptor in [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]:
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
    result = cluster.run(lambda: os.closerange(3, max(int(name) for name in os.listdir("/proc/self/fd")) + 1))
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
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended already
        gone([psutil.Process(int((tmp_path / "child").read_text()))], "the task's child to end")


# ---------------------------------------------------------------- cancel


@pytest.mark.parametrize(("function", "grace_seconds"), [(hold, 30.0), (swallow, 0.5)])
def test_a_running_task_is_canceled_even_against_its_will(
    cluster: Any, worker: Any, running_path: str, function: Any, grace_seconds: float
) -> None:
    task = begin(cluster, function, running_path)
    (queued,) = cluster.dispatch(double, (1,))
    started_at = time.monotonic()
    cluster.cancel(task, queued, grace_seconds=grace_seconds)
    results = cluster.wait_results([task, queued])
    took_seconds = time.monotonic() - started_at
    assert [(result.status, result.kind) for result in results] == [(STATUS_CANCELED, KIND_NONE)] * 2
    cluster.wait_until(lambda: len(cluster.cancel_replies) == 2, "both replies")
    assert sorted(cluster.cancel_replies) == sorted([(task, CANCEL_CANCELED), (queued, CANCEL_CANCELED)])
    # A sleep ends by the interrupt alone; code that swallows everything only by the kill.
    assert (took_seconds < grace_seconds) == (function is hold)
    assert cluster.run(double, 1).loaded == 2


def test_canceled_tasks_behind_a_canceled_one_do_not_begin(cluster: Any, worker: Any, tmp_path: Any) -> None:
    """They are in one slice with it, for tasks of this function were short so far."""
    path = tmp_path / "begun"

    def note(name: str, seconds: float) -> None:
        with open(path, "a") as file:
            file.write(f"{name}\n")
        time.sleep(seconds)

    for round_number in range(5):
        cluster.wait_results(cluster.dispatch(note, *[("warm", 0.0)] * 20))
        names = ["long", *["short"] * 6, "left"]
        tasks = cluster.dispatch(note, *[(name, 300.0 if name == "long" else 0.002) for name in names])
        cluster.wait_until(lambda n=round_number: path.read_text().count("long") > n, "the first task to begin")
        cluster.cancel(*tasks[:-1], grace_seconds=20.0)
        statuses = [result.status for result in cluster.wait_results(tasks)]
        assert statuses == [STATUS_CANCELED] * 7 + [STATUS_SUCCESS]
    assert path.read_text().split() == [*["warm"] * 20, "long", "left"] * 5
    cluster.wait_until(lambda: len(cluster.cancel_replies) == 35, "all replies")
    assert {outcome for _, outcome in cluster.cancel_replies} == {CANCEL_CANCELED}


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
