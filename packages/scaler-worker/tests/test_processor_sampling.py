"""Where the time of tasks goes, sampled in their processors, while all else about them stays as it is."""

from __future__ import annotations

import _thread
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.processes import until
from tests.support.tasks import wait_for_file
from tests.support.worker_tasks import begin

from scaler_protocol.codes import STACK_TAKEN, STATUS_CANCELED
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import SampleStacks, StackReply, StackRequest, WorkerStatus
from scaler_protocol.stack_trees import Frame, Node, StackTrees, total_microseconds
from scaler_worker.channel import SignalPage
from scaler_worker.processor import sampling
from scaler_worker.processor.sampling import CALLS_MAX, COMPILED, PATH_MAX, TOO_DEEP, StackSampler
from scaler_worker.processor.stacks import stack_text

FUNCTION = ObjectId(b"f" * 16)
LONG_SECONDS = 60.0


def sample(cluster: Any, seconds: float = LONG_SECONDS) -> None:
    cluster.send(SampleStacks(seconds, 32_768))


def merged(cluster: Any) -> StackTrees:
    trees = StackTrees()
    for message in cluster.messages:
        if isinstance(message, WorkerStatus):
            trees.merge(message.stack_samples)
    return trees


def frames_below(node: Node) -> list[Frame]:
    found = list(node.children)
    for child in node.children.values():
        found += frames_below(child)
    return found


def frames_of(trees: StackTrees) -> list[Frame]:
    return [frame for root in trees.functions.values() for frame in frames_below(root)]


def wait_for_samples(cluster: Any, name: str) -> StackTrees:
    def is_told() -> bool:
        return any(frame[0].endswith(name) for frame in frames_of(merged(cluster)))

    cluster.wait_until(is_told, f"samples in {name}")
    return merged(cluster)


def inner() -> int:
    return sum(range(1_000))


def spin(path: str) -> None:
    secret_value = "not to be seen"  # noqa: F841
    with open(path, "w"):
        pass
    while True:
        inner()


def sleep(path: str) -> None:
    with open(path, "w"):
        pass
    time.sleep(300)


def hidden_threads() -> int:
    """Of this process: those that `threading` does not know."""
    return len(sys._current_frames()) - len(threading.enumerate())


def wait_for_the_end(begun: str) -> int:
    """It is sampled, and then not any more."""
    until(lambda: hidden_threads() > 0, "this process is sampled")
    with open(begun, "w"):
        pass
    until(lambda: not hidden_threads(), "it is not any more")
    return 7


def look_around(path: str, begun: str) -> list[Any]:
    """What a task sees of itself while it is sampled, from `begun` until `path` is there."""
    random.seed(7)
    with open(begun, "w"):
        pass
    wait_for_file(path)
    hidden = hidden_threads()
    child = os.fork()
    if not child:
        os._exit(len(sys._current_frames()))
    _, status = os.waitpid(child, 0)
    done = subprocess.run([sys.executable, "-c", "print(7)"], stdout=subprocess.PIPE, check=True)
    return [hidden, os.waitstatus_to_exitcode(status), int(done.stdout), random.random()]


def test_the_time_of_a_running_task_is_told_by_its_calls(cluster: Any, start_worker: Any, running_path: str) -> None:
    start_worker(max_processors=1, heartbeat_seconds=0.2)
    task = begin(cluster, spin, running_path)
    assert not merged(cluster)
    sample(cluster)
    trees = wait_for_samples(cluster, "inner")
    (root,) = trees.functions.values()
    told = frames_of(trees)
    assert {frame[1] for frame in told} <= {os.path.basename(__file__), os.path.basename(os.__file__), "codecs.py"}
    assert ("spin", os.path.basename(__file__), spin.__code__.co_firstlineno) in root.children
    assert "not to be seen" not in str(told)
    cluster.cancel(task)
    assert cluster.wait_results([task])[0].status == STATUS_CANCELED


def test_a_processor_that_starts_later_is_sampled_too(cluster: Any, start_worker: Any, running_path: str) -> None:
    start_worker(max_processors=1, heartbeat_seconds=0.2)
    sample(cluster)
    begin(cluster, spin, running_path)
    wait_for_samples(cluster, "inner")


def test_a_task_that_sleeps_is_sampled_and_can_be_canceled_at_once(
    cluster: Any, start_worker: Any, running_path: str
) -> None:
    start_worker(max_processors=1, heartbeat_seconds=0.2)
    sample(cluster)
    task = begin(cluster, sleep, running_path)
    wait_for_samples(cluster, "sleep")
    cluster.cancel(task, grace_seconds=1_000.0)
    assert cluster.wait_results([task])[0].status == STATUS_CANCELED


