"""Knobs of real kernels in guests: no crash at any step of setting them loses an original."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.vm import Guest
from schedlab.vm.kernels import KernelImage

WALK = Path(__file__).with_name("walk.py")


@pytest.mark.parametrize(
    ("series", "settings", "after"),
    [
        ("5.10", ["latency=20ms", "feature.LAST_BUDDY=0"], "rr_timeslice=10ms"),
        ("6.1", ["latency=20ms"], "feature.LAST_BUDDY=0"),
        ("6.12", ["base_slice=3ms"], "fair_server_runtime=40ms"),
        ("7.2", ["base_slice=3ms"], "feature.RUN_TO_PARITY=0"),
    ],
)
def test_a_kill_at_any_step_loses_no_original_of_a_real_kernel(
    fetched: Callable[[str], KernelImage], series: str, settings: list[str], after: str
) -> None:
    with Guest.boot(fetched(series), cpus=2) as guest:
        command = [sys.executable, str(WALK), "/", series, *settings, "--", after]
        done = guest.run(command, timeout=900)
    assert done.code == 0, done.errors
    assert "every original is back, no journal is left" in done.output
    # The directory takes two operations, the lock two, the journal five; each knob one and one
    # back; the workload one, the journal's end two.
    assert f"walked {12 + 2 * len(settings)} operations" in done.output, done.output
