"""A client with work of one kind, as a program: `python -m tests.support.workload ADDRESS KIND COUNT LOG TIMEOUT`.

It prints "submitted" when all of it is with the client, and in the end one line of JSON: how each future has ended, how
often one was told twice, and how long the slowest took. In the log is a line for each task that began.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from scaler import Client
from scaler.utility.exceptions import ScalerError
from tests.support import workload_tasks as tasks
from tests.support.processes import Command, until

#: Longer than every bound of a future: what is not done by then hangs.
HANG_SECONDS = 240.0
_LARGE_BYTES = 1 << 20
_LAYER = 6
_SHOWN_CHARACTERS = 500

Work = list[tuple["Future[Any]", Any]]


@dataclass
class Outcome:
    """How a workload has ended."""

    count: int = 0
    right: int = 0
    wrong: int = 0
    hanging: int = 0
    #: a future's callback was called again
    twice: int = 0
    #: by the exception's name; those of Scaler that the docs name, and others with a mark
    errors: dict[str, int] = field(default_factory=dict)
    #: the text of the first of these
    first_error: str = ""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        parts = [f"{self.right} of {self.count} right"]
        parts += [f"{number} {name}" for name, number in (("WRONG", self.wrong), ("HANGING", self.hanging)) if number]
        parts += [f"{number} TWICE" for number in (self.twice,) if number]
        return ", ".join([*parts, *(f"{number} {name}" for name, number in sorted(self.errors.items()))])


@dataclass
class Begun:
    """What the log tells of the tasks that began."""

    #: how often each of them began
    times: Counter[str]
    at: list[float]
    #: which has begun a task last
    last_process: int

    @property
    def reruns(self) -> int:
        return sum(count - 1 for count in self.times.values())

    def pause_after(self, moment: float) -> float:
        """The longest time without a beginning, from then on and as long as there were any."""
        moments = [moment, *(at for at in self.at if at >= moment)]
        return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)


def read_log(log: Path) -> Begun:
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    last_process = int(lines[-1][1]) if lines else 0
    return Begun(Counter(line[0] for line in lines), sorted(float(line[2]) for line in lines), last_process)


class Running:
    """A client's program with its work."""

    def __init__(self, command: Command, log: Path) -> None:
        self.command = command
        self._log = log

    @property
    def begun(self) -> Begun:
        return read_log(self._log)

    def wait_until_begun(self, count: int) -> None:
        until(lambda: len(self.begun.at) >= count, f"{count} tasks have begun")

    def outcome(self, seconds: float) -> Outcome:
        """When it has ended, which takes so long at most."""
        code = self.command.wait(seconds)
        assert code == 0, self.command.text
        return outcome_of(self.command.lines)


# ---------------------------------------------------------------- kinds of work


def _small(client: Client, count: int, log: str) -> Work:
    names = [f"small{number}" for number in range(count)]
    half = count // 2
    pool = ThreadPoolExecutor(1)
    mapped: Future[Any] = pool.submit(client.map, tasks.step, names[:half], [0.02] * half, [log] * half)
    pool.shutdown(wait=False)
    singles = [(client.submit(tasks.step, name, 0.02, log), name) for name in names[half:]]
    return [(mapped, names[:half]), *singles]


def _long(client: Client, count: int, log: str) -> Work:
    return [(client.submit(tasks.step, f"long{number}", 1.0, log), f"long{number}") for number in range(count)]


def _large(client: Client, count: int, log: str) -> Work:
    seed = hashlib.sha256(log.encode()).digest()
    work: Work = []
    for number in range(count):
        data = number.to_bytes(4, "little") + seed * (_LARGE_BYTES // len(seed))
        work.append((_submitted(client, tasks.turned, f"large{number}", data, 0.2, log), data[::-1]))
    return work


def _submitted(client: Client, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """An error of the call itself, such as of a storage that does not answer, is an end as good as that of its task."""
    try:
        return client.submit(function, *arguments)
    except ScalerError as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def _graph(client: Client, count: int, log: str) -> Work:
    """Layers; each node takes in two of the layer before."""
    graph: dict[str, Any] = {}
    values: dict[str, str] = {}
    for number in range(count):
        name = f"node{number}"
        before = number // _LAYER * _LAYER - _LAYER
        inputs = [] if before < 0 else [f"node{before + number % _LAYER}", f"node{before + (number + 1) % _LAYER}"]
        graph[name] = (partial(tasks.joined, name, 0.05, log), *inputs)
        values[name] = tasks.name_of(name, *[values[one] for one in inputs])
    wanted = [f"node{number}" for number in range(max(0, count - _LAYER), count)]
    futures = client.get(graph, wanted, block=False)
    return [(futures[name], values[name]) for name in wanted]


def _nested(client: Client, count: int, log: str) -> Work:
    names = [f"family{number}" for number in range(count)]
    return [(client.submit(tasks.parent, client, name, 0.05, log), f"{name}.0+{name}.1") for name in names]


KINDS: dict[str, Callable[[Client, int, str], Work]] = {
    "small": _small,
    "long": _long,
    "large": _large,
    "graph": _graph,
    "nested": _nested,
}


# ---------------------------------------------------------------- the program


def run(address: str, kind: str, count: int, log: str, timeout: float) -> Outcome:
    begun_at = time.monotonic()
    told: Counter[int] = Counter()
    lock = threading.Lock()

    def tell(future: Future[Any]) -> None:
        with lock:
            told[id(future)] += 1

    with Client(address, timeout_seconds=timeout) as client:
        work = KINDS[kind](client, count, log)
        for future, _ in work:
            future.add_done_callback(tell)
        print("submitted", flush=True)
        outcome = Outcome(len(work))
        errors: Counter[str] = Counter()
        ends_at = begun_at + HANG_SECONDS
        for future, value in work:
            try:
                if future.result(max(0.0, ends_at - time.monotonic())) == value:
                    outcome.right += 1
                else:
                    outcome.wrong += 1
            except FutureTimeout as error:
                if future.done():
                    errors[_name_of(error)] += 1
                else:
                    outcome.hanging += 1
            except (Exception, CancelledError) as error:
                errors[_name_of(error)] += 1
                outcome.first_error = outcome.first_error or str(error)[:_SHOWN_CHARACTERS]
    outcome.errors = dict(errors)
    outcome.twice = sum(count - 1 for count in told.values())
    outcome.seconds = time.monotonic() - begun_at
    return outcome


def _name_of(error: BaseException) -> str:
    name = type(error).__name__
    return name if isinstance(error, ScalerError) else f"undocumented {name}"


def outcome_of(lines: list[str]) -> Outcome:
    """What the program has printed."""
    return Outcome(**json.loads(lines[-1]))


if __name__ == "__main__":
    outcome = run(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
    print(json.dumps(asdict(outcome)), flush=True)
