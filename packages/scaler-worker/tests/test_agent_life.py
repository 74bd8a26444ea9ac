"""A whole worker: nesting, recall, and how its own life ends."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psutil
import pytest
from tests.support.worker_tasks import begin, double, hold, swallow, wait_and_return

from scaler_protocol import task_context, values
from scaler_protocol.codes import KIND_INLINE, KIND_OBJECT, STATUS_CANCELED, STATUS_REFUSED
from scaler_protocol.columns import join_ids, join_u16
from scaler_protocol.ids import ObjectId, content_id
from scaler_protocol.messages import Recall, Shutdown

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
    assert len(cluster.storage.got) == 1, "one processor has fetched the function, and the others got it from the agent"


def test_a_blocked_task_lends_its_place_to_its_equals_and_goes_on_beside_them(
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
    assert cluster.wait_results([blocked])[0].loaded == "parent", "also without a place of its own (WRK-67)"
    assert other not in cluster.results, "the task that has borrowed the place still runs"
    cluster.cancel(other)
    assert cluster.wait_results([other])[0].status == STATUS_CANCELED


@pytest.mark.parametrize("what", ["function", "argument"])
def test_a_task_whose_object_does_not_come_lends_its_place(cluster: Any, worker: Any, what: str) -> None:
    """For half a minute each, tasks of a client that stores nothing had all places of the workers. (WRK-69)"""
    missing, content = ObjectId(b"m" * 16), b"".join(values.dumps(21))
    call = b"".join(values.dumps_call((values.PartReference(1),), {}))
    if what == "function":
        content = b"".join(values.dumps(double))
        missing = content_id(content)
        cluster.storage.awaited[missing] = []
        (waiting,) = cluster.dispatch_parts(missing, [b"".join(values.dumps_call((21,), {}))])
    else:
        cluster.storage.awaited[missing] = []
        (waiting,) = cluster.dispatch_parts(
            cluster.storage.put(double), [call, missing], count=1, part_counts=join_u16([2]),
            part_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
        )  # fmt: skip
    cluster.wait_until(lambda: bool(cluster.storage.awaited[missing]), "the object to be waited for")
    others = [cluster.dispatch(abs, (-number,))[0] for number in range(3)]
    assert [result.loaded for result in cluster.wait_results(others)] == [0, 1, 2]
    assert waiting not in cluster.results
    cluster.storage.store(missing, content)
    assert cluster.wait_results([waiting])[0].loaded == 42


def test_a_task_whose_object_does_not_come_is_canceled(cluster: Any, worker: Any) -> None:
    missing = ObjectId(b"m" * 16)
    cluster.storage.awaited[missing] = []
    (waiting,) = cluster.dispatch_parts(missing, [b"".join(values.dumps_call((), {}))])
    other = cluster.dispatch(abs, (-1,))[0]
    assert cluster.wait_results([other])[0].loaded == 1, "it has lent its place"
    cluster.cancel(waiting)
    assert cluster.wait_results([waiting])[0].status == STATUS_CANCELED
    assert cluster.run(abs, -2).loaded == 2


def test_a_task_whose_object_never_came_ends_and_its_processor_goes_on(
    cluster: Any, start_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler_protocol.running.calls.OBJECT_WAIT_SECONDS", 1.0)
    start_worker()
    missing = ObjectId(b"m" * 16)
    tasks = [cluster.dispatch_parts(missing, [b"".join(values.dumps_call((), {}))])[0] for _ in range(2)]
    assert {result.status for result in cluster.wait_results(tasks)} == {STATUS_REFUSED}
    assert [cluster.run(abs, -number).loaded for number in range(4)] == [0, 1, 2, 3]


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
    # It waits until the result has been acknowledged. (WRK-32)
    cluster.wait_until(lambda: cluster.lost, "the goodbye")
    assert cluster.lost[0].is_orderly
    assert worker.wait_exit("the agent to end") == 0


def terminate_a_child() -> int:
    child_id = os.fork()
    if not child_id:
        time.sleep(300)
    os.kill(child_id, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child_id, 0)[1])


def test_sigterm_ends_what_a_task_has_forked_but_no_processor(cluster: Any, worker: Any, tmp_path: Any) -> None:
    assert cluster.run(terminate_a_child).loaded == -signal.SIGTERM
    path = str(tmp_path / "go")
    (running,) = cluster.dispatch(wait_and_return, (path, str(tmp_path / "begun")))
    cluster.wait_until((tmp_path / "begun").exists, "the task to begin")
    for process in worker.family()[1:]:
        process.send_signal(signal.SIGTERM)
    with open(path, "w"):
        pass
    assert cluster.wait_results([running])[0].loaded == "done"


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
    assert status.agent_rss_bytes > 2**20 and status.host_memory_bytes >= status.host_free_bytes > 0


def test_preload_runs_before_the_first_task(cluster: Any, start_worker: Any) -> None:
    start_worker(preload="os:putenv('SCALER_TEST_PRELOAD', 'yes')")
    import subprocess

    command = ["printenv", "SCALER_TEST_PRELOAD"]
    assert cluster.run(subprocess.check_output, command).loaded == b"yes\n"
