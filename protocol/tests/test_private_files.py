"""Files with what others do are the owner's, whatever the umask and whatever was there before."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.process.log_files import DailyFileHandler
from scaler_protocol.process.private_files import open_private

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_and_one_that_was_there(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"what was there before")
    old.chmod(0o666)
    for path in (tmp_path / "new", old):
        with open_private(path) as file:
            assert mode(path) == 0o600, "before the first byte is written"
            file.write(b"x")
        assert path.read_bytes() == b"x"


def test_a_device_is_left_alone() -> None:
    before = mode(Path(os.devnull))
    with open_private(os.devnull) as file:
        file.write(b"x")
    assert mode(Path(os.devnull)) == before


def test_others_write_no_lines_into_a_log(tmp_path: Path) -> None:
    handler = DailyFileHandler(str(tmp_path / "log"))
    handler.emit(logging.LogRecord("scaler", logging.INFO, "", 0, "x", (), None))
    handler.close()
    assert mode(tmp_path / "log") == 0o644
