import random
import time

import scaler


class Busy(Exception):
    pass


def with_backoff(call, *arguments, attempts=5, first_pause=0.05):
    """Calls again after Busy, with pauses that double; other exceptions are raised at once."""
    for attempt in range(attempts):
        try:
            return call(*arguments)
        except Busy:
            if attempt == attempts - 1:
                raise
            time.sleep(first_pause * 2**attempt * random.uniform(0.5, 1.5))


def download(name, failures):
    if failures:  # a service that answers the third time
        failures.pop()
        raise Busy(name)
    return f"{name}: done"


with scaler.local(workers=2) as client:
    futures = [client.submit(with_backoff, download, name, [1, 1]) for name in ("a.csv", "b.csv")]
    print([future.result() for future in futures])
