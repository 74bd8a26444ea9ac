"""`make demo`."""

import signal
import sys


def start() -> int:
    # While the imports run there is nothing to clean up yet: Ctrl-C then ends this process at once.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    from demo.run import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
