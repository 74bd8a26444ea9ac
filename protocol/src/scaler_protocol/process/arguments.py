"""Command lines: a parser that answers mistakes with one line, and takes options from several places."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from scaler_protocol.process import completion, config_file
from scaler_protocol.process.argument_types import BOOLEANS, boolean
from scaler_protocol.process.failures import EXIT_USAGE
from scaler_protocol.process.settings import environment_prefix, named_file, use_settings
from scaler_protocol.secrets import settings_environment


class ArgumentParser(argparse.ArgumentParser):
    """argparse, except that a mistake is answered with one line, that --help shows each option's first two names only,
    and that a command with a `section` also takes its options from a file and from the environment."""

    def __init__(
        self,
        prog: str,
        section: str = "",
        key_aliases: Mapping[str, str] | None = None,
        kind: str = "",
        **options: Any,
    ) -> None:
        """`key_aliases` are further keys of the section: name in a file -> name of the argument. Of several sections of
        that name, a command with a `kind` takes the one whose key `type` says so."""
        options.setdefault("formatter_class", HelpFormatter)
        if section:
            options["epilog"] = "\n\n".join(filter(None, (options.get("epilog"), _where_else(section))))
        super().__init__(prog, **options)
        self.section = section
        self.kind = kind
        self.key_aliases = dict(key_aliases or {})
        if section:
            self.add_argument(
                "--config", "-c", metavar="FILE", help=f"a TOML file whose section [{section}] may give every option"
            )
            self.add_argument("--config-entry", type=int, metavar="N", help=argparse.SUPPRESS)

    def parse_settings(
        self, arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
    ) -> argparse.Namespace:
        """The command line, before the environment, before the file, before the defaults."""
        completion.complete(self)
        given = list(sys.argv[1:] if arguments is None else arguments)
        given = explicit_flags(self, addresses_apart(self, given))
        if not self.section:
            return self.parse_args(given)
        use_settings(self, given, settings_environment() if environment is None else environment)
        options = self.parse_args(given)
        if options.config != named_file(given)[0]:
            self.error(f"write --config {options.config}, in full and with a space")
        return options

    def parse_args(  # type: ignore[override] # typeshed's overloads for a namespace of another class
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parses the command line. An unknown option ends the command; the message names the option that is nearest."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = [name for action in self._actions for name in shown_names(action)]
            guesses = [config_file.nearest(word.partition("=")[0], known, 0.7) for word in unknown if word[:1] == "-"]
            meant = f"; did you mean {guesses[0]}?" if any(guesses[:1]) else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return options

    def format_help(self) -> str:
        if self.usage is None:
            places = [action.dest for action in self._actions if not action.option_strings]
            self.usage = " ".join(["%(prog)s [options]", *places])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (try {self.prog} --help)", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def _where_else(section: str) -> str:
    return (
        f"Options may also stand in a TOML file (--config, section [{section}]) and in the environment "
        f"({environment_prefix(section)}...). The command line counts most, the file least."
    )


class HelpFormatter(argparse.HelpFormatter):
    """Options have names of several eras. The help shows the first long and the first short one, and the value once."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"max_help_position": 26, "width": _columns() - 2, **options})

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        shown = ", ".join(shown_names(action))
        if action.nargs == 0:
            return shown
        return f"{shown} {self._format_args(action, action.dest.upper())}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(super(HelpFormatter, self)._fill_text(part, width, indent) for part in paragraphs)


def _columns() -> int:
    """Of the terminal, as `shutil.get_terminal_size` finds them. argparse makes a formatter for each option that is
    added, also where no help is shown, and `shutil` brings compressors along: 5 ms for each process of a cluster."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0 and sys.__stdout__ is not None:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns
        except (ValueError, OSError):
            pass  # it is closed, or no terminal
    return columns if columns > 0 else 80


def shown_names(action: argparse.Action) -> list[str]:
    """The first long and the first short name of an option."""
    long = [name for name in action.option_strings if name.startswith("--")]
    short = [name for name in action.option_strings if not name.startswith("--")]
    return long[:1] + short[:1]


def flag(default: bool = False) -> dict[str, Any]:
    """Settings of an option that is on when named, and may be followed by True or False."""
    return {"nargs": "?", "type": boolean, "const": True, "default": default, "metavar": "BOOL"}


def explicit_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """A flag in front of an address does not mean it as its value: `-p tcp://…` becomes `-p=True tcp://…`."""
    names = {name for action in parser._actions if action.type is boolean for name in action.option_strings}
    followers = [*arguments[1:], ""]
    return [
        f"{argument}=True" if argument in names and follower.lower() not in BOOLEANS else argument
        for argument, follower in zip(arguments, followers, strict=False)
    ]


def addresses_apart(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Returns the command line with each address moved in front of an option that takes a list: in
    `--logging-paths FILE tcp://…` the address is the command's, not another path."""
    lists = {name for action in parser._actions if action.nargs == "+" for name in action.option_strings}
    moved: list[str] = []
    begin = None  # of the list that the arguments are in
    for argument in arguments:
        if argument.startswith("-"):
            begin = len(moved) if argument in lists else None
        elif begin is not None and "://" in argument and len(moved) > begin + 1:
            moved.insert(begin, argument)
            begin += 1
            continue
        moved.append(argument)
    return moved
