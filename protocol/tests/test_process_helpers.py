"""What all commands share: arguments, log lines, loops, exit codes, and not outliving a parent."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import re
import signal
import subprocess
import sys

import pytest

from scaler_protocol.errors import ScalerError
from scaler_protocol.process import (
    ArgumentParser,
    LoggingOptions,
    StartupError,
    UsageError,
    add_program_arguments,
    byte_count,
    check_event_loop,
    logging_options,
    positive_int,
    positive_seconds,
    run_command,
    setup_logging,
)
from scaler_protocol.process.failures import EXIT_UNREAD
from scaler_protocol.process.logs import LineFormatter
from scaler_protocol.process.server import telling

SECONDS = 30.0


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    yield root
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("1000000", 1000000), ("64k", 65536), ("512M", 512 << 20), ("4GiB", 4 << 30), ("1.5 GB", 3 << 29)],
)
def test_sizes(text, expected):
    assert byte_count(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "much", "1x", "4Gi B", "nan"])
def test_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError):
        byte_count(text)


def test_numbers():
    assert positive_int("7") == 7 and positive_seconds("0.5") == 0.5
    for kind, text in [(positive_int, "0"), (positive_int, "x"), (positive_seconds, "nan"), (positive_seconds, "inf")]:
        with pytest.raises(argparse.ArgumentTypeError):
            kind(text)


def test_a_mistake_on_the_command_line_is_one_line(capsys):
    parser = ArgumentParser(prog="scaler_thing")
    add_program_arguments(parser)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(["--event-loop", "none"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("scaler_thing: error: ") and "builtin" in error and error.count("\n") == 1


def test_shared_arguments():
    parser = ArgumentParser(prog="scaler_thing")
    parser.add_argument("address")
    add_program_arguments(parser)
    defaults = parser.parse_args(["tcp://x:1"])
    assert defaults.event_loop == "builtin" and logging_options(defaults) == LoggingOptions()
    given = parser.parse_args(["tcp://x:1", "-el", "uvloop", "-lp", "/dev/stderr", "a.log", "-ll", "debug"])
    assert given.event_loop == "uvloop"
    assert logging_options(given) == LoggingOptions(("/dev/stderr", "a.log"), "DEBUG", None)


@pytest.mark.parametrize(
    ("level", "name"),
    [(10, "DEBUG"), (logging.INFO, "INFO"), (logging.WARNING, "WARN"), (logging.ERROR, "ERROR"), (50, "CRIT")],
)
def test_the_form_of_a_line(level, name):
    line = LineFormatter().format(logging.LogRecord("any", level, "", 0, "%s left", ("w1",), None))
    assert re.fullmatch(rf"\[{name}\]\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{{4}}: w1 left", line)


def test_logging_to_several_paths(tmp_path, capsys, root_logger):
    path = tmp_path / "log"
    setup_logging(LoggingOptions(("/dev/stdout", str(path)), "WARNING"), path_suffix="-7")
    logging.info("not this")
    logging.error("but this")
    written = (tmp_path / "log-7").read_text()
    assert written == capsys.readouterr().out
    assert written.count("\n") == 1 and "]" in written and written.endswith(": but this\n")


def test_a_process_of_several_that_says_nothing_leaves_no_file(tmp_path, root_logger):
    setup_logging(LoggingOptions((str(tmp_path / "log"), os.devnull)), path_suffix="-7")
    assert not list(tmp_path.iterdir()) and not os.path.exists(f"{os.devnull}-7")
    logging.info("now")
    assert (tmp_path / "log-7").read_text().endswith(": now\n")
    assert not os.path.exists(f"{os.devnull}-7")


class FullStream(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stream_that_cannot_be_written_is_quiet(capsys, monkeypatch, root_logger):
    monkeypatch.setattr(sys, "stdout", FullStream())
    setup_logging(LoggingOptions())
    logging.error("lost")
    assert not capsys.readouterr().err
    logging.error("%d", "no number")
    assert "TypeError" in capsys.readouterr().err, "a mistake in the program is still told"


def test_a_stream_that_was_closed_is_quiet(capsys, monkeypatch, root_logger):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    setup_logging(LoggingOptions())
    sys.stdout.close()
    logging.error("lost")
    assert not capsys.readouterr().err


def test_the_first_line_names_the_paths(capsys, root_logger):
    setup_logging(LoggingOptions())
    assert capsys.readouterr().out.endswith(": logging to ('/dev/stdout',)\n")


def test_logging_from_a_configuration_file(tmp_path, capsys, root_logger):
    path = tmp_path / "logging.conf"
    path.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=out\n[formatters]\nkeys=plain\n"
        "[logger_root]\nlevel=INFO\nhandlers=out\n"
        "[handler_out]\nclass=StreamHandler\nargs=(sys.stdout,)\nformatter=plain\n"
        "[formatter_plain]\nformat=mine: %(message)s\n"
    )
    setup_logging(LoggingOptions(config_file=str(path)))
    assert capsys.readouterr().out == f"mine: logging from {path}\n"


@pytest.mark.parametrize(
    "options",
    [
        LoggingOptions(("/nowhere/at/all/log",)),
        LoggingOptions(level="LOUD"),
        LoggingOptions(config_file="/nowhere/at/all.conf"),
        LoggingOptions(config_file=__file__),
    ],
)
def test_what_cannot_be_logged_to_is_a_usage_error(options, root_logger):
    with pytest.raises(UsageError) as caught:
        setup_logging(options)
    assert "\n" not in str(caught.value)


def test_an_event_loop_that_is_not_there(monkeypatch):
    check_event_loop("builtin")
    with pytest.raises(UsageError, match="no event loop called 'none'"):
        check_event_loop("none")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install uvloop"):
        check_event_loop("uvloop")


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("a"), 2), (StartupError("b"), 1), (ScalerError("c"), 1), (KeyboardInterrupt(), 130)]
)
def test_errors_become_exit_codes(error, code, capsys):
    def fail() -> int:
        raise error

    assert run_command("scaler_thing", fail) == code
    text = f"scaler_thing: error: {error}\n" if isinstance(error, ScalerError) else ""
    assert capsys.readouterr().err == text


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run_command("scaler_thing", lambda: 1 // 0)


# ---------------------------------------------------------------- processes

FOREIGN_TEXT = r"""
import logging
from scaler_protocol.process import LoggingOptions, run_command, setup_logging
def command():
    print("worker \u4e16 joined \udc80")
    setup_logging(LoggingOptions())
    logging.info("worker \u4e16 left")
    return 0
