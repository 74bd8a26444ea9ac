"""What a configuration file asks to be started: `scaler config.toml`.

The parts are the commands themselves, each reading its own section, so that nothing is configured twice. What only one
section says, where the scheduler or the storage is, the others are told through their environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.cluster.options import Command
from scaler_protocol.addresses import AddressError, parse_address
from scaler_protocol.process import UsageError, config_file

Table = config_file.Table


@dataclass(frozen=True, slots=True)
class Part:
    section: str
    module: str
    #: key of the section -> (section that knows it otherwise)
    told_by: Mapping[str, str]
    address_keys: tuple[str, ...] = ()  #: empty: no part waits for this one to listen
    has_kinds: bool = False  #: its key `type` is the first word of the command


PARTS = (
    Part("object_storage_server", "scaler_storage", {}, ("address", "bind_address", "storage_address")),
    Part(
        "scheduler",
        "scaler_scheduler",
        {"object_storage_address": "object_storage_server"},
        ("address", "bind_address", "scheduler_address"),
    ),
    Part("cluster", "scaler_worker", {"address": "scheduler"}),
    Part("worker_manager", "scaler_worker.manager", {"address": "scheduler"}, has_kinds=True),
)

#: What a key may also be called, for `told_by`.
_SAME = {
    "object_storage_address": ("object_storage_address", "storage_address"),
    "address": ("address", "scheduler_address"),
}
#: What sections say of the key; see `_keys_told`.
KEYS = ("key_file", "insecure")
#: A terminal has one screen: who wants these starts them in another.
_NOT_HERE = ("top",)


class NothingToStartError(UsageError):
    """The file is well formed and has no section that `scaler` could start."""


@dataclass(frozen=True, slots=True)
class Start:
    """One process to be."""

    name: str
    command: Command
    environment: dict[str, str]
    address: str  #: where it will listen; empty: no part waits for that


def plan(path: str, environment: Mapping[str, str]) -> list[Start]:
    """In the order of starting; to be ended in the opposite one, so no part loses one that it depends on."""
    document = config_file.read(path)
    for section in document:
        if section not in {*(part.section for part in PARTS), *_NOT_HERE}:
            raise UsageError(f"{path}: there is no command for [{section}] in this version; take the section out")
    starts = [
        start for part in PARTS if part.section in document for start in _starts(part, document, path, environment)
    ]
    if not starts:
        sections = ", ".join(f"[{part.section}]" for part in PARTS)
        raise NothingToStartError(f"{path} names nothing to start: it has none of {sections}")
    return starts


def _starts(part: Part, document: Mapping[str, Any], path: str, environment: Mapping[str, str]) -> Iterator[Start]:
    value = document[part.section]
    count = len(value) if isinstance(value, list) else 1
    for entry in range(count):
        table = config_file.section(document, part.section, entry, path)
        options = ["--config", path, "--config-entry", str(entry)]
        yield Start(
            name=part.section if count == 1 else f"{part.section}[{entry}]",
            command=[sys.executable, "-m", part.module, *_kind(part, table, path), *options],
            environment=_told(part, table, document, path, environment),
            address=_address_of(part, table, environment),
        )


def _kind(part: Part, table: Table, path: str) -> list[str]:
    if not part.has_kinds:
        return []
    kind = table.get(config_file.KIND_KEY)
    if not isinstance(kind, str):
        raise UsageError(f'{path}: each [[{part.section}]] needs a type, such as type = "baremetal_native"')
    return [kind]


def _told(
    part: Part, table: Table, document: Mapping[str, Any], path: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """What another section knows and this one leaves out."""
    told = {}
    for key, section in part.told_by.items():
        says_itself = any(_given(part.section, table, name, environment) for name in _SAME[key])
        if says_itself or section not in document:
            continue
        other = next(one for one in PARTS if one.section == section)
        address = _address_of(other, config_file.section(document, section, 0, path), environment)
        if address:
            told[_variable(part.section, key)] = address
    return told | _keys_told(part, table, document, path, environment)


def _keys_told(
    part: Part, table: Table, document: Mapping[str, Any], path: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """All parts of a cluster have the same key, or none: what the first section says of it counts for those that say
    nothing."""
    if any(_given(part.section, table, key, environment) for key in KEYS):
        return {}
    for other in (one for one in PARTS if one.section in document):
        section = config_file.section(document, other.section, 0, path)
        said = {key: _given(other.section, section, key, environment) for key in KEYS}
        if any(said.values()):
            return {_variable(part.section, key): value for key, value in said.items() if value}
    return {}


def _address_of(part: Part, table: Table, environment: Mapping[str, str]) -> str:
    """Where the part can be dialed. Empty when it does not say, or nothing sensible: the command itself will tell."""
    given = (_given(part.section, table, key, environment) for key in part.address_keys)
    text = next(filter(None, given), "")
    try:
        parsed = parse_address(text if "://" in text else f"tcp://{text}", is_bind=True)
    except AddressError:
        return ""
    if parsed.host in ("*", "0.0.0.0", "::"):
        return f"tcp://127.0.0.1:{parsed.port}"
    return str(parsed)


def _given(section: str, table: Table, key: str, environment: Mapping[str, str]) -> str:
    plain = {config_file.plain(name): value for name, value in table.items()}
    return environment.get(_variable(section, key)) or str(plain.get(key, ""))


def _variable(section: str, key: str) -> str:
    return f"SCALER_{section}_{key}".upper()
