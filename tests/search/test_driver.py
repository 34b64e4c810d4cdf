"""Running searches, and the counts of their histories."""

from collections.abc import Callable

import numpy as np
import pytest

from schedlab.search import (
    Dimension,
    GoldenSection,
    History,
    ParticleSwarm,
    Progress,
    RandomSearch,
    Search,
    Space,
    driver,
)
from schedlab.search.space import FloatArray

LINE = Space((Dimension("x", 0, 10, integer=True),))
BOX = Space((Dimension("x", 0, 10), Dimension("y", 0, 100)))


class Scripted:
    """Asks for given positions, a list a generation."""

    def __init__(self, *script: list[float], space: Space = LINE) -> None:
        self._script = list(script)
        self.space = space
        self.generation = 1
        self.told: list[list[float]] = []

    @property
    def finished(self) -> bool:
        return self.generation > len(self._script)

    def ask(self) -> FloatArray:
        return np.array(self._script[self.generation - 1]).reshape(-1, 1)

    def tell(self, values: FloatArray) -> None:
        self.told.append(values.tolist())
        self.generation += 1


def counting(calls: list[list[float]]) -> Callable[[FloatArray], FloatArray]:
    def objective(positions: FloatArray) -> FloatArray:
        calls.append(positions[:, 0].tolist())
        return np.asarray(100 - positions[:, 0])

    return objective


def example() -> History:
    # Values are 100 - x: 95, 93 | 95, 97 | 91, 93. The repeats are the third and the last.
    search = Scripted([5, 7], [5, 3], [9, 7])
    return driver.run(search, counting([]), remember=True)


def test_counts_where_repeats_are_remembered() -> None:
    history = example()
    assert history.values.tolist() == [95, 93, 95, 97, 91, 93]
    assert history.generations.tolist() == [1, 1, 2, 2, 3, 3]
    assert history.executed.tolist() == [True, True, False, True, True, False]
    assert (history.evaluations, history.executions) == (6, 4)
    assert (history.minimum, history.minimum_position.tolist()) == (91, [9])
    # 91 is met first by the fifth evaluation, of which four were executed.
    assert history.executions_to_minimum == 4
    assert history.generation_of_minimum == 3
    assert history.best_so_far().tolist() == [95, 93, 93, 91]


@pytest.mark.parametrize(
    ("value", "executions", "generation"),
    [(100, 1, 1), (95, 1, 1), (94, 2, 1), (93, 2, 1), (92, 4, 3), (91, 4, 3), (90, None, None)],
)
def test_executions_to_a_value(
    value: float, executions: int | None, generation: int | None
) -> None:
    assert example().executions_to(value) == executions
    assert example().generation_of(value) == generation


def test_without_memory_every_evaluation_is_an_execution() -> None:
    calls: list[list[float]] = []
    history = driver.run(Scripted([5, 5], [5]), counting(calls))
    assert calls == [[5, 5], [5]]
    assert history.executed.all()
    assert history.executions == 3


def test_with_memory_the_objective_sees_each_position_once() -> None:
    calls: list[list[float]] = []
    searches = [Scripted([5, 7, 5], [7]), Scripted([7], [5, 1], [1])]
    histories = driver.run_many(searches, counting(calls), remember=True)
    # Generation 1 asks for 5, 7, 5 | 7; generation 2 for 7 | 5, 1; generation 3 for 1.
    assert calls == [[5, 7], [1]]
    # Each history counts what its search would have needed alone.
    assert histories[0].executed.tolist() == [True, True, False, False]
    assert histories[1].executed.tolist() == [True, True, True, False]
    # And each search is told the values of its own positions, in their order.
    assert searches[0].told == [[95, 93, 95], [93]]
    assert searches[1].told == [[93], [95, 99], [99]]


