"""The result, as a page a person enjoys reading."""

from dataclasses import dataclass

from demo.console import bar, machine
from demo.stdlib_index import Summary

TOP_NAMES = 8
#: Every method has these two.
DULL = {"self", "cls"}


@dataclass(frozen=True, slots=True)
class Timing:
    """The same work twice: on the cluster, and by one process alone."""

    cluster_seconds: float
    alone_seconds: float
    is_equal: bool

    @property
    def speed_up(self) -> float:
        return self.alone_seconds / self.cluster_seconds


def index_page(summary: Summary, timing: Timing, task_count: int) -> str:
    counted = summary["names"]
    counts = [(summary["modules"], "modules"), (summary["lines"], "lines"), (summary["tokens"], "tokens")]
    counts.append((len(counted), "different names"))
    top = [entry for entry in counted.most_common(TOP_NAMES + len(DULL)) if entry[0] not in DULL][:TOP_NAMES]
    most = top[0][1]
    width = max(len(name) for name, _ in top)
    longest = ", ".join(f"{name} ({lines:,} lines)" for lines, name in summary["longest"])
    rows = [
        f"    {name:<{width}}  {bar(count, most)[: max(1, round(24 * count / most))]} {count:,}" for name, count in top
    ]
    alone = f"one process alone needs {timing.alone_seconds:.1f} s, {timing.speed_up:.1f} times as long"
    return "\n".join(
        [
            "The Python standard library, indexed",
            "    " + ", ".join(f"{count:,} {noun}" for count, noun in counts),
            f"    longest: {longest}",
            "",
            "    The names that are used most, self and cls aside",
            *rows,
            "",
            f"    a graph of {task_count:,} tasks in {timing.cluster_seconds:.1f} s; {alone}",
        ]
    )


def collatz_page(start: int, steps: int, count: int, timing: Timing) -> str:
    rate, work = count / timing.cluster_seconds, timing.alone_seconds / count * 1e6
    return "\n".join(
        [
            f"{count:,} tiny tasks",
            f"    of all Collatz chains that begin at 1 to {count:,}, the longest begins at {start:,}: {steps} steps",
            f"    {rate:,.0f} tasks/s, in {timing.cluster_seconds:.1f} s; the work of one is {work:.0f} µs",
        ]
    )


def verdict(timings: list[Timing], worker_count: int) -> str:
    if all(timing.is_equal for timing in timings):
        return f"Both answers equal those of one process alone. ({machine(worker_count)})"
    return "WRONG: an answer differs from that of one process alone. Please report this."
