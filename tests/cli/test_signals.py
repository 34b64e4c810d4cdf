"""Ctrl-C and friends: exit code 130, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.family import children, runs

Popen = Callable[..., subprocess.Popen[Any]]
SCHEDLAB = Path(sys.executable).with_name("schedlab")


def _wait(condition: object, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_real_run_leaves_no_task(number: signal.Signals, popen: Popen) -> None:
    process = popen(
        [SCHEDLAB, "run", "hogs:tasks=3,time=300s", "--on", "host", "--timeout", "300s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # schedlab, the runner and three tasks.
    assert _wait(lambda: len(children(process.pid)) >= 4)
    family = {process.pid} | children(process.pid)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err == "error: interrupted\n"
    assert _wait(lambda: not any(runs(pid) for pid in family), 5)


def test_an_interrupted_simulation_leaves_no_trace_file(tmp_path: Path, popen: Popen) -> None:
    file = tmp_path / "run.pftrace"
    process = popen(
        [
            SCHEDLAB,
            "run",
            # 100,000 messages to each of 400 receivers: minutes of work.
            "hackbench:groups=20,fds=20,loops=5000",
            "--kernel=6.1",
            "--costs=linsched",
            "--cpus=2",
            f"--trace={file}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The trace's temporary file is there once the simulation runs.
    assert _wait(lambda: any(tmp_path.iterdir()))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "error: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_is_no_crash() -> None:
    script = f"{SCHEDLAB} run hackbench:groups=1 --kernel 6.1 --costs ideal --all | head -n 1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("hackbench:")
    assert "Traceback" not in done.stderr


# Raises an interrupt where Python drops it, as it does in the logging library's hook of fork.
DROPPED = """
import os, sys
from schedlab.cli.main import main
interrupts = iter([KeyboardInterrupt])
def drop():
    for interrupt in interrupts:
        raise interrupt
os.register_at_fork(after_in_parent=drop)
main(sys.argv[1:])
"""


def test_an_interrupt_that_python_drops_is_raised_again(popen: Popen, tmp_path: Path) -> None:
    words = ["compare", "--on", "host", "--policy", "other,batch", "--command", "sleep 20"]
    process = popen(
        [sys.executable, "-c", DROPPED, *words, "--store", str(tmp_path / "runs.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert err.endswith("error: interrupted\n")
    assert "Traceback" not in err
