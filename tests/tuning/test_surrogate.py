"""The model of candidates: against a Gaussian posterior worked out by hand, and its sequence."""

import math

import numpy as np
import pytest

from schedlab.experiment.settings import Setting
from schedlab.tuning import Options, Parameters, Range
from schedlab.tuning import surrogate as module
from schedlab.tuning.surrogate import Surrogate, likeness


def test_likeness_is_of_near_values_and_equal_choices() -> None:
    searched = Parameters(
        (
            Range("latency", 1_000_000, 100_000_000, time=True),
            Options("policy", ("other", "batch", "fifo:1")),
        )
    )
    texts = [("1ms", "other"), ("1ms", "batch"), ("10ms", "batch"), ("100ms", "batch")]
    settings = [
        Setting({}),
        *(Setting({"latency": latency, "policy": policy}) for latency, policy in texts),
    ]
    found = likeness(searched, settings)
    assert np.allclose(np.diag(found), 1)
    assert np.allclose(found, found.T)
    # The present setting has neither: it is alike to none.
    assert not found[0, 1:].any()
    # 10 ms is half of the range from both ends in ratios, exp(-(0.5 / 0.35)^2 / 2) = 0.3604 alike;
    # main effects weigh a half, over two parameters, and both together 0.35.
    near = math.exp(-0.5 * (0.5 / 0.35) ** 2)
    assert found[2, 3] == pytest.approx(0.5 * (near + 1) / 2 + 0.35 * near)
    assert found[2, 3] == pytest.approx(found[3, 4])
    # Another policy with the same latency: the latency's main effect alone.
    assert found[1, 2] == pytest.approx(0.5 / 2)
    assert np.linalg.eigvalsh(found).min() > 0


def test_means_are_those_of_the_posterior_worked_out_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One model, two candidates that are not alike, simulated equal to the present one, and a pair
    # ratio r of candidate 1 over n pairs: deviation d1 - d0 with variance 2 t^2, noise 2 s^2 / n.
    # Its posterior mean is r * t^2 / (2 t^2 + 2 s^2 / n), as only d1 is asked for.
    monkeypatch.setattr(module, "_DEVIATIONS", (0.1,))
    monkeypatch.setattr(module, "_NOISES", (0.2,))
    monkeypatch.setattr(module, "_DRIFTS", (0.0,))
    model = Surrogate(0, [1, 2], [0.0, 0.0], np.eye(3))
    model.ratio(1, -0.3, 16)
    assert model.order() == [1, 2]
    expected = -0.3 * 0.01 / (0.02 + 2 * 0.04 / 16)
    assert model._means.tolist()[1:] == pytest.approx([expected, 0.0])


def test_a_simulation_is_believed_until_runs_contradict_it() -> None:
    simulated = np.linspace(-0.5, 0.4, 10)
    model = Surrogate(-1, range(10), simulated, np.eye(11))
    assert model.order() == list(range(10))
    assert model.agreement() is None
    # The real order is the reverse; one precise run of each says so.
    for one in range(10):
        model.run(one, 7.0 - simulated[one])
    assert model.order()[0] == 9
    assert model.agreement() == pytest.approx(-1)


def test_alike_settings_learn_from_each_other() -> None:
    # Two groups of four alike settings, simulated the same. One run of each of two in a group, and
    # those of the better group that never ran come before the others that never ran.
    groups = np.array([0, 1, 1, 1, 1, 2, 2, 2, 2])
    alike = 0.8 * (groups[:, None] == groups[None, :]) + 0.2 * np.eye(9)
    model = Surrogate(0, range(1, 9), [0.0] * 8, alike)
    for one, cost in ((1, 1.0), (2, 1.02), (5, 0.5), (6, 0.52)):
        model.run(one, cost)
    order = model.order()
    assert max(order.index(one) for one in (7, 8)) < min(order.index(one) for one in (3, 4))


def test_the_same_runs_lead_to_the_same_next_one() -> None:
    def asked(seed: int) -> list[int]:
        random = np.random.default_rng(3)
        model = Surrogate(0, range(1, 9), [0.0] * 8, np.eye(9), seed=seed)
        found = []
        for _ in range(12):
            found.append(model.next())
            model.run(found[-1], random.normal(0.1 * found[-1], 0.1))
        return found

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


def test_what_is_left_out_is_named_no_more() -> None:
    model = Surrogate("now", ["a", "b"], [-1.0, 0.0], np.eye(3))
    model.leave_out("a")
    assert (model.left, model.order(), model.next()) == (1, ["b"], "b")
    assert model.loss() == 0