@pytest.mark.parametrize("remember", [False, True])
def test_lockstep_equals_one_by_one(remember: bool) -> None:
    def searches() -> list[Search]:
        # Whole numbers in a small space, so that repeats do occur; unequal numbers of generations.
        space = Space([Dimension(name, 0, 9, integer=True) for name in "xy"])
        swarms: list[Search] = [ParticleSwarm(space, rng=seed) for seed in range(5)]
        return [*swarms, RandomSearch(space, evaluations=70, rng=9)]

    def objective(positions: FloatArray) -> FloatArray:
        return np.asarray(((positions - 3) ** 2).sum(axis=1))

    together = driver.run_many(searches(), objective, remember=remember)
    alone = [driver.run(search, objective, remember=remember) for search in searches()]
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.positions, other.positions)
        assert np.array_equal(one.values, other.values)
        assert np.array_equal(one.generations, other.generations)
        assert np.array_equal(one.executed, other.executed)
    assert any(not history.executed.all() for history in together) == remember


def test_memory_changes_no_value_and_no_position() -> None:
    space = Space([Dimension(name, 0, 9, integer=True) for name in "xy"])

    def objective(positions: FloatArray) -> FloatArray:
        return np.asarray(np.abs(positions - 4).sum(axis=1))

    plain = driver.run(ParticleSwarm(space, rng=1), objective)
    remembered = driver.run(ParticleSwarm(space, rng=1), objective, remember=True)
    assert np.array_equal(plain.positions, remembered.positions)
    assert np.array_equal(plain.values, remembered.values)
    # Executions are the distinct positions.
    assert remembered.executions == len(np.unique(plain.positions, axis=0))


def test_progress_is_told_each_generation() -> None:
    seen: list[Progress] = []
    driver.run_many(
        [Scripted([5, 7], [5]), Scripted([9])], counting([]), remember=True, progress=seen.append
    )
    assert seen == [Progress(1, 3, 91.0), Progress(2, 3, 91.0)]


def test_no_searches_make_no_histories() -> None:
    assert driver.run_many([], counting([])) == []


def test_a_wrong_number_of_values_is_named() -> None:
    with pytest.raises(ValueError, match=r"objective returned values of shape \(2, 1\) for 2 pos"):
        driver.run(GoldenSection(LINE, tolerance=1), lambda positions: positions)


def test_a_value_that_is_no_number_is_named_with_its_position() -> None:
    with pytest.raises(ValueError, match=r"the value at \{'x': 6\} is not a number"):
        # The inner points of [0, 10] are 3.82 and 6.18, rounded 4 and 6.
        driver.run(GoldenSection(LINE, tolerance=1), lambda p: np.where(p[:, 0] > 5, np.nan, 1.0))


def test_an_infinite_value_is_only_very_bad() -> None:
    # A run that failed may be told as infinity: the search goes on without it.
    history = driver.run(
        ParticleSwarm(BOX, rng=1), lambda p: np.where(p[:, 0] < 5, np.inf, p.sum(axis=1))
    )
    assert history.minimum >= 5
    assert np.isfinite(history.minimum)


def test_ask_and_tell_alternate() -> None:
    search = RandomSearch(BOX, evaluations=3, batch=3)
    with pytest.raises(RuntimeError, match="values that it did not ask for"):
        search.tell(np.zeros(3))
    asked = search.ask()
    assert np.array_equal(search.ask(), asked)
    with pytest.raises(ValueError, match=r"values of shape \(2,\) were told for 3 positions"):
        search.tell(np.zeros(2))
    search.tell(np.zeros(3))
    assert search.finished
    with pytest.raises(RuntimeError, match="the search has finished"):
        search.ask()


def test_a_search_that_has_enough_ends_with_that_generation() -> None:
    # Values are 100 - x: 95, 93 | 91 | 99. The first has enough at 91, the second never.
    calls: list[list[float]] = []
    one, two = Scripted([5, 7], [9], [1]), Scripted([5, 6], [7], [8])
    first, second = driver.run_many([one, two], counting(calls), remember=True, enough=91)
    assert calls == [[5, 7, 6], [9], [8]]
    assert (first.minimum, first.executions, first.generation_of_minimum) == (91, 3, 2)
    assert (second.minimum, second.executions) == (92, 4)
