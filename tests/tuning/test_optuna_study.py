"""Racing as a pruner, and screening as enqueued trials, in real Optuna studies."""

from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

import schedlab
from schedlab import Machine, Scheduler, tuning
from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import Setting
from schedlab.targets.target import Simulated
from schedlab.tuning import optuna_study
from schedlab.tuning.optuna_study import RacingPruner

optuna.logging.set_verbosity(optuna.logging.WARNING)

BLOCKS = 32
WORK = "hackbench:groups=2,fds=4,loops=5"
PLACE = Simulated(Scheduler("6.1"), Machine(2, "reference"))


def _race(pruner: RacingPruner, costs: list[float], noise: float, seed: int) -> optuna.Study:
    """Run a study of settings with these mean costs, each over independent blocks."""
    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(seed))
    drawn = np.random.default_rng(seed)
    for cost in costs:
        trial = study.ask()
        values: list[float] = []
        for block in range(BLOCKS):
            values.append(cost * float(np.exp(noise * drawn.standard_normal())))
            trial.report(values[-1], block)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                break
        else:
            study.tell(trial, float(np.exp(np.log(values).mean())))
    return study


def test_the_best_setting_is_seldom_stopped() -> None:
    # Six settings that are all the same: whichever is called the best, the last one say, has met
    # the luckiest of five others. It is stopped in 5 % of the studies at most: of 120 that is 6,
    # and three standard deviations above it 13.
    pruner = RacingPruner(trials=6)
    studies = [_race(pruner, [1.0] * 6, 0.05, seed) for seed in range(120)]
    stopped = sum(study.trials[-1].state is TrialState.PRUNED for study in studies)
    assert stopped <= 13


def test_losers_cost_a_few_blocks() -> None:
    # Of 20 trials each comparison has 0.05 / 19, of which the first of four looks has a sixth. Of
    # one side: all of 8 pairs point one way by chance with 2^-8 = 0.0039, too often; all of 12 with
    # 0.00024, below 0.00044.
    study = _race(RacingPruner(trials=20), [1.0] + [1.3] * 19, 0.02, 1)
    lengths = [len(trial.intermediate_values) for trial in study.trials]
    assert lengths == [BLOCKS] + [12] * 19
    assert study.best_trial.number == 0


def test_a_better_setting_is_never_stopped() -> None:
    study = _race(RacingPruner(trials=5), [1.0, 0.9, 0.8, 0.7, 0.6], 0.02, 1)
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials)


def test_higher_may_be_better() -> None:
    study = optuna.create_study(pruner=RacingPruner(trials=2), direction="maximize")
    for rate in (100.0, 90.0):
        trial = study.ask()
        for block in range(BLOCKS):
            trial.report(rate + 0.1 * (block % 3), block)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                break
        else:
            study.tell(trial, rate)
    first, second = study.trials
    assert (first.state, second.state) == (TrialState.COMPLETE, TrialState.PRUNED)


def test_blocks_are_paired_by_their_number() -> None:
    # Odd blocks take ten times as long as even ones. The second trial has the odd ones alone, in
    # which both are the same: against all of the first's it would look five times slower.
    study = optuna.create_study(pruner=RacingPruner(trials=2))
    cost = [1.0 + 9.0 * (block % 2) + 0.001 * block for block in range(2 * BLOCKS)]
    first = study.ask()
    for block, value in enumerate(cost):
        first.report(value, block)
        assert not first.should_prune()
    study.tell(first, 5.5)
    second = study.ask()
    for block in range(1, 2 * BLOCKS, 2):
        second.report(cost[block], block)
        assert not second.should_prune()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trials": 1}, "trials is 1: at least 2"),
        ({"trials": 9, "error": 0.5}, "error is 0.5"),
        ({"trials": 9, "looks": (20, 8)}, "looks are"),
    ],
)
def test_wrong_numbers_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RacingPruner(**options)


@pytest.fixture(scope="module")
def found() -> tuning.Tuning:
    """Return a simulated tuning over a range and a choice."""
    return schedlab.tune(
        WORK,
        policies=["other", "batch"],
        knobs=["latency=1ms..50ms"],
        by="random",
        scheduler=PLACE.scheduler,
        machine=PLACE.machine,
        executions=30,
    )


def _turnaround(setting: Setting, seed: int = 1) -> int:
    return schedlab.simulate(
        WORK,
        scheduler=PLACE.scheduler.with_knobs(setting.knobs),
        machine=PLACE.machine,
        attributes=setting.attributes,
        seed=seed,
    ).turnaround_ns


def test_a_study_has_the_space_of_a_tuning(found: tuning.Tuning) -> None:
    assert optuna_study.space(found.parameters) == {
        "latency": IntDistribution(1_000_000, 50_000_000, log=True),
        "policy": CategoricalDistribution(("other", "batch")),
    }
    suggested = {"latency": 12_345_678, "policy": "batch"}
    setting = optuna_study.setting(found.parameters, suggested)
    assert setting == Setting({"latency": "12.3ms", "policy": "batch"})
    with pytest.raises(InputError, match="no value of 'policy' is suggested"):
        optuna_study.setting(found.parameters, {"latency": 2_000_000})


def test_a_study_tries_the_simulated_ranking_first(found: tuning.Tuning) -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    queued = optuna_study.enqueue(study, found, 5)
    assert optuna_study.enqueue(study, found, 5) == queued
    space = optuna_study.space(found.parameters)
    tried = []
    for _ in range(8):
        trial = study.ask(space)
        tried.append(optuna_study.setting(found.parameters, trial.params))
        study.tell(trial, _turnaround(tried[-1]))
    # The same settings, to the nanosecond, in the order of their worth; then the sampler's own.
    assert tried[:5] == queued
    assert len(set(tried)) == 8
    worths = [trial.user_attrs["schedlab:worth"] for trial in study.trials[:5]]
    assert worths == sorted(worths)
    # A worth is the ratio to the default, in the same simulation as this study's.
    default = _turnaround(Setting({}))
    ratios = [trial.value / default for trial in study.trials[:5] if trial.value is not None]
    assert ratios == pytest.approx(worths)
    assert worths[0] == found.effect
    assert all("schedlab:worth" not in trial.user_attrs for trial in study.trials[5:])
    with pytest.raises(InputError, match="count is 0"):
        optuna_study.enqueue(study, found, 0)


def test_screening_and_racing_settle_a_study_in_fewer_runs(found: tuning.Tuning) -> None:
    # A study over fresh seeds as blocks: with the ranking it begins at a setting whose worth in the
    # search was the least of 30, and the rest are raced against it.
    def runs(study: optuna.Study, trials: int) -> int:
        space, used = optuna_study.space(found.parameters), 0
        for _ in range(trials):
            trial = study.ask(space)
            setting = optuna_study.setting(found.parameters, trial.params)
            ratios = []
            for block in range(40):
                seed = 100 + block
                ratios.append(_turnaround(setting, seed) / _turnaround(Setting({}), seed))
                used += 1
                trial.report(ratios[-1], block)
                if trial.should_prune():
                    study.tell(trial, state=TrialState.PRUNED)
                    break
            else:
                study.tell(trial, float(np.mean(ratios)))
        return used

    raced = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=3), pruner=RacingPruner(trials=8)
    )
    optuna_study.enqueue(raced, found, 3)
    used = runs(raced, 8)
    plain = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=3), pruner=optuna.pruners.NopPruner()
    )
    assert runs(plain, 8) == 8 * 40
    assert used < 8 * 40
    assert raced.best_value <= plain.best_value
