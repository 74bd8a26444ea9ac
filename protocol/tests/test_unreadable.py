"""What to do about bytes that cannot be read, where it is known."""

from __future__ import annotations

import pytest

from scaler_protocol.unreadable import reason_of


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ModuleNotFoundError("No module named 'mine.part'", name="mine.part"),
            "Send mine if it is your own, Client(..., code=",
        ),
        (ModuleNotFoundError("No module named 'nt'", name="nt"), "only Windows has"),
        (NotImplementedError("cannot instantiate 'WindowsPath' on your system"), "pass paths as text"),
        (ValueError("bad"), "ValueError: bad"),
        (ModuleNotFoundError("no name"), "ModuleNotFoundError: no name"),
    ],
)
def test_the_reason_says_what_helps(error: Exception, told: str) -> None:
    reason = reason_of(error)
    assert told in reason and reason.startswith(f"{type(error).__name__}: {error}")
