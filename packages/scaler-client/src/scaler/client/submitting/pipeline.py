"""Large arguments of many calls on their way to the storage at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from scaler.client.core.records import Submission
from scaler.client.objects.puts import Puts

LENGTH = 16
"""So many calls at most wait for their arguments to be stored. The storage answers in the order in which it was asked,
so more would gain nothing."""


class Pipeline:
    """Calls leave in order, each when its arguments are stored, while those of the next are being written. So what
    cannot be stored is still told where the call was made, and no worker ever waits for what will not come."""

    def __init__(self, post: Callable[[Sequence[Submission]], None]) -> None:
        self._post = post
        self._waiting: deque[tuple[Submission, Puts]] = deque()

    def add(self, submission: Submission, puts: Puts) -> None:
        self._waiting.append((submission, puts))
        self._post_first(len(self._waiting) - LENGTH)

    def finish(self) -> None:
        """Nothing waits any more."""
        self._post_first(len(self._waiting))

    def abandon(self) -> None:
        """What waits will not be called."""
        while self._waiting:
            self._waiting.popleft()[1].release()

    def _post_first(self, count: int) -> None:
        """At least so many, and all behind them that need not be waited for: together."""
        ready: list[tuple[Submission, Puts]] = []
        try:
            while self._waiting and (count > len(ready) or self._waiting[0][1].is_done):
                self._waiting[0][1].finish()
                ready.append(self._waiting.popleft())
        finally:
            if ready:
                self._post([submission for submission, _ in ready])
                for _, puts in ready:
                    puts.hand_over()
