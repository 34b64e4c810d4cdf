"""Runs that other work disturbs are made again, and refused where they stay so."""

from dataclasses import replace

import pytest

from fidelity.places import ATTEMPTS, undisturbed
from schedlab.boundary.errors import RunError
from schedlab.processes.disturbance import Disturbance
from schedlab.targets.sim import simulate

# Two CPUs for 100 ms, of which others had 4 ms, or 60: 2 and 30 %.
QUIET = Disturbance(2, 100_000_000, 4_000_000, 0, 0, disturbed=False)
LOUD = Disturbance(2, 100_000_000, 60_000_000, 0, 0, disturbed=True)
OUTCOME = simulate("hackbench:groups=1,fds=1,loops=1")


@pytest.mark.parametrize("loud", range(ATTEMPTS))
def test_a_disturbed_run_is_made_again(loud: int) -> None:
    runs = iter([*[replace(OUTCOME, disturbance=LOUD)] * loud, replace(OUTCOME, disturbance=QUIET)])
    assert undisturbed(lambda: next(runs)).disturbance == QUIET
    assert next(runs, None) is None


def test_a_run_that_stays_disturbed_is_refused() -> None:
    runs = iter([replace(OUTCOME, disturbance=LOUD)] * ATTEMPTS)
    with pytest.raises(RunError, match=r"other work took 30% of the CPU time, .* end that work"):
        undisturbed(lambda: next(runs))
    assert next(runs, None) is None


def test_what_the_kernel_does_not_say_is_no_disturbance() -> None:
    assert undisturbed(lambda: OUTCOME) is OUTCOME
