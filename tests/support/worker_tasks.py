"""Tasks that tests of the worker run."""

from __future__ import annotations

import os
import time
from typing import Any

from scaler_protocol import values


def double(value: Any) -> Any:
    return 2 * value


def dumped(value: Any) -> bytes:
    return b"".join(values.dumps(value))


def hold(path: str) -> None:
    with open(path, "w"):
        pass
    time.sleep(300)


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


def wait_and_return(path: str, begun: str) -> str:
    with open(begun, "w"):
        pass
    while not os.path.exists(path):
        time.sleep(0.001)
    return "done"
