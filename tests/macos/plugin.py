"""For pytest: takes away what macOS lacks, before anything of ours is imported."""

from __future__ import annotations

# The libraries of others are there before: they would look for more of macOS than is pretended here.
import asyncio  # noqa: F401
import builtins
import ctypes.util  # noqa: F401
import multiprocessing
import os
import select
import selectors
import socket
import subprocess  # noqa: F401
import sys
import urllib.request  # noqa: F401
from collections.abc import Callable
from typing import Any

import aiohttp  # noqa: F401
import capnp  # noqa: F401
import cloudpickle  # noqa: F401
import dask.array  # noqa: F401
import graphblas  # noqa: F401
import hypothesis  # noqa: F401
import IPython.core.magic  # noqa: F401
import joblib  # noqa: F401
import numba  # noqa: F401
import numpy  # noqa: F401
import prometheus_client  # noqa: F401
import prompt_toolkit  # noqa: F401
import psutil  # noqa: F401
import pytest
import tqdm  # noqa: F401
import zmq  # noqa: F401

from tests.macos.left_out import TESTS

OUR_SOURCES = ("/src/scaler/", "/src/scaler_protocol/")
ABSENT = (
    (os, ("memfd_create", "pidfd_open", "eventfd", "sched_getaffinity", "O_PATH", "accept4", "POSIX_FADV_DONTNEED")),
    (select, ("epoll", "EPOLLIN", "EPOLLOUT")),
    (socket, ("SO_PEERCRED", "TCP_USER_TIMEOUT")),
)


def pretend() -> None:
    sys.platform = "darwin"
    for owner, names in ABSENT:
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
    multiprocessing.set_start_method("spawn", force=True)
    for owner, name in ((builtins, "open"), (os, "open"), (os, "readlink"), (os, "listdir")):
        setattr(owner, name, without_proc(getattr(owner, name)))
    for name in ("bind", "connect"):
        setattr(socket.socket, name, without_abstract(getattr(socket.socket, name)))
    os.fork = without_fork(os.fork)


def is_ours() -> bool:
    return any(place in sys._getframe(2).f_code.co_filename for place in OUR_SOURCES)


def without_proc(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str) and path.startswith("/proc/") and is_ours():
            raise FileNotFoundError(2, "No such file or directory: this is macOS", path)
        return function(path, *arguments, **options)

    return guarded


def without_abstract(function: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if isinstance(address, str | bytes) and address[:1] in ("\0", b"\0"):
            raise FileNotFoundError(2, "abstract sockets are of Linux", address)
        return function(self, address)

    return guarded


def without_fork(function: Callable[[], int]) -> Callable[[], int]:
    def guarded() -> int:
        assert not is_ours(), "the client does not fork where that is not safe"
        return function()

    return guarded


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in TESTS:
            item.add_marker(pytest.mark.skip(reason=TESTS[name]))


pretend()
