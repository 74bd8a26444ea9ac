"""`python -m benchmarks.spill`: what do objects cost that do not fit into the storage's memory?

`disk` sends objects of four times the memory limit, and eight tasks read all of them. Beside it, in the same round, two
threads write as many bytes to files in the same directory and read them back, which is the disk's own rate; another run
keeps all objects over the end of the storage (`--data-directory`); and the last one has all of them in memory, which no
disk can exceed. With `--sync` each file reaches the disk before the baseline's clock stops, and is read from there and
not from the page cache; the storage never waits for that. `--disk-rate` makes a disk of known rate: one that is as fast
as memory says nothing of disks. `echo` is a map of 1 MiB values in a cluster with and without `--spill-directory`, in
turns, where all of them fit into memory. CPU is of all processes, per MiB that was moved.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from benchmarks.driver import tasks
from benchmarks.keys import cpu_seconds
from benchmarks.slow_disk import slow_disk
from scaler import Client, SchedulerClusterCombo

MIB = 1 << 20
WORKERS = 2
TASKS = 8
TIMES_THE_LIMIT = 4
OBJECT_MIB = 16
THREADS = 2


Figures = dict[str, float]
Way = tuple[str, Callable[[], Figures]]


class Clock:
    def __init__(self) -> None:
        self._cpu_seconds, self._began_at = cpu_seconds(), time.perf_counter()

    def figures(self, mib: int) -> Figures:
        seconds = time.perf_counter() - self._began_at
        return {
            "mib_per_second": mib / seconds,
            "cpu_ms_per_mib": (cpu_seconds() - self._cpu_seconds) / mib * 1e3,
        }


def disk_rate(directory: str, mib: int, *, is_synced: bool) -> Figures:
    """Of files written and read as the storage does it: without a name, in whole values, by two threads."""
    value = os.urandom(OBJECT_MIB * MIB)
    clock = Clock()
    with ThreadPoolExecutor(THREADS) as pool:
        files = list(pool.map(lambda _: written(directory, value, is_synced), range(mib // OBJECT_MIB)))
        list(pool.map(read, files))
    figures = clock.figures(2 * mib)
    for file in files:
        os.close(file)
    return figures


def written(directory: str, value: bytes, is_synced: bool) -> int:
    file = os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600)
    view = memoryview(value)
    while view:
        view = view[os.write(file, view) :]
    if is_synced:
        os.fdatasync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def read(file: int) -> None:
    offset = 0
    while piece := os.pread(file, 8 * MIB, offset):
        offset += len(piece)


def storage_rate(directory: str | None, mib: int, *, is_kept: bool = False) -> Figures:
    """Of the same bytes, stored and read by tasks; perhaps all of them outlive the storage."""
    limit = mib // TIMES_THE_LIMIT * MIB if directory else None
    spilled, kept = (None, directory) if is_kept else (directory, None)
    base = os.urandom(OBJECT_MIB * MIB - 4)
    with (
        SchedulerClusterCombo(
            n_workers=WORKERS, memory_limit=limit, spill_directory=spilled, data_directory=kept
        ) as cluster,
        Client(cluster.get_address()) as client,
    ):
        client.map(tasks.nothing, range(100))
        clock = Clock()
        references = [client.send_object(number.to_bytes(4, "little") + base) for number in range(mib // OBJECT_MIB)]
        futures = [client.submit(tasks.first_bytes, *references[number::TASKS]) for number in range(TASKS)]
        for number, future in enumerate(futures):
            assert future.result() == list(range(number, mib // OBJECT_MIB, TASKS))
        return clock.figures(2 * mib)


def echo_rate(directory: str | None, count: int) -> Figures:
    """Of a map of 1 MiB values."""
    with (
        SchedulerClusterCombo(
            n_workers=WORKERS, memory_limit=4096 * MIB if directory else None, spill_directory=directory
        ) as cluster,
        Client(cluster.get_address()) as client,
    ):
        values = [number.to_bytes(4, "little") + bytes(MIB - 4) for number in range(count)]
        client.map(tasks.echo, values[: count // 4])
        clock = Clock()
        assert client.map(tasks.echo, values) == values
        return clock.figures(count)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spill", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=("disk", "echo"), help="a measure (default: both)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s; the median counts")
    parser.add_argument("--mib", type=int, default=1024, help="bytes of all objects (default: %(default)s)")
    parser.add_argument("--values", type=int, default=400, help="of an echo (default: %(default)s)")
    parser.add_argument("--directory", default=".", help="on the disk to be measured (default: here)")
    parser.add_argument("--sync", action="store_true", help="the baseline waits for the disk, and reads from it")
    parser.add_argument("--disk-rate", type=int, metavar="MIB", help="a disk of so many MiB/s (root, cgroup v1)")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        place = options.directory
        if options.disk_rate:
            place = stack.enter_context(slow_disk(place, 3 * options.mib, options.disk_rate))
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=place, prefix="spill-"))
        if options.only != "echo":
            side_by_side(
                "objects of four times the memory limit through 8 tasks",
                ("the disk itself", lambda: disk_rate(directory, options.mib, is_synced=options.sync)),
                ("the storage", lambda: storage_rate(directory, options.mib)),
                ("the storage, kept", lambda: storage_rate(directory, options.mib, is_kept=True)),
                ("all in memory", lambda: storage_rate(None, options.mib)),
                rounds=options.rounds,
            )
        if options.only != "disk":
            side_by_side(
                "echo of 1 MiB, all in memory",
                ("without --spill-directory", lambda: echo_rate(None, options.values)),
                ("with", lambda: echo_rate(directory, options.values)),
                rounds=options.rounds,
            )
    return 0


def side_by_side(title: str, *ways: Way, rounds: int) -> None:
    """Each way's medians, and their share of the first one's."""
    found: dict[str, list[Figures]] = {name: [] for name, _ in ways}
    for number in range(rounds):
        for name, measure in ways if number % 2 else reversed(ways):
            found[name].append(measure())
            print(f"round {number + 1}: {name} {found[name][-1]}", file=sys.stderr, flush=True)
    print(f"{title}, medians of {rounds}:")
    for name, figures in found.items():
        rates, spent = ([one[figure] for one in figures] for figure in ("mib_per_second", "cpu_ms_per_mib"))
        shares = [rate / first["mib_per_second"] for rate, first in zip(rates, found[ways[0][0]], strict=True)]
        print(
            f"  {name:26} {statistics.median(rates):8,.0f} MiB/s  {statistics.median(spent):6.3f} ms of CPU a MiB  "
            f"{statistics.median(shares):7.1%} ({min(shares):.1%} to {max(shares):.1%})"
        )


if __name__ == "__main__":
    sys.exit(main())
