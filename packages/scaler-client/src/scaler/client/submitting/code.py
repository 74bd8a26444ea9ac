"""From the files of a program to a code set: what `Client(code=..., requirements=...)` sends. (CLI-24, WRK-51)"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISLNK, S_ISREG
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from scaler.utility.exceptions import RejectedError
from scaler_protocol.code_set import MOST_BYTES, MOST_FILES, CodeSet, CodeSetError, check_path, pack

if TYPE_CHECKING:
    from scaler.client.io.connection import Connection
    from scaler.client.objects.functions import StoredFunction

CodeSource: TypeAlias = str | os.PathLike[str] | ModuleType
Requirements: TypeAlias = str | os.PathLike[str] | Iterable[str]

FEATURE_CODE_SETS = "code-sets"

_LEFT_OUT = frozenset(("__pycache__", "node_modules"))
_LEFT_OUT_ENDS = (".pyc", ".pyo")
_ARCHIVES = (".zip", ".whl")
_LOCK_SECONDS = 120.0
_NOT_ON_WORKERS = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
#: A path, also as Windows writes it, or the address of a file.
_LOCAL = re.compile(r"[./~]|[A-Za-z]:[\\/]|\\\\|(?:\S+\s*@\s*)?file:", re.IGNORECASE)


def code_set_of(code: CodeSource | Iterable[CodeSource] | None, requirements: Requirements | None) -> bytes:
    """As it is stored; empty when there is nothing in it. Reads the files as they are now. OSError, and ValueError that
    says what to do."""
    files: dict[str, bytes] = {}
    size = 0
    for source in _sources(code):
        for path, content in _files_of(source):
            if files.setdefault(path, content) != content:
                raise ValueError(f"two of the files in code= would be {path!r} on the workers: rename one of them")
            size += len(content)
            if len(files) > MOST_FILES or size > MOST_BYTES:
                raise ValueError(
                    f"code= has more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB, of which {source} is a part: "
                    "name the packages themselves, and send data with send_object()"
                )
    lines = requirements_of(requirements)
    if not files and not lines:
        return b""
    try:
        return pack(CodeSet(files, lines))
    except CodeSetError as error:
        raise ValueError(f"code= cannot be sent: {error}") from None


def stored_code_set(connection: Connection, content: bytes) -> StoredFunction | None:
    """What calls name as theirs. Empty content: nothing."""
    if not content:
        return None
    assert connection.welcome is not None, "a connection is given out when it is open"
    if FEATURE_CODE_SETS not in connection.welcome.features:
        raise RejectedError(
            f"the scheduler at {connection.address} is of an earlier version, which sends no code to workers: upgrade "
            "it, or leave out code= and requirements="
        )
    stored, _ = connection.storage.functions.put([content], has_code=False)
    return stored


def _sources(code: CodeSource | Iterable[CodeSource] | None) -> list[CodeSource]:
    if code is None:
        return []
    if isinstance(code, str | os.PathLike | ModuleType):
        return [code]
    return list(code)


def _files_of(source: CodeSource) -> Iterator[tuple[str, bytes]]:
    """By their paths on the workers."""
    path = _path_of(source)
    if path.is_dir():
        # A package is imported by its name; of any other directory, what is in it.
        head = f"{path.resolve().name}/" if (path / "__init__.py").is_file() else ""
        yield from _files_below(path, head, ())
    elif path.suffix.lower() in _ARCHIVES and path.is_file():
        yield from _files_in(path)
    elif path.is_file():
        yield path.name, path.read_bytes()
    else:
        raise FileNotFoundError(f"code= names {os.fspath(path)!r}, which is neither a file nor a directory")


def _path_of(source: CodeSource) -> Path:
    if not isinstance(source, ModuleType):
        return Path(source).expanduser()
    file = getattr(source, "__file__", None)
    if not file or not file.endswith(".py"):
        raise ValueError(f"module {source.__name__!r} has no source file: name its directory or its file in code=")
    if "." in source.__name__:
        raise ValueError(f"module {source.__name__!r} is in a package: name the package in code=")
    return Path(file).parent if os.path.basename(file) == "__init__.py" else Path(file)


def _files_below(directory: Path, head: str, above: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Links are followed, to where they lead on this machine; a directory that is inside itself is not entered."""
    real = os.path.realpath(directory)
    if real in above:
        return
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name in _LEFT_OUT or entry.name.endswith(_LEFT_OUT_ENDS):
            continue
        path = Path(entry.path)
        if entry.is_dir():
            if not (path / "pyvenv.cfg").exists():  # a virtual environment
                yield from _files_below(path, f"{head}{entry.name}/", (*above, real))
        elif entry.is_file():
            _check(path, f"{head}{entry.name}", entry.stat().st_size)
            yield f"{head}{entry.name}", path.read_bytes()


