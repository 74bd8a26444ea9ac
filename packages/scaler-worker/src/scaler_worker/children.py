"""Forked children: how they end, and what their exit codes say."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import NoReturn

from scaler_protocol.process import EXIT_BROKEN

logger = logging.getLogger("scaler.worker")

EXIT_DONE = 0
EXIT_GIVEN_UP = 1  # no scheduler, or one that will not have us: starting again would change nothing
# Anything else is EXIT_BROKEN, and worth another start.


def in_child(run: Callable[[], int]) -> NoReturn:
    """Run to the exit code, and never return into the parent's stack, whatever happens."""
    code = EXIT_BROKEN
    try:
        code = run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else EXIT_BROKEN
    except BaseException:
        logger.exception("process %d failed", os.getpid())
    finally:
        os._exit(code)
