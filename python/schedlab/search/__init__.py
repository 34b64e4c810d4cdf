"""Search for the minimum of any function of named numbers.

A search is asked for positions and told their values, so it never sees the function, and many
searches can advance together with one call of the function a generation. Nothing here knows what
the numbers are. `schedlab.search.optuna_search` makes searches of Optuna's samplers (TPE, CMA-ES,
NSGA-II), and `schedlab.search.optuna_samplers` makes samplers of ours; Optuna is loaded by these
two alone. `schedlab.search.pareto` has the front of positions with several values.

>>> space = Space((Dimension("x", -5, 5), Dimension("y", -5, 5)))
>>> swarms = [ParticleSwarm(space, rng=seed) for seed in range(3)]
>>> histories = run_many(swarms, lambda positions: (positions**2).sum(axis=1))
>>> [history.executions for history in histories]
[620, 620, 620]
"""

from schedlab.search.driver import Objective, Progress, run, run_many
from schedlab.search.golden import GoldenSection
from schedlab.search.history import History
from schedlab.search.pso import DEFAULT, OPTIMIZED, Parameters, ParticleSwarm
from schedlab.search.random_search import RandomSearch
from schedlab.search.response_surface import ResponseSurface
from schedlab.search.search import Search
from schedlab.search.space import Dimension, Space
from schedlab.search.subspace import Pinned

__all__ = [
    "DEFAULT",
    "OPTIMIZED",
    "Dimension",
    "GoldenSection",
    "History",
    "Objective",
    "Parameters",
    "ParticleSwarm",
    "Pinned",
    "Progress",
    "RandomSearch",
    "ResponseSurface",
    "Search",
    "Space",
    "run",
    "run_many",
]
