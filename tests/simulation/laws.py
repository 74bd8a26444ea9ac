"""What tests of a law have in common: it holds in every world, and it is able to fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import pytest


class Playable(Protocol):
    transcript: deque[str]

    def run(self) -> None: ...


W = TypeVar("W", bound=Playable)
Break = Callable[[pytest.MonkeyPatch], None]


def played(make: Callable[[int], W], seeds: Iterable[int]) -> Iterator[W]:
    """Each world when it has come to its end. One that breaks a law tells its seed, and how its story ended."""
    for seed in seeds:
        world = make(seed)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}\n" + "\n".join(list(world.transcript)[-60:])) from error
        yield world


def each_broken_core(*breaks: Break) -> pytest.MarkDecorator:
    """For a test with the argument `break_it`."""
    return pytest.mark.parametrize("break_it", breaks, ids=lambda break_it: break_it.__name__.strip("_"))


def expect_caught(
    make: Callable[[int], Playable], seeds: int, error: type[Exception] = Exception, *, first: int = 0
) -> None:
    """With a core that is broken: whichever law or invariant is the first to notice. `first`: the seed to begin with,
    where most seeds show nothing and would take minutes."""
    with pytest.raises(error) as caught:
        for seed in (*range(first, seeds), *range(first)):
            make(seed).run()
    fits = not isinstance(caught.value, TypeError) or "<locals>" not in str(caught.value)
    assert fits, f"the replacement is called with other arguments than it takes: {caught.value}"
