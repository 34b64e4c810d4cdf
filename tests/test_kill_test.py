"""A few rounds of `scripts/kill-test`, which kills schedlab at random instants."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "kill-test"
PLACE = Path("/proc/sys/kernel/sched_cfs_bandwidth_slice_us")


@pytest.mark.skipif(not os.access(PLACE, os.W_OK), reason="SETTING KNOBS NEEDS ROOT")
def test_six_kills_leave_and_lose_nothing(tmp_path: Path) -> None:
    counts = tmp_path / "counts.json"
    options = ["--kills=6", "--kinds=run,compare,tune", "--seed=24", f"--counts={counts}"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False
    )
    assert json.loads(counts.read_text())["wrong"] == [], done.stdout
    assert json.loads(counts.read_text())["kills"] == 6
    assert done.returncode == 0
