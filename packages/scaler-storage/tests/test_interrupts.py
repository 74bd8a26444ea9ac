"""An interrupt at any moment: a client whose call was cut off can be closed, and used again."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
from tests.support.storage_server import Server, until

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.objects import ObjectClient
from scaler_protocol.objects.client import SHARED_BYTES
from scaler_protocol.process.ports import free_ports

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers run on Linux and macOS")

OWNER = new_peer_id()
SMALL, LARGE = b"value", bytes(SHARED_BYTES)

#: Of all moments each third is tried: all of them take some seconds.
STRIDE = 3

#: What comes instead where `threading.Condition.wait` itself does not expect an interrupt.
TORN_CONDITION = "release unlocked lock"


class Interrupt(BaseException):
    """Nobody else raises it, or knows it."""


def is_torn_by_itself(frame: FrameType) -> bool:
    """From Python 3.14 on, an interrupt may leave the locks inside of `threading` locked as a thread is started, which
    nothing of ours can mend."""
    return sys.version_info >= (3, 14) and frame.f_code.co_filename == threading.__file__


def is_in_hook(frame: FrameType | None) -> bool:
    """Where pytest notes what was raised in a destructor."""
    while frame is not None:
        if frame.f_code.co_filename.endswith("unraisableexception.py"):
            return True
        frame = frame.f_back
    return False


def is_interrupted(perform: Callable[[], object], moment: int) -> bool:
    """A signal's handler runs, and may raise, where a function of Python begins and where one of C has returned: these
    are the moments that are counted. False: it was over before that."""
    left = moment

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return") and not is_torn_by_itself(frame)
        if left < 0 and not is_in_hook(frame):
            sys.setprofile(None)
            raise Interrupt

    try:
        sys.setprofile(count)
        perform()
    except Interrupt:
        return True
    except RuntimeError as error:
        assert str(error) == TORN_CONDITION
        return True
    finally:
        sys.setprofile(None)
    return left < 0  # raised in a destructor, and lost


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(free_ports(1))
    yield running
    assert running.end() == 0, running.lines


def new_client(server: Server) -> contextlib.closing[ObjectClient]:
    return contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=20.0, shown=find_pass(server.address))
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was being made is left half made
@pytest.mark.parametrize(("call", "value"), [("get", SMALL), ("put", LARGE)], ids=["get", "put"])
def test_a_call_is_interrupted(server: Server, call: str, value: bytes) -> None:
    object_id = new_object_id()
    others = set(threading.enumerate())  # of tests before, whose clients may still be there
    with new_client(server) as other:
        other.put(object_id, OWNER, [value])
        moment = 0
        is_cut = True
        while is_cut:
            with new_client(server) as client:
                get, put = (lambda: client.get(object_id)), (lambda: client.put(object_id, OWNER, [value]))
                is_cut = is_interrupted(get if call == "get" else put, moment)
                client.close()
                assert client.get(object_id) == value, f"interrupted at moment {moment}"
            moment += STRIDE
    assert moment > 100 * STRIDE, "a call that connects first has more moments than that"
    until(lambda: not any(map(is_keeper, set(threading.enumerate()) - others)), "the threads of all clients to end")


def is_keeper(thread: threading.Thread) -> bool:
    return thread.name == "scaler-objects-keeper" and thread.is_alive()
