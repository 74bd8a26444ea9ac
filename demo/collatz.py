"""Tiny tasks: the length of the Collatz chain of one number. A few microseconds each, and easily checked."""


def chain_steps(number: int) -> int:
    """Halve what is even, triple what is odd and add one; how many steps until 1?"""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def longest_chain(steps: list[int]) -> tuple[int, int]:
    """The number with the longest chain, and its steps, when the first entry belongs to 1."""
    most = max(steps)
    return steps.index(most) + 1, most
