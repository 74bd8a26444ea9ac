"""Exceptions that travel: what comes out is what went in, whatever its class does in `__init__`. (VAL-7)"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from scaler_protocol import values
from scaler_protocol.raised import CHAIN_LENGTH, portable


class Worded(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


class Wanting(ValueError):
    def __init__(self, *, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name, self.why = name, why


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class Numbered(OSError):
    def __init__(self, name: str) -> None:
        super().__init__(2, "no file", name)


class Decoding(UnicodeDecodeError):
    def __init__(self, data: bytes) -> None:
        super().__init__("utf-8", data, 0, 1, "bad byte")


class Made(Exception):
    def __new__(cls, code: int) -> Made:
        self = super().__new__(cls, f"made {code}")
        self.code = code
        return self

    def __init__(self, code: int) -> None:
        pass


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Reducing(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return Reducing, (self.code,)


def copied(error: BaseException) -> Any:
    return values.loads(b"".join(values.dumps(portable(error))))


EVERY = (
    Worded(404), Wanting(name="a", why="b"), Slotted(3), Numbered("a.txt"), Decoding(b"\xff"), Made(3), Frozen(3),
    Reducing(404), OSError(2, "no file", "a.txt"), KeyError("k"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ImportError("no", name="n", path="p"), SystemExit(3), SyntaxError("no", ("f", 1, 2, "text")), StopIteration(3),
)  # fmt: skip


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_what_comes_out_is_what_went_in(error: BaseException) -> None:
    copy = copied(error)
    assert type(copy) is type(error)
    assert (copy.args, str(copy), repr(copy), vars(copy)) == (error.args, str(error), repr(error), vars(error))
    names = ("code", "name", "why", "errno", "filename", "object", "reason", "path", "value", "lineno")
    for name in names:
        assert getattr(copy, name, None) == getattr(error, name, None)


def chained(error: Any, cause: BaseException, note: str) -> Any:
    error.__cause__ = cause
    error.__notes__ = [note]  # type: ignore[attr-defined]  # as add_note does, which Python 3.10 has not
    return error


@pytest.mark.parametrize("make", [ValueError, Worded])
def test_cause_and_notes_come_along(make: type[Exception]) -> None:
    copy = copied(chained(make(1), chained(Worded(2), KeyError("k"), "second"), "first"))
    assert type(copy) is make and copy.__notes__ == ["first"]
    assert str(copy.__cause__) == "status 2" and copy.__cause__.__notes__ == ["second"]
    assert type(copy.__cause__.__cause__) is KeyError


@pytest.mark.parametrize("make", [ValueError, Worded])
def test_a_circle_of_causes_stays_one(make: type[Exception]) -> None:
    error, other = make(1), Worded(2)
    error.__cause__, other.__cause__ = other, error
    copy = copied(error)
    assert type(copy) is make and copy.__cause__.code == 2 and copy.__cause__.__cause__ is copy


def test_a_chain_is_cut() -> None:
    error = Worded(0)
    for code in range(1, 3 * CHAIN_LENGTH):
        error = chained(Worded(code), error, "")
    copy, length = copied(error), 0
    while copy is not None:
        copy, length = copy.__cause__, length + 1
    assert length == CHAIN_LENGTH + 1


if sys.version_info >= (3, 11):
    from builtins import ExceptionGroup  # newer than the oldest Python that ruff is told of

    class Exits(ExceptionGroup[Exception]):
        def __new__(cls, errors: list[Exception], code: int) -> Exits:
            self = super().__new__(cls, f"exit code {code}", errors)
            self.code = code
            return self

        def __init__(self, errors: list[Exception], code: int) -> None:
            pass

    def test_members_of_a_group_keep_what_belongs_to_them() -> None:
        cause = Worded(1)
        members = [chained(Worded(number), cause, f"note {number}") for number in range(200)]
        deeper = Exits([chained(OSError(2, "no", "a.txt"), KeyError("k"), "deep")], 3)
        copy = copied(chained(ExceptionGroup("several", [*members, deeper]), cause, "of the group"))
        assert type(copy) is ExceptionGroup and copy.message == "several" and len(copy.exceptions) == 201
        assert copy.__notes__ == ["of the group"]
        for number, member in enumerate(copy.exceptions[:-1]):
            assert (str(member), member.__notes__) == (f"status {number}", [f"note {number}"])
            assert member.__cause__ is copy.exceptions[0].__cause__ and str(member.__cause__) == "status 1"
        (last,) = copy.exceptions[-1].exceptions
        assert type(copy.exceptions[-1]) is Exits and copy.exceptions[-1].code == 3
        assert (last.errno, last.filename, last.__notes__, type(last.__cause__)) == (2, "a.txt", ["deep"], KeyError)

    def test_groups_within_groups_end_somewhere() -> None:
        error: Exception = ValueError("innermost")
        for depth in range(3 * CHAIN_LENGTH):
            error = ExceptionGroup(str(depth), [error, error])
        copy, data = copied(error), pickle.dumps(portable(error))
        assert len(data) < 20_000
        for depth in reversed(range(3 * CHAIN_LENGTH)):
            assert copy.message == str(depth)
            copy = copy.exceptions[1]
        assert str(copy) == "innermost"
