"""Descriptors run out: told as one error with what to do, never as ZeroMQ's or the system's own.

Some libraries abort the process when they find no descriptor at a bad moment, such as while they load for the first
time. So what is about to open several files asks first whether there is room for them.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from scaler_protocol.errors import TooManyOpenFilesError

_NUMBERS = frozenset((errno.EMFILE, errno.ENFILE))

LOOK_SECONDS = 2.0

#: The last descriptors are for what a server needs besides connections, such as files that it opens for a moment.
_RESERVED = 64
_RESERVED_SHARE = 8

_logger = logging.getLogger("scaler.transport")


def is_exhaustion(error: BaseException) -> bool:
    return isinstance(error, OSError | zmq.ZMQError) and error.errno in _NUMBERS


def reserve_begins_at() -> int:
    """A connection with this number or a higher one is one too many: the system gives the lowest number that is free,
    so all below it are in use."""
    limit = _soft_limit()
    return limit - min(_RESERVED, limit // _RESERVED_SHARE)


def descriptors_for(share: float) -> int:
    """So many descriptors are for one purpose, which has this share of all of them. (LIM-32)"""
    return int(share * reserve_begins_at())


@contextmanager
def exhaustion_told() -> Iterator[None]:
    """TooManyOpenFilesError in place of what is raised inside for want of a descriptor."""
    try:
        yield
    except (OSError, zmq.ZMQError) as error:
        if not is_exhaustion(error) or isinstance(error, TooManyOpenFilesError):
            raise
        raise exhausted(error.errno) from None


def expect_room(count: int) -> None:
    """TooManyOpenFilesError unless this process can open so many more files now."""
    opened: list[int] = []
    try:
        with exhaustion_told():
            while len(opened) < count:
                opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)


class DescriptorWatch:
    """Logs when a server has no descriptor left for new peers, and when it has some again: a line each.

    ZeroMQ only fails to accept, over and over and without a word, and the peers that dial see a server that is silent.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_short = False
        self.look_at = 0.0

    def look(self, now: float) -> None:
        self.look_at = now + LOOK_SECONDS
        try:
            free = os.dup(self._descriptor)
            os.close(free)
            is_short = free >= reserve_begins_at()
        except OSError as error:
            is_short = is_exhaustion(error)
        if is_short == self._is_short:
            return
        self._is_short = is_short
        if is_short:
            _logger.error("new peers cannot connect; those that are connected go on. %s", exhaustion_text())
        else:
            _logger.warning("new peers can connect again")


def exhausted(number: int | None = errno.EMFILE) -> TooManyOpenFilesError:
    return TooManyOpenFilesError(number, exhaustion_text())


def exhaustion_text() -> str:
    """What has run out, and what to do."""
    return (
        f"no more files and sockets can be opened: this process may have {_soft_limit()} of them. Raise that limit "
        "(`ulimit -n`, or LimitNOFILE= of a service), or disconnect what is no longer used"
    )


def _soft_limit() -> int:
    try:
        import resource
    except ImportError:  # Windows, whose C library has this bound
        return 8192
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if limit != resource.RLIM_INFINITY else sys.maxsize
