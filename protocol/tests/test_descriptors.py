"""No descriptor is left: one error with what to do, and servers say so once."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys

import pytest
import zmq

from scaler_protocol.errors import ScalerError, TooManyOpenFilesError
from scaler_protocol.transport import descriptors
from scaler_protocol.transport.descriptors import LOOK_SECONDS, DescriptorWatch, exhaustion_told


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "x"), zmq.ZMQError(errno.EMFILE), OSError(errno.ENFILE, "x")])
def test_it_is_told_as_one_error_with_what_to_do(error: Exception) -> None:
    with pytest.raises(TooManyOpenFilesError, match="ulimit -n") as caught, exhaustion_told():
        raise error
    assert isinstance(caught.value, OSError) and isinstance(caught.value, ScalerError)
    assert caught.value.errno == error.errno  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "x"), zmq.ZMQError(errno.ENOTSOCK), ValueError("x")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, exhaustion_told():
        raise error
    assert caught.value is error


#: In a process of its own: in this one, what earlier tests have left may be closed at any moment.
ASKING = """
import os, resource
from scaler_protocol.errors import TooManyOpenFilesError
from scaler_protocol.transport.descriptors import expect_room

before = os.listdir("/proc/self/fd")
resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 30, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
expect_room(20)
try:
    expect_room(60)
except TooManyOpenFilesError:
    print("refused", os.listdir("/proc/self/fd") == before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors by /proc")
def test_asking_for_room_leaves_nothing_open() -> None:
    asked = subprocess.run([sys.executable, "-c", ASKING], capture_output=True, text=True, timeout=60)
    assert (asked.stdout, asked.stderr) == ("refused True\n", "")


RAISING = """
import resource, sys
from scaler_protocol.process import use_all_descriptors

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), 300))
use_all_descriptors()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="`resource` is not in Windows")
@pytest.mark.parametrize("soft", ["200", "300"])
def test_a_server_raises_its_soft_limit_to_the_hard_one_if_there_is_something_to_raise(soft: str) -> None:
    raised = subprocess.run([sys.executable, "-c", RAISING, soft], capture_output=True, text=True, timeout=60)
    assert (raised.stdout, raised.stderr) == ("(300, 300)\n", "")


#: libzmq's threads begin with the first socket of a process, and it ends the process that has no descriptors for them.
FIRST_SOCKET = """
import os, resource, sys
from scaler_protocol.errors import TooManyOpenFilesError
from scaler_protocol.transport.context import zmq_context

resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for free in range(40):
    sys.stdout.flush()
    if not os.fork():
        files = [os.dup(0) for _ in range(200 - len(os.listdir("/proc/self/fd")))]
        for file in files[:free]:
            os.close(file)
        try:
            zmq_context().socket(5)
            print("made")
        except TooManyOpenFilesError:
            for file in files[free:]:
                os.close(file)
            zmq_context().socket(5)
            print("made later")
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, free
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors by /proc")
def test_the_first_socket_of_a_process_without_descriptors_is_refused() -> None:
    made = subprocess.run([sys.executable, "-c", FIRST_SOCKET], capture_output=True, text=True, timeout=60)
    assert made.stderr == "" and set(made.stdout.split("\n")) == {"made", "made later", ""}
    assert len(made.stdout.splitlines()) == 40


def test_a_server_says_once_that_none_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = DescriptorWatch(0)
    now = 0.0

    def look(is_short: bool) -> list[str]:
        nonlocal now

        def dup(descriptor: int) -> int:
            if is_short:
                raise OSError(errno.EMFILE, "Too many open files")
            return os.dup(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(descriptors, "os", type("os", (), {"dup": staticmethod(dup), "close": os.close}))
            caplog.clear()
            assert now >= watch.look_at
            watch.look(now)
        now += LOOK_SECONDS
        return [record.levelname for record in caplog.records]

    caplog.set_level(logging.INFO)
    told = [look(is_short) for is_short in (False, True, True, True, False, False, True)]
    assert told == [[], ["ERROR"], [], [], ["WARNING"], [], ["ERROR"]]