raise SystemExit(run_command("scaler_thing", command))
"""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_no_line_is_lost_whatever_the_output_can_encode(encoding):
    ended = subprocess.run(
        [sys.executable, "-c", FOREIGN_TEXT],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        timeout=SECONDS,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    lines = ended.stdout.decode(encoding).splitlines()
    shown = "\u4e16".encode(encoding, "backslashreplace").decode(encoding)
    assert lines[0] == f"worker {shown} joined \\udc80"
    assert lines[-1].endswith(f"worker {shown} left")


PRINTING = """
import sys
from scaler_protocol.process import ArgumentParser, run_command
def command():
    ArgumentParser("scaler_thing").parse_settings()
    for number in range({lines}):
        print("line", number)
    return 0
raise SystemExit(run_command("scaler_thing", command))
"""


@pytest.mark.parametrize(
    ("lines", "is_buffered", "arguments"),
    [(1, True, ()), (100_000, True, ()), (1, False, ()), (0, True, ("--help",))],
)
def test_a_command_whose_output_is_read_no_further_ends_in_silence(lines, is_buffered, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", PRINTING.format(lines=lines), *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "" if is_buffered else "1"},
        timeout=SECONDS,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (EXIT_UNREAD, b"")


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="a file that says EINVAL, as a pipe of Windows does")
@pytest.mark.parametrize("lines", [1, 10_000])
@pytest.mark.parametrize("is_buffered", [True, False])
def test_an_output_that_is_an_invalid_argument_is_read_no_further(monkeypatch, lines, is_buffered):
    """As on Windows, without Windows: an eventfd takes eight bytes, and a line of another length is invalid."""
    descriptor = os.eventfd(0)
    raw = io.FileIO(descriptor, "wb", closefd=False)
    plain = io.TextIOWrapper(io.BufferedWriter(raw) if is_buffered else raw, write_through=not is_buffered)
    monkeypatch.setattr(sys, "stdout", telling(plain))

    def command() -> int:
        for _ in range(lines):
            print("a long line")
        return 0

    assert run_command("scaler_thing", command) == EXIT_UNREAD
    assert os.write(descriptor, b"a long line") == 11, "what is left goes nowhere"
    os.close(descriptor)


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.EINVAL, "of another file")])
def test_a_broken_pipe_of_another_kind_is_not_hidden(error):
    def fail() -> int:
        raise error

    with pytest.raises(type(error)):
        run_command("scaler_thing", fail)


SERVER = """
import asyncio, sys
from scaler_protocol.process import LoggingOptions, run_command, run_server
async def main(stop):
    print("ready", flush=True)
    await stop.wait()
    {last_words}
