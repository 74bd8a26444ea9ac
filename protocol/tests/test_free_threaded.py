"""A Python without the GIL is refused by a sentence, and runs Scaler with the GIL."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRETEND = "import sys; sys._is_gil_enabled = lambda: {}; import scaler_protocol.codec; print('imported')"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_without_the_gil_it_is_refused(is_enabled: bool) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {PRETEND.format(is_enabled)}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if is_enabled:
        assert ended.stdout == "imported\n"
    else:
        assert ended.returncode == 1 and "ImportError: Scaler does not run without the GIL: start" in ended.stderr
        assert "PYTHON_GIL=1" in ended.stderr
