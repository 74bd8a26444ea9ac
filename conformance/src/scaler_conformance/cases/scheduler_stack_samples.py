"""Where the time of tasks goes, for monitors that may not see it (chapter 14)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.scene import Scene

case = cases_for("scheduler")
#: About once a second a scheduler looks which topics are watched.
SECONDS = 10.0


@case("MON-47", "MON-18", seconds=40.0)
def no_stacks_are_sampled_unless_the_operator_lets_monitors_see_them(scene: Scene) -> None:
    worker = scene.worker(credit=1, features=["stack-samples"])
    scene.needs(
        "stack-samples" in worker.welcome["features"],
        "the feature `stack-samples` is optional, and it does not name it",
    )
    worker.fence()
    watching = scene.monitor("stacks")
    scene.pump.until(lambda: len(watching.of("stacks")) >= 2, SECONDS)
    published = watching.of("stacks")
    scene.check(bool(published), f"nothing was published under `stacks` within {SECONDS:g} s", "MON-18")
    for message in published:
        scene.equal((message["isHidden"], message["blocks"]), (True, []), "isHidden and blocks")
    worker.fence()
    worker.expect_nothing("monitors may not see texts", "MON-47")
