"""Generated sequences, against servers and against those who dial them."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.generated.players import player_of, weights_of
from scaler_conformance.scene import Scene

SECONDS = 900.0


@cases_for("scheduler", layer="generated")("SCH-25", "SCH-13", "SES-2", seconds=SECONDS)
def any_sequence_of_tasks_has_a_legal_outcome(scene: Scene) -> None:
    scene.explore(player_of("scheduler"), weights_of("scheduler"))


@cases_for("storage", layer="generated")("STO-11", "STO-3", "SES-2", seconds=SECONDS)
def any_sequence_of_requests_has_a_legal_outcome(scene: Scene) -> None:
    scene.explore(player_of("storage"), weights_of("storage"))


@cases_for("worker", layer="generated")("WRK-2", "CAN-1", "WRK-9", "SES-2", seconds=SECONDS)
def any_sequence_of_dispatches_has_a_legal_outcome(scene: Scene) -> None:
    scene.explore(player_of("worker"), weights_of("worker"))


@cases_for("client", layer="generated")("CLI-5", "CLI-2", "CLI-8", "SES-2", seconds=SECONDS)
def any_sequence_of_results_reaches_the_user(scene: Scene) -> None:
    scene.explore(player_of("client"), weights_of("client"))


@cases_for("manager", layer="generated")("MGR-4", "MGR-6", "MGR-14", "SES-2", seconds=SECONDS)
def any_sequence_of_targets_is_made_true(scene: Scene) -> None:
    scene.explore(player_of("manager"), weights_of("manager"))
