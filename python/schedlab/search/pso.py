"""Particle swarm optimisation with inertia weight.

Each particle has a position x, a velocity v and the best position p it has been at; g is the best
position of all. A move is, with ``*`` by element and r_p, r_g random in [0, 1) for each
particle and each dimension,

    v <- omega v + phi_p r_p * (p - x) + phi_g r_g * (g - x)        (1)
    x <- x + v                                                      (2)

as in "Comparison of application of global and one-dimensional local optimization methods to
operating system scheduler tuning", equations (1) and (2). What the paper leaves open is settled so:

* Initial velocities are uniform in [-d, d], d being the width of the range (M. E. H. Pedersen,
  "Good Parameters for Particle Swarm Optimization", 2010, whose notation the paper uses).
* At a bound a particle stops there: its position becomes the bound and that component of its
  velocity zero, the other components going on (as in Standard PSO 2007). The ranges are hard, so a
  position outside has no value. Keeping the velocity would press the particle against the bound for
  generations, and reflecting it would make an optimum on the bound itself, such as a granularity
  of 0, unreachable. It also bounds the speed: a component beyond the range's width always ends at a
  bound, so no separate limit is needed, not even where (1) alone diverges.
* p and g change at a strictly lower value only, after the whole generation is known, and the first
  particle wins a tie: a generation is one batch of independent executions.
"""

from dataclasses import dataclass

import numpy as np

from schedlab.search.generation import GenerationSearch
from schedlab.search.space import FloatArray, Space, UniformSource, uniform_source


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of equation (1).

    Attributes:
        inertia: omega, the weight of the velocity.
        cognitive: phi_p, the weight of the particle's own best position.
        social: phi_g, the weight of the swarm's best position.
    """

    inertia: float
    cognitive: float
    social: float

    def __post_init__(self) -> None:
        for name in ("inertia", "cognitive", "social"):
            if not np.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}: a finite number is needed")


OPTIMIZED = Parameters(0.4365, 3.020, 3.020)
"""What the paper's meta-optimisation by response surface arrived at (section VI)."""

DEFAULT = Parameters(0.9, 4.0, 4.0)
"""What the paper calls the default parameters (section VI).

Neither pair lets a swarm settle on a smooth function: the variance of a particle's position stays
bounded only while (phi_p + phi_g) < 24 (1 - omega^2) / (7 - 5 omega) (R. Poli, "Mean and Variance
of the Sampling Distribution of Particle Swarm Optimizers During Stagnation", 2009), which is 4.03
for omega = 0.4365 and 1.82 for 0.9; these have 6.04 and 8. Here the bounds keep the swarm together.
"""


class ParticleSwarm(GenerationSearch):
    """A particle swarm, asked for one position a particle each generation.

    The initial swarm is generation 1, so ``iterations`` moves make ``iterations + 1`` generations
    and ``particles * (iterations + 1)`` evaluations, cached repeats included.

    Args:
        space: where to search.
        parameters: of equation (1).
        particles: in the swarm, at least 1.
        iterations: moves of the swarm, at least 0.
        rng: a generator, the seed of one, or any source of uniform numbers.

    Raises:
        ValueError: a number out of range.

    >>> from schedlab.search import Dimension, Space, run
    >>> space = Space((Dimension("x", -5, 5), Dimension("y", -5, 5)))
    >>> history = run(ParticleSwarm(space, rng=1), lambda p: (p**2).sum(axis=1))
    >>> history.evaluations, history.generations.max().item()
    (620, 31)
    """

    def __init__(
        self,
        space: Space,
        parameters: Parameters = OPTIMIZED,
        *,
        particles: int = 20,
        iterations: int = 30,
        rng: UniformSource | int = 0,
    ) -> None:
        super().__init__(space)
        if particles < 1:
            raise ValueError(f"particles is {particles}: at least 1 is needed")
        if iterations < 0:
            raise ValueError(f"iterations is {iterations}: at least 0 is needed")
        self._parameters = parameters
        self._iterations = iterations
        self._rng = uniform_source(rng)
        width = space.high - space.low
        self._position = space.uniform(self._rng, particles)
        self._velocity = (2 * self._rng.random(self._position.shape) - 1) * width
        self._own_best = self._position.copy()
        self._own_best_value = np.full(particles, np.inf)
        self._swarm_best = self._position[0].copy()
        self._swarm_best_value = np.inf

    @property
    def finished(self) -> bool:
        """Whether every move has been made and told."""
        return self._generation > self._iterations + 1

    @property
    def velocity(self) -> FloatArray:
        """The particles' velocities, a row each, after the last move."""
        return self._velocity.copy()

    def _propose(self) -> FloatArray:
        if self._generation > 1:
            self._move()
        return self._position

    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        # The whole positions that were evaluated count as best ones; particles themselves move
        # in the continuum, or a small velocity could never carry one off a whole number.
        better = values < self._own_best_value
        self._own_best[better] = positions[better]
        self._own_best_value[better] = values[better]
        first = int(np.argmin(values))
        if values[first] < self._swarm_best_value:
            self._swarm_best = positions[first].copy()
            self._swarm_best_value = float(values[first])

    def _move(self) -> None:
        omega = self._parameters.inertia
        phi_p, phi_g = self._parameters.cognitive, self._parameters.social
        r_p = self._rng.random(self._position.shape)
        r_g = self._rng.random(self._position.shape)
        self._velocity = (
            omega * self._velocity
            + phi_p * r_p * (self._own_best - self._position)
            + phi_g * r_g * (self._swarm_best - self._position)
        )
        moved = self._position + self._velocity
        self._position = np.clip(moved, self._space.low, self._space.high)
        self._velocity[moved != self._position] = 0.0
