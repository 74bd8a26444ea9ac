"""What to do about bytes that cannot be read, where it is known."""

from __future__ import annotations

import pickle

import pytest

from scaler_protocol.codec import decode_task_error
from scaler_protocol.running.errors import encode_exception
from scaler_protocol.unreadable import import_hint, reason_of


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ModuleNotFoundError("No module named 'mine.part'", name="mine.part"),
            "Send mine if it is your own, Client(..., code=",
        ),
        (ModuleNotFoundError("No module named 'nt'", name="nt"), "only Windows has"),
        (NotImplementedError("cannot instantiate 'WindowsPath' on your system"), "pass paths as text"),
        (
            AttributeError("Can't get attribute 'A.B' on <module 'w.__main__' from '/w.py'>"),
            "define A.B in a module of",
        ),
        (AttributeError("module '__main__' has no attribute 'A'"), "define A in a module of its own"),
        (ValueError("bad"), "ValueError: bad"),
        (ModuleNotFoundError("no name"), "ModuleNotFoundError: no name"),
    ],
)
def test_the_reason_says_what_helps(error: Exception, told: str) -> None:
    reason = reason_of(error)
    assert told in reason and reason.startswith(f"{type(error).__name__}: {error}")


def raised_by(statement: str) -> BaseException:
    try:
        exec(statement, {})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_import_that_finds_nothing_says_how_to_send_the_module() -> None:
    error = raised_by("import mine_absent.part")
    hint = import_hint(error)
    assert hint.startswith("The worker does not have this module. Send mine_absent if it is your own")
    for _ in range(2):  # a task that raises the error of its child tells it once more
        told = decode_task_error(encode_exception(error, 64 * 1024))
        assert told.text.count(hint) == 1
        assert getattr(pickle.loads(told.serialized), "__notes__", [hint]) == [hint]
    assert str(error) == "No module named 'mine_absent'"


@pytest.mark.parametrize(
    "statement",
    [
        "import json.absent",
        "import pytest.absent",
        "raise ModuleNotFoundError('no name')",
        "raise ModuleNotFoundError('of another system', name='winreg')",
        "from json import absent",
        "raise ValueError('import')",
    ],
)
def test_other_errors_get_no_hint_how_to_send_a_module(statement: str) -> None:
    error = raised_by(statement)
    assert import_hint(error) == ""
    assert "code=" not in decode_task_error(encode_exception(error, 64 * 1024)).text