def test_a_task_sees_nothing_of_it(cluster: Any, start_worker: Any, running_path: str, tmp_path: Any) -> None:
    start_worker(max_processors=1, heartbeat_seconds=0.2)
    sample(cluster)
    release = tmp_path / "release"
    (task,) = cluster.dispatch(look_around, (str(release), running_path))
    wait_for_samples(cluster, "look_around")
    cluster.send(StackRequest(1, task))
    replies: list[StackReply] = []

    def is_answered() -> bool:
        replies[:] = [one for one in cluster.messages if isinstance(one, StackReply)]
        return bool(replies)

    cluster.wait_until(is_answered, "the stack")
    assert replies[0].outcome == STACK_TAKEN and "thread " not in replies[0].text.replace("the task's thread", "")
    release.touch()
    random.seed(7)
    assert cluster.wait_results([task])[0].loaded == [1, 1, 7, random.random()], "and it was sampled all the time"


@pytest.mark.parametrize("seconds", (0.0, 0.3))
def test_it_ends(cluster: Any, start_worker: Any, running_path: str, seconds: float) -> None:
    """At once, or when its time is over."""
    start_worker(max_processors=1, heartbeat_seconds=0.2)
    sample(cluster)
    (task,) = cluster.dispatch(wait_for_the_end, (running_path,))
    cluster.wait_until(lambda: os.path.exists(running_path), "it to be sampled")
    sample(cluster, seconds)
    assert cluster.wait_results([task])[0].loaded == 7


# ------------------------------------------------------------ one sampler


class Bench:
    """A sampler of this process: the clock of its page, what runs, and what was told."""

    def __init__(self) -> None:
        self.page = SignalPage(1)
        self.running = (7, FUNCTION)
        self.told: list[bytes] = []
        self.sampler = StackSampler(
            lambda: self.page.sample_until_ns, lambda: self.running, self.told.append, (base.__code__,)
        )

    def trees(self) -> StackTrees:
        self.sampler._tell_all()
        trees = StackTrees()
        for data in self.told:
            trees.merge(data)
        return trees


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.page.sample_until_ns = 0


_SPACE: dict[str, Any] = {}
exec(compile("def base(function, *arguments):\n    return function(*arguments)\n", "processor.py", "exec"), _SPACE)
base = _SPACE["base"]  # where the task's own calls begin


def look(bench: Bench, calls: int = 0) -> None:
    if calls:
        look(bench, calls - 1)
    else:
        bench.sampler.look(0.25)


def test_a_look_stands_for_its_time(bench: Bench) -> None:
    base(look, bench, 2)
    trees = bench.trees()
    assert [frame[0] for frame in frames_of(trees)][:3] == ["look"] * 3
    assert ("look", os.path.basename(__file__), look.__code__.co_firstlineno) in trees.functions[FUNCTION].children
    assert total_microseconds(trees.functions[FUNCTION]) == 250_000


def test_a_function_that_is_none_of_pythons_own(bench: Bench) -> None:
    bench.sampler._begins |= {look.__code__, StackSampler.look.__code__}
    look(bench)
    assert frames_of(bench.trees()) == [COMPILED]


def test_nothing_is_sampled_between_two_tasks_or_outside_of_one(bench: Bench) -> None:
    look(bench)
    bench.running = (0, FUNCTION)
    base(look, bench)
    assert not bench.trees()


def test_deep_stacks_take_a_bounded_time(bench: Bench) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(CALLS_MAX + 1_000)
    try:
        base(look, bench, PATH_MAX + 300)
        base(look, bench, CALLS_MAX + 1)
    finally:
        sys.setrecursionlimit(limit)
    told = frames_of(bench.trees())
    assert told.count(TOO_DEEP) == 1 and len(told) == PATH_MAX + 1


def test_one_thread_at_a_time_and_only_while_it_is_wanted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, arguments: started.append(run))
    bench.sampler.begin()
    assert not started
    bench.page.sample_until_ns = time.monotonic_ns() + 10**12
    bench.sampler.begin()
    bench.sampler.begin()
    assert len(started) == 1
    bench.page.sample_until_ns = 0
    started[0]()
    bench.page.sample_until_ns = time.monotonic_ns() + 10**12
    bench.sampler.begin()
    assert len(started) == 2


def test_all_signals_come_to_the_main_thread(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[Any] = []
    monkeypatch.setattr(
        _thread, "start_new_thread", lambda *_: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    )
    bench.page.sample_until_ns = time.monotonic_ns() + 10**12
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    bench.sampler.begin()
    assert masks[0] >= {signal.SIGURG, signal.SIGTERM, signal.SIGALRM}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_process_that_may_start_no_thread_is_not_sampled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    bench.page.sample_until_ns = time.monotonic_ns() + 10**12
    bench.sampler.begin()
    assert not bench.sampler._is_alive.locked(), "it may be tried again"


def test_threads_of_the_sampler_are_left_out_of_stacks() -> None:
    assert sampling.own_threads == set()
    release = threading.Event()
    name = f"helper {os.getpid()}"
    helper = threading.Thread(target=release.wait, name=name, daemon=True)
    helper.start()
    try:
        assert f"thread {name}:" in stack_text(sys._getframe())
        sampling.own_threads.add(helper.ident or 0)
        assert f"thread {name}:" not in stack_text(sys._getframe())
    finally:
        sampling.own_threads.clear()
        release.set()
        helper.join()
