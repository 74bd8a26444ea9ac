"""What is kept of the attempts of one task whose processors died: how many, and a line for each of the last."""

from __future__ import annotations

from collections import deque

from scaler_protocol.messages import TaskError

#: Longer accounts of a dead processor are cut.
LONGEST_ACCOUNT = 200
#: A task may be allowed to lose thousands of processors: the lines of its last attempts tell its story.
MOST_ACCOUNTS = 64


class Deaths:
    __slots__ = ("accounts", "count", "peak_memory_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.peak_memory_bytes = 0
        self.accounts: deque[str] = deque(maxlen=MOST_ACCOUNTS)

    def add(self, worker_name: str, attempt: int, error: TaskError) -> None:
        self.count += 1
        self.peak_memory_bytes = max(self.peak_memory_bytes, error.peak_memory_bytes)
        self.accounts.append(f"attempt {attempt} on {account(worker_name, error)}")

    def told(self) -> dict[str, int | list[str]]:
        """For a dump."""
        return {"count": self.count, "peak_memory_bytes": self.peak_memory_bytes, "accounts": list(self.accounts)}


def account(worker_name: str, error: TaskError) -> str:
    """Returns where and how the processor of one attempt ended, and how much memory it had used."""
    how = error.message or f"exited with code {error.exit_code}"
    told = (error.workers[0] if error.workers else f"{worker_name}: {how}")[:LONGEST_ACCOUNT]
    return f"{told}, memory peak {error.peak_memory_bytes / 2**20:.0f} MiB" if error.peak_memory_bytes else told
