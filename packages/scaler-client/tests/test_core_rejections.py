"""ClientCore and a scheduler that refuses the client: what is pending ends, and later calls dial again."""

from __future__ import annotations

import pytest
from tests.support.client_core import Told, call, completions, lost, names_in, opened, task

from scaler.client.core.actions import Complete, Redial
from scaler.client.core.events import Sought
from scaler_protocol import codes
from scaler_protocol.session import Rejected


def test_after_a_rejection_the_next_submission_dials_again() -> None:
    told = Told()
    told.submit(call("a"))
    told(lost())
    assert completions(told(Rejected(codes.VERSION_MISMATCH, "too old"))) == {task("a"): codes.STATUS_FAILED}
    assert told(call("b")) == [Redial()]
    assert told(call("c")) == []
    told(opened())
    assert [names_in(message) for message in told.sent()] == [["b", "c"]]


def test_a_call_that_has_to_store_something_first_dials_after_a_rejection() -> None:
    told = Told()
    assert told(Sought()) == [], "the shell dials already"
    told(Rejected(codes.UNAUTHORIZED, "expired"))
    assert (told(Sought()), told(Sought())) == ([Redial()], [])
    told(opened())
    assert told(Sought()) == []


@pytest.mark.parametrize(
    ("code", "told_as"),
    [
        (codes.UNAUTHORIZED, codes.UNAUTHORIZED),
        (codes.VERSION_MISMATCH, codes.VERSION_MISMATCH),
        (codes.SESSION_REPLACED, codes.LEASE_EXPIRED),
    ],
)
def test_what_is_pending_ends_with_the_code_of_a_refusal_that_has_an_error_of_its_own(code: int, told_as: int) -> None:
    told = Told()
    told.submit(call("a"))
    told(lost())
    (end,) = [action for action in told(Rejected(code, "not you")) if isinstance(action, Complete)]
    assert end.outcomes.error is not None
    assert (end.outcomes.error.code, end.outcomes.error.message) == (told_as, "not you")
