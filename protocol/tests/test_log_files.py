"""One log file of several processes that turns over at midnight; and lines for programs."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from scaler_protocol.process import log_files
from scaler_protocol.process.log_files import DailyFileHandler
from scaler_protocol.process.logs import JsonFormatter, LineFormatter

SECONDS = 30.0
DAY_SECONDS = 86_400
LINES = 200
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="open files are not moved on Windows")


def record_at(at: float, text: str) -> logging.LogRecord:
    record = logging.LogRecord("scaler.test", logging.INFO, "", 0, "%s", (text,), None)
    record.created = at
    return record


def old_file(path: Path, text: str) -> str:
    """Written yesterday; answers the name of that day."""
    path.write_text(text)
    yesterday = time.time() - DAY_SECONDS
    os.utime(path, (yesterday, yesterday))
    return time.strftime("%Y-%m-%d", time.localtime(yesterday))


def test_a_day_gets_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    day = old_file(path, "yesterday\n")
    first, second = DailyFileHandler(str(path)), DailyFileHandler(str(path))
    for handler, text in ((first, "one"), (second, "two"), (first, "three")):
        handler.emit(record_at(time.time(), text))
    assert path.read_text() == "one\ntwo\nthree\n"
    assert (tmp_path / f"a.log.{day}").read_text() == "yesterday\n"
    assert len(list(tmp_path.iterdir())) == 2
    for handler in (first, second):
        handler.close()


def test_a_file_of_that_day_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    day = old_file(path, "yesterday\n")
    (tmp_path / f"a.log.{day}").write_text("already there\n")
    handler = DailyFileHandler(str(path))
    handler.emit(record_at(time.time(), "today"))
    handler.close()
    assert (tmp_path / f"a.log.{day}").read_text() == "already there\n"
    assert path.read_text() == "yesterday\ntoday\n"


def _write(handler: DailyFileHandler, name: str, barrier: object) -> None:
    barrier.wait(SECONDS)  # type: ignore[attr-defined]
    for number in range(LINES):
        handler.emit(record_at(time.time(), f"{name} {number}"))


def test_forked_processes_share_one_file_over_midnight(tmp_path: Path) -> None:
    """As the workers of a cluster do: no line is lost, none is torn, and one file is left of yesterday."""
    path = tmp_path / "a.log"
    old_file(path, "yesterday\n")
    handler = DailyFileHandler(str(path))
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    processes = [context.Process(target=_write, args=(handler, f"p{number}", barrier)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)
        assert process.exitcode == 0
    handler.close()
    files = list(tmp_path.iterdir())
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert len(files) == 2
    assert sorted(lines) == sorted(["yesterday", *(f"p{p} {n}" for p in range(4) for n in range(LINES))])


def test_a_tool_may_move_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    handler = DailyFileHandler(str(path))
    handler.emit(record_at(time.time(), "before"))
    path.rename(tmp_path / "moved")
    handler.emit(record_at(time.time(), "after"))
    handler.close()
    assert path.read_text() == "after\n" and (tmp_path / "moved").read_text() == "before\n"


def test_an_object_a_line() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord(
            "scaler.worker", logging.WARNING, "", 0, "%s left\n\x1b[2J", ("w\u20ac",), sys.exc_info()
        )
    line = JsonFormatter().format(record)
    assert "\n" not in line and line.isascii()
    found = json.loads(line)
    assert found.pop("exception").endswith("ValueError: a\nb")
    assert found.pop("time").startswith(time.strftime("%Y-"))
    assert found == {
        "level": "WARNING",
        "process": os.getpid(),
        "logger": "scaler.worker",
        "message": "w\u20ac left\n\x1b[2J",
    }


@pytest.mark.parametrize(
    "name",
    [
        "w\n[CTIC]2026-11-22 09:00:00+0000: forged",
        "w\r[CTIC]2026-11-22 09:00:00+0000: forged",
        "w\x85forged",
        "w\u2028forged",
        "\x1b]0;owned\x07\x1b[2J",
        "\x9b2J",
        "\u202egnp.exe",
        "\ud800",
        "\x00\x7f",
    ],
)
def test_names_of_strangers_forge_no_lines(name: str) -> None:
    record = logging.LogRecord("scaler", logging.INFO, "", 0, "client %s joined", (name,), None)
    line = LineFormatter().format(record)
    assert line.splitlines() == [line] and line.isprintable()
    assert line.endswith(" joined") and line.startswith("[INFO]")
    assert record.getMessage() == f"client {name} joined", "other handlers have the message as it is"


def test_a_traceback_forges_no_lines() -> None:
    try:
        raise ValueError("a\n[CTIC]2026-11-22: forged \x1b[2J")
    except ValueError:
        record = logging.LogRecord("scaler", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    first, *further = LineFormatter().format(record).splitlines()
    assert first.startswith("[ERROR]") and all(line.startswith("  ") and line.isprintable() for line in further)
    assert further[0] == "  Traceback (most recent call last):" and any("forged" in line for line in further)


def test_what_people_write_is_left_alone() -> None:
    text = "Größe\t日本語 🙂 — “x”"
    record = logging.LogRecord("scaler", logging.INFO, "", 0, text, (), None)
    assert LineFormatter().format(record).endswith(": " + text)


class Disk:
    """Stands for `os` in the module: its disk takes so many bytes more."""

    def __init__(self) -> None:
        self.room = 1 << 30
        self.opens = True

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(descriptor, data[: self.room])
        self.room -= written
        return written

    def open(self, *arguments: object) -> int:
        if not self.opens:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(*arguments)  # type: ignore[arg-type]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(log_files, "os", disk)
    return disk


def test_a_full_disk_loses_lines_and_says_so_once(
    tmp_path: Path, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.log"
    handler = DailyFileHandler(str(path))
    handler.emit(record_at(time.time(), "before"))
    disk.room = 3  # half of the next line still goes
    for number in range(5):
        handler.emit(record_at(time.time(), f"lost {number}"))
    assert capsys.readouterr().err.count("\n") == 1
    disk.room = 1 << 30
    handler.emit(record_at(time.time(), "after"))
    handler.emit(record_at(time.time(), "and on"))
    handler.close()
    lines = path.read_text().splitlines()
    assert lines == ["before", "los", "5 lines are missing here: the file could not be written", "after", "and on"]
    assert not capsys.readouterr().err


def test_a_file_that_cannot_be_made_yet_is_made_when_it_can(
    tmp_path: Path, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.opens = False
    path = tmp_path / "a.log"
    handler = DailyFileHandler(str(path))
    handler.emit(record_at(time.time(), "lost"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(path) in said and "No space left on device" in said
    disk.opens = True
    handler.emit(record_at(time.time(), "after"))
    handler.close()
    assert path.read_text() == "1 line is missing here: the file could not be written\nafter\n"


def test_a_directory_that_goes_away_stops_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    handler = DailyFileHandler(str(directory / "a.log"))
    shutil.rmtree(directory)
    handler.emit(record_at(time.time(), "lost"))
    directory.mkdir()
    handler.emit(record_at(time.time(), "after"))
    handler.close()
    assert (directory / "a.log").read_text().endswith("written\nafter\n")


def test_a_file_that_is_opened_late_is_made_for_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    day = old_file(path, "yesterday\n")
    handlers = [DailyFileHandler(str(tmp_path / name), opens_late=True) for name in ("a.log", "b.log")]
    handlers[0].emit(record_at(time.time(), "today"))
    for handler in handlers:
        handler.close()
    assert path.read_text() == "today\n" and (tmp_path / f"a.log.{day}").read_text() == "yesterday\n"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_device_is_never_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[object] = []
    handler = DailyFileHandler("/dev/full")
    monkeypatch.setattr(log_files, "os", disk := Disk())
    disk.link = disk.unlink = lambda *names: moved.append(names)  # type: ignore[attr-defined]
    handler.emit(record_at(time.time() + 2 * DAY_SECONDS, "lost"))
    handler.close()
    assert not moved
