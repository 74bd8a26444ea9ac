"""Laws over pairs of sizes: what a small party does costs a server the same whatever the others have.

A world has the small party, and neighbours of which it is not a part. The bytecodes for what the small party does, from
its message to the end of the turn, are counted beside few neighbours and beside many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.costs.test_growth import bytecodes_of

FEW, MANY = 32, 1_024
WARM = 3
"""Rounds before one is counted: the first ones load, learn and make room."""

_World = TypeVar("_World")


def assert_same_beside_any(
    make: Callable[[], _World], neighbours: Callable[[_World, int], None], does: Callable[[_World, int], None]
) -> None:
    """Raises AssertionError if the cost grows. `does` is given the number of the round."""
    few, many = (_counted(make(), neighbours, does, size) for size in (FEW, MANY))
    assert many <= 1.3 * few + 200, f"{many:,} steps beside {MANY:,} neighbours, {few:,} beside {FEW}"


def _counted(
    world: _World, neighbours: Callable[[_World, int], None], does: Callable[[_World, int], None], size: int
) -> int:
    neighbours(world, size)
    for number in range(WARM):
        does(world, number)
    return bytecodes_of(lambda: does(world, WARM))
