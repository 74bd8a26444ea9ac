"""Generated sequences against a scheduler."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.generated.scheduler_player import WEIGHTS, play
from scaler_conformance.scene import Scene

case = cases_for("scheduler", layer="generated")


@case("SCH-25", seconds=600.0)
def any_sequence_of_messages_has_a_legal_outcome(scene: Scene) -> None:
    scene.explore(play, WEIGHTS)
