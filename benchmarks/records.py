"""What was seen: every figure of every round, and why one is missing."""

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Records:
    #: (engine, workload, figure) -> one entry a round
    samples: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    #: (engine, workload) -> the engine has no such thing
    unsupported: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (engine, workload) -> what went wrong, the first time
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    #: engine -> its version and interpreter
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, engine: str, workload: str, figures: dict[str, float]) -> None:
        for figure, value in figures.items():
            self.samples[engine, workload, figure].append(value)

    def fail(self, engine: str, workload: str, reason: str) -> None:
        self.failures.setdefault((engine, workload), " ".join(reason.split()))

    def median(self, engine: str, workload: str, figure: str) -> float | None:
        values = self.samples.get((engine, workload, figure))
        return statistics.median(values) if values else None

    def as_json(self) -> dict[str, Any]:
        return {
            "versions": self.versions,
            "figures": [
                {
                    "engine": engine,
                    "workload": workload,
                    "figure": figure,
                    "median": statistics.median(values),
                    "samples": values,
                }
                for (engine, workload, figure), values in self.samples.items()
            ],
            "unsupported": [[*key, reason] for key, reason in self.unsupported.items()],
            "failures": [[*key, reason] for key, reason in self.failures.items()],
        }
