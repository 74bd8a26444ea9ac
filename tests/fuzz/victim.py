"""A client of a hostile server: `python -m tests.fuzz.victim ADDRESS`. Whatever comes, it gets errors of ours."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout

from scaler import Client
from scaler_protocol.errors import ScalerError

CALL_SECONDS = 0.3


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        try:
            with Client(sys.argv[1], insecure=True) as client:
                client.submit(abs, -1).result(CALL_SECONDS)
                client.map(abs, range(10))
        except (ScalerError, FutureTimeout, TimeoutError, CancelledError):
            pass
        except Exception as error:
            print(f"UNEXPECTED {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
