"""Logging of the commands, to any number of paths: `[INFO]2025-06-06 13:13:15+0200: message`, or a JSON object a line.

Only commands call this. Library code logs to `logging.getLogger("scaler…")` and leaves handlers to the application.
"""

from __future__ import annotations

import json
import logging
import logging.config
import os
import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scaler_protocol.errors import escaped
from scaler_protocol.process.failures import UsageError
from scaler_protocol.process.log_files import daily_file_handler
from scaler_protocol.records import dataclass

DEFAULT_LOGGING_PATHS = ("/dev/stdout",)

LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
}

_SHORT_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "CRIT",
}

# Streams by name, so that they work on Windows too, and so that a redirected sys.stdout is honoured.
_STREAMS = {"/dev/stdout": "stdout", "/dev/stderr": "stderr"}


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    paths: tuple[str, ...] = DEFAULT_LOGGING_PATHS
    level: str = "INFO"
    config_file: str | None = None
    format: str = "text"

    @property
    def is_streams_only(self) -> bool:
        return all(path in _STREAMS for path in self.paths)

    def arguments(self) -> list[str]:
        """What tells another command the same. The paths are many, so nothing without a name may follow."""
        arguments = [f"--logging-level={self.level}", f"--logging-format={self.format}"]
        if self.config_file:
            arguments.append(f"--logging-config-file={self.config_file}")
        return [*arguments, "--logging-paths", *self.paths]


_FURTHER_LINES = "  "
"""Before each line of a traceback. Only the first line of a record can look like one."""


class LineFormatter(logging.Formatter):
    """A short word for the level. A message is one line, whatever is in it."""

    def __init__(self) -> None:
        super().__init__("[%(short_level)s]%(asctime)s: %(message)s", datefmt="%Y-%m-%d %H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        # On the record, not with logging.addLevelName: that would rename the levels of all loggers in the process.
        record.short_level = _SHORT_NAMES.get(record.levelno, record.levelname)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, exc_info: Any) -> str:  # noqa: N802 - the name is logging's
        return _indented(super().formatException(exc_info))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the name is logging's
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(_FURTHER_LINES + escaped(line) for line in text.split("\n"))


class JsonFormatter(logging.Formatter):
    """For programs that read logs. Keys are only ever added. What users chose, such as a worker's name, is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


FORMATS: dict[str, type[logging.Formatter]] = {"text": LineFormatter, "json": JsonFormatter}


if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[Any]
else:
    _StreamHandler = logging.StreamHandler  # Python 3.10 has no parameters for it


class StreamHandler(_StreamHandler):
    """A stream that cannot be written, because it is closed or its disk is full, loses lines and nothing else. Else
    logging would write a traceback for each line."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        if not isinstance(sys.exc_info()[1], OSError | ValueError):
            super().handleError(record)


def setup_logging(options: LoggingOptions, path_suffix: str = "") -> None:
    """Point the root logger at `options.paths`, and log which these are.

    With a `path_suffix`, which goes behind the names of files, never of streams and devices, several processes that
    were given the same options each write a file of their own. Then a file is made for the first line in it, and
    there is no line that names the paths: a process that has nothing to say leaves no file.
    """
    if options.config_file is not None:
        _load_config_file(options.config_file)
        logging.info("logging from %s", options.config_file)
        return
    if options.level.upper() not in LEVELS:
        raise UsageError(f"there is no logging level {options.level!r}; choose one of: {', '.join(LEVELS)}")
    paths = tuple(path + path_suffix if _is_file(path) else path for path in options.paths)
    handlers = [_handler(path, opens_late=bool(path_suffix)) for path in paths]
    formatter = FORMATS[options.format]()
    for handler in handlers:
        handler.setFormatter(formatter)
    _replace_root_handlers(handlers)
    logging.getLogger().setLevel(LEVELS[options.level.upper()])
    if not path_suffix:
        logging.info("logging to %r", paths)


def _is_file(path: str) -> bool:
    """Not a stream, and not a device such as /dev/null."""
    path = os.path.expanduser(path)
    return path not in _STREAMS and (os.path.isfile(path) or not os.path.exists(path))


def _handler(path: str, *, opens_late: bool) -> logging.Handler:
    if path in _STREAMS:
        return StreamHandler(getattr(sys, _STREAMS[path]))
    try:
        return daily_file_handler(os.path.expanduser(path), opens_late=opens_late)
    except OSError as error:
        raise UsageError(f"cannot log to {path}: {error.strerror or error}; give another --logging-paths") from None


def _replace_root_handlers(handlers: list[logging.Handler]) -> None:
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        with suppress(OSError):  # what it could not write it cannot write now
            handler.close()
    for handler in handlers:
        root.addHandler(handler)


def _load_config_file(path: str) -> None:
    if not os.path.isfile(path):
        raise UsageError(f"--logging-config-file: there is no file {path}")
    try:
        logging.config.fileConfig(path, disable_existing_loggers=False)
    except Exception as error:  # noqa: BLE001 - fileConfig evaluates the file: it may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"--logging-config-file: {path} is not a logging configuration: {reason}") from None
