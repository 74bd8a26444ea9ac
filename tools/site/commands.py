"""A page for every command, made from its parser: the same text as --help, with what a table can say better."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache

from scaler_protocol.process.settings import environment_prefix
from tools.site.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAD = """\
# Commands

Every option may be given on the command line, in the environment, or in a TOML file, in this order of weight. Names of
earlier versions are accepted too; these pages show the first long and the first short one. All of them:

```{toctree}
:maxdepth: 1

"""


class NoParser(Exception):
    """A command has no page, because its parser was not found."""


@cache
def scripts() -> dict[str, str]:
    """All commands of a cluster, with their entry points. The conformance suite's has a page of its own."""
    found: dict[str, str] = {}
    for path in (ROOT / "protocol" / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")):
        found |= tomllib.loads(path.read_text(encoding="utf-8"))["project"].get("scripts", {})
    return dict(sorted(found.items()))


@cache
def names() -> frozenset[str]:
    return frozenset({"commands/index.md", *(f"commands/{name}.md" for name in scripts())})


def pages() -> dict[str, str]:
    index = HEAD + "\n".join(scripts()) + "\n```\n"
    return {"commands/index.md": index, **{f"commands/{name}.md": page(name) for name in scripts()}}


def parsers_of(entry_point: str) -> list[argparse.ArgumentParser]:
    """What `parser()`, or `x_parser()` for each subcommand x, gives. It is in the module, or in `config` beside it."""
    module = entry_point.partition(":")[0]
    for place in (module, f"{module.rpartition('.')[0]}.config"):
        try:
            functions = vars(importlib.import_module(place))
        except ModuleNotFoundError as error:
            if error.name != place:
                raise
            continue
        makes = [make for name, make in functions.items() if re.fullmatch(r"([a-z]\w*_)?parser", name)]
        if makes:
            return [make() for make in makes]
    raise NoParser(f"{entry_point}: neither {module} nor config beside it has a function parser()")


def page(name: str) -> str:
    parsers = parsers_of(scripts()[name])
    parts = [f"# {name}", ""]
    others = [other for other, place in scripts().items() if place == scripts()[name] and other != name]
    if others:
        parts += [f"The same command is also installed as {', '.join(f'`{other}`' for other in others)}.", ""]
    for parser in parsers:
        if len(parsers) > 1:
            parts += [f"## {parser.prog}", ""]
        parts += _described(parser, "###" if len(parsers) > 1 else "##")
    return "\n".join(parts)


def _described(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    parser.format_help()  # gives our parsers their short usage
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    yield from (_text(parser.description or ""), "", "```console", f"$ {usage}", "```", "")
    section = getattr(parser, "section", "")
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if one.help != argparse.SUPPRESS]
        subcommands = [one for one in actions if isinstance(one, argparse._SubParsersAction)]
        options = [one for one in actions if one not in subcommands]
        if options:
            yield from (f"{level} {(group.title or 'options').capitalize()}", "")
            yield from (line for one in options for line in _option(parser, one, section))
        for action in subcommands:
            for name, inner in action.choices.items():
                yield from (f"{level} {name}", "", *_described(inner, level + "#"))
    for paragraph in (parser.epilog or "").split("\n\n"):
        yield from _epilog(paragraph)


def _epilog(paragraph: str) -> Iterator[str]:
    if paragraph.startswith("Example: "):
        yield from ("```console", f"$ {paragraph.removeprefix('Example: ')}", "```", "")
    elif paragraph:
        yield from (_text(paragraph), "")


def _option(parser: argparse.ArgumentParser, action: argparse.Action, section: str) -> Iterator[str]:
    """A definition: the names, and what they mean."""
    shown = parser._get_formatter()._format_action_invocation(action)
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    yield from (f"`{shown}`", f": {_text(text)}")
    if section and action.option_strings and action.dest not in ("help", "config", "version"):
        key = _key(action)
        yield ""
        yield f"  *In a file:* `{key}`; *in the environment:* `{environment_prefix(section)}{key.upper()}`"
    yield ""


def _key(action: argparse.Action) -> str:
    long = next((name for name in action.option_strings if name.startswith("--")), action.dest)
    return long.lstrip("-").replace("-", "_")


def _text(text: str) -> str:
    """Help texts are plain: what Markdown would take for markup is kept as it is."""
    return "".join(f"\\{letter}" if letter in "*_[]<>`|" else letter for letter in text)
