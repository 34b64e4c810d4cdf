"""Optuna's samplers as searches, and our searches as Optuna's samplers."""

import math

import numpy as np
import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from schedlab.search import Dimension, GoldenSection, ParticleSwarm, RandomSearch, Space, run
from schedlab.search.optuna_samplers import (
    GoldenSectionSampler,
    ParticleSwarmSampler,
    ResponseSurfaceSampler,
    SearchSampler,
)
from schedlab.search.optuna_search import OptunaSearch, distributions
from schedlab.search.space import FloatArray

optuna.logging.set_verbosity(optuna.logging.WARNING)

BOX = Space((Dimension("x", -5, 5), Dimension("y", -5, 5)))


def _bowl(positions: FloatArray) -> FloatArray:
    return np.asarray(((positions - 1) ** 2).sum(axis=1))


@pytest.mark.parametrize("name", ["tpe", "cmaes"])
def test_a_sampler_beats_chance_and_is_repeatable(name: str) -> None:
    def once() -> FloatArray:
        search = OptunaSearch(BOX, name, evaluations=80, batch=5, seed=3)  # type: ignore[arg-type]
        return run(search, _bowl).values

    values = once()
    assert len(values) == 80
    assert np.array_equal(values, once())
    # 80 positions at random: the share of the box within r of the minimum is pi r^2 / 100, so the
    # median of the least value is r^2 with 80 pi r^2 / 100 = ln 2, that is 0.28.
    assert values.min() < 0.28


def test_choices_are_categories() -> None:
    space = Space((Dimension("policy", 0, 2, integer=True, ordered=False), *BOX.dimensions))
    assert distributions(space)["policy"] == CategoricalDistribution((0, 1, 2))
    search = OptunaSearch(space, "tpe", evaluations=60, batch=5, seed=1)
    history = run(search, lambda p: _bowl(p[:, 1:]) + 10 * (p[:, 0] != 2))
    assert history.minimum_position[0] == 2


def test_values_that_are_infinite_do_no_harm() -> None:
    for name in ("tpe", "cmaes"):
        search = OptunaSearch(BOX, name, evaluations=40, batch=5)
        history = run(search, lambda p: np.where(p[:, 0] > 0, np.inf, _bowl(p)))
        assert history.evaluations == 40


def test_a_swarm_as_a_sampler_goes_where_the_swarm_goes() -> None:
    space: dict[str, BaseDistribution] = {n: FloatDistribution(-5, 5) for n in ("x", "y")}
    sampler = ParticleSwarmSampler(space, particles=6, iterations=5, seed=4)
    study = optuna.create_study(sampler=sampler)
    study.optimize(
        lambda t: (t.suggest_float("x", -5, 5) - 1) ** 2 + (t.suggest_float("y", -5, 5) - 1) ** 2
    )
    ours = run(ParticleSwarm(BOX, particles=6, iterations=5, rng=4), _bowl)
    assert [trial.value for trial in study.trials] == pytest.approx(ours.values.tolist())


def test_a_study_that_maximises_is_turned_round() -> None:
    sampler = GoldenSectionSampler({"x": FloatDistribution(0, 4)})
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.optimize(lambda t: -((t.suggest_float("x", 0, 4) - 3) ** 2))
    assert study.best_params["x"] == pytest.approx(3, abs=0.01)
    assert len(study.trials) == GoldenSection.executions_for(4, 0.004)


def test_every_kind_of_parameter_gets_values_it_allows() -> None:
    space: dict[str, BaseDistribution] = {
        "log": IntDistribution(1, 100_000, log=True),
        "step": IntDistribution(10, 50, step=20),
        "grid": FloatDistribution(0, 1, step=0.25),
        "ratio": FloatDistribution(1e-3, 1e3, log=True),
        "policy": CategoricalDistribution(("other", "fifo", "rr")),
    }
    sampler = SearchSampler(space, lambda s: RandomSearch(s, evaluations=40, rng=1))
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        value = trial.suggest_int("log", 1, 100_000, log=True)
        assert trial.suggest_int("step", 10, 50, step=20) in (10, 30, 50)
        assert trial.suggest_float("grid", 0, 1, step=0.25) in (0, 0.25, 0.5, 0.75, 1)
        assert 1e-3 <= trial.suggest_float("ratio", 1e-3, 1e3, log=True) <= 1e3
        assert trial.suggest_categorical("policy", ("other", "fifo", "rr")) in (
            "other",
            "fifo",
            "rr",
        )
        return math.log(value)

    study.optimize(objective)
    assert len(study.trials) == 40
    # Half of what is uniform in ratios lies below the geometric mean, 316.
    below = sum(trial.params["log"] < 316 for trial in study.trials)
    assert 8 <= below <= 32


def test_failed_and_surplus_trials_do_not_stop_the_search() -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(-5, 5)}
    study = optuna.create_study(sampler=ResponseSurfaceSampler(space, evaluations=11))
    # Five positions are out; a sixth worker gets a random one.
    trials = [study.ask(space) for _ in range(6)]
    for trial in trials[1:]:
        study.tell(trial, (trial.params["x"] - 2) ** 2)
    study.tell(trials[0], state=optuna.trial.TrialState.FAIL)
    following = study.ask(space)
    study.tell(following, (following.params["x"] - 2) ** 2)
    # The four that succeeded give the parabola, whose minimum is among the next ones.
    study.optimize(lambda t: (t.suggest_float("x", -5, 5) - 2) ** 2, n_trials=10)
    assert study.best_params["x"] == pytest.approx(2)
