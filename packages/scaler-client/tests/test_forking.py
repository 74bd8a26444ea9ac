"""A child that is forked while another thread connects a client."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading

import pytest
from tests.support.waiting import WAIT, eventually

from scaler import Client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")


def test_a_child_connects_for_itself(client: Client) -> None:
    """The thread that holds the client's lock is not in the child, which waited for that lock for ever."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        unused: Client = pickle.loads(pickle.dumps(client))
        state = client.__getstate__() | {
            "address": f"tcp://127.0.0.1:{silent.getsockname()[1]}",
            "timeout_seconds": 1.0,
        }
        unused.__setstate__({**state, "insecure": True})
        ends: list[BaseException] = []

        def connect() -> None:
            try:
                unused.submit(abs, -1)
            except TimeoutError as error:
                ends.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        eventually(lambda: not _is_free(unused), "the thread connects")
        child = os.fork()
        if not child:
            signal.alarm(int(WAIT))  # kills a child that hangs
            try:
                connect()
            finally:
                os._exit(0 if ends else 1)
        assert os.waitpid(child, 0)[1] == 0
        thread.join(WAIT)
        assert ends


def _is_free(client: Client) -> bool:
    if is_free := client._lock.acquire(blocking=False):
        client._lock.release()
    return bool(is_free)