sys.exit(run_command("server", lambda: run_server(main, LoggingOptions())))
"""


def start(code: str, stderr: int | None = None, **environment: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, **environment},
    )
    return process


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    pytest.fail(f"the process ended without saying {word!r}")


posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to speak of")


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_in_order_on_a_signal(number):
    with start(SERVER.format(last_words='print("goodbye", flush=True)')) as process:
        read_until(process, "ready")
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and "goodbye" in output and number.name in output


SIGNALLED_WHILE_CLOSING = """
import asyncio, signal
closes = asyncio.SelectorEventLoop._close_self_pipe
def close(loop):
    closes(loop)
    signal.raise_signal(signal.SIGTERM)
asyncio.SelectorEventLoop._close_self_pipe = close
"""


@posix_only
def test_a_signal_while_the_loop_closes_is_ignored_in_silence():
    with start(SIGNALLED_WHILE_CLOSING + SERVER.format(last_words=""), stderr=subprocess.PIPE) as process:
        read_until(process, "ready")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, "")


@posix_only
def test_a_second_signal_ends_a_server_that_hangs():
    with start(SERVER.format(last_words='print("hanging", flush=True); await asyncio.sleep(60)')) as process:
        read_until(process, "ready")
        process.send_signal(signal.SIGTERM)
        read_until(process, "hanging")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGTERM


@posix_only
def test_a_server_follows_the_process_that_started_it():
    """Started by a process that is then killed: it gets no chance to clean up, so the server must notice by itself."""
    with start("import sys; print('ready', flush=True); sys.stdin.read()") as parent:
        read_until(parent, "ready")
        with start(SERVER.format(last_words="pass"), SCALER_PARENT_PID=str(parent.pid)) as process:
            read_until(process, "ready")
            parent.kill()
            parent.wait(SECONDS)
            process.communicate(timeout=SECONDS)
    assert process.returncode == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has PR_SET_PDEATHSIG")
def test_a_fork_dies_with_its_parent():
    parent = start(
        "import os, time\n"
        "from scaler_protocol.process import die_with_parent\n"
        "me = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    die_with_parent(me)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "time.sleep(60)\n"
    )
    with parent:
        read_until(parent, "ready")
        parent.kill()
        # The child holds the other end of this pipe: it is at its end when the child is.
        parent.communicate(timeout=SECONDS)
    assert parent.returncode == -signal.SIGKILL