def _check(source: Path, path: str, size: int) -> None:
    """Before it is read."""
    if size > MOST_BYTES:
        raise ValueError(f"{os.fspath(source)!r} has {size:,} bytes, too many for code: send it with send_object()")
    try:
        check_path(path)
    except CodeSetError as error:
        raise ValueError(f"{os.fspath(source)!r} cannot be sent: {error}") from None


def _files_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Of a zip file or a wheel. It may come from anywhere: nothing is read that it does not declare."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise ValueError(f"{archive} has more than {MOST_FILES:,} files, or more than {MOST_BYTES >> 20} MiB")
            for entry in entries:
                mode = entry.external_attr >> 16
                if entry.is_dir() or S_ISDIR(mode):
                    continue
                if S_ISLNK(mode) or (mode >= 1 << 12 and not S_ISREG(mode)):
                    raise ValueError(f"{archive} has {entry.filename!r}, which is a link and not a file")
                _check(archive, entry.filename, entry.file_size)
                if not _LEFT_OUT.isdisjoint(PurePosixPath(entry.filename).parts):
                    continue
                with opened.open(entry) as file:
                    content = file.read(entry.file_size + 1)
                if len(content) != entry.file_size:
                    raise ValueError(f"{archive}: {entry.filename!r} has other bytes than the archive says")
                yield entry.filename, content
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"{archive} cannot be read: {error}") from error


# ---------------------------------------------------------------- packages


def requirements_of(requirements: Requirements | None) -> str:
    """A line for each, as pip reads them: of a list, a requirements file, or a `uv.lock`."""
    if requirements is None:
        return ""
    if isinstance(requirements, str | os.PathLike):
        path = Path(requirements).expanduser()
        if not path.is_file():
            raise FileNotFoundError(
                f"requirements= is {os.fspath(path)!r}, which is no file: name a requirements file or a uv.lock, or "
                "give the packages as a list"
            )
        text = _exported(path) if path.name == "uv.lock" else _text_of(path)
    else:
        text = "\n".join(requirements)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for line in lines:
        if line.split()[0].partition("=")[0] in _NOT_ON_WORKERS or _LOCAL.match(line.lstrip()):
            raise ValueError(
                f"the requirement {line.strip()!r} is of this machine, and workers do not have it: write out what it "
                "names, and send your own packages by code="
            )
    return "".join(f"{line}\n" for line in lines)


def _text_of(file: Path) -> str:
    """Of a requirements file: UTF-8, or what Windows' editors and shells write, which says its encoding in front."""
    content = file.read_bytes()
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise ValueError(f"{os.fspath(file)!r} is no text in UTF-8: save it in that encoding") from None


def _exported(lock: Path) -> str:
    """`uv.lock` is uv's own format."""
    uv = shutil.which("uv")
    if uv is None:
        raise ValueError(f"{lock} is read by uv, which is not installed here: write a requirements file instead")
    command = [uv, "export", "--frozen", "--no-dev", "--no-emit-project", "--format", "requirements-txt"]
    try:
        done = subprocess.run(
            command,
            cwd=lock.parent,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LOCK_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{lock} cannot be read: uv took longer than {_LOCK_SECONDS:g} s") from None
    if done.returncode:
        raise ValueError(f"{lock} cannot be read: uv said {done.stderr.strip()[-2000:]}")
    return done.stdout
