"""The ways in which each thing of a row travels, and the comparison with a child of fork.

`run` is called by a program, whose definitions are in `__main__`, as with users. Without an argument it uses a process
that only has `scaler_protocol.values`; with one the cluster at that address, by calls of the kind that a second names.
It prints a line for each thing that came out other than in a child of fork, and the number of checks.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NoReturn

Rows = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]
"""Name of a row -> how to make its thing, and what is to be seen of it."""


def failing(function: Any, *args: Any, **keywords: Any) -> str:
    try:
        function(*args, **keywords)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it did not fail"


def same(thing: Any) -> Any:
    return thing


def made(make: Callable[[], Any]) -> Any:
    return make()


def raised(thing: Any) -> NoReturn:
    raise thing if isinstance(thing, Exception) else ValueError(thing)


def looked_at(look: Callable[[Any], Any], thing: Any) -> str:
    return repr(look(thing))


def looked_at_new(look: Callable[[Any], Any], make: Callable[[], Any]) -> str:
    return repr(look(make()))


def caught(call: Any, thing: Any) -> Any:
    try:
        call(raised, thing)
    except Exception as error:
        if isinstance(thing, Exception):
            return error
        if type(error) is ValueError:
            return error.args[0]
        raise
    return None


#: name -> what is seen of a row's thing when it has travelled so
WAYS: dict[str, Callable[..., str]] = {
    "as an argument": lambda call, make, look: call(looked_at, look, make()),
    "as a global of the function": lambda call, make, look: call(looked_at_new, look, make),
    "as a result": lambda call, make, look: repr(look(call(made, make))),
    "there and back": lambda call, make, look: repr(look(call(same, make()))),
    "twice there and back": lambda call, make, look: repr(look(call(same, call(same, make())))),
    "in a container": lambda call, make, look: repr(look(call(same, {"a": [(make(), 1)]})["a"][0][0])),
    "with an exception": lambda call, make, look: repr(look(caught(call, make()))),
    "here, after all that": lambda call, make, look: repr(look(make())),
}


def looked_at_row(name: str) -> str:
    make, look = sys.modules["__main__"].ROWS[name]  # type: ignore[attr-defined]
    return repr(look(make()))


def check(rows: Rows, call: Any) -> int:
    """Prints what comes out other than in a child of fork. Returns how many checks there were."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        wanted = {name: pool.submit(looked_at_row, name).result(60) for name in rows}
    for name, (make, look) in rows.items():
        for way, travel in WAYS.items():
            try:
                got = travel(call, make, look)
            except Exception as error:
                got = f"{type(error).__name__}: {str(error)[:300]}"
            if got != wanted[name]:
                print(f"{name}, {way}: {got}, in a child of fork {wanted[name]}")
    return len(rows) * len(WAYS)


def in_a_process() -> Any:
    """Returns how to call in a process that has nothing of this program."""
    from scaler_protocol import values

    code = """
import pickle, sys
from scaler_protocol import classes, task_context, values
task_context.set_current(object())  # each call is a task
while head := sys.stdin.buffer.read(8):
    try:
        function, args = values.loads(sys.stdin.buffer.read(int.from_bytes(head, "big")))
        answer = True, function(*args)
    except Exception as error:
        answer = False, error
    try:
        data = b"".join(values.dumps(answer))
    except Exception as error:
        data = b"".join(values.dumps((False, RuntimeError(f"the answer: {error}"))))
    sys.stdout.buffer.write(len(data).to_bytes(8, "big") + data)
    sys.stdout.buffer.flush()
    classes.end_call()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(function: Any, *args: Any) -> Any:
        data = b"".join(values.dumps((function, args)))
        child.stdin.write(len(data).to_bytes(8, "big") + data)
        child.stdin.flush()
        has_worked, value = values.loads(child.stdout.read(int.from_bytes(child.stdout.read(8), "big")))
        if not has_worked:
            raise value
        return value

    return call


def by_submit(client: Any) -> Any:
    return lambda function, *args: client.submit(function, *args).result(60)


def by_cell(client: Any) -> Any:
    """Returns how to call in a cell of a notebook: its names travel there, and what it assigns travels back."""
    from scaler.utility.cells import run_cell

    def call(function: Any, *args: Any) -> Any:
        names = {"function": function, "args": args}
        assigned, _ = client.submit(run_cell, "got = function(*args)", names, None).result(60)
        return assigned["got"]

    return call


initialized: list[Any] = []
"""In a worker: what the last initializer of joblib's calls returned, or raised."""


def initialize(_number: int, function: Any, args: tuple[Any, ...]) -> None:
    try:
        initialized[:] = function(*args), None
    except Exception as error:
        initialized[:] = None, error


def taken() -> Any:
    value, error = initialized
    if error is not None:
        raise error
    return value


def by_joblib_initializer(client: Any) -> Any:
    """Returns how to call in the initializer of a worker that runs joblib's calls."""
    import joblib

    import scaler.joblib

    numbers = itertools.count()  # equal initializers are called once

    def call(function: Any, *args: Any) -> Any:
        options = {"initializer": initialize, "initargs": (next(numbers), function, args)}
        with joblib.parallel_config(backend="scaler", client=client, **options):
            (value,) = joblib.Parallel(n_jobs=2)([joblib.delayed(taken)()])
        return value

    return call


KINDS: dict[str, Callable[[Any], Any]] = {
    "submit": by_submit,
    "cell": by_cell,
    "joblib initializer": by_joblib_initializer,
}


def run(rows: Rows) -> None:
    if len(sys.argv) == 1:
        print(check(rows, in_a_process()))
        return
    from scaler import Client

    _, address, kind = sys.argv
    with Client(address) as client:
        print(check(rows, KINDS[kind](client)))
