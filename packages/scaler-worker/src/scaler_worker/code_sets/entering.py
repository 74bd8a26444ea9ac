"""A processor begins to import from the code set of its tasks, for its life. (WRK-50, WRK-51, WRK-53)"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from scaler_protocol.code_set import CodeSet, CodeSetError, pack, unpack
from scaler_protocol.codes import CODE_SET_REFUSED, STORAGE_UNREACHABLE
from scaler_protocol.ids import USER_BYTES, ObjectId, Owner, content_id
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Buffer
from scaler_protocol.running import errors
from scaler_protocol.running.errors import TaskFailed
from scaler_worker.code_sets.environments import Environments, Tell
from scaler_worker.code_sets.folders import FolderError, Folders, make_private, root_of
from scaler_worker.code_sets.options import CodeOptions

UNPACK_SECONDS = 120.0
"""How long a processor waits for another one that unpacks the same code set."""

_FILES = "files"
_REQUIREMENTS = "requirements.txt"
_OURS = frozenset(
    ("scaler", "scaler_protocol", "scaler_scheduler", "scaler_storage", "scaler_worker", "capnp", "cloudpickle", "zmq")
)
"""Loaded in every processor, which cannot do with others of these names; nor with another standard library."""

Fetch = Callable[[ObjectId, Owner, str], Buffer]


class CodeSets:
    """What one processor imports from. It enters one code set, or none, for its life.

    Directories are shared by the programs of one user. `shown` tells of which cluster: another cluster has another user
    of this name. (WRK-68)"""

    def __init__(self, options: CodeOptions, shown: Pass | None = None) -> None:
        self._root = root_of(options.directory)
        self._folders = Folders(self._root / "code", options.code_bytes)
        self._environments = Environments(self._root, options)
        self._entered = ObjectId(b"")
        self._cluster = b"" if shown is None else shown.server_keys[0]

    def enter(self, code_set: ObjectId, owner: Owner, fetch: Fetch, tell: Tell = lambda text: None) -> None:
        """TaskFailed if it cannot be. What fails before the last lines has changed nothing here. `tell` gets what the
        client is shown meanwhile."""
        if code_set == self._entered:
            return
        assert not self._entered, "a processor has tasks of one group"
        content = fetch(code_set, owner, "the code of the task")
        if content_id(bytes(content)) != code_set:
            raise errors.other_content("the code of the task", code_set)
        try:
            files, requirements = unpack(content)
        except CodeSetError as error:
            raise TaskFailed(CODE_SET_REFUSED, f"the code of the task is refused: {error}") from None
        sharers = _name_of(self._cluster + owner.family[:USER_BYTES])
        found = []
        if files:
            found.append(self._unpacked(f"{sharers}-{code_set.hex()}", code_set, CodeSet(files, requirements)))
        if requirements:
            found.append(self._environments.use(sharers, requirements, tell))
        _import_from(found, {path.partition("/")[0].partition(".")[0] for path in files})
        self._entered = code_set

    def _unpacked(self, key: str, code_set: ObjectId, content: CodeSet) -> Path:
        def make(directory: Path) -> None:
            _write(directory, content)

        def is_whole(directory: Path) -> bool:
            return directory.is_dir() and content_id(_packed(directory)) == code_set

        try:
            make_private(self._root)
            return self._folders.use(key, make, is_whole, UNPACK_SECONDS) / _FILES
        except FolderError as error:
            raise TaskFailed(CODE_SET_REFUSED, f"the code of the task is refused: {error}") from error
        except OSError as error:
            # Of this host, and not of the code: the task goes to another one (SCH-43).
            text = f"the code of the task cannot be unpacked on this worker: {error}"
            raise TaskFailed(STORAGE_UNREACHABLE, text) from error


def _name_of(sharers: bytes) -> str:
    return hashlib.blake2b(sharers, digest_size=8).hexdigest()


def _write(directory: Path, content: CodeSet) -> None:
    """Plain files that nothing writes again. The names have been checked: none leads out of the directory."""
    root = directory / _FILES
    directories = {root}
    for path, data in content.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        directories.update(parent for parent in target.parents if root in parent.parents)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400), "wb") as file:
            file.write(data)
    (directory / _REQUIREMENTS).write_text(content.requirements, encoding="utf-8")
    for one in sorted(directories, reverse=True):
        one.chmod(0o500)


def _packed(directory: Path) -> bytes:
    """What is there, as a code set: equal to the one that was unpacked, unless something has changed it."""
    root = directory / _FILES
    files: dict[str, bytes] = {}
    try:
        for path, _, names in os.walk(root):
            for name in names:
                file = Path(path, name)
                with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
                    files[file.relative_to(root).as_posix()] = opened.read()
        return pack(CodeSet(files, (directory / _REQUIREMENTS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return b""  # links, or names that no code set has


def _import_from(directories: list[Path], names: set[str]) -> None:
    """From now on. What has been imported under one of these names, by `--preload`, is imported anew."""
    loaded = sorted(names & (_OURS | (sys.stdlib_module_names & sys.modules.keys())))
    if loaded:
        raise TaskFailed(
            CODE_SET_REFUSED,
            f"the code of the task has a module {loaded[0]!r}, and another module of this name is loaded in every "
            "process of a worker: rename it",
        )
    for name in [one for one in sys.modules if one.partition(".")[0] in names]:
        del sys.modules[name]
    sys.path[:0] = map(str, directories)
    # What tasks import writes no bytecode into directories that are compared with their content.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    importlib.invalidate_caches()
    errors.hidden_prefixes = tuple(f"{directory}{os.sep}" for directory in directories)
