"""Errors of things that cannot be sent. The error names the thing as the program names it, and what the error advises
works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client
from scaler_protocol import values

SOURCE = """
import contextvars, functools, queue, sqlite3, threading
import scaler

LOCK = threading.Lock()
LOCAL = threading.local()
CONTEXT = contextvars.ContextVar("context", default=1)
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
QUEUE = queue.Queue()
EVENT = threading.Event()
SETTINGS = {"a": [1, {"lock": LOCK}]}
LINES = (line for line in "ab")
FILE = open(OUT, "w")

def locked(x=1):
    with LOCK:
        return x
def through_another(): return locked(1)
def inside(): return [(lambda: LOCK)() for _ in "a"]
def local(): return LOCAL
def context(): return CONTEXT.get()
def database(): return DATABASE
def queued(): return QUEUE
def evented(): return EVENT
def settings(): return SETTINGS["a"]
def lines(): return LINES
def file(): return FILE
def default(lock=LOCK): return lock
def by_keyword(*, guard=LOCK): return guard
def attributed(): pass
attributed.guard = LOCK

class Service:
    def __init__(self): self.inner = {"deep": [threading.Lock()]}
    def work(self): return self
SERVICE = Service()
def served(): return SERVICE.work()
class Slotted:
    __slots__ = ("guard",)
    def __init__(self): self.guard = threading.Lock()
    def work(self): return self
class ClassLock:
    guard = LOCK
    def work(self): return self
class Child(ClassLock): pass
def synchronized(function):
    mutex = threading.Lock()
    @functools.wraps(function)
    def wrapper(*args):
        with mutex:
            return function(*args)
    return wrapper
@synchronized
def guarded(): return 1
@functools.lru_cache
def cached(): return LOCK
"""
CASES = {
    "locked": "the global variable LOCK of the function locked",
    "through_another": "the global variable LOCK of the function locked (by way of locked)",
    "inside": "the global variable LOCK of the function inside",
    "local": "the global variable LOCAL of",
    "context": "the global variable CONTEXT of",
    "database": "the global variable DATABASE of",
    "queued": "the global variable QUEUE.mutex of",
    "evented": "the global variable EVENT._cond",
    "settings": "the global variable SETTINGS['a'][1]['lock'] of",
    "lines": "the global variable LINES of the function lines, of type generator. Send list(...)",
    "file": "the global variable FILE of the function file, of type TextIOWrapper. Send the path",
    "default": "the default of the parameter lock of",
    "by_keyword": "the default of the parameter guard of",
    "attributed": "the attribute guard of the function attributed",
    "Service().work": "the attribute inner['deep'][0] of the Service",
    "served": "the global variable SERVICE.inner['deep'][0] of",
    "Slotted().work": "the attribute guard of the Slotted",
    "ClassLock().work": "the class attribute guard of the class ClassLock",
    "Child": "the class attribute guard of the class ClassLock (by way of ClassLock)",
    "guarded": "the variable mutex of the function around guarded",
    "cached": "the global variable LOCK of the function cached",
    "functools.partial(locked, 1)": "the global variable LOCK of the function locked",
    "functools.partial(print, LOCK)": "args[0] in it",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names of a program. Its functions travel by value, as those of a main program do."""
    names = {"__name__": "__main__", "OUT": str(tmp_path_factory.mktemp("out") / "file")}
    exec(SOURCE, names)
    yield names
    names["FILE"].close()
    names["DATABASE"].close()


@pytest.mark.parametrize(("expression", "place"), CASES.items())
def test_a_function_that_cannot_be_sent_names_the_variable(
    client: Client, program: dict[str, Any], expression: str, place: str
) -> None:
    with pytest.raises(TypeError) as caught:
        client.submit(eval(expression, program))
    told = str(caught.value)
    assert place in told and "cannot be serialized: " in told
    assert "worker_state()" in told or "Send " in told


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda client, thing: client.submit(len, thing), "argument 1 (of type dict) cannot be serialized: "),
        (lambda client, thing: client.submit(len, sep=thing), "argument 'sep' (of type dict) cannot be serialized: "),
        (lambda client, thing: client.map(len, [[], thing]), "item 1 of the map, dict, cannot be serialized: "),
        (lambda client, thing: client.send_object(thing), "the object of type dict cannot be serialized: "),
        (lambda client, thing: client.get({"a": (len, thing)}, "a"), "in the graph cannot be serialized: "),
    ],
)
def test_an_argument_that_cannot_be_sent_names_the_part(
    client: Client, program: dict[str, Any], call: Callable[[Client, Any], object], place: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call(client, {"service": program["Service"]()})
    told = str(caught.value)
    assert place in told and "['service'].inner['deep'][0] in it, of type lock. Make it in the task" in told
    assert "or let Service.__getstate__ leave it out of what is sent" in told


FOLLOWED = """
def locked(x):
    with scaler.worker_state(threading.Lock):
        return x
class Service:
    def __init__(self): self.inner = {"deep": [threading.Lock()]}
    def __getstate__(self): return {name: value for name, value in vars(self).items() if name != "inner"}
    def work(self, x): return x
"""


def test_what_the_error_advises_can_be_sent(client: Client, program: dict[str, Any]) -> None:
    names = dict(program)
    exec(FOLLOWED, names)
    for function in (names["locked"], names["Service"]().work):
        assert values.loads(b"".join(values.dumps(function)))(3) == 3


def test_what_an_object_says_when_it_refuses_itself_is_the_error(client: Client) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.lines = (line for line in "ab")

        def __reduce__(self) -> str:
            raise TypeError("send the lines instead")

    with pytest.raises(
        TypeError, match=r"cannot be serialized: send the lines instead. It comes from \[0\] in it, .*ing$"
    ):
        client.submit(len, [Refusing()])
