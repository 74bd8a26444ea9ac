"""What is left of the warm process: it waits for the commands that it has forked, and says how each of them ended.

    python -I -S burying.py PIDFD:PROCESS_ID:LINK ...

The warm process becomes this program once they run. Its own memory was theirs until they changed it, and since then
no process needs it: 5 MiB, of which an interpreter that has imported nothing takes half (decision 0011). So this file
imports nothing of ours. Linux only.
"""

from __future__ import annotations

import os
import select
import sys
import time


class Burying:
    def __init__(self) -> None:
        #: by pidfd: the process id, and the descriptor of the link to the process that started us
        self._children: dict[int, tuple[int, int]] = {}
        self._poller = select.poll()

    def add(self, descriptor: int, process_id: int, link: int) -> None:
        self._children[descriptor] = process_id, link
        self._poller.register(descriptor, select.POLLIN)

    def run(self, seconds: float | None = None) -> bool:
        """Whether all have ended. Without `seconds`, it waits for that."""
        end_at = None if seconds is None else time.monotonic() + seconds
        while self._children:
            left = None if end_at is None else max(0.0, end_at - time.monotonic()) * 1000
            ready = self._poller.poll(left)
            if not ready:
                return False
            for descriptor, _ in ready:
                self._bury(descriptor)
        return True

    def arguments(self) -> list[str]:
        """For a program that goes on with this, which inherits the descriptors."""
        for descriptor, (_, link) in self._children.items():
            os.set_inheritable(descriptor, True)
            os.set_inheritable(link, True)
        return [f"{descriptor}:{process_id}:{link}" for descriptor, (process_id, link) in self._children.items()]

    def _bury(self, descriptor: int) -> None:
        process_id, link = self._children.pop(descriptor)
        self._poller.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(process_id, 0)
        try:
            os.write(link, str(os.waitstatus_to_exitcode(status)).encode())
        except OSError:
            pass  # the process that started us has ended
        os.close(link)


def main() -> None:
    burying = Burying()
    for argument in sys.argv[1:]:
        descriptor, process_id, link = map(int, argument.split(":"))
        burying.add(descriptor, process_id, link)
    burying.run()


if __name__ == "__main__":
    main()
