"""For all tests: keys are looked for, and made, in directories of this run alone, and an interrupt interrupts."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

try:
    from hypothesis import settings
except ImportError:
    pass  # a part of the tests does without it
else:
    settings.register_profile("scaler", deadline=None)  # 200 ms for an example is no bound on a busy machine
    settings.load_profile("scaler")

_VARIABLES = ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "LOCALAPPDATA")
_OTHERS = ("SCALER_KEY_FILE", "SCALER_KEY")
_made: list[Path] = []


def pytest_configure(config: pytest.Config) -> None:
    """In the environment, because commands that a test starts must find the same."""
    place = Path(tempfile.mkdtemp(prefix="scaler-tests-"))
    _made.append(place)
    for name in _VARIABLES:
        folder = place / name.lower()
        folder.mkdir(mode=0o700)
        (folder / "scaler").mkdir(mode=0o700)  # on Windows servers, such as those of tests, expect it
        os.environ[name] = str(folder)
    for name in _OTHERS:
        os.environ.pop(name, None)
    # A shell ignores SIGINT in what runs in its background, and programs that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who has never had a key: servers of earlier tests have made one, which the run shares."""
    for name in _VARIABLES:
        folder = tmp_path / name.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(folder))


def pytest_unconfigure(config: pytest.Config) -> None:
    for place in _made:
        shutil.rmtree(place, ignore_errors=True)
