"""Its scheduler is killed and started again while it waits: `python restarted.py ADDRESS`."""

from __future__ import annotations

import sys
import time

from scaler import Client


def slow(number: int) -> int:
    time.sleep(0.2)
    return number


def main() -> None:
    with Client(sys.argv[1]) as client:
        futures = [client.submit(slow, number) for number in range(20)]
        futures[0].result(60)
        print("begun", flush=True)
        assert [future.result(60) for future in futures] == list(range(20))
        print("all results", flush=True)


if __name__ == "__main__":
    main()
