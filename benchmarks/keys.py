"""`python -m benchmarks.keys`: what does a key cost?

Each round runs every measure with a key, as users have it, and with `--insecure`, in turns, each in a process of its
own with directories of its own. `start` is a local cluster up to its first result. `host` is a local cluster, whose
processes speak by the lane. `tcp` are the three commands without lane and without shared memory, as between machines:
all they say is encrypted. Times are medians of a process; CPU is of all processes of the cluster and the client.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.driver import tasks
from benchmarks.engine_process import ROOT
from scaler import Client, SchedulerClusterCombo
from scaler_protocol.process.ports import free_ports
from scaler_protocol.transport.lane import OFF_VARIABLE

MIB = 1 << 20
WORKERS = 2
LIMIT_SECONDS = 180.0
END_SECONDS = 30.0
Figures = dict[str, float]

#: figure, its title, and whether more is better
ROWS = {
    "start": {
        "start_ms": ("start-up to the first result, ms", False),
        "start_cpu_ms": ("CPU of start and end, ms", False),
    },
    "host": {
        "tasks_per_second": ("map of no-ops on one host, tasks/s", True),
        "cpu_us": ("CPU of it per task, µs", False),
    },
    "tcp": {
        "connect_ms": ("connect, p50 ms", False),
        "lone_ms": ("one call over TCP, p50 ms", False),
        "tasks_per_second": ("map of no-ops over TCP, tasks/s", True),
        "cpu_us": ("CPU of it per task, µs", False),
        "mib_per_second": ("64 MiB argument over TCP, MiB/s", True),
        "cpu_ms_per_mib": ("CPU of it per MiB, ms", False),
    },
}


def start(insecure: bool, _: argparse.Namespace) -> Figures:
    began_at = time.perf_counter()
    with (
        SchedulerClusterCombo(n_workers=WORKERS, insecure=insecure) as cluster,
        Client(cluster.get_address(), insecure=insecure) as client,
    ):
        assert client.submit(tasks.increment, 1).result() == 2
        seconds = time.perf_counter() - began_at
    spent = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"start_ms": seconds * 1e3, "start_cpu_ms": sum(one.ru_utime + one.ru_stime for one in spent) * 1e3}


def host(insecure: bool, options: argparse.Namespace) -> Figures:
    with (
        SchedulerClusterCombo(n_workers=WORKERS, insecure=insecure) as cluster,
        Client(cluster.get_address(), insecure=insecure) as client,
    ):
        return mapped(client, options.tasks)


def tcp(insecure: bool, options: argparse.Namespace) -> Figures:
    os.environ[OFF_VARIABLE] = "1"
    with commands(insecure) as address, Client(address, insecure=insecure) as client:
        figures = mapped(client, options.tasks)
        figures["connect_ms"] = median_ms(options.connects, lambda: Client(address, insecure=insecure).disconnect())
        figures["lone_ms"] = median_ms(options.calls, lambda: client.submit(tasks.increment, 1).result())
        value = os.urandom(64 * MIB)
        before, began_at = cpu_seconds(), time.perf_counter()
        for number in range(options.values):
            assert client.submit(tasks.size_and_ends, value + bytes([number])).result()[2] == number
        mib = options.values * 64
        figures["mib_per_second"] = mib / (time.perf_counter() - began_at)
        figures["cpu_ms_per_mib"] = (cpu_seconds() - before) / mib * 1e3
        return figures


MEASURES: dict[str, Callable[[bool, argparse.Namespace], Figures]] = {"start": start, "host": host, "tcp": tcp}


def mapped(client: Client, count: int) -> Figures:
    client.map(tasks.nothing, range(count // 10))
    before, began_at = cpu_seconds(), time.perf_counter()
    client.map(tasks.nothing, range(count))
    seconds = time.perf_counter() - began_at
    return {"tasks_per_second": count / seconds, "cpu_us": (cpu_seconds() - before) / count * 1e6}


def median_ms(count: int, call: Callable[[], Any]) -> float:
    samples = []
    for _ in range(count):
        began_at = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began_at)
    return statistics.median(samples) * 1e3


def cpu_seconds() -> float:
    """Of this process and all below it, which live on."""
    import psutil

    me = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


@contextmanager
def commands(insecure: bool) -> Iterator[str]:
    port = free_ports(3)
    address, storage = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
    lines = (
        ("scaler_storage", storage, "--no-shared-memory"),
        ("scaler_scheduler", address, "-osa", storage),
        ("scaler_worker", address, "-n", str(WORKERS)),
    )
    more = ("--insecure",) if insecure else ()
    started = [
        subprocess.Popen([sys.executable, "-m", *line, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for line in lines
    ]
    try:
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(END_SECONDS)


def apart(measure: str, way: str, options: argparse.Namespace) -> Figures:
    """The figures of one measure, in a process with an empty configuration directory."""
    words = [f"--{name}={getattr(options, name)}" for name in ("tasks", "connects", "calls", "values")]
    with tempfile.TemporaryDirectory() as place:
        for name in ("config", "runtime"):
            os.mkdir(os.path.join(place, name), 0o700)
        places = {"XDG_CONFIG_HOME": f"{place}/config", "XDG_RUNTIME_DIR": f"{place}/runtime", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.keys", "--apart", measure, way, *words]
        said = subprocess.run(
            command, env={**os.environ, **places}, stdout=subprocess.PIPE, timeout=LIMIT_SECONDS, check=True
        )
    figures: Figures = json.loads(said.stdout)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keys", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=MEASURES, help="a measure (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s; the median counts")
    for name, value in {"tasks": 20_000, "connects": 50, "calls": 500, "values": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help="default: %(default)s")
    parser.add_argument("--apart", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.apart:
        measure, way = options.apart
        print(json.dumps(MEASURES[measure](way == "insecure", options)))
        return 0
    chosen = options.only or list(MEASURES)
    ways = ["insecure", "keys"]
    found: dict[tuple[str, str], list[Figures]] = {(measure, way): [] for measure in chosen for way in ways}
    for number in range(options.rounds):
        for measure in chosen:
            for way in ways if number % 2 else reversed(ways):
                found[measure, way].append(apart(measure, way, options))
                print(number + 1, measure, way, found[measure, way][-1], file=sys.stderr, flush=True)
    show(found, chosen, options.rounds)
    return 0


def show(found: dict[tuple[str, str], list[Figures]], chosen: Sequence[str], rounds: int) -> None:
    print(f"{'median of ' + str(rounds):36} {'insecure':>10} {'keys':>10}  difference")
    for measure in chosen:
        for figure, (title, is_more_better) in ROWS[measure].items():
            without, with_keys = (
                statistics.median(one[figure] for one in found[measure, way]) for way in ("insecure", "keys")
            )
            share = with_keys / without - 1
            worse = "worse" if (share < 0) == is_more_better else "better"
            print(
                f"{title:36} {without:10,.2f} {with_keys:10,.2f}  {with_keys - without:+,.2f} ({share:+.1%}, {worse})"
            )


if __name__ == "__main__":
    sys.exit(main())
