"""Knobs of real kernels in guests: no crash at any step of setting them loses an original."""

import sys
from collections.abc import Callable
from pathlib import Path

from schedlab.knobs import state
from schedlab.vm import Guest
from schedlab.vm.kernels import KernelImage

WALK = Path(__file__).with_name("walk.py")


def test_a_kill_at_any_step_loses_no_original_of_a_real_kernel(
    fetched: Callable[[str], KernelImage],
) -> None:
    with Guest.boot(fetched("6.12"), cpus=2) as guest:
        settings = ["base_slice=3ms", "--", "fair_server_runtime=40ms"]
        command = [sys.executable, str(WALK), "/", "6.12", *settings]
        # A guest has what it shares where knobs are kept otherwise.
        done = guest.run(command, timeout=900, environment={state.VARIABLE: "/run/knobs"})
    assert done.code == 0, done.errors
    assert "every original is back, no journal is left" in done.output
    # The directory takes two operations, the lock two, the journal five; the knob one and one back;
    # the workload one, the journal's end two.
    assert "walked 14 operations" in done.output, done.output
