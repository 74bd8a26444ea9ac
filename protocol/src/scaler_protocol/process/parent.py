"""Not outliving the process that started us. A killed parent runs no cleanup, so the child has to notice by itself, or
a process above it takes it over (`adopt_orphans`).

The child has two means, because Linux's own one has a trap: PR_SET_PDEATHSIG fires when the *thread* that made the
child ends, not when its process does. Right for children of a single-threaded parent (`die_with_parent`); wrong for a
command that a user's worker thread started, which therefore watches the process itself (`follow_parent`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import sys
import threading

PARENT_VARIABLE = "SCALER_PARENT_PID"
"""Set in the environment of a command: "end when this process does". The local cluster sets it for all it starts."""
SEARCH_PATH_VARIABLE = "SCALER_PARENT_PYTHONPATH"
"""The PYTHONPATH of a program that starts a command with another one, for what tasks start; empty: it has none."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 1.0


def die_with_parent(expected_parent_id: int, signal_number: int | None = None) -> None:
    """For a freshly forked child: have the kernel kill us when the parent ends. Linux only; elsewhere nothing happens.

    The parent may be gone before this call, and then no signal ever comes: hence the look at getppid afterwards.
    """
    if not sys.platform.startswith("linux"):
        return
    number = signal.SIGKILL if signal_number is None else signal_number
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != expected_parent_id:
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Makes every descendant of this process its child when the descendant's own parent ends, unless a process between
    them does the same. Linux only; elsewhere nothing happens."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def restore_search_path() -> None:
    """Gives what tasks start the PYTHONPATH that they would have without us: `sys.path` is made already. Another Python
    would take the modules of ours for its own."""
    before = os.environ.pop(SEARCH_PATH_VARIABLE, None)
    if before:
        os.environ["PYTHONPATH"] = before
    elif before is not None:
        os.environ.pop("PYTHONPATH", None)


def follow_parent() -> None:
    """If PARENT_VARIABLE names a process: get SIGTERM when it ends. Children of ours are not to follow it as well."""
    text = os.environ.pop(PARENT_VARIABLE, "")
    if not text.isdecimal() or sys.platform == "win32":
        return
    threading.Thread(target=_follow, args=(int(text),), name="follow-parent", daemon=True).start()


def _follow(parent_id: int) -> None:
    try:
        _wait_for_exit(parent_id)
        logging.info("process %d, which started this one, has ended", parent_id)
    except BaseException as error:
        logging.critical("process %d, which started this one, is out of sight", parent_id, exc_info=error)
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_exit(process_id: int) -> None:
    try:
        descriptor = os.pidfd_open(process_id) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return
    except OSError:
        descriptor = -1
    if descriptor < 0:
        # macOS, or a Linux older than 5.3. We are its child, so its end gives us another parent.
        while os.getppid() == process_id:
            threading.Event().wait(_POLL_SECONDS)
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)
