"""Each dist asks for what it imports, nothing more, and the commands the README promises exist."""

import os
import re
import subprocess
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.sources import OUR_PACKAGES, PARTS, ROOT, Part, imports, modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Where the name on the package index and the name in Python differ.
IMPORT_NAMES = {
    "pycapnp": "capnp",
    "pyzmq": "zmq",
    "python-graphblas": "graphblas",
    "opentelemetry-api": "opentelemetry",
}

#: What a worker runs belongs to the user: values may hold arrays, and numpy is then there because the user has it.
#: tomllib is in the standard library from Python 3.11 on; before, tomli stands in for it. soamapi comes with Symphony.
#: Type checkers bring typing_extensions with them; nothing else reads it. IPython is there where there is a notebook.
#: OpenTelemetry's API is used in tasks where the user has it.
NOT_OURS_TO_REQUIRE = {
    "numpy", "tomllib", "soamapi", "soamapiversion", "typing_extensions", "IPython", "opentelemetry"
}  # fmt: skip


def load(path: Path) -> dict[str, object]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def requirements(part: Part) -> tuple[set[str], set[str]]:
    """Import names that a dist needs always, and with one of its extras. No dist imports the libraries of examples."""
    hook = load(ROOT / part.folder / "hatch.toml")["metadata"]["hooks"]["custom"]  # type: ignore[index]
    always = {import_name(entry) for entry in hook["dependencies"]}
    extras = {extra: names for extra, names in hook.get("optional-dependencies", {}).items() if extra != "examples"}
    optional = {import_name(entry) for names in extras.values() for entry in names}
    if any("scaler-protocol[values]" in entry for entry in hook["dependencies"]):
        always.add("cloudpickle")
    return always, optional


def import_name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9_-]+", requirement).group()  # type: ignore[union-attr]
    return IMPORT_NAMES.get(name, "scaler" if name == "scaler-client" else name.replace("-", "_"))


@pytest.mark.parametrize("name", PARTS)
def test_a_dist_requires_what_it_imports(name: str) -> None:
    part = PARTS[name]
    always, optional = requirements(part)
    known = always | optional | {part.package} | NOT_OURS_TO_REQUIRE | sys.stdlib_module_names
    wrong = [str(found) for path in modules(part) for found in imports(path) if found.top not in known]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", PARTS)
def test_a_dist_imports_what_it_requires(name: str) -> None:
    part = PARTS[name]
    always, _ = requirements(part)
    used = {found.top for path in modules(part) for found in imports(path)}
    through_values = {"cloudpickle"} if "scaler_protocol" in used else set()
    assert always - used - through_values <= OUR_PACKAGES - {part.package}


def test_settings_live_at_the_root_only() -> None:
    for part in PARTS.values():
        assert set(load(ROOT / part.folder / "pyproject.toml")["tool"]) == {"hatch"}  # type: ignore[call-overload]


def test_every_requirement_is_pinned_for_development() -> None:
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines("constraints.txt") if "==" in line}
    asked = {re.match(r"[\w-]+", line).group().lower() for line in lines("requirements-dev.txt")}  # type: ignore[union-attr]
    for part in PARTS.values():
        hook = load(ROOT / part.folder / "hatch.toml")["metadata"]["hooks"]["custom"]  # type: ignore[index]
        entries = [*hook["dependencies"], *chain.from_iterable(hook.get("optional-dependencies", {}).values())]
        asked |= {re.match(r"[\w-]+", entry).group().lower() for entry in entries if not entry.startswith("scaler-")}  # type: ignore[union-attr]
    assert not asked - pinned


def lines(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["protocol", "client", "scheduler", "worker", "storage", "symphony"])
def test_a_part_says_its_own_version(name: str) -> None:
    """Not the version of the protocol's library, which may have been upgraded without the part."""
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert import_module(PARTS[name].package).__version__ == version
    borrowed = [path for path in modules(PARTS[name]) if "from scaler_protocol import __version__" in path.read_text()]
    assert name == "protocol" or not borrowed


@pytest.mark.parametrize("part", ["protocol", "client", "scheduler", "worker", "storage"])
def test_commands_are_there(part: str) -> None:
    scripts = load(ROOT / PARTS[part].folder / "pyproject.toml")["project"]["scripts"]  # type: ignore[index]
    assert scripts
    targets = [target.partition(":") for target in scripts.values()]
    program = "\n".join(f"import {module}; assert callable({module}.{name})" for module, _, name in targets)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def test_ci_calls_what_contributors_are_told() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    called = re.findall(r"^make .+$", script, flags=re.MULTILINE)
    assert called[-1] == "make test", "CI is read by its last line, which must be the summary of the tests"
    assert [command for command in called if command not in told] == []


def make(target: str) -> str:
    """Without what an outer make hands down: inside `make test` it would print which folder it enters."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", target]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return ended.stdout


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split()  # type: ignore[union-attr]
    assert {"setup", "demo", "test", "check", "bench", "simulate", "build", "help"} <= set(phony)
    shown = make("help")
    assert set(phony) == {line.split()[0] for line in shown.splitlines()[2:]}


def test_no_text_installs_the_project_that_has_the_name_scaler() -> None:
    """On the package index `scaler` is another project: ours are scaler-client, scaler-all and the roles."""
    places = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "changelog.d").glob("*.md")]
    for folder in ("docs", "packages", "protocol", "conformance", "deploy"):
        places += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".md", ".py", ".toml", ".yaml")]
    installs = re.compile(r"pip install (?:-\S+ )*[\"']?scaler(?![\w-])")
    wrong = [str(path) for path in places if installs.search(path.read_text(encoding="utf-8"))]
    # It is named once, so that its users are warned.
    assert wrong == [str(ROOT / "docs" / "quickstart.md")]


def test_contributing_names_every_target() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"\bmake ([a-z -]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(targets) > 15
    assert not set(targets) - {word for words in named for word in words.split()}
