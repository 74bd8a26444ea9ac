"""The GPUs of this host, in equal shares for workers that start and end one by one (`--gpus`)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from scaler_protocol.messages import Capability
from scaler_protocol.process import UsageError
from scaler_worker.core.devices import CAPABILITY as GPU
from scaler_worker.gpus import NONE_FOUND, find_gpus

logger = logging.getLogger("scaler.manager")


def gpu_shares(wanted: str, workers: int, option: str) -> tuple[str, ...]:
    """A value of `--gpus` for each of so many workers; empty if there are no GPUs. UsageError if the shares would
    differ, because a manager announces once what each of its workers offers."""
    if not wanted:
        return ()
    found = find_gpus(wanted)
    if not found.ids:
        logger.warning(NONE_FOUND, wanted)
        return ()
    count = len(found.ids)
    if workers < 1 or count % workers:
        shared = f"{count} GPUs cannot be shared equally by {workers if workers > 0 else 'any number of'} workers"
        raise UsageError(f"{shared}: set {option} to {count}, or to a number that divides it")
    return tuple(",".join(found.of_worker(index, workers)) for index in range(workers))


def with_share(capabilities: tuple[Capability, ...], shares: Sequence[str]) -> tuple[Capability, ...]:
    """What a worker offers that has one of these shares."""
    return (*capabilities, Capability(GPU, len(shares[0].split(",")))) if shares else capabilities
