"""Plays cases one after the other in an arena and says what each came to."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from . import known as known_failures
from . import verdicts
from .arena import Arena
from .case import Case
from .clauses import catalog
from .manifest import Manifest
from .play.testee import TesteeError
from .scene import Scene, Settings
from .verdicts import Breach, Disturbed, Ended, NotReady, Outcome, Unsupported, Unusable
from .wire import Unreadable

#: How often a failure is played again before it counts, each time with a fresh process.
AGAIN = 2
#: Whoever breaks a lot is told soon: beyond so many seconds spent on failures, they are not played again …
PATIENCE_SECONDS = 25.0
#: … and beyond so many the role is given up, within two minutes of its begin. `--full` has no such bound.
GIVE_UP_SECONDS = 65.0
#: Nor is a client played any longer whose testee so often did not keep to its JSON lines.
UNUSABLE_TRIES = 3
#: A disturbed measurement is repeated so often.
DISTURBED_TRIES = 3

#: Where cases are written.
CASES = Path(__file__).parent / "cases"

Told = Callable[[Outcome], None]


class Runner:
    def __init__(
        self,
        manifest: Manifest,
        role: str,
        told: Told = lambda outcome: None,
        *,
        known: Sequence[known_failures.Excuse] = (),
        settings: Settings | None = None,
    ) -> None:
        self._known = known
        self.settings = settings or Settings()
        self._role = role
        self._told = told
        self._arena = Arena(manifest, role)
        self._is_clean = False
        self._is_hopeless = False
        self._failing_seconds = 0.0
        self._unusable_count = 0
        #: why not all cases were played, if so
        self.gave_up = ""

    def run(self, cases: Iterable[Case]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for case in cases:
                outcome = known_failures.excuse(self._judge(case), self._known)
                outcomes.append(outcome)
                self._told(outcome)
                if self._is_over(outcomes):
                    break
        finally:
            self._arena.close()
        return outcomes

    def _is_over(self, outcomes: Sequence[Outcome]) -> bool:
        failures = sum(each.verdict == verdicts.FAIL for each in outcomes)
        if self._is_hopeless:
            said = "the testee cannot be talked to" if self._unusable_count else "it does not start, or does not dial"
            self.gave_up = f"{said}, so nothing else can be played"
        elif self.settings.stop_at and failures >= self.settings.stop_at:
            self.gave_up = f"stopped after {failures} failures, as asked"
        elif self._failing_seconds > GIVE_UP_SECONDS and not self.settings.is_full:
            self.gave_up = f"given up after {failures} failures; `--full` plays all"
        return bool(self.gave_up)

    def _judge(self, case: Case) -> Outcome:
        outcome = self._play(case)
        if case.layer == "generated":
            return outcome  # the engine plays its failures again by itself
        if outcome.verdict == verdicts.INCONCLUSIVE:
            for _ in range(DISTURBED_TRIES - 1):
                outcome = self._play(case)
                if outcome.verdict != verdicts.INCONCLUSIVE:
                    break
        if outcome.verdict == verdicts.FAIL:
            began_at = time.monotonic()
            is_patient = self._failing_seconds < PATIENCE_SECONDS and not self._is_hopeless
            if self.settings.confirms and is_patient:
                outcome = self._confirmed(case, outcome)
            self._failing_seconds += outcome.seconds + time.monotonic() - began_at
        return outcome

    def _confirmed(self, case: Case, outcome: Outcome) -> Outcome:
        """A failure that does not come again, from a fresh process, is no verdict."""
        for _ in range(AGAIN):
            self._is_clean = False
            again = self._play(case)
            if again.verdict in (verdicts.FAIL, verdicts.ERROR):
                return again
        text = f"failed once and passed {AGAIN} times after: {outcome.text}"
        return replace(outcome, verdict=verdicts.INCONCLUSIVE, text=text)

    def _play(self, case: Case) -> Outcome:
        began_at = time.monotonic()
        scene: Scene | None = None
        verdict, clause, text = verdicts.PASS, "", ""
        try:
            self._prepare(case)
            scene = Scene(self._arena, self.settings)
            self._arena.pump.deadline = time.monotonic() + case.seconds
            case.play(scene)
        except Unusable as problem:
            verdict, text = verdicts.FAIL, problem.text
            self._unusable_count += 1
            self._is_hopeless = self._unusable_count >= UNUSABLE_TRIES
        except NotReady as problem:
            verdict, clause, text = verdicts.FAIL, problem.clause, problem.text
            self._is_hopeless = True
        except Breach as breach:
            verdict, clause, text = verdicts.FAIL, breach.clause or case.clauses[0], breach.text
            if not isinstance(breach, Ended) and not catalog()[clause].is_duty:
                verdict = verdicts.WARN
        except Unsupported as reason:
            verdict, text = verdicts.UNSUPPORTED, str(reason)
        except TesteeError as error:
            verdict, clause, text = verdicts.FAIL, case.clauses[0], f"the testee answered with an error: {error}"
        except Unreadable as problem:
            verdict, clause, text = verdicts.FAIL, problem.clause, f"it sent what cannot be read: {problem.text}"
        except Disturbed as reason:
            verdict, text = verdicts.INCONCLUSIVE, str(reason)
        except (LookupError, ValueError) as surprise:
            verdict, clause, text = _stumbled(case, surprise)
        except Exception:  # noqa: BLE001  a mistake of the suite must not end the run, nor be blamed on the port
            verdict, text = verdicts.ERROR, traceback.format_exc()
        self._arena.pump.deadline = float("inf")
        transcript = scene.transcript if scene else self._arena.transcript
        is_good = verdict in (verdicts.PASS, verdicts.UNSUPPORTED)
        outcome = Outcome(
            case=case.id,
            layer=case.layer,
            role=self._role,
            clauses=case.clauses,
            verdict=verdict,
            seconds=round(time.monotonic() - began_at, 4),
            clause=clause,
            text=text,
            conversation=() if is_good else tuple(transcript.lines()),
            events=() if is_good else tuple(transcript.events),
            log=() if is_good else self._arena.log,
            steps=tuple(scene.run.failing) if scene is not None and scene.run is not None else (),
        )
        self._clear(scene, is_spoiled=case.is_fresh or not is_good)
        return outcome

    def _prepare(self, case: Case) -> None:
        is_running = self._arena.subject is not None and self._arena.subject.is_running
        if case.is_fresh or not self._is_clean or not is_running or self._arena.variant != case.variant:
            self._is_clean = False
            self._arena.start(case.variant)
            self._is_clean = True

    def _clear(self, scene: Scene | None, *, is_spoiled: bool) -> None:
        if scene is not None:
            self._is_clean = scene.close(is_spoiled=is_spoiled) and self._is_clean


def _stumbled(case: Case, surprise: Exception) -> tuple[str, str, str]:
    """A case that takes the first of nothing, or a field that is not there, was sent something else than was due."""
    frames = traceback.extract_tb(surprise.__traceback__)
    last = next((frame for frame in reversed(frames) if frame.name != "__getitem__"), frames[-1])
    if not last.filename.startswith(str(CASES)):
        return verdicts.ERROR, "", traceback.format_exc()
    text = f"what came is not what was due ({surprise}); the case went as far as: {last.line}"
    return verdicts.FAIL, case.clauses[0], text
