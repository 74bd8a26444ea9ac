"""Ports that are none get the right verdict: never a hang, never an error of the suite's own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import support

from scaler_conformance import manifest
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Settings
from scaler_conformance.verdicts import ERROR, FAIL, PASS, Outcome

FAKE = str(Path(__file__).with_name("fake_port.py"))
SECONDS = 60.0


def play(role: str, behaviour: str, count: int = 6) -> tuple[list[Outcome], Runner]:
    key = "testee" if role == "client" else "command"
    places = ["{bind}"] if role in ("scheduler", "storage") else []
    command = ["{python}", FAKE, behaviour, *places]
    content = {"port": {"name": behaviour}, "role": {role: {key: command, "ready_seconds": 2.0}}}
    runner = Runner(manifest.parse(content, Path(FAKE)), role, settings=Settings(everyday_examples=2))
    began_at = time.monotonic()
    outcomes = runner.run(support.cases_of(role, "directed")[:count])
    assert time.monotonic() - began_at < SECONDS
    return outcomes, runner


@pytest.mark.parametrize("behaviour", ["silent", "deaf", "ends", "crashes"])
@pytest.mark.parametrize("role", ["scheduler", "storage"])
def test_a_server_that_does_not_answer_ends_the_run_at_once(role: str, behaviour: str) -> None:
    outcomes, runner = play(role, behaviour)
    assert [outcome.verdict for outcome in outcomes] == [FAIL]
    assert "it does not start" in runner.gave_up
    if behaviour == "ends":
        assert "exit code 3" in outcomes[0].text
        assert any("no configuration" in line for line in outcomes[0].log)


@pytest.mark.parametrize(
    ("behaviour", "told"), [("daemon", "in the foreground"), ("elsewhere", "nothing listens at tcp://127.0.0.1:")]
)
def test_a_server_that_is_not_there_is_told_what_to_do(behaviour: str, told: str) -> None:
    (outcome,), _ = play("storage", behaviour)
    assert outcome.verdict == FAIL and told in outcome.text
    assert outcome.clause == "", "no clause is broken by who is not there"


def test_a_log_does_not_move_the_cursor() -> None:
    (outcome,), _ = play("storage", "colorful")
    assert any("no configuration" in line for line in outcome.log)
    assert not any("\x1b" in line for line in outcome.log)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("unfinished", "without the end of a line"),
        ("mute", "closed its stdout"),
        ("nested", "no JSON"),
        ("vague", "`ok` is an object"),
        ("twice", "was answered before"),
    ],
)
def test_a_testee_that_breaks_the_rules_of_its_lines_is_told_which(behaviour: str, told: str) -> None:
    (outcome,), runner = play("client", behaviour)
    assert outcome.verdict == FAIL and told in outcome.text
    assert runner.gave_up


@pytest.mark.parametrize("behaviour", ["echoes", "garbage"])
def test_a_server_that_says_anything_passes_nothing(behaviour: str) -> None:
    outcomes, _ = play("storage", behaviour)
    assert outcomes and all(outcome.verdict == FAIL for outcome in outcomes), [each.text for each in outcomes]


@pytest.mark.parametrize("behaviour", ["deaf", "ends", "noisy", "chatty"])
def test_a_testee_that_cannot_be_talked_to_ends_the_run_at_once(behaviour: str) -> None:
    outcomes, runner = play("client", behaviour)
    assert [outcome.verdict for outcome in outcomes] == [FAIL]
    assert "it does not start" in runner.gave_up


@pytest.mark.parametrize("behaviour", ["liar", "moody"])
def test_a_testee_that_does_nothing_passes_nothing(behaviour: str) -> None:
    outcomes, _ = play("client", behaviour, 3)
    assert outcomes and not {PASS, ERROR} & {outcome.verdict for outcome in outcomes}, [each.text for each in outcomes]


@pytest.mark.parametrize(("role", "behaviour"), [("worker", "deaf"), ("client", "shy")])
def test_a_dialer_that_never_dials_ends_the_run_at_once(role: str, behaviour: str) -> None:
    outcomes, runner = play(role, behaviour)
    assert [(outcome.verdict, outcome.clause) for outcome in outcomes] == [(FAIL, "HSK-1")]
    assert "Hello" in outcomes[0].text and "does not dial" in runner.gave_up
