"""Cutting and joining the packed columns of a batch (BAT-1, BAT-2).

Everything here runs at the speed of C loops: one cached `struct.Struct` per length, `accumulate`, slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct

from scaler_protocol.ids import ID_BYTES
from scaler_protocol.ids import split_ids as split_ids  # which cuts also the ids it makes
from scaler_protocol.messages import Buffer, Limits

PROFILE = Struct("<QQQ")
"""Of one task: nanoseconds by the clock, nanoseconds of processor time, bytes of memory at its peak."""
PROFILE_BYTES = PROFILE.size
_NOT_MEASURED = bytes(PROFILE_BYTES)
#: An id, an attempt, a status, a kind, a size and a profile: what one result adds to an envelope at most.
_RESULT_BYTES = ID_BYTES + 2 + 1 + 1 + 4 + PROFILE_BYTES
#: What else an envelope of results has.
_FRAME_BYTES = 1024

TASK_KEY_BYTES = 64
"""What a client's program calls a task has no more. (BAT-13)"""

FUNCTION_ROW = Struct("<16sQQ")
"""Of `WorkerStatus.functions`: function id, microseconds run, microseconds of processor time. (WRK-54)"""
FUNCTIONS_MAX = 256
"""So many functions are named in one WorkerStatus, besides the zero id for all others. (WRK-55)"""
BUCKET_ROW = Struct("<HHI")
"""Of `WorkerStatus.function_buckets`: row of `functions`, bucket, tasks."""
BUCKETS = 61
BUCKET_BOUNDS_MICROSECONDS = tuple((150 if bucket % 2 else 100) << bucket // 2 for bucket in range(BUCKETS - 1))
"""The longest time of each bucket but the last, which has all longer ones. They are whole numbers, so that every port
counts a time in the same bucket."""
BUCKET_BOUNDS_SECONDS = tuple(bound / 1e6 for bound in BUCKET_BOUNDS_MICROSECONDS)


@lru_cache(maxsize=4096)
def _struct(item_format: str, count: int) -> Struct:
    return Struct(f"<{count}{item_format}")


def measured(profile: Buffer) -> tuple[float, float, int]:
    """Seconds, seconds of processor time, and bytes; all zero where nothing was measured."""
    duration, cpu, memory_bytes = PROFILE.unpack(profile if len(profile) == PROFILE_BYTES else _NOT_MEASURED)
    return duration / 1e9, cpu / 1e9, memory_bytes


def join_ids(ids: Iterable[bytes]) -> bytes:
    return b"".join(ids)


def split_u16(column: bytes) -> tuple[int, ...]:
    values: tuple[int, ...] = _struct("H", len(column) // 2).unpack(column)
    return values


def split_u32(column: bytes) -> tuple[int, ...]:
    values: tuple[int, ...] = _struct("I", len(column) // 4).unpack(column)
    return values


def split_u64(column: bytes) -> tuple[int, ...]:
    return _struct("Q", len(column) // 8).unpack(column)


def join_u16(values: Sequence[int]) -> bytes:
    return _struct("H", len(values)).pack(*values)


def join_u32(values: Sequence[int]) -> bytes:
    return _struct("I", len(values)).pack(*values)


def join_u64(values: Sequence[int]) -> bytes:
    return _struct("Q", len(values)).pack(*values)


def most_results(limits: Limits) -> int:
    """So many results fit into one message of a session with these limits, by number and by envelope (LIM-1)."""
    return min(limits.batch_tasks, (limits.envelope_bytes - _FRAME_BYTES) // _RESULT_BYTES)


def offsets(sizes: Iterable[int]) -> list[int]:
    """Where each item of these sizes begins, and, last, where they all end: n + 1 numbers."""
    return list(accumulate(sizes, initial=0))
