"""One TOML file may configure all commands: a section for each, keys as the options, with hyphens or underscores."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from scaler_protocol.process.failures import UsageError

Table = dict[str, Any]

#: Every section that some command reads. A command is content to find those of the others in its file.
SECTIONS = (
    "object_storage_server",
    "scheduler",
    "cluster",
    "worker_manager",
    "native_worker_adapter",
    "symphony_worker_adapter",
    "top",
    "gui",
    "webui",
)


def plain(name: str) -> str:
    return name.replace("-", "_")


def read(path: str) -> Table:
    """The sections of a file, by plain name. Raises UsageError, also for a section that no command reads."""
    # Here, because few commands are given a file, and each of them imports this.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        # Some editors of Windows begin a file with a byte order mark, which TOML does not know.
        with open(path, encoding="utf-8-sig") as file:
            document = tomllib.loads(file.read())
    except OSError as error:
        raise UsageError(f"--config: cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: {path} is not TOML: {error}") from None
    for name in document:
        if plain(name) not in SECTIONS:
            raise UsageError(f"{path}: no command reads a section [{name}]{_or_nearest(name, SECTIONS)}")
    return {plain(name): value for name, value in document.items()}


#: The key of a section that says what kind of thing it is, where a command has several.
KIND_KEY = "type"


def section(document: Mapping[str, Any], name: str, entry: int | None, path: str, kind: str = "") -> Table:
    """The table of one command; empty when there is none. Of several, [[name]], `entry` says which, else there must be
    exactly one of the `kind`."""
    value = document.get(name, {})
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in entries):
        raise UsageError(f"{path}: {name} must be a section: write [{name}], and its keys below")
    if entry is None and kind:
        entries = [one for one in entries if one.get(KIND_KEY, kind) == kind]
    if entry is None and len(entries) != 1:
        like = f" with {KIND_KEY} = {kind!r}" if kind else ""
        raise UsageError(f"{path}: there are {len(entries)} sections [[{name}]]{like}, and this command takes one")
    return {key: value for key, value in entries[entry or 0].items() if not kind or key != KIND_KEY}


def check_key(key: str, known: Iterable[str], place: str) -> None:
    known = list(known)
    if plain(key) not in known:
        raise UsageError(f"{place}: there is no key {key}{_or_nearest(key, known)}")


def nearest(name: str, known: Iterable[str], cutoff: float) -> str:
    """Returns the known name that is most like this one, or the empty text: none is alike to the `cutoff` (0 to 1)."""
    import difflib  # here, as few commands have anything to say of a wrong name

    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), "")


def _or_nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    found = nearest(plain(name), known, 0.5)
    return f"; did you mean {found}?" if found else f"; there are: {', '.join(sorted(known))}"
