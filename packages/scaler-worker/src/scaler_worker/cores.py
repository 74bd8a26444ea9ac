"""How many threads numerical libraries use in the tasks of each worker.

OpenBLAS, MKL and OpenMP start one thread for each core of the host in every process that loads them. With a worker for
each core, these threads outnumber the cores by far, and products of small matrices take several times as long. So the
cores are divided by the number of workers, unless the environment says how many threads there should be.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""What the libraries read when they are loaded."""


def usable_cores() -> int:
    """The cores that this process may use: a batch system or taskset may have left it fewer than the host has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_cores(environment: MutableMapping[str, str], cores: int, workers: int) -> None:
    """Set each of `VARIABLES` in `environment` to the cores that one of `workers` has, at least 1.

    If any of the variables is set, the user has decided, and nothing is changed: a library prefers its own variable to
    OMP_NUM_THREADS, so a further one could undo the choice.
    """
    if not any(name in environment for name in VARIABLES):
        environment.update(dict.fromkeys(VARIABLES, str(max(1, cores // max(1, workers)))))
