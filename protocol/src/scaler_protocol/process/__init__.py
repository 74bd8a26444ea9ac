"""What every Scaler command shares: arguments, logging, the event loop, signals, and not outliving its parent."""

from scaler_protocol.process.argument_types import (
    boolean,
    byte_count,
    http_url,
    non_negative_seconds,
    positive_int,
    positive_seconds,
    seconds,
    shown_url,
    whole_number,
)
from scaler_protocol.process.arguments import ArgumentParser, flag
from scaler_protocol.process.event_loop import EVENT_LOOPS, check_event_loop
from scaler_protocol.process.failures import EXIT_BROKEN, StartupError, UsageError, end_process, exit_code_of
from scaler_protocol.process.logs import DEFAULT_LOGGING_PATHS, LoggingOptions, setup_logging
from scaler_protocol.process.memory import memory_trim
from scaler_protocol.process.options import (
    add_arguments_without_effect,
    add_logging_arguments,
    add_program_arguments,
    logging_options,
)
from scaler_protocol.process.parent import (
    PARENT_VARIABLE,
    SEARCH_PATH_VARIABLE,
    adopt_orphans,
    die_with_parent,
    follow_parent,
    restore_search_path,
)
from scaler_protocol.process.posix import posix_command, require_posix, use_all_descriptors
from scaler_protocol.process.preload import PreloadSpecError, execute_preload, parse_preload
from scaler_protocol.process.secret_options import add_secret, given_secret
from scaler_protocol.process.server import run_command, run_server
from scaler_protocol.secrets import (
    KEY_VARIABLE,
    all_secrets,
    forget_secrets,
    secret,
    secrets_for,
    take_secrets,
)

__all__ = [
    "EXIT_BROKEN",
    "ArgumentParser",
    "add_arguments_without_effect",
    "add_logging_arguments",
    "add_program_arguments",
    "logging_options",
    "boolean",
    "byte_count",
    "flag",
    "http_url",
    "non_negative_seconds",
    "positive_int",
    "positive_seconds",
    "seconds",
    "shown_url",
    "whole_number",
    "memory_trim",
    "PreloadSpecError",
    "execute_preload",
    "parse_preload",
    "EVENT_LOOPS",
    "check_event_loop",
    "StartupError",
    "UsageError",
    "end_process",
    "exit_code_of",
    "DEFAULT_LOGGING_PATHS",
    "LoggingOptions",
    "setup_logging",
    "PARENT_VARIABLE",
    "SEARCH_PATH_VARIABLE",
    "restore_search_path",
    "adopt_orphans",
    "die_with_parent",
    "follow_parent",
    "posix_command",
    "require_posix",
    "use_all_descriptors",
    "add_secret",
    "given_secret",
    "KEY_VARIABLE",
    "all_secrets",
    "forget_secrets",
    "secret",
    "secrets_for",
    "take_secrets",
    "run_command",
    "run_server",
]
