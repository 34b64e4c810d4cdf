"""Racing and screening for Optuna studies of your own.

`RacingPruner` stops trials that are certain to be worse than the best one. `enqueue` hands the best
settings of a simulated tuning to a study, which then tries them first on the real kernel::

    import optuna
    from schedlab import tune
    from schedlab.tuning import optuna_study

    found = tune("hackbench:groups=5", policies=["other", "batch"], knobs=["base_slice"])
    study = optuna.create_study(pruner=optuna_study.RacingPruner(trials=40))
    optuna_study.enqueue(study, found, 10)
    space = optuna_study.space(found.parameters)

    for _ in range(40):
        trial = study.ask(space)
        setting = optuna_study.setting(found.parameters, trial.params)
        ...  # run it in blocks, report each, ask trial.should_prune()

A parameter has the name of its knob, ``policy`` or ``slice``; a time is a whole number of
nanoseconds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from schedlab.boundary.errors import InputError
from schedlab.experiment.group_sequential import Pairs, Protocol, judge_all
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.model import parse_time
from schedlab.tuning.parameters import Options, Parameters, Range
from schedlab.tuning.result import Tuning, ranking

__all__ = ["RacingPruner", "enqueue", "ranking", "setting", "space"]

LOOKS = (8, 12, 20, 32)
"""Blocks after which a trial is looked at by default."""

_WORTH = "schedlab:worth"


class RacingPruner(BasePruner):
    """Stops a trial that is certain to be worse than the best one that is complete.

    A trial reports what it measured in each block as that step: ``trial.report(value, block)``,
    then asks ``trial.should_prune()``. Its blocks are paired with those of the best trial; after a
    fixed number of pairs the interval of their mean ratio is looked at. Each look spends its part
    of the error probability (`schedlab.experiment.group_sequential`), and each trial that the best
    setting may meet its share (Boole's inequality), so that the best of ``trials`` settings is
    stopped with probability ``error`` at most, however lucky the trial was that it meets.

    That holds for blocks whose scatter is independent. A machine drifts: run the default beside the
    trial in each block, and report the ratio.

    Args:
        trials: that the study will have.
        error: probability with which the best setting is stopped at the most.
        looks: numbers of pairs after which there is a look, rising.

    Raises:
        ValueError: a number out of range.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(pruner=RacingPruner(trials=2))
    >>> def objective(trial):
    ...     cost = trial.suggest_categorical("cost", [1.0, 2.0])
    ...     for block in range(20):
    ...         trial.report(cost + 0.01 * (block % 3), block)
    ...         if trial.should_prune():
    ...             raise optuna.TrialPruned
    ...     return cost
    >>> for cost in (1.0, 2.0):
    ...     study.enqueue_trial({"cost": cost})
    >>> study.optimize(objective, n_trials=2)
    >>> [(trial.state.name, len(trial.intermediate_values)) for trial in study.trials]
    [('COMPLETE', 20), ('PRUNED', 8)]
    """

    def __init__(self, *, trials: int, error: float = 0.05, looks: tuple[int, ...] = LOOKS) -> None:
        if trials < 2:
            raise ValueError(f"trials is {trials}: at least 2 are needed")
        if not 0 < error < 0.5:
            raise ValueError(f"error is {error}: a number between 0 and 0.5 is needed")
        # One side of an interval alone stops a trial.
        self._protocol = Protocol(looks, 0.0, 1 - 2 * error / (trials - 1))

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether a trial is to be stopped; Optuna asks it."""
        best = self._best(study)
        if best is None:
            return False
        blocks = [one for one in trial.intermediate_values if one in best.intermediate_values]
        if len(blocks) not in self._protocol.looks:
            return False
        pairs = Pairs(
            [best.intermediate_values[one] for one in blocks],
            [trial.intermediate_values[one] for one in blocks],
            "lower" if study.direction == StudyDirection.MINIMIZE else "higher",
        )
        base, tried = np.array(pairs.baseline), np.array(pairs.treatment)
        if not ((base > 0).all() and (tried > 0).all()):
            return False  # there is no ratio
        mean = float(np.log(tried / base).mean())
        if (mean if pairs.better == "lower" else -mean) <= 0:
            return False  # nor is its interval on the worse side
        alpha = self._protocol.alphas[self._protocol.looks.index(len(blocks))]
        judged = judge_all({"": pairs}, alpha, band=0.0)[""]
        return judged.verdict is Verdict.WORSE

    @staticmethod
    def _best(study: Study) -> FrozenTrial | None:
        """Return the best complete trial that reported its blocks."""
        able = [
            one
            for one in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if one.intermediate_values and one.value is not None
        ]
        sign = 1 if study.direction == StudyDirection.MINIMIZE else -1
        return min(able, key=lambda one: sign * (one.value or 0.0), default=None)


def space(parameters: Parameters) -> dict[str, BaseDistribution]:
    """Return what a study is to suggest, see `optuna.Study.ask`.

    >>> from schedlab.model import Machine, Scheduler
    >>> from schedlab.targets.target import Simulated
    >>> from schedlab.tuning import parameters
    >>> place = Simulated(Scheduler("6.1"), Machine(1, "reference"))
    >>> space(parameters(place, knobs=["latency=1ms..100ms"]))
    {'latency': IntDistribution(high=100000000, log=True, low=1000000, step=1)}
    """
    return {one.name: _distribution(one) for one in parameters.searched}


def _distribution(one: Range | Options) -> BaseDistribution:
    if isinstance(one, Options):
        return CategoricalDistribution(one.values)
    return IntDistribution(one.low, one.high, log=one.scale == "log" and one.low > 0)


def setting(parameters: Parameters, suggested: Mapping[str, Any]) -> Setting:
    """Return the setting that suggested values stand for, with what is set beside them.

    A value is rounded as the tuning's own are: to three digits, and to the kernel's unit.

    Args:
        parameters: what was searched.
        suggested: by name, such as a trial's ``params``.

    Raises:
        InputError: a value is missing.
    """
    found = {}
    for one in parameters.searched:
        if one.name not in suggested:
            raise InputError(
                f"no value of '{one.name}' is suggested; needed: {', '.join(parameters.names)}"
            )
        value = suggested[one.name]
        found[one.name] = one.rounded(value) if isinstance(one, Range) else str(value)
    return parameters.complete(found)


def enqueue(study: Study, found: Tuning, count: int = 10) -> list[Setting]:
    """Have a study try the best settings of a tuning first, the best one at once.

    A trial's user attribute ``schedlab:worth`` says what the setting was worth there. A setting
    that the study tried already is left out. The rest of its trials are its sampler's own, which
    learns from these as from all.

    Args:
        study: a study of `space`.
        found: a tuning, as a rule a simulated one.
        count: settings at the most.

    Returns:
        The settings, in the order in which they will be tried.

    Raises:
        InputError: a count below 1.
    """
    if count < 1:
        raise InputError(f"count is {count}; allowed: at least 1")
    best = ranking(found)[:count]
    for one, worth in best:
        values = {
            parameter.name: _plain(parameter, one.values[parameter.name])
            for parameter in found.parameters.searched
            if parameter.name in one.values
        }
        study.enqueue_trial(values, user_attrs={_WORTH: worth}, skip_if_exists=True)
    return [one for one, _ in best]


def _plain(parameter: Range | Options, text: str) -> Any:
    """Return a value as a study has it."""
    if isinstance(parameter, Options):
        return text
    return parse_time(text) if parameter.time else int(text)
