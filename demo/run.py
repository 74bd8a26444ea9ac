"""The demo from start to end: a cluster, a graph, many tiny tasks, the check, the page."""

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import as_completed

import cloudpickle

from demo import collatz, report, stdlib_index
from demo.console import Progress, end_live_line, machine, say
from demo.interrupts import Interrupts
from demo.report import Timing
from demo.stdlib_index import Summary
from scaler import Client, SchedulerClusterCombo
from scaler.cluster.process import ClusterStartError

SLICES = 20


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make demo", description="Index the Python standard library on a local cluster."
    )
    parser.add_argument(
        "--workers", type=int, default=min(4, os.cpu_count() or 1), help="how many workers (default: %(default)s)"
    )
    parser.add_argument("--modules", type=int, default=0, help="only this many modules (default: all)")
    parser.add_argument("--tiny", type=int, default=100_000, help="how many tiny tasks (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.workers < 1 or options.tiny < 1 or options.modules < 0:
        parser.error("--workers and --tiny must be at least 1, and --modules not negative")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    interrupts = Interrupts()
    try:
        return run(options, interrupts)
    except BaseException as error:
        # A signal may surface as something else too: the cluster's processes get the same Ctrl-C from the terminal.
        if not interrupts.signal_number:
            if not isinstance(error, ClusterStartError):
                raise
            say(f"The cluster does not start: {error}")
            return 1
        end_live_line()
        say("Stopped. The cluster is shut down and nothing is left running.")
        return interrupts.exit_code


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    # Workers need not have this folder on their path: its functions travel whole.
    for module in (stdlib_index, collatz):
        cloudpickle.register_pickle_by_value(module)
    combo = None
    try:
        say(f"Starting storage, scheduler and {options.workers} workers as processes of their own.")
        with interrupts.deferred():
            combo = SchedulerClusterCombo(n_workers=options.workers, logging_level="WARNING")
        say(f"The cluster is up at {combo.get_address()}: {machine(options.workers)}.")
        with Client(address=combo.get_address()) as client:
            return compute(client, options)
    finally:
        if combo is not None:
            with interrupts.deferred():
                combo.shutdown()


def compute(client: Client, options: argparse.Namespace) -> int:
    modules = find_modules(options.modules)
    index, index_seconds, task_count = index_on_cluster(client, modules)
    steps, steps_seconds = chains_on_cluster(client, options.tiny)
    say("Checking both answers in one process alone.")
    started_at = time.perf_counter()
    index_is_equal = stdlib_index.index_alone(modules) == index
    index_timing = Timing(index_seconds, time.perf_counter() - started_at, index_is_equal)
    started_at = time.perf_counter()
    steps_are_equal = [collatz.chain_steps(number) for number in range(1, options.tiny + 1)] == steps
    steps_timing = Timing(steps_seconds, time.perf_counter() - started_at, steps_are_equal)
    say()
    print(report.index_page(index, index_timing, task_count), end="\n\n")
    print(report.collatz_page(*collatz.longest_chain(steps), options.tiny, steps_timing), end="\n\n")
    print(report.verdict([index_timing, steps_timing], options.workers), flush=True)
    return 0 if index_is_equal and steps_are_equal else 1


def find_modules(limit: int) -> dict[str, str]:
    modules = stdlib_index.find_modules()
    return dict(list(modules.items())[: limit or None])


def index_on_cluster(client: Client, modules: dict[str, str]) -> tuple[Summary, float, int]:
    """The index, how long it took, and of how many tasks it was made."""
    graph, index_key, module_keys = stdlib_index.graph_of(modules)
    shown = Progress("Standard library", len(modules))
    started_at = time.perf_counter()
    futures = client.get(graph, [*module_keys, index_key], block=False)
    for done, _ in enumerate(as_completed([futures[key] for key in module_keys]), 1):
        shown.show(done, f"modules, {time.perf_counter() - started_at:.1f} s")
    index: Summary = futures[index_key].result()
    seconds = time.perf_counter() - started_at
    shown.finish(f"modules, {index['lines']:,} lines, {seconds:.1f} s")
    return index, seconds, sum(isinstance(node, tuple) for node in graph.values())


def chains_on_cluster(client: Client, count: int) -> tuple[list[int], float]:
    """The steps of all chains, and how long it took. In slices, so that there is something to show."""
    shown = Progress("Tiny tasks      ", count)
    size = -(-count // SLICES)
    steps: list[int] = []
    started_at = time.perf_counter()
    for start in range(1, count + 1, size):
        steps += client.map(collatz.chain_steps, range(start, min(start + size, count + 1)))
        shown.show(len(steps), f"tasks, {len(steps) / (time.perf_counter() - started_at):,.0f} a second")
    seconds = time.perf_counter() - started_at
    shown.finish(f"tasks, {count / seconds:,.0f} a second, {seconds:.1f} s")
    return steps, seconds
