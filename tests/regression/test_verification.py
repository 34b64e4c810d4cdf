"""Whether real kernels agree with a predicted regression."""

import json

import pytest
from tests.needs import guest

from schedlab import Machine, Workload, _core
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.experiment.stats import Estimate, Interval
from schedlab.regression.regress import regress
from schedlab.regression.verification import reader, verdict, verify


def _estimate(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, Interval(low, high, 0.95), 4)


@pytest.mark.parametrize(
    ("predicted", "measured", "expected"),
    [
        ((0.6, 0.7), (0.65, 0.8), "agrees"),
        ((0.95, 1.05), (0.9, 1.1), "agrees"),
        ((0.6, 0.7), (0.65, 1.1), "inconclusive"),
        ((0.6, 0.7), (0.8, 0.9), "same direction"),
        ((1.6, 1.7), (1.1, 1.2), "same direction"),
        ((0.6, 0.7), (0.9, 1.1), "disagrees"),
        ((0.6, 0.7), (1.1, 1.2), "disagrees"),
    ],
)
def test_verdicts(
    predicted: tuple[float, float], measured: tuple[float, float], expected: str
) -> None:
    assert verdict(_estimate(*predicted), _estimate(*measured)) == expected


def test_a_metric_that_is_none_is_refused_before_anything_is_run() -> None:
    with pytest.raises(InputError, match=r"metric 'p99'; allowed: p99:NAME"):
        reader("p99")
    words = ["regress", "hogs", "--from", "6.1", "--to", "6.12", "--costs", "ideal", "--verify"]
    assert invoke([*words, "--metric", "p99"]) == 2


def _half() -> Workload:
    """Return a task that would run half the time, beside a CPU-bound one."""
    spell = {"uniform": {"low": "1ms", "high": "3ms"}}
    steps = {
        "hog": [{"forever": [{"run": {"fixed": "1s"}}]}],
        "half": [{"forever": [{"run": spell}, {"sleep": spell}]}],
    }
    tasks = [
        {"name": name, "instances": 1, "kind": "process", "steps": step}
        for name, step in steps.items()
    ]
    parts = {"name": "half", "channels": {}, "latches": [], "duration": "2s", "tasks": tasks}
    _, text = _core.check_workload(json.dumps({**parts, "turnaround_from": None}))
    return Workload("half", text)


@guest
def test_the_end_of_sleeper_credit_in_guests() -> None:
    """A task that would run half the time beside a CPU-bound one gets less under EEVDF."""
    work = _half()
    found = regress(
        work, old="6.1", new="6.12", machine=Machine(1, "ideal"), metric="run:half", runs=2
    )
    first, *_ = verify(found, work, cpus=1, runs=2)
    assert first.what.startswith("6.12.")
    assert first.verdict in ("agrees", "same direction")


@guest
def test_a_percentile_in_guests() -> None:
    """Under CFS its sleep lets it preempt; under EEVDF it waits for most of the other's slice."""
    work = _half()
    found = regress(
        work, old="6.1", new="6.12", machine=Machine(1, "ideal"), metric="p90:half", runs=2
    )
    first, *_ = verify(found, work, cpus=1, runs=2)
    assert first.predicted.value > 1
    assert first.verdict in ("agrees", "same direction")
