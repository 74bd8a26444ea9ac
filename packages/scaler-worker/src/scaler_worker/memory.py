"""How much memory a processor has of its own, as the kernel counts it.

Own memory is anonymous memory, also where it was swapped out, and shared memory that the process can write. Values of
the storage are mapped for reading only and belong to the storage; code and other files can be read from disk again. The
processes that a task has started count with its processor.

A forked child shares its parent's memory until one of them writes to it, and the kernel counts all of it for each. So
if there are children and the sum is too much, every page is counted once. The kernel takes some milliseconds for each
gigabyte of that, so it is done seldom; until the next count the difference is taken to be the same.
"""

from __future__ import annotations

import os
import re
import time

DESCENDANTS = 256
"""Most processes below one processor that are looked at."""
COUNT_AGAIN_SECONDS = 0.05
COUNT_SHARE = 10
"""Between two counts there are so many times what the first of them took."""
FIRST_TO_GO = 500
"""Added to the kernel's score of a processor."""

_STATUS_BYTES = 8192
_FIELDS = re.compile(rb"^(RssAnon|RssShmem|VmSwap):\s+(\d+) kB$", re.MULTILINE)
_PAGES = re.compile(rb"^(Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB$", re.MULTILINE)
_WRITABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .w.s ", re.MULTILINE)


class _Watched:
    __slots__ = ("children", "count_at", "descriptor", "twice_bytes")

    def __init__(self, descriptor: int) -> None:
        #: of /proc/PID/status: it goes on to mean this process when the id has been given to another one
        self.descriptor = descriptor
        self.twice_bytes = 0  #: what the sum has too much, because children share memory
        self.count_at = 0.0  #: when that is to be counted again, while the children are these
        self.children: tuple[int, ...] = ()


class MemoryReader:
    """Of the processors of one agent, by process id."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}

    def read(self, process_id: int, enough: int, now: float) -> int:
        """Own bytes. A value below `enough` is an upper bound only. Raises OSError when the process has ended."""
        watched = self._watched.get(process_id)
        if watched is None:
            descriptor = os.open(f"/proc/{process_id}/status", os.O_RDONLY | os.O_CLOEXEC)
            watched = self._watched[process_id] = _Watched(descriptor)
        total = _own_bytes(process_id, os.pread(watched.descriptor, _STATUS_BYTES, 0), enough)
        children = _descendants(process_id)
        if not children:
            return total
        total += sum(_read_own(child, enough) for child in children)
        if total < enough:
            return total
        if now >= watched.count_at or children != watched.children:
            watched.children = children
            begun_at = time.thread_time()
            watched.twice_bytes = max(total - sum(map(_counted_once, (process_id, *children))), 0)
            seconds = COUNT_SHARE * (time.thread_time() - begun_at)
            watched.count_at = now + max(seconds, COUNT_AGAIN_SECONDS)
        return max(total - watched.twice_bytes, 0)

    def forget(self, process_id: int) -> None:
        watched = self._watched.pop(process_id, None)
        if watched is not None:
            os.close(watched.descriptor)

    def close(self) -> None:
        for process_id in list(self._watched):
            self.forget(process_id)


def is_readable() -> bool:
    """True on Linux."""
    return b"RssAnon:" in _contents("/proc/self/status")


def become_first_to_go() -> None:
    """If memory runs out all the same, the kernel ends a processor before it ends a server. The children inherit it."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(min(score + FIRST_TO_GO, 1000)))
    except (OSError, ValueError):
        pass  # not Linux, or not allowed: the limit itself works without


def _own_bytes(process_id: int, status: bytes, enough: int) -> int:
    sizes = {name: int(count) * 1024 for name, count in _FIELDS.findall(status)}
    if not sizes:
        raise ProcessLookupError(f"process {process_id} has ended")
    own, shared = sizes.get(b"RssAnon", 0) + sizes.get(b"VmSwap", 0), sizes.get(b"RssShmem", 0)
    return own + shared if own + shared < enough else own + min(shared, _writable_bytes(process_id))


def _read_own(process_id: int, enough: int) -> int:
    try:
        return _own_bytes(process_id, _contents(f"/proc/{process_id}/status"), enough)
    except ProcessLookupError:
        return 0


def _writable_bytes(process_id: int) -> int:
    """Of shared mappings: the most that the process can have put there itself."""
    ranges = _WRITABLE.findall(_contents(f"/proc/{process_id}/maps"))
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


def _counted_once(process_id: int) -> int:
    """Of each page its share, if others have it too."""
    pages = dict(_PAGES.findall(_contents(f"/proc/{process_id}/smaps_rollup")))
    if not pages:
        return _read_own(process_id, 0)  # it has ended, or is not ours to look into
    own, shared = int(pages.get(b"Pss_Anon", 0)) + int(pages.get(b"SwapPss", 0)), int(pages.get(b"Pss_Shmem", 0))
    return own * 1024 + (min(shared * 1024, _writable_bytes(process_id)) if shared else 0)


def _descendants(process_id: int) -> tuple[int, ...]:
    """Empty where the kernel does not tell."""
    found: list[int] = []
    todo = [process_id]
    while todo and len(found) < DESCENDANTS:
        parent = todo.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            children = [int(child) for child in _contents(f"/proc/{parent}/task/{thread}/children").split()]
            found += children
            todo += children
    return tuple(found[:DESCENDANTS])


def _contents(path: str) -> bytes:
    """Empty when there is no such process any more."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
