"""Key files on disk: read only if no other user can have read or written them, and made so that none can. (SEC-7)"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from typing import NamedTuple

from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.texts import REVOKED_BYTES_MAX, TEXT_BYTES_MAX

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
#: To open a FIFO without a writer would otherwise block; so it is opened at once, and then found to be no file.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


class Kind(NamedTuple):
    """How a kind of file is checked, and how the errors about it go on."""

    name: str
    bytes_max: int
    forbidden_mode: int
    """Bits of the mode with which the file is refused."""
    opened: str
    """The word for what those bits let other users do."""
    cure: str
    in_directory: str
    instead: str


KEY_FILE = Kind(
    "key file", TEXT_BYTES_MAX, 0o077, "read or written",
    "if none of them has had a look, run `{}`; else make a new key", "name the key file in it", "name a key file",
)  # fmt: skip
#: No secret, so that others may read it.
TICKET_LIST = Kind(
    "list of tickets", REVOKED_BYTES_MAX, 0o022, "written",
    "check what it holds and run `{}`", "move it away", "move it away",
)  # fmt: skip


def read_file(path: str, kind: Kind = KEY_FILE) -> bytes:
    """The content of the file. FileNotFoundError when there is none; KeyFileError when it may not be used; OSError when
    no descriptor is left.

    Everything is asked of the opened descriptor: what a path names can change between two looks.
    """
    if not _NO_LINK and os.path.islink(path):
        raise _is_a_link(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | _BINARY | _NO_LINK | _NO_WAIT)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        if error.errno in (errno.ELOOP, errno.EMLINK) and os.path.islink(path):
            raise _is_a_link(path) from None
        if os.path.isdir(path):  # Windows opens no directories
            raise KeyFileError(f"{path} is a directory: {kind.in_directory}") from None
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    try:
        _check(path, os.fstat(descriptor), kind)
        _check_list(path, descriptor, kind)
        return _content(path, descriptor, kind.bytes_max)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int) -> bytes:
    """What a parent has written into a pipe for us, up to its end; the descriptor is closed."""
    with open(descriptor, "rb", buffering=0) as pipe:
        content = b""
        while len(content) <= TEXT_BYTES_MAX:
            portion = pipe.read(TEXT_BYTES_MAX + 1 - len(content))
            if not portion:
                break
            content += portion
        return content


def make_file(path: str, content: bytes) -> bool:
    """Write a new file, whole or not at all. False when there is a file, link or directory of that name already."""
    temporary = _temporary(path, content)
    try:
        _name(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise KeyFileError(f"{path} cannot be made: {error.strerror}") from None
    finally:
        _remove(temporary)
    return True


def replace_file(path: str, content: bytes) -> None:
    """Write a file in place of the one that is there, if any: a reader sees the old one or the new one."""
    temporary = _temporary(path, content)
    try:
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None


def make_directory(path: str) -> None:
    """With the directories above it, if it is not there."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mkdir(path, PRIVATE_DIRECTORY)
        except FileExistsError:
            pass
    except OSError as error:
        raise KeyFileError(f"the directory {path} cannot be made: {error.strerror}") from None


def is_private_directory(path: str) -> bool:
    """Whether this is a directory, no link to one, into which this user alone can write and look."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if hasattr(os, "geteuid"):
        return found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return True  # Windows: below the user's profile, which others cannot read


def _check(path: str, found: os.stat_result, kind: Kind) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise KeyFileError(f"{path} is a directory: {kind.in_directory}")
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{path} is not a regular file: {kind.instead}")
    if hasattr(os, "geteuid"):  # Windows has neither, but a list
        if found.st_uid != os.geteuid():
            raise KeyFileError(
                f"{path} belongs to another user (uid {found.st_uid}): copy it, so that it is this account's own"
            )
        if found.st_mode & kind.forbidden_mode:
            raise KeyFileError(
                f"{path} can be {kind.opened} by other users (mode {stat.S_IMODE(found.st_mode):04o}): "
                + kind.cure.format(f"chmod 600 {path}")
            )
    if found.st_size > kind.bytes_max:
        raise KeyFileError(f"{path} is larger than {kind.bytes_max} bytes: it is no {kind.name}")


def _check_list(path: str, descriptor: int, kind: Kind) -> None:
    """What owner and mode are elsewhere, is a list on Windows."""
    if sys.platform == "win32":
        from scaler_protocol.keys import acl

        try:
            others = acl.others(descriptor)
        except OSError as error:
            raise KeyFileError(f"{path} cannot be used: Windows does not tell who can read it: {error}") from None
        if others:
            raise KeyFileError(
                f"{path} can be read or written by other users ({', '.join(others)}): "
                + kind.cure.format(f'icacls "{path}" /inheritance:r /grant:r "{account_name()}:F"')
            )


def _content(path: str, descriptor: int, bytes_max: int) -> bytes:
    content = b""
    try:
        # Bounded by what is read, not by the size it had: it may be growing.
        while portion := os.read(descriptor, bytes_max + 1 - len(content)):
            content += portion
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    return content


def _temporary(path: str, content: bytes) -> str:
    """A new file beside the path with this content, on the disk."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK, PRIVATE_FILE)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be made: {error.strerror}") from None
    try:
        with open(descriptor, "wb", buffering=0) as file:
            if sys.platform == "win32":
                from scaler_protocol.keys import acl

                acl.keep_private(temporary)
            if hasattr(os, "geteuid") and os.fstat(descriptor).st_mode & 0o077:
                # Such a file would be refused when it is read, and chmod does not help there.
                raise OSError(errno.EPERM, "its file system keeps no file from other users; choose another directory")
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) or 0 :]
            os.fsync(descriptor)
    except OSError as error:
        _remove(temporary)
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None
    return temporary


def _name(temporary: str, path: str) -> None:
    """Give the finished file its name, which exactly one of several processes succeeds in."""
    if os.name == "nt":
        os.rename(temporary, path)  # fails there when the name is taken
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here. The name is taken first, by an empty file, which readers wait to see replaced.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK, PRIVATE_FILE))
        os.replace(temporary, path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it was renamed, or its directory is gone


def _is_a_link(path: str) -> KeyFileError:
    return KeyFileError(f"{path} is a symbolic link: name the file itself, so that no other can be put in its place")
