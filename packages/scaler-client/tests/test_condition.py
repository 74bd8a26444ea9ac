"""The condition of futures keeps what `threading.Condition` promises."""

from __future__ import annotations

import concurrent.futures
import inspect
import threading

from tests.support.waiting import WAIT, eventually

from scaler.client.future import ScalerFuture
from scaler.client.futures.condition import FutureCondition
from scaler_protocol.ids import TaskId


def test_waiters_are_woken_together() -> None:
    condition = FutureCondition()
    woken: list[bool] = []

    def wait() -> None:
        with condition, condition:  # taken twice: let go all the same
            woken.append(condition.wait(WAIT))

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(condition._sleepers) == 3, "three threads wait")
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join(WAIT)
    assert woken == [True, True, True]


def test_a_wait_that_is_over_leaves_nothing() -> None:
    condition = FutureCondition()
    with condition:
        assert condition.wait(0.01) is False
        assert condition.wait(-1.0) is False
    assert condition._sleepers == ()
    assert condition.acquire(False)
    condition.release()


def test_a_future_has_all_that_its_base_class_has() -> None:
    """The base class is not asked to set itself up: what a new Python adds there has to be added here."""
    future = ScalerFuture(TaskId(b"t" * 16), None)
    assert all(hasattr(future, name) for name in vars(concurrent.futures.Future()))
    assert not vars(future), "what is neither a slot nor made on demand costs every future"


def test_the_standard_library_uses_no_more_of_it() -> None:
    source = inspect.getsource(concurrent.futures._base)
    used = {part.split("(")[0] for part in source.split("_condition.")[1:]}
    assert used <= {name for name in dir(FutureCondition) if not name.startswith("_")}
