"""Every mutant fits the code as it is, was hunted and caught; some are hunted here, all of them by `make mutants`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from conformance.mutants import table
from conformance.mutants.hunt import SEEDS_TO_FIND, hunt
from conformance.mutants.registry import all_mutants, legal_variants, mutated, parse, source_of

sys.path.insert(0, str(Path(__file__).parent))
import support

from scaler_conformance import trace
from scaler_conformance.case import all_cases
from scaler_conformance.clauses import catalog
from scaler_conformance.resources import toml

#: One of each role that is caught within seconds; all of them when FULL is set.
SAMPLE = (
    "scheduler/SCH-2/a-task-may-be-submitted-twice",
    "storage/STO-9/a-Duplicate-does-not-add-its-owner-to-a-target-that-exists",
    "worker/OWN-6/a-value-is-stored-under-another-id",
    "client/CLI-3/functions-are-not-stored",
    "manager/MGR-1/it-does-not-say-what-a-unit-brings",
)
HUNTED = tuple(all_mutants()) if support.IS_FULL else SAMPLE


def test_every_mutant_fits_in_one_place() -> None:
    """When this fails somebody has rewritten those lines: write the mutant for what stands there now."""
    every = [*all_mutants().values(), *legal_variants().values()]
    sources = {name: source_of(name).read_text(encoding="utf-8") for mutant in every for name in mutant.modules}
    # Those of several roles are the same edits.
    places = {(module, mutant.edits): mutant.id for mutant in every for module in mutant.modules}
    wrong = []
    for (module, edits), identifier in places.items():
        try:
            ast.parse(mutated(sources[module], tuple(edit for edit in edits if edit.module == module)))
        except (ValueError, SyntaxError) as problem:
            wrong.append(f"{identifier}: {problem}")
    assert not wrong, "\n".join(wrong)


def test_a_mutant_without_a_place_is_told() -> None:
    (mutant,) = parse("roles storage\nmodule m\nSTO-1 nothing\n- is not there\n+ at all\n", "text")
    with pytest.raises(ValueError, match="0 places with 'is not there'"):
        mutated("something else\n", mutant.edits)


def test_every_duty_that_a_case_shows_has_a_mutant() -> None:
    path = Path(table.FOLDER) / "without.toml"
    excused = {name for entry in toml.loads(path.read_text(encoding="utf-8"))["without"] for name in entry["clauses"]}
    shown = {name for name, _ in trace.shown(all_cases()) if catalog()[name].is_duty}
    mutants = {mutant.clause for mutant in all_mutants().values()}
    assert sorted(shown - mutants - excused) == [], "write a mutant, or say in without.toml why there is none"
    assert sorted(excused & mutants | excused - shown) == [], "remove these from without.toml"


def test_every_mutant_was_hunted_and_caught() -> None:
    """`python -m conformance.mutants --table ID`, and with --sequences, writes what is missing."""
    rows, mutants = table.read(), all_mutants()
    assert sorted(rows.keys() - mutants.keys()) == [], "these are no mutants any more: the next hunt takes them out"
    free = [name for name in mutants if rows.get(name, table.Row()).case == table.NOTHING]
    assert free == [], "no directed case has named their clauses"
    told = [name for name in mutants if not mutants[name].unseen and rows[name].seeds != table.NOTHING]
    unfound = [name for name in told if rows[name].found < SEEDS_TO_FIND]
    assert unfound == [], f"fewer than {SEEDS_TO_FIND} generated runs have found them: say why in a line with ~"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", HUNTED)
def test_a_directed_case_names_the_clause_of_a_mutant(name: str) -> None:
    caught = hunt(all_mutants()[name])
    assert caught.is_caught, "\n".join(caught.others)
