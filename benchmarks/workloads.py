"""What is measured, how large, for how long at most, and the rows of the table that come from it."""

from dataclasses import dataclass, field
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `figure` is the name under which a workload or the bench itself reports it."""

    title: str
    figure: str
    unit: str
    better: Better = "higher"


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    measure: str
    sizes: dict[str, int]
    #: the sizes of a quick run
    quick: dict[str, int]
    rows: tuple[Row, ...]
    #: a run of this many tasks comes first, unmeasured: connections, imports, caches
    warm_up: dict[str, int] = field(default_factory=dict)
    #: what the bench looks at from outside while it runs
    observe: Literal["", "cpu", "memory"] = ""
    limit_seconds: float = 120.0


RATE = "tasks_per_second"

WORKLOADS = (
    # First, while nothing that other workloads left free could hide what is held.
    Workload(
        "memory",
        "hold_results",
        {"count": 2_000, "size": 1_024},
        {"count": 500, "size": 1_024},
        (Row("memory per 1,000 held results of 1 KiB", "mib_per_1000", "MiB", "lower"),),
        warm_up={"count": 200, "size": 1_024},
        observe="memory",
    ),
    Workload(
        "noop-map",
        "noop_map",
        {"count": 20_000},
        {"count": 2_000},
        (
            Row("map of no-ops", RATE, "tasks/s"),
            Row("CPU of all processes per no-op task", "cpu_ms_per_task", "ms", "lower"),
            Row("CPU of the scheduler per no-op task", "scheduler_us_per_task", "µs", "lower"),
        ),
        warm_up={"count": 200},
        observe="cpu",
    ),
    Workload(
        "submit-gather",
        "submit_gather",
        {"count": 5_000},
        {"count": 500},
        (Row("submit, then gather", RATE, "tasks/s"),),
        warm_up={"count": 100},
    ),
    Workload(
        "latency",
        "latency",
        {"count": 500},
        {"count": 100},
        (Row("one call, p50", "p50_ms", "ms", "lower"), Row("one call, p99", "p99_ms", "ms", "lower")),
        warm_up={"count": 20},
    ),
    Workload(
        "echo-bytes",
        "echo_bytes",
        {"count": 64, "mib": 1},
        {"count": 16, "mib": 1},
        (Row("echo of 1 MiB bytes", "mib_per_second", "MiB/s"),),
        warm_up={"count": 4, "mib": 1},
    ),
    Workload(
        "echo-arrays",
        "echo_arrays",
        {"count": 24, "mib": 8},
        {"count": 8, "mib": 8},
        (Row("echo of 8 MiB arrays", "mib_per_second", "MiB/s"),),
        warm_up={"count": 2, "mib": 8},
    ),
    Workload(
        "shared-object",
        "shared_object",
        {"count": 8, "mib": 256},
        {"count": 8, "mib": 32},
        (Row("one 256 MiB object, 8 tasks", "seconds", "s", "lower"),),
    ),
    Workload(
        "chain",
        "chain",
        {"count": 2_000},
        {"count": 200},
        (Row("graph: chain of 2,000", RATE, "tasks/s"),),
        warm_up={"count": 20},
    ),
    Workload(
        "tree",
        "tree",
        {"leaves": 8_192},
        {"leaves": 512},
        (Row("graph: tree of 8,192 leaves", RATE, "tasks/s"),),
        warm_up={"leaves": 32},
    ),
    Workload(
        "plan",
        "plan",
        {"leaves": 524_288},
        {"leaves": 131_072},
        (
            Row("graph of 1.6 million nodes: planned with GraphBLAS", "sparse_seconds", "s", "lower"),
            Row("graph of 1.6 million nodes: planned without", "plain_seconds", "s", "lower"),
        ),
    ),
    Workload(
        "utilisation",
        "utilisation",
        {"count": 4_000},
        {"count": 1_000},
        (Row("1 ms busy tasks, utilisation", "utilisation", ""),),
        warm_up={"count": 20},
    ),
    Workload(
        "nested",
        "nested",
        {"n": 10},
        {"n": 6},
        (Row("nested fibonacci(10)", "seconds", "s", "lower"),),
    ),
)

#: What every start and stop of an engine tells.
LIFE = "start-up"
LIFE_ROWS = (
    Row("start-up to the first result", "start_seconds", "s", "lower"),
    Row("shut-down", "stop_seconds", "s", "lower"),
    Row("memory at rest, without the client", "rest_mib", "MiB", "lower"),
)

#: In the order of the table, where what is observed from outside comes last.
ALL_ROWS: tuple[tuple[str, Row], ...] = (
    *((workload.name, row) for workload in WORKLOADS[1:] for row in workload.rows),
    *((WORKLOADS[0].name, row) for row in WORKLOADS[0].rows),
    *((LIFE, row) for row in LIFE_ROWS),
)
NAMES = (*(workload.name for workload in WORKLOADS), LIFE)
