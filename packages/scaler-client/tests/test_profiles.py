"""Where the time of running tasks goes, as a watcher keeps it: windows of time, functions by name, speedscope."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.monitoring import profiles
from scaler.monitoring.profiles import SLOT_BYTES, SLOT_SECONDS, SLOTS_KEPT, Profile, flame, speedscope, stacks_of
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import FunctionName, StackBlock, StackSamples
from scaler_protocol.stack_trees import Frame, StackTrees

F, G = ObjectId(b"f" * 16), ObjectId(b"g" * 16)
MAIN, SOLVE, LOAD = (("main", "program.py", 1), ("solve", "solver.py", 20), ("load", "program.py", 30))
NAMES = (FunctionName(F, "price"), FunctionName(G, "price"))


def samples(*added: tuple[ObjectId, list[Frame], int], names: tuple[FunctionName, ...] = NAMES) -> StackSamples:
    trees = StackTrees()
    for one in added:
        trees.add(*one)
    block = StackBlock(PeerId(b"w" * 16), "w", 0.0, trees.take(1 << 20))
    return StackSamples(blocks=(block,), function_names=names, sampled_count=1, able_count=1, worker_count=2)


@pytest.fixture
def profile() -> Profile:
    profile = Profile()
    profile.take(samples((F, [MAIN, SOLVE], 3_000_000), (F, [MAIN], 500_000), (G, [LOAD], 1_000_000)), 100.0)
    return profile


def drawn(told: dict[str, Any]) -> dict[tuple[str, ...], int]:
    paths: list[tuple[str, ...]] = [()]
    found = {}
    for parent, frame, microseconds in told["nodes"]:
        paths.append((*paths[parent], told["frames"][frame][0]))
        found[paths[-1]] = microseconds
    return found


def test_functions_of_one_name_are_drawn_together(profile: Profile) -> None:
    told = flame(profile, profile.window(30, 101.0))
    assert drawn(told) == {
        ("price",): 0, ("price", "main"): 500_000, ("price", "main", "solve"): 3_000_000, ("price", "load"): 1_000_000,
    }  # fmt: skip
    assert told["functions"] == [("price", 4_500_000)]
    assert (told["sampled"], told["able"], told["workers"], told["hidden"]) == (1, 1, 2, False)


def test_looking_changes_nothing(profile: Profile) -> None:
    assert flame(profile, profile.window(30, 101.0)) == flame(profile, profile.window(30, 101.0))


def test_one_function(profile: Profile) -> None:
    profile.take(samples((G, [LOAD], 7), names=(FunctionName(G, "other"),)), 101.0)
    assert drawn(flame(profile, profile.window(30, 101.0), "other")) == {("other",): 0, ("other", "load"): 1_000_007}


def test_a_window_of_time(profile: Profile) -> None:
    profile.take(samples((F, [MAIN], 7)), 100.0 + 10 * SLOT_SECONDS)
    at = 101.0 + 10 * SLOT_SECONDS
    assert drawn(flame(profile, profile.window(30, at))) == {("price",): 0, ("price", "main"): 7}
    assert drawn(flame(profile, profile.window(600, at)))[("price", "main")] == 500_007


def test_what_is_kept_is_bounded() -> None:
    profile = Profile()
    for number in range(SLOTS_KEPT + 5):
        many = [(F, [(f"call {number} {place}", "x.py", place)], 1) for place in range(3_000)]
        profile.take(samples(*many[: 3_000 if number < 3 else 10]), number * SLOT_SECONDS)
    kept = [slot.trees for slot in profile._slots]
    assert len(kept) == SLOTS_KEPT and max(map(len, kept)) <= SLOT_BYTES


def test_blocks_that_are_no_trees_are_left_out(profile: Profile) -> None:
    before = flame(profile, profile.window(30, 101.0))["nodes"]
    profile.take(StackSamples(blocks=(StackBlock(PeerId(b"w" * 16), "w", 0.0, b"no trees"),)), 101.0)
    assert flame(profile, profile.window(30, 101.0))["nodes"] == before


def test_before_anything_was_told() -> None:
    told = flame(Profile(), StackTrees())
    assert (told["nodes"], told["functions"], told["heard"]) == ([], [], False)


def test_functions_are_there_as_long_as_their_slot(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile.has("price") and not profile.has("prices") and not profile.has("")
    monkeypatch.setattr(profiles, "SLOT_SECONDS", 0.0)
    for _ in range(profiles.SLOTS_KEPT):
        profile.take(samples((ObjectId(b"\x07" * 16), [LOAD], 7)), 101.0)
    assert profile.has("07070707") and profile.has("price")
    profile.take(samples((ObjectId(b"\x07" * 16), [LOAD], 7)), 101.0)
    assert profile.has("07070707") and not profile.has("price")


def test_a_function_without_a_name(profile: Profile) -> None:
    profile.take(samples((ObjectId(b"\x07" * 16), [LOAD], 7), (ObjectId(bytes(16)), [LOAD], 7)), 101.0)
    names = {stack.function for stack in stacks_of(profile, profile.window(30, 101.0))}
    assert names == {"price", "07070707", "(other functions)"}


def test_speedscope(profile: Profile) -> None:
    """As https://www.speedscope.app/file-format-schema.json wants it."""
    told = speedscope(profile, profile.window(30, 101.0), "a run")
    assert told["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = told["shared"]["frames"]
    assert {"name": "solve", "file": "solver.py", "line": 20} in frames and {"name": "price"} in frames
    together, own = told["profiles"]
    for one in (together, own):
        assert (one["type"], one["unit"], one["startValue"], one["endValue"]) == (
            "sampled",
            "microseconds",
            0,
            4_500_000,
        )
        assert len(one["samples"]) == len(one["weights"]) == 3 and sum(one["weights"]) == one["endValue"]
        assert all(0 <= index < len(frames) for stack in one["samples"] for index in stack)
        (heaviest,) = [
            stack for stack, weight in zip(one["samples"], one["weights"], strict=True) if weight == 3_000_000
        ]
        assert [frames[index]["name"] for index in heaviest] == ["price", "main", "solve"]
