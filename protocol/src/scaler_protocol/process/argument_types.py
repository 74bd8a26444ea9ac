"""Types of arguments: from a text to a value, or an error of one readable line."""

from __future__ import annotations

import argparse
import math
import re
from urllib.parse import SplitResult, urlsplit

_BYTE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_BYTE_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def boolean(text: str) -> bool:
    if text.lower() not in BOOLEANS:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return BOOLEANS[text.lower()]


def byte_count(text: str) -> int:
    """A number of bytes: 1000000, 512M, 4GiB; units are powers of 1024."""
    match = _BYTE_COUNT.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write 1000000, 512M or 4GiB")
    value = int(float(match[1]) * _BYTE_UNITS[match[2].lower()])
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size above zero")
    return value


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return value


def seconds(text: str) -> float:
    """Any number of seconds; what zero or less means, the option says."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def positive_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return value


def non_negative_seconds(text: str) -> float:
    value = seconds(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, zero or above")
    return value


def http_url(text: str) -> str:
    """No error repeats the text: a secret may stand in it."""
    parts = _split(text)
    if parts.username is not None or parts.password is not None:
        raise argparse.ArgumentTypeError(
            "a URL must not contain user:password@, because URLs are logged and shown: leave that part out, and give "
            "the secret as a token, in a file or in the environment"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError("this is not a URL: write it like http://127.0.0.1:8080")
    if not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError("a URL has no spaces and no control characters")
    return text


def shown_url(text: str) -> str:
    """What logs, names and errors may say of a URL: where it leads. Its path and its query may be secrets."""
    parts = _split(text)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port is not None else "")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - read for its ValueError
    except ValueError:
        raise argparse.ArgumentTypeError("this is not a URL: write it like http://127.0.0.1:8080") from None
    return parts
