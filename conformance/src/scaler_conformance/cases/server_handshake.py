"""How any server answers a Hello (chapter 02)."""

from __future__ import annotations

from ..case import cases_for
from ..scene import Scene
from ..wire import CODES

case = cases_for("scheduler", "storage")


@case("HSK-10")
def a_hello_is_answered_by_one_welcome(scene: Scene) -> None:
    peer = scene.peer()
    peer.fence()
    scene.equal(len(peer.take("welcome")), 0, "the count of further Welcomes", "HSK-10")


@case("HSK-3")
def no_common_version_is_rejected_with_the_servers_range(scene: Scene) -> None:
    for lowest, highest in ((0, 0), (2, 9), (7, 7)):
        peer = scene.peer(is_open=False)
        peer.dial(versionMin=lowest, versionMax=highest)
        reject = peer.expect_reject(CODES.VERSION_MISMATCH)
        scene.check(
            reject["versionMin"] <= 1 <= reject["versionMax"],
            f"the Reject tells the range {reject['versionMin']}..{reject['versionMax']}, and the port speaks 1",
        )
