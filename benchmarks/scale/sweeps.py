"""What is varied, what stays the same meanwhile, and which figure is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

MILLION = 1_000_000
QUICK = 20
FLAT = (
    "Time is processor time of the scheduler's core for a task, from submission to end; it should be flat, within 1.5 "
    "times from 10 to 10,000 workers. Memory is that of a waiting task, without its argument; below 500 bytes."
)


@dataclass(frozen=True, slots=True)
class Sweep:
    name: str
    title: str
    unit: str
    measure: str
    figure: str
    #: the size that is varied: its name in words, and the argument of the measure
    across: str
    argument: str
    values: tuple[int, ...]
    quick_values: tuple[int, ...]
    series: dict[str, dict[str, int]]
    fixed: dict[str, int] = field(default_factory=dict)

    def sizes(self, series: str, value: int, *, is_quick: bool) -> dict[str, int]:
        sizes = {**self.fixed, **self.series[series], self.argument: value}
        if is_quick:
            for name in ("queued", "tasks"):
                if name in sizes and name != self.argument:
                    sizes[name] //= QUICK
        return sizes


#: One task to a message wakes the core up for each; 16 is what a busy worker sends.
MESSAGES = {
    "1 task to a message": {"per_message": 1, "tasks": 50_000},
    "16 tasks to a message": {"per_message": 16, "tasks": 400_000},
}
TASK_US = ("µs", "running", "task_us")

SWEEPS = (
    Sweep(
        "workers", "Core's time for a task, a million waiting", *TASK_US, "workers", "workers",
        (10, 100, 1_000, 10_000), (10, 100),
        MESSAGES, {"clients": 10, "queued": MILLION, "per_submit": 1_000},
    ),
    Sweep(
        "queue", "Core's time for a task, 100 workers", *TASK_US, "tasks waiting", "queued",
        (10_000, 100_000, MILLION), (10_000, 50_000),
        {name: {**sizes, "tasks": 8_000} for name, sizes in MESSAGES.items()},
        {"clients": 10, "workers": 100, "per_submit": 1_000},
    ),
    Sweep(
        "clients", "Core's time for a task, a million waiting, 100 workers", *TASK_US, "clients", "clients",
        (1, 10, 100, 1_000), (1, 10),
        MESSAGES, {"workers": 100, "queued": MILLION, "per_submit": 1_000},
    ),
    Sweep(
        "memory", "Scheduler's memory for a waiting task", "bytes", "queued_memory", "bytes",
        "tasks in a Submit", "per_submit", (1, 10, 100, 1_000, 10_000), (1, 100),
        {"1 client": {"clients": 1}, "100 clients": {"clients": 100}}, {"tasks": 100_000},
    ),
    Sweep(
        "graph", "Core's time for a node of a tree", "µs", "graph", "task_us", "nodes", "nodes",
        (10_000, 100_000, MILLION), (10_000, 20_000),
        {"64 nodes to a message": {"per_message": 64}}, {"workers": 100},
    ),
)  # fmt: skip
