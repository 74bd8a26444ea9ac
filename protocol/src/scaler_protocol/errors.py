"""What users of the library may catch. Each message is a sentence that says what happened and what to do.

`ScalerError` is the base of all of them: `except ScalerError` never catches a mistake of Python's own.
"""

from __future__ import annotations

import re

from scaler_protocol import codes

TEXT_CHARACTERS = 1_000
# Control characters (C0, DEL, C1), what ends a line elsewhere (U+2028 and U+2029), what turns the direction of writing
# or is not seen at all, and halves of surrogate pairs. A tab is harmless.
_UNSAFE = "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"


def escaped(text: str) -> str:
    """The text on one line, and without anything that a terminal obeys."""
    return re.sub(_UNSAFE, _escape, text)


def readable(text: str, most: int = TEXT_CHARACTERS) -> str:
    """What another process calls itself, or says in a message, fit for a log, a terminal, and the text of an error."""
    return escaped(text[:most])


_PLAIN = "\x1b[0m"
_COLOR = "\x1b\\[[0-9;:]*m"


def escaped_lines(text: str) -> str:
    """Returns the lines without anything that a terminal obeys but colours, which end with their line. What joins
    letters stays, and a line may end as on Windows."""
    return "\n".join(map(_escaped_line, text.split("\n")))


def _escaped_line(line: str) -> str:
    found = re.sub(f"({_COLOR}|[\u200c\u200d]|\r$)|{_UNSAFE}", lambda match: match[1] or _escape(match), line)
    return found + _PLAIN if re.search(_COLOR, found) and not found.endswith(_PLAIN) else found


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class ScalerError(Exception):
    """The base of every error that Scaler raises on purpose."""


class TooManyOpenFilesError(ScalerError, OSError):
    """This process has no descriptor left for another file or socket."""


class QuotaError(ScalerError):
    """The user of this program has as much as each user may have: unfinished tasks, bytes of their arguments, or bytes
    in the object storage. The message says how much and which option sets that."""


class ObjectStorageException(ScalerError):
    """The object storage cannot be reached, is full, or refused."""


class StorageError(ObjectStorageException):
    """The object storage refused a request. `code` is the protocol's error code (spec chapter 11)."""

    def __init__(self, text: str, code: int = codes.OK) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, int]]:
        return type(self), (str(self), self.code)


class ObjectNotFound(StorageError, LookupError):
    """No such object, and none came into being within the time that was allowed."""


class OwnerGone(StorageError):
    """The client that would own this object has left the cluster, or was lost: nothing more is stored for it."""


class StorageFull(StorageError):
    """The object storage is at its memory limit."""


class StorageQuota(StorageError, QuotaError):
    """The user of the object has as many bytes in the object storage as each user may have."""


class StorageUnavailable(StorageError):
    """No object storage answered in time, or it refused to talk to this peer."""


_BY_CODE: dict[int, type[StorageError]] = {
    codes.NO_SUCH_OBJECT: ObjectNotFound,
    codes.OWNER_GONE: OwnerGone,
    codes.STORAGE_FULL: StorageFull,
    codes.QUOTA: StorageQuota,
}


def storage_error(code: int, text: str) -> StorageError:
    """The error to raise for a reply with this code; unknown codes become a plain StorageError. (EVO-4)"""
    return _BY_CODE.get(code, StorageError)(text, code)
