"""Random search."""

import numpy as np
import pytest
import scipy.stats

from schedlab.search import Dimension, RandomSearch, Space, driver
from schedlab.search.space import FloatArray

SPACE = Space((Dimension("x", -1, 1), Dimension("y", 0, 10)))


def test_positions_do_not_depend_on_the_batch() -> None:
    def positions(batch: int) -> FloatArray:
        search = RandomSearch(SPACE, evaluations=50, batch=batch, rng=1)
        return driver.run(search, lambda p: p[:, 0]).positions

    assert np.array_equal(positions(1), positions(50))
    assert np.array_equal(positions(7), positions(50))


def test_as_many_evaluations_as_asked_in_batches() -> None:
    history = driver.run(RandomSearch(SPACE, evaluations=50, batch=20), lambda p: p[:, 0])
    assert np.bincount(history.generations).tolist() == [0, 20, 20, 10]


def test_positions_are_uniform() -> None:
    history = driver.run(RandomSearch(SPACE, evaluations=2000, rng=5), lambda p: p[:, 0])
    for axis, (low, width) in enumerate([(-1, 2), (0, 10)]):
        test = scipy.stats.kstest(history.positions[:, axis], "uniform", args=(low, width))
        assert test.pvalue > 0.001


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="evaluations is 0"):
        RandomSearch(SPACE, evaluations=0)
    with pytest.raises(ValueError, match="batch is 0"):
        RandomSearch(SPACE, batch=0)
