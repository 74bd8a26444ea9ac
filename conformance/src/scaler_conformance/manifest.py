"""The one file that a port's author writes: what the port is called, what it can do, and how it is started."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .resources import toml

#: The places that the suite fills in a command, for each role. {python} is the interpreter that runs the suite.
PLACES = {
    "scheduler": ("bind", "monitor", "storage", "other", "python"),
    "storage": ("bind", "directory", "python"),
    "worker": ("scheduler", "storage", "name", "python"),
    "client": ("python",),
    "manager": ("scheduler", "storage", "name", "python"),
}
FEATURES = frozenset(
    (
        "chains",
        "code-sets",
        "kept-results",
        "live-owners",
        "memfd",
        "present-held",
        "result-window",
        "samples",
        "stack-samples",
        "stacks",
    )
)
"""Optional behaviour that the specification knows."""
ROLE_KEYS = {"command", "testee", "env", "stop", "variants", "directory", "unsupported", "ready_seconds", "runs"}
FUNCTIONS = (
    *("echo", "concat", "reverse", "add", "fail", "sleep_ms", "spin_ms", "bytes_n", "crash"),
    *("read_object", "submit_child", "print_text", "hold_mib", "stream_n"),
)
"""The functions by name that a worker under test runs."""


class ManifestError(Exception):
    """One sentence that says what to change in the file."""


@dataclass(frozen=True, slots=True)
class RoleEntry:
    role: str
    #: servers and workers: the command, with {places}; clients: the testee that speaks JSON lines
    command: tuple[str, ...]
    directory: Path
    env: Mapping[str, str] = field(default_factory=dict)
    #: further arguments that make it behave in a way some cases need, such as `protected`
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stop: str = "SIGTERM"
    ready_seconds: float = 20.0
    #: clause id: why this port leaves it out. SHOULDs and MAYs only.
    unsupported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    path: Path
    name: str
    version: str
    roles: Mapping[str, RoleEntry]
    features: tuple[str, ...] = ()
    #: whether it speaks CURVE and shows tickets: then it is tested in a cluster that has a key
    has_keys: bool = False
    slack: float = 1.0

    def role(self, name: str) -> RoleEntry:
        if name not in self.roles:
            known = ", ".join(self.roles) or "none"
            raise ManifestError(f"{self.path}: there is no [role.{name}]; the roles in it: {known}")
        return self.roles[name]


def read(path: Path) -> Manifest:
    try:
        content = toml.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ManifestError(
            f"{path}: {error.strerror}. `scaler-conformance init` writes a manifest to start from"
        ) from None
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} is not TOML: {error}") from None
    return parse(content, path)


def parse(content: Mapping[str, Any], path: Path) -> Manifest:
    _known(content, {"port", "role", "timing"}, path, "the file")
    port = _table(content, "port", path)
    _known(port, {"name", "version", "protocol", "features", "keys"}, path, "[port]")
    given = port.get("features", [])
    if not isinstance(given, list):
        raise ManifestError(f'{path}: [port] features is a list, such as ["memfd"]')
    features = tuple(map(str, given))
    has_keys = port.get("keys", False)
    if not isinstance(has_keys, bool):
        raise ManifestError(f"{path}: [port] keys is true or false, not {has_keys!r}")
    unknown = [name for name in features if name not in FEATURES and not str(name).startswith("x-")]
    if unknown:
        raise ManifestError(f"{path}: version 1 of the protocol has no feature {unknown[0]!r}; leave it out")
    roles = {name: _role(name, entry, path) for name, entry in _table(content, "role", path).items()}
    if not roles:
        raise ManifestError(f"{path}: name at least one role under test, such as [role.worker]")
    slack = _pairs(content, "timing", path, "[timing]").get("slack", 1.0)
    if not isinstance(slack, (int, float)) or not 0.1 <= slack <= 100:
        raise ManifestError(f"{path}: timing.slack is a factor between 0.1 and 100, not {slack!r}")
    name, version = _text(port, "name", path), str(port.get("version", "0"))
    return Manifest(path, name, version, roles, features, has_keys, float(slack))


def _role(name: str, entry: Any, path: Path) -> RoleEntry:
    place = f"[role.{name}]"
    if name not in PLACES:
        raise ManifestError(f"{path}: {place} is no role; the roles are {', '.join(PLACES)}")
    if not isinstance(entry, dict):
        raise ManifestError(f"{path}: {place} must be a table")
    _known(entry, ROLE_KEYS, path, place)
    key = "testee" if name == "client" else "command"
    command = _words(entry.get(key), path, f"{place} {key}")
    for word in command:
        for used in re.findall(r"\{(\w+)\}", word):
            if used not in PLACES[name]:
                known = ", ".join(f"{{{each}}}" for each in PLACES[name]) or "none"
                raise ManifestError(f"{path}: {place} {key} has {{{used}}}; what is filled in here: {known}")
    variants = {
        key: _words(value, path, f"{place} variants.{key}")
        for key, value in _pairs(entry, "variants", path, f"{place} variants").items()
    }
    ready = entry.get("ready_seconds", 20.0)
    if isinstance(ready, bool) or not isinstance(ready, (int, float)) or not 0 < ready <= 600:
        raise ManifestError(f"{path}: {place} ready_seconds is a number of seconds up to 600, not {ready!r}")
    stop = entry.get("stop", "SIGTERM")
    if stop not in signal.Signals.__members__:
        raise ManifestError(f"{path}: {place} stop is the name of a signal, such as SIGINT, not {stop!r}")
    return RoleEntry(
        role=name,
        command=command,
        directory=(path.parent / entry.get("directory", ".")).resolve(),
        env={key: str(value) for key, value in _pairs(entry, "env", path, f"{place} env").items()},
        variants=variants,
        stop=stop,
        ready_seconds=float(ready),
        unsupported=dict(_pairs(entry, "unsupported", path, f"{place} unsupported")),
    )


def _words(value: Any, path: Path, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value) or not value[0]:
        raise ManifestError(f'{path}: {place} must be a list of words, such as ["./server", "--bind", "{{bind}}"]')
    return tuple(os.path.expandvars(word) for word in value)


def _pairs(entry: Mapping[str, Any], name: str, path: Path, place: str) -> Mapping[str, Any]:
    value = entry.get(name, {})
    if not isinstance(value, dict):
        raise ManifestError(f"{path}: {place} is a table of names and values, such as {name} = {{ NAME = ... }}")
    return value


def _table(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    value = content.get(name)
    if not isinstance(value, dict):
        raise ManifestError(f"{path}: the table [{name}] is missing; see `scaler-conformance init`")
    return value


def _text(table: Mapping[str, Any], name: str, path: Path) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not value:
        raise ManifestError(f"{path}: [port] needs a {name}")
    return value


def _known(table: Mapping[str, Any], names: set[str], path: Path, place: str) -> None:
    unknown = sorted(set(table) - names)
    if unknown:
        raise ManifestError(f"{path}: {place} has the unknown key {unknown[0]!r}; known: {', '.join(sorted(names))}")
