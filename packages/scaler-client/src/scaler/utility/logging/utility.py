"""Logging in the format of Scaler's commands, for programs that want the same."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.process import LoggingOptions
from scaler_protocol.process import setup_logging as _setup_logging


def setup_logger(
    log_paths: Sequence[str] = ("/dev/stdout",), logging_config_file: str | None = None, logging_level: str = "INFO"
) -> None:
    _setup_logging(LoggingOptions(paths=tuple(log_paths), level=logging_level, config_file=logging_config_file))
