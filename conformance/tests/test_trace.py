"""Clause, case and text hash: nothing is forgotten, and a changed sentence is looked at."""

from __future__ import annotations

from dataclasses import replace

from conformance.tools import clauses as tool

from scaler_conformance import trace
from scaler_conformance.case import Case, all_cases
from scaler_conformance.clauses import Clause, catalog


def test_the_suite_knows_the_present_specification() -> None:
    """When it does not: python -m conformance.tools.clauses"""
    assert not tool.stale()


def test_every_duty_is_shown_by_cases_for_its_present_text() -> None:
    problems = list(trace.check(catalog(), all_cases(), trace.read_lock(), trace.read_exceptions()))
    assert not problems, "\n".join(problems)


CLAUSE = Clause("XYZ-1", "A storage MUST do it.", "MUST", "storage", "wire", "", "abc")
CASE = Case("XYZ-1/it-is-done", ("XYZ-1",), ("storage",), "directed", lambda scene: None)
OTHER = replace(CASE, id="XYZ-2/another", clauses=("XYZ-2",))
SECOND = replace(CLAUSE, id="XYZ-2", level="SHOULD")
BOTH = {"XYZ-1": CLAUSE, "XYZ-2": SECOND}
LOCK = {"XYZ-1": "abc", "XYZ-2": "abc"}


def problems(**changes: object) -> str:
    given = {"clauses": BOTH, "cases": [CASE, OTHER], "lock": LOCK, "exceptions": [], **changes}
    return "\n".join(trace.check(**given))  # type: ignore[arg-type]


def test_a_complete_trace_has_no_problem() -> None:
    assert not problems()


def test_a_duty_without_a_case_is_found() -> None:
    assert "XYZ-1 has no case for a storage" in problems(cases=[OTHER], lock={"XYZ-2": "abc"})


def test_a_duty_that_is_excused_is_not() -> None:
    assert not problems(cases=[OTHER], lock={"XYZ-2": "abc"}, exceptions=[trace.Excused("XYZ-1", ("storage",), "so")])


def test_a_changed_text_is_found() -> None:
    assert "the text of XYZ-1 has changed" in problems(clauses={**BOTH, "XYZ-1": replace(CLAUSE, fingerprint="new")})


def test_an_excuse_that_is_not_needed_is_found() -> None:
    assert "remove the entry" in problems(exceptions=[trace.Excused("XYZ-1", ("storage",), "so")])


def test_an_excuse_for_nothing_is_found() -> None:
    assert "there is no such clause" in problems(exceptions=[trace.Excused("XYZ-9", ("storage",), "so")])


def test_accepting_takes_the_present_text_of_what_was_named() -> None:
    changed = {name: replace(clause, fingerprint="new") for name, clause in BOTH.items()}
    assert trace.accepted(changed, [CASE, OTHER], LOCK, ["XYZ-1"]) == {"XYZ-1": "new", "XYZ-2": "abc"}
