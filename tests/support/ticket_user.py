"""A user's program: `python -m tests.support.ticket_user ADDRESS KEY_FILE COUNT`. It makes one call after the other and
prints each, or the one error; without a count it goes on until it is told to end. KEY_FILE may be empty."""

from __future__ import annotations

import itertools
import signal
import sys

from scaler import Client
from scaler.utility.exceptions import ScalerError

CALL_SECONDS = 60.0


def square(number: int) -> int:
    return number * number


def main(address: str, key_file: str, count: str = "") -> int:
    is_asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: is_asked_to_end.append(number))
    try:
        with Client(address, key_file=key_file or None) as client:
            for number in range(int(count)) if count else itertools.count():
                if is_asked_to_end:
                    break
                assert client.submit(square, number).result(CALL_SECONDS) == number * number
                print(f"call {number} is right", flush=True)
    except (ScalerError, ValueError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("every call was right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
