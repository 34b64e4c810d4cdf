"""The order in which the arms of an experiment run, random in each block."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def block_order(arms: Sequence[T], seed: int, block: int) -> list[T]:
    """Return the arms in the order of one block.

    It depends on the seed and the block alone, so that an experiment that is taken up again goes on
    as if it had never stopped.

    Args:
        arms: the arms, always in the same order.
        seed: of the experiment.
        block: its number, from 0.

    >>> [block_order("abc", 1, block) for block in range(3)] == [
    ...     block_order("abc", 1, block) for block in range(3)
    ... ]
    True
    >>> sorted(block_order("abc", 1, 7))
    ['a', 'b', 'c']
    """
    drawn = np.random.default_rng([seed, block]).permutation(len(arms))
    return [arms[index] for index in drawn]
