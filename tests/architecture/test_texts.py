"""What no tracked file may hold: promises without an address, paths of somebody's machine, the place of a registry."""

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, relative, tracked

HERE = Path(__file__)
TEXT = (
    *(".py", ".md", ".toml", ".txt", ".capnp", ".json", ".svg", ".cfg", ".yml", ".yaml"),
    *("Makefile", "Dockerfile", "run"),
)

#: `TODO(#12)` or `TODO(TASK-9)`: an issue or a clause beside it.
PROMISE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\s*\((#\d+|[A-Z]+-\d+)\))")
MACHINE = re.compile(r"(?<![\w.])/(work|home|Users|root|tmp/v)/")
REGISTRY = re.compile(r"https?://[^ \"']*(/simple/|/packages/[0-9a-f]{2}/)|files\.pythonhosted|pypi\.org/simple")

#: A process, peer or message is no person: these words hide what is meant. Others, such as "who", may mean a user.
PERSON = re.compile(r"\b(nobody|somebody|everybody|anybody|whoever)\b", re.IGNORECASE)
NAMED = re.compile(
    r"(README|CONTRIBUTING|SECURITY)\.md|(docs|deploy|tools|benchmarks|demo)/|packages/[^/]+/src/|protocol/(schema|spec|src)/"
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {relative(path): path.read_text(encoding="utf-8") for path in tracked(*TEXT) if path != HERE}


def lines_with(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("pattern", [PROMISE, MACHINE, REGISTRY], ids=["promise", "machine path", "registry"])
def test_no_tracked_file_holds(pattern: re.Pattern[str], texts: dict[str, str]) -> None:
    wrong = lines_with(pattern, texts)
    assert not wrong, "\n".join(wrong)


def test_processes_and_messages_are_no_persons(texts: dict[str, str]) -> None:
    wrong = lines_with(PERSON, {name: text for name, text in texts.items() if NAMED.match(name)})
    assert not wrong, "name the process, peer, thread or message:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        (PROMISE, ("# TODO", " later")),
        (MACHINE, ("open('", "/home", "/ada/x')")),
        (REGISTRY, ("https://example.org", "/simple", "/zmq/")),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], pieces: tuple[str, ...]) -> None:
    """In pieces, so that whoever searches all files for such lines finds none here."""
    assert pattern.search("".join(pieces))


def test_a_promise_with_an_address_is_fine() -> None:
    assert not PROMISE.search("# TODO(#12): spill to disk") and not PROMISE.search("# TODO(TASK-9)")


def test_no_tracked_file_is_large() -> None:
    large = [relative(path) for path in tracked() if path.stat().st_size > 1 << 20]
    assert not large


def test_the_root_is_a_repository() -> None:
    assert (ROOT / "VERSION").read_text(encoding="utf-8").strip().count(".") == 2
