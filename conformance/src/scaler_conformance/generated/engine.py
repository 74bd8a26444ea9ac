"""Draws sequences, plays them, and makes a failure as small as it gets within its time.

Hypothesis draws. Shrinking is our own: it cuts steps out and lowers numbers, so its time can be bounded, and every try
is played against the real process, which is begun anew whenever it has ended or can no longer be trusted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler_conformance.verdicts import Breach, Disturbed

from .steps import Step, smaller, strategy

if TYPE_CHECKING:
    from scaler_conformance.scene import Scene

#: Plays one sequence in a scene of its own and raises Breach. Given a counter for the edges it has taken.
Player = Callable[["Scene", list[Step], Counter[str]], None]
CONFIRMATIONS = 3
#: One sequence may take so long; a port that answers nothing is found out by its first fence.
EXAMPLE_SECONDS = 15.0


@dataclass
class Run:
    """What a run has done."""

    examples: int = 0
    steps: int = 0
    edges: Counter[str] = field(default_factory=Counter)
    failing: list[Step] = field(default_factory=list)
    breach: Breach | None = None
    tries: int = 0


def explore(
    scene: Scene,
    player: Player,
    weights: Mapping[str, int],
    *,
    examples: int,
    length: int,
    seed: int,
    seconds: float,
    shrink_seconds: float,
) -> Run:
    """Plays so many sequences, or as many as the time allows; raises the smallest failure as a Breach."""
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis import seed as seeded

    run = Run()
    end_at = time.monotonic() + seconds

    def play(steps: list[Step]) -> None:
        if run.breach is None and time.monotonic() < end_at:
            run.examples += 1
            run.steps += len(steps)
            run.breach = attempt(scene, player, steps, run.edges)
            if run.breach is not None:
                run.failing = steps

    drawn = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    explored: Callable[[], None] = drawn(seeded(seed)(given(strategy(weights, length))(play)))  # type: ignore[no-untyped-call]
    explored()
    if run.breach is not None:
        shrink(scene, player, run, shrink_seconds)
        confirm(scene, player, run)
    return run


def confirm(scene: Scene, player: Player, run: Run) -> None:
    """A failure that does not come again from a fresh process is no verdict."""
    best = scene.transcript
    for _ in range(CONFIRMATIONS):
        breach = attempt(scene, player, run.failing, Counter())
        if breach is not None:
            scene.transcript = best
            return
    assert run.breach is not None
    scene.transcript = best
    raise Disturbed(f"a sequence failed and then passed {CONFIRMATIONS} times: {run.breach.text}")


def attempt(scene: Scene, player: Player, steps: list[Step], edges: Counter[str]) -> Breach | None:
    """One sequence, with peers of its own; whatever happens, the next one finds a process that answers."""
    scene.begin_again(EXAMPLE_SECONDS)
    breach: Breach | None = None
    try:
        player(scene, steps, edges)
    except Breach as found:
        breach = found
        scene.transcript.is_sealed = True
    scene.pump.deadline = float("inf")
    transcript = scene.transcript
    is_left_well = scene.close()
    if breach is not None or not is_left_well:
        scene.arena.start(scene.arena.variant)
    scene.transcript = transcript
    return breach


def shrink(scene: Scene, player: Player, run: Run, seconds: float) -> None:
    """Smaller sequences that break the same clause, until none is found or the time is up."""
    assert run.breach is not None
    end_at = time.monotonic() + seconds
    clause, is_smaller = run.breach.clause, True
    best = scene.transcript
    while is_smaller and time.monotonic() < end_at:
        is_smaller = False
        for steps in smaller(run.failing):
            if time.monotonic() > end_at:
                break
            run.tries += 1
            breach = attempt(scene, player, steps, Counter())
            if breach is not None and (breach.clause, type(breach)) == (clause, type(run.breach)):
                run.failing, run.breach, best = steps, breach, scene.transcript
                is_smaller = True
                break
    scene.transcript = best
