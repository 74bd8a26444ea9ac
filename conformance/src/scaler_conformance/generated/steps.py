"""A sequence is a list of steps, a step a name and four numbers.

The numbers are taken modulo what is there when the step is played, so every list means something, any piece of it may
be left out, and a smaller number is a simpler step. That makes shrinking a matter of cutting, and a file of steps a
thing that can be played again without whatever has drawn it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Step = tuple[str, int, int, int, int]
HIGHEST = 255


def strategy(weights: Mapping[str, int], length: int) -> Any:
    """Sequences of this many steps, for hypothesis."""
    from hypothesis import strategies

    names = [name for name, weight in weights.items() for _ in range(weight)]
    number = strategies.integers(0, HIGHEST)
    step = strategies.tuples(strategies.sampled_from(names), number, number, number, number)
    return strategies.lists(step, min_size=length, max_size=length)


def from_json(lines: Iterable[str]) -> list[Step]:
    return [_step(json.loads(line)) for line in lines]


def _step(entry: Any) -> Step:
    name, *numbers = entry
    one, two, three, four = (int(number) for number in numbers)
    return str(name), one, two, three, four


def smaller(steps: Sequence[Step]) -> Iterable[list[Step]]:
    """Simpler sequences, the boldest first: pieces left out, then numbers lowered."""
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            yield [*steps[:at], *steps[at + size :]]
        size //= 2
    for at, step in enumerate(steps):
        numbers = step[1:]
        for place, value in enumerate(numbers):
            for lower in dict.fromkeys((0, 1, value // 2)):
                if lower < value:
                    changed = [step[0], *numbers[:place], lower, *numbers[place + 1 :]]
                    yield [*steps[:at], _step(changed), *steps[at + 1 :]]
