"""Options from a file and from the environment become the defaults that a command line overrides.

Every value is converted by the option's own type, one by one, so that a mistake names the place where it stands.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scaler_protocol.process import config_file
from scaler_protocol.process.argument_types import boolean
from scaler_protocol.process.failures import UsageError

if TYPE_CHECKING:
    from scaler_protocol.process.arguments import ArgumentParser

_FILE_OPTIONS = {"--config": "config", "-c": "config", "--config-entry": "config_entry"}
_NOT_SETTINGS = ("help", "config", "config_entry", "version")

#: From how alike on a variable of the environment is taken for a mistyped option (0 to 1).
_MISTYPED = 0.8


def environment_prefix(section: str) -> str:
    return f"SCALER_{section.upper()}_"


def use_settings(parser: ArgumentParser, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Change the parser's defaults. What then still is missing, the command line must bring."""
    actions = keys_of(parser)
    for action, raw, place in [
        *_from_file(parser, actions, arguments, environment),
        *_from_environment(parser, actions, environment),
    ]:
        action.default = converted(action, raw, place)
        action.required = False
        if not action.option_strings:
            action.nargs = "?"


def keys_of(parser: ArgumentParser) -> dict[str, argparse.Action]:
    """What a section may say: the long names of all eras, and those of the positional arguments."""
    actions = [action for action in parser._actions if action.dest not in _NOT_SETTINGS]
    keys = {action.dest: action for action in actions}
    for action in actions:
        keys |= {config_file.plain(name[2:]): action for name in action.option_strings if name.startswith("--")}
    return keys | {alias: keys[name] for alias, name in parser.key_aliases.items()}


def _from_file(
    parser: ArgumentParser,
    actions: Mapping[str, argparse.Action],
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> Iterator[tuple[argparse.Action, Any, str]]:
    path, entry = named_file(arguments)
    path = path or environment.get(environment_prefix(parser.section) + "CONFIG")
    if path is None:
        return
    table = config_file.section(config_file.read(path), parser.section, entry, path, parser.kind)
    place = f"{path}: [{parser.section}]"
    for key, value in table.items():
        config_file.check_key(key, actions, place)
        yield actions[config_file.plain(key)], value, f"{place} {key}"


def named_file(arguments: Sequence[str]) -> tuple[str | None, int | None]:
    """What --config and --config-entry say, before anything is parsed: the parser would ask for what the file brings.
    Only whole names count here, for `-ct 5` is another option; `parse_settings` refuses what this overlooks."""
    found: dict[str, str] = {}
    for argument, follower in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, value = argument.partition("=")
        if argument == "--":
            break
        if name in _FILE_OPTIONS:
            found[_FILE_OPTIONS[name]] = value if equals else follower
    entry = found.get("config_entry")
    return found.get("config"), int(entry) if entry is not None and entry.isdecimal() else None


def _from_environment(
    parser: ArgumentParser, actions: Mapping[str, argparse.Action], environment: Mapping[str, str]
) -> Iterator[tuple[argparse.Action, Any, str]]:
    """Yields the options that the environment gives. A variable that is nearly the name of an option gets a warning on
    standard error. Other names are left alone: Kubernetes sets SCALER_SCHEDULER_PORT for a service of that name."""
    prefix = environment_prefix(parser.section)
    variables = {prefix + key.upper() for key in actions} | {f"{prefix}CONFIG"}
    for name in sorted(environment.keys() - variables):
        meant = config_file.nearest(name[len(prefix) :], {key.upper() for key in actions}, _MISTYPED)
        if name.startswith(prefix) and meant:
            print(
                f"{parser.prog}: warning: the environment's {name} has no effect; did you mean {prefix}{meant}?",
                file=sys.stderr,
            )
    for key, action in actions.items():
        name = prefix + key.upper()
        if name in environment:
            raw: Any = environment[name]
            yield action, raw.split() if action.nargs == "+" else raw, f"environment: {name}"


def converted(action: argparse.Action, raw: Any, place: str) -> Any:
    """What the command line would have made of it. Raises UsageError."""
    if action.nargs == "+":
        texts = raw if isinstance(raw, list) else [raw]
        return [_convert_one(action, text, place) for text in texts]
    return _convert_one(action, raw, place)


def _convert_one(action: argparse.Action, raw: Any, place: str) -> Any:
    text = raw if isinstance(raw, str) else _text(raw)
    is_switch = action.nargs == 0
    if action.type is None and not is_switch and not isinstance(raw, str | list):
        raise UsageError(f"{place}: {text} is not a text: put it in quotes")
    try:
        kind = boolean if is_switch else action.type
        value = kind(text) if callable(kind) else text
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{place}: {error}") from None
    except (TypeError, ValueError):
        raise UsageError(f"{place}: {text!r} is not a value for this") from None
    if action.choices is not None and value not in action.choices:
        raise UsageError(f"{place}: {text!r} is not one of: {', '.join(map(str, action.choices))}")
    return value


def _text(raw: Any) -> str:
    """Lists and tables stand for what the command line writes with commas: ["gpu", "linux"], {gpu = 2}."""
    if isinstance(raw, list):
        return ",".join(map(_text, raw))
    if isinstance(raw, dict):
        return ",".join(f"{name}={_text(amount)}" for name, amount in raw.items())
    return str(raw)
