"""Code sets: the files that a client's tasks import, and the packages they require, as one object. (WRK-51)

A code set is

    b"\\xffCS1"   u32 files   u32 requirements   (u32 path, u32 content) x files   requirements   paths   contents

where `requirements` and each `path` and `content` of the table are sizes in bytes. Nothing in it is compressed and
nothing in it can be a link, so what it becomes on disk is known from its own size: no small object makes a large
directory. Equal files make equal bytes, whatever their times and the order in which they were found: the paths are
sorted.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from scaler_protocol.messages import Buffer

MAGIC = b"\xffCS1"
MOST_FILES = 20_000
MOST_BYTES = 256 * 1024 * 1024
"""Of all files of one code set. Data belongs into objects, not into code."""
MOST_DEPTH = 32
MOST_PATH_BYTES = 1024
MOST_NAME_BYTES = 240
"""File systems take 255 bytes for one name."""
MOST_REQUIREMENTS_BYTES = 1024 * 1024

_HEAD = Struct("<4sII")
_ROW = Struct("<II")
_NOT_IN_NAMES = frozenset(map(chr, range(32))) | frozenset("\\:\x7f")


class CodeSetError(ValueError):
    """These files, or these bytes, are no code set: the text says why."""


class CodeSet(NamedTuple):
    files: Mapping[str, Buffer]  #: by path, with "/" between its parts
    requirements: str = ""  #: as pip reads them, a line for each; empty: none


def pack(code_set: CodeSet) -> bytes:
    """CodeSetError for what no worker would take."""
    paths = sorted(code_set.files, key=str.encode)
    _check(paths, [len(code_set.files[path]) for path in paths])
    requirements = code_set.requirements.encode()
    if len(requirements) > MOST_REQUIREMENTS_BYTES:
        raise CodeSetError(f"the requirements have {len(requirements):,} bytes, more than {MOST_REQUIREMENTS_BYTES:,}")
    names = [path.encode() for path in paths]
    rows = [_ROW.pack(len(name), len(code_set.files[path])) for name, path in zip(names, paths, strict=True)]
    contents = [code_set.files[path] for path in paths]
    return b"".join([_HEAD.pack(MAGIC, len(paths), len(requirements)), *rows, requirements, *names, *contents])


def unpack(data: Buffer) -> CodeSet:
    """CodeSetError for anything that `pack` has not made. The bounds are checked before anything is copied."""
    view = memoryview(data)
    try:
        magic, count, requirements_bytes = _HEAD.unpack_from(view)
        if magic != MAGIC:
            raise CodeSetError("it does not begin as a code set does")
        if count > MOST_FILES or requirements_bytes > MOST_REQUIREMENTS_BYTES:
            raise CodeSetError(
                f"it has {count:,} files and {requirements_bytes:,} bytes of requirements, which is too many"
            )
        table = Struct(f"<{2 * count}I").unpack_from(view, _HEAD.size)
    except struct.error:
        raise CodeSetError("it is cut short") from None
    begin = _HEAD.size + _ROW.size * count
    whole = begin + requirements_bytes + sum(table)
    if whole != len(view):
        raise CodeSetError(f"it has {len(view):,} bytes and says that it has {whole:,}")
    try:
        requirements = str(view[begin : begin + requirements_bytes], "utf-8")
        paths, begin = _texts(view, begin + requirements_bytes, table[0::2])
    except UnicodeDecodeError:
        raise CodeSetError("its names are no UTF-8") from None
    if any(ahead.encode() >= path.encode() for ahead, path in pairwise(paths)):
        raise CodeSetError("its names are not sorted, or one stands there twice")
    _check(paths, table[1::2])
    files: dict[str, Buffer] = {}
    for path, size in zip(paths, table[1::2], strict=True):
        files[path] = view[begin : begin + size]
        begin += size
    return CodeSet(files, requirements)


def _texts(view: memoryview, begin: int, sizes: tuple[int, ...]) -> tuple[list[str], int]:
    texts = []
    for size in sizes:
        if size > MOST_PATH_BYTES:
            raise CodeSetError(f"the path of a file has {size:,} bytes, more than {MOST_PATH_BYTES:,}")
        texts.append(str(view[begin : begin + size], "utf-8"))
        begin += size
    return texts, begin


def _check(paths: list[str], sizes: list[int] | tuple[int, ...]) -> None:
    """The bounds of WRK-51, with what to do."""
    if len(paths) > MOST_FILES:
        raise CodeSetError(f"{len(paths):,} files are more than {MOST_FILES:,}: send fewer directories")
    if sum(sizes) > MOST_BYTES:
        size, path = max(zip(sizes, paths, strict=True))
        raise CodeSetError(
            f"the files have {sum(sizes):,} bytes together, more than {MOST_BYTES:,}: the largest is {path!r} with "
            f"{size:,}. Send data with send_object(), not as code"
        )
    names: dict[str, str] = {}
    for path in paths:
        check_path(path)
        # On some file systems names that differ in case or in their composition are one.
        other = names.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            raise CodeSetError(f"{other!r} and {path!r} would be one file on some file systems: rename one of them")
    directories = {path[:end] for path in paths for end in _slashes(path)}
    for path in paths:
        if path in directories:
            raise CodeSetError(f"{path!r} is a file and a directory")


def _slashes(path: str) -> list[int]:
    return [index for index, character in enumerate(path) if character == "/"]


def check_path(path: str) -> None:
    """CodeSetError for a path that could leave its directory, or that not every file system has."""
    parts = path.split("/")
    if len(path.encode("utf-8", "replace")) > MOST_PATH_BYTES or len(parts) > MOST_DEPTH:
        raise CodeSetError(f"the path {path[:80]!r} is too long, or has more than {MOST_DEPTH} parts")
    for part in parts:
        if part in ("", ".", ".."):
            raise CodeSetError(
                f"the path {path!r} would leave its directory: it must be relative, without empty parts, . or .."
            )
        if not _NOT_IN_NAMES.isdisjoint(part) or len(part.encode("utf-8", "replace")) > MOST_NAME_BYTES:
            raise CodeSetError(f"the name {part[:80]!r} cannot be a file everywhere: rename it")
