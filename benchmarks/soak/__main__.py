"""`make soak`: very many tasks of every kind through a real cluster, then a look at what it still holds.

A tenth of the tasks goes first: modules are imported, pools have their size. What the rest adds is what stays.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from typing import Any

import psutil

from benchmarks.soak.footprint import MIB, Held, by_role, files, look
from scaler import Client, SchedulerClusterCombo

TASKS = 2_000_000
LAP_TASKS = 20_000
#: Of each role, all of its processes together; allocators keep some of what they had at their highest.
GROWTH_BYTES = 24 * MIB
SETTLE_SECONDS = 20.0


class Expected(Exception):
    """What tasks that are to fail raise."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS, help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="give up after so long (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="workers of the cluster (default: %(default)s)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    lying = files()
    end_at = time.monotonic() + options.seconds
    combo = SchedulerClusterCombo(n_workers=options.workers)
    try:
        client = Client(address=combo.get_address())
        warm = pump(client, max(LAP_TASKS, options.tasks // 10), end_at)
        before = settled()
        done = pump(client, options.tasks, end_at)
        after = settled()
        processes = [psutil.Process(pid) for pid in after][1:]
        client.disconnect()
    finally:
        combo.shutdown()
    print(f"{done:,} tasks after {warm:,}, {options.workers} workers\n\n{table(before, after)}\n")
    left = psutil.wait_procs(processes, timeout=SETTLE_SECONDS)[1]
    faults = complaints(before, after)
    faults += [f"process {process.pid} is left: {' '.join(process.cmdline())}" for process in left]
    faults += [f"a file is left: {path}" for path in sorted(files() - lying)]
    if done < options.tasks:
        faults.append(f"{done:,} of {options.tasks:,} tasks within {options.seconds:g} s")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


# ---------------------------------------------------------------------------------------------------------- the load


def pump(client: Client, tasks: int, end_at: float) -> int:
    """Laps until so many tasks have ended, or until it is time. Every result is checked."""
    done = 0
    while done < tasks and time.monotonic() < end_at:
        done += lap(client)
        if done % (10 * LAP_TASKS) < LAP_TASKS:
            print(f"{done:,} of {tasks:,}", file=sys.stderr, flush=True)
    return done


def lap(client: Client) -> int:
    """Mostly a map, and some of everything that leaves traces: failures, cancels, graphs, large values, lone calls."""
    mapped, single, failing, deep, large = LAP_TASKS - 2_000, 1_000, 100, 200, 10
    expect(sum(client.map(increment, range(mapped))), mapped * (mapped + 1) // 2)
    futures = [client.submit(increment, number) for number in range(single)]
    expect(sum(future.result() for future in futures), single * (single + 1) // 2)
    for failed in [client.submit(fail, number) for number in range(failing)]:
        expect(type(failed.exception()), Expected)
    canceled = [client.submit(increment, number) for number in range(failing)]
    for future in canceled:
        future.cancel()
    for future in canceled:
        expect(future.cancelled() or future.result() > 0, True)
    graph: dict[str, Any] = {"0": 0, **{str(n): (increment, str(n - 1)) for n in range(1, deep + 1)}}
    expect(client.get(graph, keys=[str(deep)])[str(deep)], deep)
    for echoed in [client.submit(echo, bytes(1 << 20)) for _ in range(large)]:
        expect(len(echoed.result()), 1 << 20)
    return mapped + single + 2 * failing + deep + large


def increment(number: int) -> int:
    return number + 1


def fail(number: int) -> None:
    raise Expected(number)


def echo(value: bytes) -> bytes:
    return value


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise SystemExit(f"a wrong result: {found!r} instead of {wanted!r}")


# ------------------------------------------------------------------------------------------------------- what stays


def settled() -> dict[int, Held]:
    """When memory has stopped falling: workers and storage tidy up once nothing has happened for a moment."""
    gc.collect()
    end_at = time.monotonic() + SETTLE_SECONDS
    least = look()
    while time.monotonic() < end_at:
        time.sleep(1.0)
        now = look()
        if total(now) > total(least) - MIB // 4 and time.monotonic() > end_at - SETTLE_SECONDS / 2:
            return now
        least = now
    return least


def total(held: dict[int, Held]) -> int:
    return sum(one.private_bytes for one in held.values())


def complaints(before: dict[int, Held], after: dict[int, Held]) -> list[str]:
    found = []
    olds, news = by_role(before), by_role(after)
    for role, new in news.items():
        grown = new.private_bytes - olds[role].private_bytes
        if grown > GROWTH_BYTES:
            found.append(f"{role}: {grown / MIB:.1f} MiB more than before")
        if new.descriptors > olds[role].descriptors:
            found.append(f"{role}: {new.descriptors - olds[role].descriptors} descriptors more than before")
    if len(after) > len(before):
        found.append(f"{len(after) - len(before)} processes more than before")
    return found


def table(before: dict[int, Held], after: dict[int, Held]) -> str:
    lines = ["| role      | MiB before | MiB after | descriptors before | after |",
             "|-----------|-----------:|----------:|-------------------:|------:|"]  # fmt: skip
    news = by_role(after)
    for role, old in by_role(before).items():
        new = news.get(role, Held(role, 0, 0))
        lines.append(f"| {role:<9} | {old.private_bytes / MIB:10.1f} | {new.private_bytes / MIB:9.1f} "
                     f"| {old.descriptors:18} | {new.descriptors:5} |")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
