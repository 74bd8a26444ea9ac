"""What a user is told when the processor of a task has died: which worker, how, and how much memory it had used."""

from __future__ import annotations

from scaler_protocol.codes import PROCESSOR_DIED
from scaler_protocol.messages import TaskError

_SIGNALS = {
    4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM", 24: "SIGXCPU",
}  # fmt: skip

_HINTS = {
    9: "; the kernel does that when memory runs out",
    11: "; the crash's Python stack is in the worker's log",
}


_FORK_REFUSED = -1000
_NO_FORK = {11: "no process is left", 12: "no memory is left", 24: "the worker may open no more files"}


def fork_refused(error: OSError) -> int:
    """Returns the exit code of a processor that could not be started for this error."""
    return _FORK_REFUSED - (error.errno or 1)


def describe_exit(exit_code: int) -> str:
    if exit_code <= _FORK_REFUSED:
        number = _FORK_REFUSED - exit_code
        return f"could not be forked ({_NO_FORK.get(number, f'error {number}')})"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    return f"was ended by signal {-exit_code} ({_SIGNALS.get(-exit_code, 'unnamed')}){_HINTS.get(-exit_code, '')}"


def processor_died(worker_name: str, exit_code: int, peak_memory_bytes: int) -> TaskError:
    peak = f", having used at most {peak_memory_bytes / 2**20:.0f} MiB of memory" if peak_memory_bytes else ""
    how = describe_exit(exit_code)
    return TaskError(
        code=PROCESSOR_DIED,
        type_name="ProcessorDiedError",
        message=f"the processor that ran this task on worker {worker_name} {how}{peak}",
        exit_code=exit_code,
        peak_memory_bytes=peak_memory_bytes,
        workers=(f"{worker_name}: {how}",),
    )
