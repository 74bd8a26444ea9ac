"""Python interpreters on this machine, one of each version that Scaler supports: `python -m tools.pythons`.

With `--get` it first unpacks those that are missing, and that Debian's archive has, into build/pythons: beside the
system and without changing it. Interpreters are found on the PATH, where pyenv and uv keep theirs, in build/pythons,
and in the variable SCALER_PYTHONS (paths, separated as in PATH).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).resolve().parents[1] / "build" / "pythons"
OLDEST, NEWEST = 10, 14
#: All that Scaler is tested with where they can be had. A free-threaded one is refused when Scaler is imported.
SUPPORTED = tuple(f"3.{minor}" for minor in range(OLDEST, NEWEST + 1))
#: What Debian's archive has in `unstable`: the two newest, as a rule.
IN_THE_ARCHIVE = SUPPORTED[-2:]

_PROBE = """
import json, sys, sysconfig
print(json.dumps([list(sys.version_info[:3]), bool(sysconfig.get_config_var("Py_GIL_DISABLED"))]))
"""
_FOLDERS = ("~/.pyenv/versions/*", "~/.local/share/uv/python/*", "/opt/python/*", "/usr/local", "/usr")
_PROBE_SECONDS = 20
_FETCH_SECONDS = 300


@dataclass(frozen=True)
class Interpreter:
    """`name`: 3.10; or 3.14t for one without the GIL, which is of no supported version."""

    name: str
    path: Path
    version: tuple[int, ...]


def found() -> dict[str, Interpreter]:
    """The newest patch of each supported version, the oldest version first."""
    best: dict[str, Interpreter] = {}
    for path in _candidates():
        interpreter = probe(path)
        if interpreter is None or interpreter.name not in SUPPORTED:
            continue
        if interpreter.name not in best or best[interpreter.name].version < interpreter.version:
            best[interpreter.name] = interpreter
    return {name: best[name] for name in SUPPORTED if name in best}


def chosen(which: str) -> dict[str, Interpreter | str]:
    """Each supported version, or why it is left out. `which`: `all`; `ends`, the oldest and the newest that can be had;
    or `own`, the one that runs this. What is missing and wanted is got."""
    wanted = {"all": SUPPORTED, "ends": SUPPORTED[-1:], "own": ()}[which]
    said = {name: get(name) for name in wanted}
    there = found()
    own = f"3.{sys.version_info[1]}"
    taken = {"all": list(there), "ends": [*there][:1] + [*there][-1:], "own": [own]}[which]
    left_out: dict[str, Interpreter | str] = {
        name: f"not asked for: only {which}"
        if name in there
        else said.get(name, f"Python {name} is not on this machine")
        for name in SUPPORTED
    }
    return left_out | {name: there[name] for name in taken}


def probe(path: Path) -> Interpreter | None:
    """What that interpreter is; None for a file that is none, or one that does not start (a shim without a version)."""
    try:
        # Isolated: what the environment and this folder hold for another version must not stop it.
        ended = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS)
        version, is_free_threaded = json.loads(ended.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Interpreter(f"{version[0]}.{version[1]}" + "t" * is_free_threaded, path, tuple(version))


def _candidates() -> Iterator[Path]:
    yield from (Path(named) for named in os.environ.get("SCALER_PYTHONS", "").split(os.pathsep) if named)
    yield Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    names = [f"python{name}" for name in SUPPORTED]
    yield from (Path(path) for path in map(shutil.which, names) if path)
    for pattern in _FOLDERS:
        expanded = Path(pattern).expanduser()
        for folder in sorted(expanded.parent.glob(expanded.name)):
            yield from (folder / "bin" / name for name in names if (folder / "bin" / name).exists())
    yield from PLACE.glob("debian-*/usr/bin/python3.??")


# --------------------------------------------------------------------------------------------------- Debian's archive


def get(name: str) -> str:
    """Have this version, from Debian's archive if need be. What was done or why not, as a sentence."""
    if name in found():
        return f"Python {name} is there"
    if name not in IN_THE_ARCHIVE:
        return f"Python {name} is not there, and it is not known where to get it"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return f"Python {name} is not there, and only on Debian is it known where to get it"
    place = PLACE / f"debian-{name}"
    shutil.rmtree(place, ignore_errors=True)
    try:
        _unpack(_download(PLACE / "archive", f"python{name}"), place)
        _make_relocated(place, name)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        shutil.rmtree(place, ignore_errors=True)
        words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return f"Python {name} could not be had from Debian's archive: {words[-1] if words else repr(error)}"
    interpreter = probe(place / "usr" / "bin" / f"python{name}")
    return f"Python {name} of Debian's archive does not start here" if interpreter is None else f"got Python {name}"


def _download(place: Path, package: str) -> list[Path]:
    """The package with all that it needs down to the C library, as apt resolves it for an empty system."""
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (place / folder).mkdir(parents=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (place / "sources.list").write_text(f"deb [signed-by={keys}] {archive()} unstable main\n", encoding="utf-8")
    (place / "status").touch()
    settings = {
        "Dir::Etc::sourcelist": place / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": place / "lists",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
        "Acquire::Languages": "none",
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
    }
    options = [word for key, value in settings.items() for word in ("--option", f"{key}={value}")]
    _run("apt-get", *options, "--quiet", "--quiet", "update")
    # libstdc++6: extension modules in wheels are linked to it.
    _run("apt-get", *options, "--quiet", "--yes", "--download-only", "install", package, "libstdc++6")
    return sorted((place / "cache" / "archives").glob("*.deb"))


def archive() -> str:
    """Where this system gets its own packages, which is reachable and near."""
    asked = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
    listed = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", *asked).split()
    if not listed:
        raise OSError("this system is no Debian, or `apt-get update` has never run")
    return listed[0]


def _unpack(packages: list[Path], place: Path) -> None:
    place.mkdir(parents=True)
    for package in packages:
        _run("dpkg-deb", "--extract", str(package), str(place))


def _make_relocated(place: Path, name: str) -> None:
    """It runs with the C library it was made for, not with this system's."""
    (loader,) = place.glob("usr/lib*/ld-linux-*.so.?")
    (c_library,) = place.glob("usr/lib/*/libc.so.6")
    program = place / "usr" / "bin" / f"python{name}"
    itself = program.with_name(f"{program.name}-itself")
    program.rename(itself)
    # Its name stays that of the script, by which it finds its library and virtual environments.
    program.write_text(f'#!/bin/sh\nexec "{loader}" --library-path "{c_library.parent}" --argv0 "$0" "{itself}" "$@"\n')
    program.chmod(0o755)


def _run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=True)
    return ended.stdout


def main() -> int:
    if "--get" in sys.argv[1:]:
        for name in SUPPORTED:
            print(get(name))
    for name, interpreter in found().items():
        print(f"{name:6} {'.'.join(map(str, interpreter.version)):8} {interpreter.path}")
    missing = [name for name in SUPPORTED if name not in found()]
    if missing:
        print(f"not on this machine: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
