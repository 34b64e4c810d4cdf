"""The searches on a function that has nothing to do with schedulers, alone and under Optuna."""

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import FloatDistribution

from schedlab.search import Dimension, ParticleSwarm, ResponseSurface, Space, run
from schedlab.search.optuna_samplers import ParticleSwarmSampler


def bowl(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value at each row; the only minimum, 0, lies at (1, 0.5)."""
    x, y = positions[:, 0] - 1, positions[:, 1] - 0.5
    return x**2 + 2 * y**2 + 0.5 * x * y + 0.1 * x**4


def main() -> None:
    """Print where each search ended, and after how many executions."""
    space = Space((Dimension("x", -1.7, 2.2), Dimension("y", -0.6, 2.9)))
    searches = {
        "particle swarm": ParticleSwarm(space, rng=1, particles=40, iterations=60),
        "response surface": ResponseSurface(space),
    }
    print(f"{'search':24} {'x':>7} {'y':>7} {'value':>9} {'executions':>11}")
    for name, search in searches.items():
        found = run(search, bowl)
        x, y = found.minimum_position
        print(f"{name:24} {x:7.3f} {y:7.3f} {found.minimum:9.2e} {found.executions:11}")

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {"x": FloatDistribution(-1.7, 2.2), "y": FloatDistribution(-0.6, 2.9)}
    sampler = ParticleSwarmSampler(distributions, seed=1, particles=40, iterations=60)
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        point = [trial.suggest_float("x", -1.7, 2.2), trial.suggest_float("y", -0.6, 2.9)]
        return float(bowl(np.array([point]))[0])

    study.optimize(objective)
    x, y = study.best_params["x"], study.best_params["y"]
    trials = len(study.trials)
    print(f"{'particle swarm (Optuna)':24} {x:7.3f} {y:7.3f} {study.best_value:9.2e} {trials:11}")


if __name__ == "__main__":
    main()
