"""The particle swarm, moved by hand and run freely."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.search import Dimension, Parameters, ParticleSwarm, Space, driver
from schedlab.search.space import FloatArray

BOX = Space((Dimension("x", 0, 10), Dimension("y", 0, 100)))
# M. Clerc and J. Kennedy's constriction (2002), which does settle.
CONSTRICTION = Parameters(0.7298, 1.49618, 1.49618)


class Draws:
    """A generator whose draws are written down beforehand."""

    def __init__(self, *draws: list[list[float]]) -> None:
        self._draws = [np.array(draw) for draw in draws]

    def random(self, size: tuple[int, ...]) -> FloatArray:
        draw = self._draws.pop(0)
        assert draw.shape == size
        return draw


def sphere(positions: FloatArray) -> FloatArray:
    return np.asarray((positions**2).sum(axis=1))


def test_two_moves_of_two_particles_worked_out_by_hand() -> None:
    swarm = ParticleSwarm(
        BOX,
        Parameters(inertia=0.5, cognitive=1.0, social=2.0),
        particles=2,
        iterations=2,
        rng=Draws(
            [[0.2, 0.5], [0.8, 0.1]],  # positions
            [[0.5, 0.5], [0.6, 0.45]],  # velocities
            [[0.9, 0.9], [0.9, 0.9]],  # r_p of the first move
            [[0.25, 0.5], [0.9, 0.9]],  # r_g of the first move
            [[0.9, 0.9], [0.5, 0.1]],  # r_p of the second
            [[0.5, 0.3], [0.75, 0.2]],  # r_g of the second
        ),
    )
    # Positions: low + u (high - low). Velocities: (2u - 1)(high - low), i.e. 0.2 of 10 and -0.1
    # of 100 for the second particle.
    assert swarm.generation == 1
    np.testing.assert_allclose(swarm.ask(), [[2, 50], [8, 10]])
    np.testing.assert_allclose(swarm.velocity, [[0, 0], [2, -10]], atol=1e-12)
    swarm.tell(np.array([5.0, 3.0]))

    # g = (8, 10); each p is its particle's x, so the cognitive term is 0.
    # v0 = 0.5 (0, 0) + 2 (0.25, 0.5)(8 - 2, 10 - 50) = (3, -40);  x0 = (5, 10)
    # v1 = 0.5 (2, -10) + 2 (0.9, 0.9)(0, 0)         = (1, -5);   x1 = (9, 5)
    assert swarm.generation == 2
    np.testing.assert_allclose(swarm.ask(), [[5, 10], [9, 5]])
    np.testing.assert_allclose(swarm.velocity, [[3, -40], [1, -5]])
    swarm.tell(np.array([4.0, 3.0]))

    # 4 < 5: p0 = (5, 10). 3 is not below 3: p1 = g = (8, 10) as before.
    # v0 = 0.5 (3, -40) + 1 (0.9, 0.9)(0, 0) + 2 (0.5, 0.3)(8 - 5, 10 - 10)   = (4.5, -20)
    # x0 = (9.5, -10): beyond y's bound, so y = 0 and its velocity 0
    # v1 = 0.5 (1, -5) + 1 (0.5, 0.1)(8 - 9, 10 - 5) + 2 (0.75, 0.2)(-1, 5)
    #    = (0.5, -2.5) + (-0.5, 0.5) + (-1.5, 2) = (-1.5, 0);  x1 = (7.5, 5)
    assert swarm.generation == 3
    np.testing.assert_allclose(swarm.ask(), [[9.5, 0], [7.5, 5]])
    np.testing.assert_allclose(swarm.velocity, [[4.5, 0], [-1.5, 0]], atol=1e-12)
    assert not swarm.finished
    swarm.tell(np.array([9.0, 9.0]))
    assert swarm.finished


def test_the_swarms_best_keeps_its_place_on_a_tie() -> None:
    # One dimension of width 1, no inertia, only the social term with r_g = 1/2 and phi_g = 2, so
    # a particle jumps onto g. The second particle is g; then the first reaches the same value
    # elsewhere, which moves nothing.
    swarm = ParticleSwarm(
        Space((Dimension("x", 0, 1),)),
        Parameters(inertia=0.0, cognitive=0.0, social=2.0),
        particles=3,
        iterations=2,
        rng=Draws(
            [[0.125], [0.5], [0.75]],
            [[0.5], [0.5], [0.5]],
            *[[[0.0], [0.0], [0.0]], [[0.25], [0.0], [0.5]]],
            *[[[0.0], [0.0], [0.0]], [[0.0], [0.0], [0.5]]],
        ),
    )
    swarm.ask()
    swarm.tell(np.array([2.0, 1.0, 2.0]))
    # x0 = 0.125 + 2 * 0.25 * (0.5 - 0.125) = 0.3125; x2 = 0.75 + 2 * 0.5 * (0.5 - 0.75) = 0.5.
    assert swarm.ask().ravel().tolist() == [0.3125, 0.5, 0.5]
    swarm.tell(np.array([1.0, 5.0, 5.0]))
    # g is still 0.5, not 0.3125, so the third particle stays: 0.5 + 2 * 0.5 * (0.5 - 0.5).
    assert swarm.ask().ravel().tolist() == [0.3125, 0.5, 0.5]


def test_twenty_particles_and_thirty_iterations_are_620_executions() -> None:
    history = driver.run(ParticleSwarm(BOX), sphere)
    assert history.executions == history.evaluations == 20 * 31
    # The initial swarm is generation 1, the last move makes generation 31.
    assert history.generations.tolist() == [g for g in range(1, 32) for _ in range(20)]


def test_initial_positions_and_velocities_are_uniform() -> None:
    # 4000 particles: standard error of a mean is width / sqrt(12 * 4000) = width / 219 for
    # positions, and twice that for velocities, which spread over twice the width.
    swarm = ParticleSwarm(BOX, particles=4000, rng=3)
    width = BOX.high - BOX.low
    position = swarm.ask()
    assert (np.abs(position.mean(axis=0) - width / 2) < 4 * width / 219).all()
    assert (np.abs(swarm.velocity.mean(axis=0)) < 8 * width / 219).all()
    assert (np.abs(swarm.velocity) <= width).all()
    assert (np.abs(swarm.velocity).max(axis=0) > 0.99 * width).all()


def test_the_same_seed_gives_the_same_search() -> None:
    one, again, other = (driver.run(ParticleSwarm(BOX, rng=seed), sphere) for seed in (1, 1, 2))
    assert np.array_equal(one.positions, again.positions)
    assert not np.array_equal(one.positions, other.positions)
    generator = driver.run(ParticleSwarm(BOX, rng=np.random.default_rng(1)), sphere)
    assert np.array_equal(one.positions, generator.positions)


def test_a_settling_swarm_finds_the_minimum_of_the_sphere() -> None:
    # Started over a box 10 wide in each of three dimensions, a swarm that settles is within 0.01
    # of the origin after 600 executions; a uniform draw is with probability 4e-9.
    space = Space([Dimension(name, -5, 5) for name in "xyz"])
    for seed in range(10):
        swarm = ParticleSwarm(space, CONSTRICTION, iterations=60, rng=seed)
        assert driver.run(swarm, sphere).minimum < 0.01**2


def test_an_optimum_on_a_bound_is_reached_exactly() -> None:
    # The minimum of x + y over the box is its corner: particles stop at the bound, not near it.
    history = driver.run(ParticleSwarm(BOX, rng=1), lambda positions: positions.sum(axis=1))
    assert history.minimum == 0.0
    assert history.minimum_position.tolist() == [0.0, 0.0]


@given(
    seed=st.integers(0, 2**32),
    parameters=st.builds(Parameters, *[st.floats(-5, 5) for _ in range(3)]),
    integer=st.booleans(),
)
def test_positions_stay_in_the_space_whatever_the_parameters(
    seed: int, parameters: Parameters, *, integer: bool
) -> None:
    space = Space((Dimension("x", 0, 10, integer=integer), Dimension("y", -7, 100)))
    history = driver.run(
        ParticleSwarm(space, parameters, particles=4, iterations=6, rng=seed), sphere
    )
    assert (history.positions >= space.low).all()
    assert (history.positions <= space.high).all()
    if integer:
        assert (history.positions[:, 0] == np.rint(history.positions[:, 0])).all()


@given(seed=st.integers(0, 2**32))
def test_the_best_so_far_never_gets_worse(seed: int) -> None:
    best = driver.run(ParticleSwarm(BOX, particles=3, iterations=5, rng=seed), sphere).best_so_far()
    assert all(later <= earlier for earlier, later in pairwise(best))


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="particles is 0"):
        ParticleSwarm(BOX, particles=0)
    with pytest.raises(ValueError, match="iterations is -1"):
        ParticleSwarm(BOX, iterations=-1)
    with pytest.raises(ValueError, match="social is nan"):
        Parameters(0.5, 1.0, float("nan"))
